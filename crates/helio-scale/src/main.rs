//! Measures the costs of this machine, or runs the simulation and writes the page.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use helio_scale::costs::Costs;
use helio_scale::scenario::{Size, queue_tasks, run};
use helio_scale::{figures, idle, measure};

/// The control service's machine with thousands of nodes.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure what surrounds the machine on real processes, and write the constants.
    Measure {
        /// The file.
        #[arg(long)]
        costs: PathBuf,
        /// A Python that has Heliostat.
        #[arg(long)]
        python: PathBuf,
        /// The time and the machine, for the file.
        #[arg(long)]
        origin: String,
    },
    /// Run the simulation, and write the page and its pictures.
    Run {
        /// The constants.
        #[arg(long)]
        costs: PathBuf,
        /// The folder of the page.
        #[arg(long)]
        out: PathBuf,
        /// The numbers of nodes.
        #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1_000, 10_000])]
        nodes: Vec<usize>,
        /// The actors of each node.
        #[arg(long, default_value_t = 100)]
        actors: usize,
        /// The tasks that wait at one owner: 10 million take 8 GB.
        #[arg(long, default_value_t = 10_000_000)]
        tasks: u64,
    },
    /// A control service that is measured.
    #[command(hide = true)]
    Control {
        /// The address at which the head listens.
        socket: PathBuf,
    },
    /// The other process of a measurement.
    #[command(hide = true)]
    Serve {
        /// The port of the first node; the others follow.
        port: u16,
    },
}

fn main() -> ExitCode {
    match perform(Options::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<(), String> {
    match task {
        Task::Serve { port } => measure::serve(port).map_err(|error| error.to_string()),
        Task::Control { socket } => idle::serve(&socket),
        Task::Measure { costs, python, origin } => {
            let measured = measure::measure(&origin, &python)?;
            print!("{}", measured.text());
            std::fs::write(&costs, measured.text())
                .map_err(|error| format!("{}: {error}", costs.display()))
        }
        Task::Run { costs, out, nodes, actors, tasks } => {
            let costs = Costs::load(&costs)?;
            let mut outcomes = Vec::new();
            for n_nodes in nodes {
                let size = Size { n_nodes, actors_a_node: actors, window: 2 * n_nodes, seconds: 5 };
                eprintln!("{n_nodes} nodes, {} actors", n_nodes * actors);
                outcomes.push(run(size, &costs, true)?);
            }
            figures::write(&out, &costs, &outcomes, queue_tasks(tasks))
        }
    }
}

//! `cargo xtask mutants`: plants bugs in the machines, one at a time, and looks for the first seed that shows each.
//! Prints the page with the table; whoever is not found is named on stderr.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use helio_sim::mutants::{Found, MUTANTS, Mutant, hunt};

/// Looks for planted bugs.
#[derive(Parser)]
struct Options {
    /// Only mutants with one of these in their name.
    #[arg(long, default_value = "", value_delimiter = ',')]
    only: Vec<String>,
    /// Plant nothing, and name each seed that fails.
    #[arg(long)]
    clean: bool,
    /// Begin with this seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run so many seeds before a mutant counts as not found.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// Hunt so many at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // A machine's own assertion is one way to be found; its message is in the table.
    std::panic::set_hook(Box::new(|_| {}));
    if options.clean {
        return run_clean(options.seeds, options.jobs.max(1) as u64);
    }
    let is_wanted =
        |mutant: &&Mutant| options.only.iter().any(|word| mutant.name.contains(word.as_str()));
    let wanted: Vec<&Mutant> = MUTANTS.iter().filter(is_wanted).collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = hunt(mutant, options.from..options.seeds);
                    let at = found
                        .as_ref()
                        .map_or("NOT FOUND".to_owned(), |f| format!("seed {}", f.seed));
                    eprintln!("{}: {at}", mutant.name);
                    if let Ok(mut rows) = rows.lock() {
                        rows.push((*mutant, found));
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_default();
    let place = |mutant: &Mutant| MUTANTS.iter().position(|other| other.name == mutant.name);
    rows.sort_by_key(|(mutant, _)| place(mutant));
    print!("{}", page(&rows, options.seeds));
    let missed = rows.iter().filter(|(_, found)| found.is_none()).count();
    eprintln!("{} mutants, {missed} not found in {} seeds", rows.len(), options.seeds);
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seeds without a bug, in so many parts at a time.
fn run_clean(seeds: u64, jobs: u64) -> ExitCode {
    let nothing = Mutant { name: "", area: "", breaks: "" };
    let failed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for part in 0..jobs {
            let (failed, nothing) = (&failed, &nothing);
            scope.spawn(move || {
                let (mut at, end) = (part * seeds / jobs, (part + 1) * seeds / jobs);
                while let Some(Found { seed, says }) = hunt(nothing, at..end) {
                    failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!("seed {seed}: {says}");
                    at = seed + 1;
                }
            });
        }
    });
    let failed = failed.into_inner();
    eprintln!("{failed} of {seeds} seeds fail");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn page(rows: &[(&Mutant, Option<Found>)], seeds: u64) -> String {
    let mut text = format!(
        "# Planted bugs\n\n\
         `cargo xtask mutants` writes this page. It builds the machines with switches for the bugs below, plants one \
         after the other, and runs the simulator's seeds from 0 on until one fails ([simulator](simulator.md)): the \
         first {seeds} are those that `make test` runs.\n\n\
         | area | mutant | what it breaks | first failing seed | what finds it |\n|---|---|---|---|---|\n"
    );
    for (mutant, found) in rows {
        let (seed, says) = match found {
            Some(found) => (found.seed.to_string(), shown(&found.says)),
            None => ("not found".to_owned(), String::new()),
        };
        let Mutant { name, area, breaks } = mutant;
        text.push_str(&format!("| {area} | `{name}` | {breaks} | {seed} | {says} |\n"));
    }
    text
}

/// A violation's first words, without what differs from run to run.
fn shown(says: &str) -> String {
    let line = says.lines().next().unwrap_or_default();
    let is_id = |word: &str| word.len() >= 16 && word.chars().any(|letter| letter.is_ascii_digit());
    let words = line.split_whitespace().map(|word| if is_id(word) { "…" } else { word });
    let text: Vec<&str> = words.take(24).collect();
    text.join(" ").replace('|', "\\|").replace('<', "\\<")
}

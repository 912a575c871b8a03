//! The `heliostat` binary: the daemon, and the commands that start, stop and look at it.
//!
//! `heliostat node` is the daemon: the node service on one thread and, on the head, the control service
//! on another ([`daemon`]). It is internal: `start` and the driver's `init` run it. The commands talk to
//! it through its session's folder ([`session`]) and its socket ([`observer`]), as any client could.
//!
//! Reading order: `args`, `folder`, `session`, `daemon`, then one file a command.

#![forbid(unsafe_code)]

mod afar;
mod args;
mod authority;
mod clock;
mod control_store;
mod daemon;
mod dashboard;
mod drain;
mod entry_points;
mod folder;
mod health_check;
mod history;
mod in_python;
mod ingress;
mod kubernetes;
mod leftovers;
mod locate;
mod names;
mod observer;
mod old_sessions;
mod output;
mod overrides;
mod own_ip;
mod plans;
mod port;
mod report;
mod session;
mod settings;
mod start;
mod starter;
mod state;
mod status;
mod stop;
mod symmetric_run;
mod table;
mod values;
mod why;
mod why_deployment;
mod why_node;
mod why_run;
mod why_trial;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let (command, ignored) = args::parse();
    let outcome = match command {
        // The daemon reports its own failures to whoever started it.
        Command::Node(args) => return daemon::run(&args),
        Command::JobProcess { run, end, entrypoint } => {
            return entry_points::watch_entry_point(&run, &end, &entrypoint);
        }
        Command::ServeIngress { session_dir, listening } => ingress::run(&session_dir, &listening),
        Command::Job { arguments } => {
            in_python::run("heliostat.job_submission.command", &arguments)
        }
        Command::Logs { arguments } => {
            in_python::run("heliostat.util.state.logs_command", &arguments)
        }
        Command::Metrics { arguments } => {
            in_python::run("heliostat.util.metrics_command", &arguments)
        }
        Command::Memory { arguments } => in_python::run("heliostat.util.state.memory", &arguments),
        Command::Debug { arguments } => in_python::run("heliostat.core.debug.command", &arguments),
        Command::Stack(rest) => {
            in_python::run("heliostat.util.state.stack_command", &rest.arguments)
        }
        Command::Top(rest) => in_python::run("heliostat.util.state.top", &rest.arguments),
        Command::Env(rest) => in_python::run("heliostat.util.env_command", &rest.arguments),
        Command::KillActor(rest) => {
            in_python::run("heliostat.util.kill_actor_command", &rest.arguments)
        }
        Command::GlobalGc(rest) => {
            in_python::run("heliostat.util.state.gc_command", &rest.arguments)
        }
        Command::ClusterDump(rest) => {
            in_python::run("heliostat.util.state.dump_command", &rest.arguments)
        }
        Command::CompareRuns(rest) => {
            in_python::run("heliostat.train.compare_command", &rest.arguments)
        }
        Command::Serve(rest) => in_python::program("heliostat.serve.scripts", &rest.arguments),
        Command::Tune(rest) => in_python::program("heliostat.tune.cli.scripts", &rest.arguments),
        Command::Start(args) => start::run(&args, &ignored),
        Command::Stop(args) => stop::run(&args),
        Command::SymmetricRun(args) => match symmetric_run::run(args, &ignored) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::History { what } => history::run(what),
        Command::DrainNode(args) => drain::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Why(args) => why::run(&args),
        Command::CleanupControlStore(flags) => control_store::clean(&flags),
        Command::HealthCheck { address, .. } => health_check::run(address.as_deref()),
        Command::KuberayAutoscaler { arguments } => {
            in_python::run("heliostat.autoscaler.kuberay", &arguments)
        }
        Command::Autoscaler { arguments } => {
            in_python::run("heliostat.autoscaler.launcher.head_autoscaler", &arguments)
        }
        Command::Up(rest) => in_python::launch("up", rest.arguments),
        Command::Down(rest) => in_python::launch("down", rest.arguments),
        Command::Exec(rest) => in_python::launch("exec", rest.arguments),
        Command::Attach(rest) => in_python::launch("attach", rest.arguments),
        Command::Submit(rest) => in_python::launch("submit", rest.arguments),
        Command::RsyncUp(rest) => in_python::launch("rsync-up", rest.arguments),
        Command::RsyncDown(rest) => in_python::launch("rsync-down", rest.arguments),
        Command::GetHeadIp(rest) => in_python::launch("get-head-ip", rest.arguments),
        Command::GetWorkerIps(rest) => in_python::launch("get-worker-ips", rest.arguments),
        Command::Monitor(rest) => in_python::launch("monitor", rest.arguments),
        Command::List(args) => state::list(&args),
        Command::Get(args) => state::get(&args),
        Command::Summary(args) => state::summarize(&args),
        Command::Timeline(args) => state::timeline(&args),
        Command::Locate { address } => locate::run(&address),
        Command::Dashboard { address, port } => dashboard::run(address.as_deref(), port),
        Command::GetAuthToken { generate } => get_auth_token(generate),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn get_auth_token(generate: bool) -> Result<(), String> {
    let token = if generate {
        helio_env::token::load_or_create().map(Some)
    } else {
        helio_env::token::load()
    };
    match token.map_err(|error| format!("The authentication token cannot be read: {error}"))? {
        Some(token) if token == helio_types::OPEN_TOKEN => {
            Err("Authentication is disabled (RAY_AUTH_MODE=disabled): there is no token."
                .to_owned())
        }
        Some(token) => {
            output::line(&token);
            Ok(())
        }
        None => Err(format!(
            "There is no authentication token yet. Make one with `{} get-auth-token --generate`.",
            names::command()
        )),
    }
}

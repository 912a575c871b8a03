//! `scale`: the control service's machine with thousands of nodes, in simulated time.

use crate::sh::{self, Outcome, command, root};

/// The constants of the cost model.
const COSTS: &str = "bench/scale_costs.txt";

/// With `--measure` measures the constants, else runs the simulation and writes `docs/scale.md`; further
/// arguments go to `helio-scale run`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    sh::run(command("cargo").args(["build", "--release", "--quiet", "-p", "helio-scale"]))?;
    let mut scale = command(root().join("target/release/helio-scale"));
    if arguments.first().is_some_and(|word| word == "--measure") {
        let python = root().join(".venv/bin/python");
        scale.arg("measure").arg("--costs").arg(root().join(COSTS)).arg("--python").arg(python);
        return sh::run(scale.arg("--origin").arg(origin()));
    }
    scale.arg("run").arg("--costs").arg(root().join(COSTS)).arg("--out").arg(root().join("docs"));
    sh::run(scale.args(arguments))
}

/// The date and the machine.
fn origin() -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = command(program).args(arguments).output().ok();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default()
    };
    let date = said("date", &["+%Y-%m-%d"]);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, name)| name);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let kernel = said("uname", &["-r"]);
    format!("{date}, {cpus} CPUs of {model}, Linux {kernel}, load {load} by other work")
}

//! `bench`: the same program against Ray and against Heliostat, by turns, on this machine.

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};

/// What the table compares with.
const RAY: &str = "ray==2.60.*";
const TABLE: &str = ".bench/table.json";
const FLOORS: &str = ".bench/floors.json";

/// Prints the tables and writes them to docs/performance.md; arguments go to `bench/compare.py`, which
/// explains them.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let numpy = String::from("numpy>=1.24");
    let theirs = Venv::at(&cache()?.join("bench-ray"))?;
    theirs.need("ray", &[RAY.to_owned(), numpy.clone()])?;
    let ours = Venv::at(&root().join(".bench/venv"))?;
    ours.need("needs", &[numpy, String::from("cloudpickle>=3")])?;
    ours.wheel(&python::wheel()?)?;

    let python = ours.program("python");
    let bench = |script: &str| {
        let mut run = command(&python);
        run.env("RAY_USAGE_STATS_ENABLED", "0").arg(script);
        run
    };
    let table = [TABLE, FLOORS].map(|name| root().join(name));
    sh::run(
        bench("bench/compare.py")
            .arg("--a")
            .arg(theirs.program("python"))
            .arg("--b")
            .arg(&python)
            .args(["--json", TABLE])
            .args(arguments),
    )?;
    sh::run(bench("bench/floors.py").args(["--seconds", "0.5", "--json", FLOORS]))?;
    if table.iter().any(|path| !path.exists()) {
        return Err(String::from("a figure is missing: docs/performance.md stays as it was"));
    }
    // Part of the rows is for whoever asked for them; the page has all of them.
    if arguments.iter().any(|argument| argument.starts_with("--rows")) {
        return Ok(());
    }
    let versions = format!("A is Ray 2.60, B Heliostat {}", env!("CARGO_PKG_VERSION"));
    sh::run(
        bench("bench/page.py")
            .args(["--page", "docs/performance.md", "--table", TABLE, "--floors", FLOORS])
            .args(["--versions", &versions]),
    )
}

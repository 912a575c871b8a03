//! `bench` and `differential`: the same programs on Ray and on Heliostat, for speed and for results.

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};

/// The release that both compare with.
const RAY: &str = "ray==2.60.*";
const TABLE: &str = ".bench/table.json";
const FLOORS: &str = ".bench/floors.json";
/// The packages that the benches import, beside Ray or Heliostat.
const IMPORTED: [&str; 2] = ["numpy>=1.24", "joblib"];

/// Prints the tables and writes them to docs/performance.md; arguments go to `bench/compare.py`, which
/// explains them.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let theirs = ray()?;
    let ours = Venv::at(&root().join(".bench/venv"))?;
    ours.need("needs", &list(&["cloudpickle>=3"]))?;
    ours.wheel(&python::wheel()?)?;

    let python = ours.program("python");
    let bench = |script: &str| {
        let mut run = command(&python);
        // Ray reports its use to a server otherwise, in the middle of what is measured.
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
    let asked = |option: &str| arguments.iter().any(|argument| argument.starts_with(option));
    // The rows of another script have a section of its name.
    let script =
        arguments.iter().find_map(|argument| argument.rsplit('/').next()?.strip_suffix(".py"));
    let versions = format!("A is Ray 2.60, B Heliostat {}", env!("CARGO_PKG_VERSION"));
    let mut page = bench("bench/page.py");
    page.args(["--page", "docs/performance.md", "--table", TABLE, "--versions", &versions]);
    if asked("--script") {
        page.args(["--section", script.unwrap_or("options")]);
    } else {
        sh::run(bench("bench/floors.py").args(["--seconds", "0.5", "--json", FLOORS]))?;
        page.args(["--floors", FLOORS]);
    }
    // A page with half of the figures would look as if the others had gone.
    if table.iter().any(|path| !path.exists()) {
        return Err(String::from("a figure is missing: docs/performance.md stays as it was"));
    }
    // Part of the rows is for whoever asked for them; the page has all of them.
    if asked("--rows") { Ok(()) } else { sh::run(&mut page) }
}

fn list(first: &[&str]) -> Vec<String> {
    first.iter().chain(&IMPORTED).map(|&name| name.to_owned()).collect()
}

/// Ray in an environment of its own, with what the programs import.
fn ray() -> Result<Venv, String> {
    let venv = Venv::at(&cache()?.join("bench-ray"))?;
    venv.need("ray", &list(&[RAY]))?;
    Ok(venv)
}

/// Ray with what its clients of jobs and of the state import.
pub(crate) fn client_of_ray() -> Result<Venv, String> {
    let venv = ray()?;
    venv.need("client", &[RAY.replace("ray", "ray[default]")])?;
    Ok(venv)
}

/// Prints where results differ; arguments go to `tests/differential/compare.py`.
pub(crate) fn differential(arguments: &[String]) -> Outcome {
    let theirs = ray()?;
    // Ray's joins and summaries.
    theirs.need("polars", &[String::from("polars"), String::from("datasketches")])?;
    let ours = python::tested()?.program("python");
    let mut compare = command(&ours);
    compare.arg("tests/differential/compare.py").arg("--ray").arg(theirs.program("python"));
    sh::run(compare.arg("--heliostat").arg(&ours).args(arguments))
}

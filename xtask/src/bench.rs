//! `bench`: the same program against Ray and against Heliostat, by turns, on this machine.

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};

/// What the table compares with.
const RAY: &str = "ray==2.60.*";

/// Prints the table; arguments go to `bench/compare.py`, which explains them.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let numpy = String::from("numpy>=1.24");
    let theirs = Venv::at(&cache()?.join("bench-ray"))?;
    theirs.need("ray", &[RAY.to_owned(), numpy.clone()])?;
    let ours = Venv::at(&root().join(".bench/venv"))?;
    ours.need("needs", &[numpy, String::from("cloudpickle>=3")])?;
    ours.wheel(&python::wheel()?)?;

    let python = ours.program("python");
    let mut table = command(&python);
    table.env("RAY_USAGE_STATS_ENABLED", "0").arg("bench/compare.py");
    table.arg("--a").arg(theirs.program("python")).arg("--b").arg(&python);
    sh::run(table.args(["--json", ".bench/table.json"]).args(arguments))
}

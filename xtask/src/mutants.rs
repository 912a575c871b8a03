//! `mutants`: bugs that are planted on purpose in the machines, and the first seed of the simulator that shows each.

use crate::sh::{self, Outcome, command, root};

/// The page with the table.
const PAGE: &str = "docs/internals/mutants.md";

/// Hunts for mutants, and writes each row of the page as it is found. Arguments go to the program: `--only NAME`,
/// `--known`, `--scenarios`, `--jobs J`; with `--seeds N`, `--from SEED` or `--clean` the page stays.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    // As the simulator's test builds the machines: their debug assertions are among what finds bugs.
    let build = ["build", "--profile", "test", "--quiet", "-p", "helio-sim"];
    let features = ["--features", "mutants", "--bin", "mutants"];
    sh::run(command("cargo").args(build).args(features))?;
    let mut program = command(root().join("target/debug/mutants"));
    let is_trial = |word: &String| matches!(word.as_str(), "--seeds" | "--from" | "--clean");
    if !arguments.iter().any(is_trial) {
        program.arg("--page").arg(root().join(PAGE));
    }
    sh::run(program.args(arguments))
}

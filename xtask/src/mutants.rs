//! `mutants`: bugs that are planted on purpose in the machines, and the first seed of the simulator that shows each.

use std::process::Stdio;

use crate::sh::{self, Outcome, command, root};

/// Where the table is told.
const PAGE: &str = "docs/internals/mutants.md";

/// Hunts for each mutant; writes the page when all of them were looked for. Arguments go to the program:
/// `--only NAME`, `--seeds N`, `--jobs J`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    // As the simulator's test builds the machines: their debug assertions are among what finds bugs.
    let build = ["build", "--profile", "test", "--quiet", "-p", "helio-sim"];
    let features = ["--features", "mutants", "--bin", "mutants"];
    sh::run(command("cargo").args(build).args(features))?;
    let mut program = command(root().join("target/debug/mutants"));
    let output = program.args(arguments).stdout(Stdio::piped()).spawn();
    let output = output.and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| format!("cannot run the hunt for mutants: {error}"))?;
    let is_partial = arguments.iter().any(|word| word == "--only" || word == "--seeds");
    if is_partial {
        print!("{}", String::from_utf8_lossy(&output.stdout));
    } else if !output.stdout.is_empty() {
        let page = root().join(PAGE);
        std::fs::write(&page, &output.stdout).map_err(|error| format!("{page:?}: {error}"))?;
    }
    if output.status.success() { Ok(()) } else { Err("not every mutant was found".to_owned()) }
}

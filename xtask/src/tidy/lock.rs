//! The files that `make lock` wrote match the requirements in pyproject.toml, with a version and digests for each
//! package.

use crate::python;
use crate::sh::{self, Outcome, command};

pub(super) fn run() -> Outcome<Vec<String>> {
    let python = python::tools()?.program("python");
    let said = sh::read(command(python).args(["xtask/lock.py", "check"]))?;
    Ok(said.lines().map(str::to_owned).collect())
}

//! `job`: done in Python, where folders are packed by the rules that `init` has too.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::names;

pub(crate) fn run(arguments: &[OsString]) -> Result<(), String> {
    let python = helio_env::settings::read(&helio_config::table::PYTHON)?;
    let error = Command::new(&python)
        .args(["-m", "heliostat.job_submission.command", names::command()])
        .args(arguments)
        .exec();
    Err(format!("{python}: {error}"))
}

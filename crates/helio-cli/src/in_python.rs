//! `job`, `logs`, `memory`, `metrics`, `debug`, `stack`, `top`, `compare-runs` and others, and what `up` and `down` belong to: done in Python, where programs are told the same.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::names;

/// Becomes Python's `module`, which is told the command's name and the arguments.
pub(crate) fn run(module: &str, arguments: &[OsString]) -> Result<(), String> {
    let mut all = vec![OsString::from(names::command())];
    all.extend_from_slice(arguments);
    program(module, &all)
}

/// Becomes a program of its own, which has these arguments alone.
pub(crate) fn program(module: &str, arguments: &[OsString]) -> Result<(), String> {
    let python = helio_env::settings::read(&helio_config::table::PYTHON)?;
    let error = Command::new(&python).args(["-m", module]).args(arguments).exec();
    Err(format!("{python}: {error}"))
}

/// Becomes one of the commands for clusters on machines that ssh reaches.
pub(crate) fn launch(command: &str, arguments: Vec<OsString>) -> Result<(), String> {
    let mut all = vec![OsString::from(command)];
    all.extend(arguments);
    run("heliostat.autoscaler.launcher.command", &all)
}

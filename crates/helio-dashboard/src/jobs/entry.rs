//! The process between the head's daemon and an entry point: it waits for the command and writes down how it
//! ended. So the exit code is known also when the daemon died meanwhile and was started again.
//!
//! 1. `<run>` is made, which must not be there: no job begins twice.
//! 2. The command runs in a shell, as the leader of a process group of its own; a signal to the group does
//!    not reach this process. `<run>` then names both processes.
//! 3. `<end>` says how it ended: `{"code": 0}`, or `{"error": …}` when it could not be begun.

#![expect(clippy::print_stderr, reason = "standard error is the job's log")]

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use helio_env::process;
use serde_json::{Value, json};

use super::shelf::write_whole;

/// Runs the command to its end. Its output, folder and environment are this process's own.
pub fn watch_entry_point(run: &Path, end: &Path, entrypoint: &str) -> ExitCode {
    // Created before the command: a watcher that is started twice runs it once.
    let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(run);
    if let Err(error) = made {
        eprintln!("heliostat: the job has begun before: {}: {error}", run.display());
        return ExitCode::FAILURE;
    }
    let child = Command::new("/bin/sh")
        .args(["-c", entrypoint])
        .stdin(Stdio::null())
        // A stop reaches all that the entry point has started.
        .process_group(0)
        .spawn();
    let outcome = match child {
        Ok(mut child) => {
            let own = std::process::id();
            let running = json!({
                "watcher": [own, process::began(own)],
                "entry": [child.id(), process::began(child.id())],
            });
            keep(run, &running);
            match child.wait() {
                Ok(status) => json!({ "code": code(status) }),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        Err(error) => json!({ "error": format!("/bin/sh: {error}") }),
    };
    keep(end, &outcome);
    ExitCode::SUCCESS
}

/// The exit code; negative: the signal that ended it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}

fn keep(path: &Path, value: &Value) {
    if let Err(error) = write_whole(path, value.to_string().as_bytes()) {
        eprintln!("heliostat: {}: {error}", path.display());
    }
}

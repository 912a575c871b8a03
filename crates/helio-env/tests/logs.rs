//! The log file of a process that has started its log.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use helio_env::logs;

/// Tells this program that it is the process whose log is looked at.
const FILE: &str = "HELIO_ENV_TEST_LOG";

/// The process of the tests below: the settings are read once in a process.
#[test]
fn process() {
    let Some(path) = std::env::var_os(FILE) else { return };
    logs::start(path.into());
    let evaluated = Cell::new(0);
    let value = || {
        evaluated.set(evaluated.get() + 1);
        evaluated.get()
    };
    tracing::trace!(n = value(), "traced");
    tracing::debug!(n = value(), "debugged");
    tracing::info!(n = value(), name = "two words", "informed");
    tracing::warn!(n = value(), "warned");
    tracing::error!(n = value(), error = %std::io::Error::other("broken"), "failed");
    tracing::error!(fatal = true, n = value(), "ended");
    logs::log_panics();
    std::panic::catch_unwind(|| panic!("at the disco")).unwrap_err();
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("helio-env-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(path: &Path, settings: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process"]).env(FILE, path);
    for name in ["BACKEND_LOG_LEVEL", "BACKEND_LOG_JSON", "ROTATION_MAX_BYTES"] {
        command.env_remove(format!("RAY_{name}")).env_remove(format!("HELIOSTAT_{name}"));
    }
    let output = command.envs(settings.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the text of each line after its place in the source.
fn messages(log: &str) -> Vec<&str> {
    log.lines()
        .filter_map(|line| line.split_once(".rs:")?.1.split_once(": ").map(|(_, said)| said))
        .collect()
}

#[test]
fn a_level_holds_itself_and_what_is_more_important_and_evaluates_nothing_else() {
    let folder = Folder::new("levels");
    let of = |level: &str| {
        run(&folder.0.join(level), &[("RAY_BACKEND_LOG_LEVEL", level)]).lines().count()
    };
    // With the panic, which is an error.
    let counts = ["trace", "debug", "info", "Warning", "error", "fatal"].map(of);
    assert_eq!(counts, [7, 6, 5, 4, 3, 1]);

    let log = run(&folder.0.join("default"), &[]);
    let said = messages(&log);
    assert_eq!(said.len(), 5, "{log}");
    assert_eq!(
        said[..4],
        ["informed n=1 name=\"two words\"", "warned n=2", "failed n=3 error=broken", "ended n=4"]
    );
    assert!(said[4].starts_with("panic: at the disco at=crates/helio-env/tests/logs.rs:"), "{log}");
    let letters: Vec<_> = log.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(letters, ["I", "W", "E", "C", "E"]);
}

#[test]
fn lines_of_json_are_objects_with_the_fields() {
    let folder = Folder::new("json");
    let log = run(&folder.0.join("log"), &[("RAY_BACKEND_LOG_JSON", "1")]);
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    let first = &lines[0];
    assert_eq!(
        (&first["message"], &first["n"], &first["name"], &first["levelname"]),
        (&"informed".into(), &1.into(), &"two words".into(), &"I".into())
    );
    assert_eq!((&first["filename"], &first["component"]), (&"logs.rs".into(), &"logs".into()));
    assert!(first["lineno"].as_u64().is_some());
}

#[test]
fn a_level_that_is_none_is_named_and_the_default_stands() {
    let folder = Folder::new("wrong");
    let log = run(&folder.0.join("log"), &[("RAY_BACKEND_LOG_LEVEL", "loud")]);
    assert_eq!(log.lines().count(), 6, "{log}");
    assert!(log.lines().next().unwrap().contains("RAY_BACKEND_LOG_LEVEL=\"loud\""), "{log}");
}

#[test]
fn a_process_whose_log_cannot_be_written_goes_on() {
    let folder = Folder::new("unwritable");
    assert_eq!(run(&folder.0, &[]), "", "a folder");
    assert_eq!(run(&folder.0.join("no/such/folder/log"), &[]), "");
    let full = folder.0.join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process"]).env(FILE, full);
    assert!(command.status().unwrap().success());
}

#[test]
fn a_log_is_set_aside_beyond_its_size() {
    let folder = Folder::new("rotation");
    let path = folder.0.join("log");
    run(&path, &[("RAY_ROTATION_MAX_BYTES", "1"), ("RAY_ROTATION_BACKUP_COUNT", "2")]);
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    assert!(read("log").contains("panic") && read("log.1").contains("ended"));
    assert!(read("log.2").contains("failed") && !folder.0.join("log.3").exists());
}

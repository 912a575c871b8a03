//! Running other programs, and where things lie.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A task's outcome: an error is a message for the person who typed the command.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns the folder for files that are costly to fetch, kept between checkouts.
pub(crate) fn cache() -> Outcome<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep a cache")?;
    Ok(base.join("heliostat"))
}

/// A command that will run in the repository. A Python below it keeps what it compiles, also where the environment
/// asks for the opposite, as images of containers do: tests start Python some ten thousand times.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env_remove("PYTHONDONTWRITEBYTECODE");
    command
}

/// Runs a command with this terminal; anything but success is an error that quotes it.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    let (bold, plain) =
        if std::io::stderr().is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    eprintln!("{bold}$ {shown}{plain}");
    let status = command.status().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}")) }
}

/// Runs a command and returns what it printed.
pub(crate) fn read(command: &mut Command) -> Outcome<String> {
    let shown = show(command);
    let output = command.output().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{shown}` failed: {}\n{said}", output.status));
    }
    // What a program prints becomes a path or a version here; a damaged one would be looked for in vain.
    String::from_utf8(output.stdout).map_err(|error| format!("`{shown}`: {error}"))
}

/// Whether a program can be started at all.
pub(crate) fn have(program: &str, version_flag: &[&str]) -> bool {
    Command::new(program).args(version_flag).output().is_ok_and(|output| output.status.success())
}

/// A file's text, or an error that names it.
pub(crate) fn text(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A path as people read it: below the repository.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn show(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| relative(Path::new(word)))
        .map(|word| if word.contains(' ') { format!("'{word}'") } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

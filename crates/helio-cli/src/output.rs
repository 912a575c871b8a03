//! Printing to standard output.

use std::io::Write as _;

/// Prints to standard output. A reader that has gone away (`| head`) is not a failure of the command.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

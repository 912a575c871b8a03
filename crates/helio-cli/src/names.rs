//! The name under which the command was called: `heliostat`, or `ray` for those who come from there.

use std::path::Path;

/// `heliostat` or `ray`, for hints that a user can type.
pub(crate) fn command() -> &'static str {
    let named = helio_env::settings::variable("HELIOSTAT_CLI_NAME");
    let called = named.or_else(|| std::env::args().next()).unwrap_or_default();
    match Path::new(&called).file_name() {
        Some(name) if name == "ray" => "ray",
        _ => "heliostat",
    }
}

/// Returns the line by which a program imports the package.
pub(crate) fn import() -> &'static str {
    match command() {
        "ray" => "import ray",
        _ => "import heliostat as ray",
    }
}

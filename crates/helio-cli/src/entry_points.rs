//! The entry points of submitted jobs: their processes are watched, and end with their session.

#[cfg(feature = "dashboard")]
pub(crate) use helio_dashboard::{end_jobs_of, watch_entry_point};

#[cfg(not(feature = "dashboard"))]
pub(crate) use absent::{ABSENT, end_jobs_of, watch_entry_point};

#[cfg(not(feature = "dashboard"))]
mod absent {
    use std::path::Path;
    use std::process::ExitCode;

    pub(crate) const ABSENT: &str =
        "this build of heliostat has no dashboard (the feature `dashboard` of helio-cli is off)";

    pub(crate) fn end_jobs_of(_: &Path) {}

    pub(crate) fn watch_entry_point(_: &Path, _: &Path, _: &str) -> ExitCode {
        eprintln!("heliostat: {ABSENT}");
        ExitCode::FAILURE
    }
}

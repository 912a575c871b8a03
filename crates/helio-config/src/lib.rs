//! Every setting once: its name, unit, default, range, meaning, and the process that reads it.
//!
//! [`table`] holds the settings that environment variables change; Rust reads them through
//! `helio_env::settings`, Python through the extension, and `docs/settings.md` is written from it
//! ([`page`]). [`control`], [`process`] and [`session`] hold what is fixed: constants whose names end in their unit.
//! Bounds (LIMIT-1) end in `_MAX` and say what happens when they are reached.

#![forbid(unsafe_code)]

pub mod control;
pub mod dashboard;
pub mod log_level;
pub mod page;
pub mod process;
mod refused;
pub mod session;
pub mod setting;
pub mod table;
mod unknown;

pub use refused::refusal;
pub use unknown::{nearest, unknown, warnings};

/// The release of Ray whose API this is, as a literal: what `ray --version` says.
#[macro_export]
macro_rules! ray_version {
    () => {
        "2.60.0"
    };
}

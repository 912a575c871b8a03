//! Every setting once: its unit, its default, and what it is for.
//!
//! A setting is a constant whose name ends in its unit. Bounds (LIMIT-1)
//! end in `_MAX` and say what happens when they are reached.

#![forbid(unsafe_code)]

pub mod control;
pub mod dashboard;
pub mod session;

/// The release of Ray whose API this is, as a literal: what `ray --version` says.
#[macro_export]
macro_rules! ray_version {
    () => {
        "2.60.0"
    };
}

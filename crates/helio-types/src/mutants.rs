//! Bugs on purpose, each behind a switch: whoever judges the machines is judged by whether it finds them.
//!
//! A machine says `if mutant!("task-not-retried") { … }` where it can be wrong on purpose. Without the feature
//! `mutants`, which only `cargo xtask mutants` asks for, the macro is the word `false`: no code is left of it. With
//! it one mutant may be active in each thread. What there is of them, and what finds each, is told in
//! `helio-sim`.

#[cfg(feature = "mutants")]
use std::cell::Cell;

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: Cell<&'static str> = const { Cell::new("") };
}

/// From now on this thread's machines have that bug; an empty name ends it.
#[cfg(feature = "mutants")]
pub fn plant(name: &'static str) {
    ACTIVE.set(name);
}

/// Whether this thread's machines have that bug.
#[cfg(feature = "mutants")]
#[must_use]
pub fn is_planted(name: &str) -> bool {
    ACTIVE.get() == name
}

/// Whether the bug of that name is planted: never, but in a build with the feature `mutants`.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutants::is_planted($name)
    };
}

/// Whether the bug of that name is planted: never, but in a build with the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}

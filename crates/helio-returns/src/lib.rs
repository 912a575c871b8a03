//! Worth of the steps of environments: advantages, V-trace, sums of the next rewards, and choices
//! of steps by priority.
//!
//! A sample has steps of several environments side by side. Numbers come in as [`Grid`]s, which are views
//! of memory that somebody else owns, in whatever order it lies, and go out into rows of steps. Sums are
//! taken in double precision.
//!
//! **LAYER-1** Random numbers come in as arguments.

#![forbid(unsafe_code)]

mod chances;
mod grid;
mod steps;
mod vtrace;

pub use chances::{draw, set};
pub use grid::Grid;
pub use steps::{Ends, advantages, following, n_step};
pub use vtrace::{Clips, vtrace};

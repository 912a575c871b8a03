//! A table of a great many calls, from which rows are made only where somebody looks.
//!
//! A call takes about a hundred bytes: what calls share (names, processes, errors) is kept once and numbered. Answers
//! to questions about calls are added one after the other ([`Calls::add`]); who tells best of a call is as in
//! [`crate::rows::tasks`]. Calls are in the order in which they were told of first: `slots.rs`.
//!
//! A frequent question costs what it shows, not what there is: calls are counted by function and phase as they are
//! added ([`Calls::groups`]), and those that have failed, that run or are over since a moment ([`Calls::stream`]), or that stand first in an
//! order ([`Calls::blocks`]) are found without looking at most of the others.
//!
//! **LIMIT-1** Of more calls than [`CALLS_MAX`] those that are over and were told of first are only counted, and of error texts
//! beyond [`ERROR_BYTES_MAX`] the last line is kept.

mod call;
mod find;
mod found;
mod slots;
mod stream;
mod table;
mod written;

pub use call::Key;
pub use find::{Block, Wanted};
pub use found::{Bar, Field, Found, Of};
pub use stream::Stream;
pub use table::{CALLS_MAX, Calls, ERROR_BYTES_MAX, Group};

#[cfg(test)]
mod tests;

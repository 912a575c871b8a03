//! The layout of a serialized Python value: a tag, and what follows it up to the bytes of the value itself.
//!
//! The Python extension makes objects of what is read here (`helio-py`, in `codec`, has the table of all tags). Nothing
//! here is believed before it is checked: a [`Cursor`] never reads beyond the end.

mod aligned;
pub mod arguments;
mod layout;
mod part;
mod sink;
pub mod tree;

pub use aligned::Aligned;
pub use layout::{ALIGNMENT, ArrayHead, Cursor, DIMENSIONS_MAX, dtype_of, put_pickle_head, tag};
pub use part::Part;
pub use sink::{COPY_MAX, Memory, Piece, Sink};

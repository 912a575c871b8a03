//! Values as bytes, and back: what of it takes an interpreter. The layout, and the checks of bytes that came from
//! elsewhere, are [`helio_proto::document`].
//!
//! A document begins with a tag (never 0xe0, which marks an error of the system):
//!
//! | tag | value | payload |
//! |---|---|---|
//! | 0, 1, 2 | `None`, `False`, `True` | |
//! | 3, 4 | `int` of 64 bits, `float` | 8 bytes |
//! | 5, 6 | `str`, `bytes` | `u64` length, bytes |
//! | 7 | anything, pickled | `u64` length, pickle |
//! | 8 | the same with buffers beside the pickle | `u64` length, `u32` count, a `u64` length each; pickle; each buffer from the next multiple of 64 |
//! | 9 | a plain `numpy.ndarray` | see [`ndarray`]; its data from the next multiple of 64 |
//! | 10 | an argument that is a reference: the next dependency (in arguments only) | |
//! | 11 | a document with references inside | a value; then their table, see [`refs`]; the last 8 bytes say where it begins |
//! | 12 | a `list` of nothing but references | `u32` the first's position in that table, `u32` how many follow one another there |
//! | 13 | a `list`, `tuple` or `dict` of plain values | see [`tree`] |
//!
//! Exact built-in types only take the short forms; what inherits from them is pickled. All numbers are
//! little-endian. Reading is zero-copy: buffers are read-only views that keep the bytes alive.

pub(crate) mod args;
mod exported;
mod layout;
mod ndarray;
mod pickle;
mod purpose;
pub(crate) mod read;
pub(crate) mod refs;
mod sink;
pub(crate) mod source;
mod tree;
mod values;
mod view;
mod write;

pub(crate) use ndarray::_use_numpy_fast_path;
pub(crate) use pickle::{_buffer_callback, _use_dispatch_table};
pub(crate) use purpose::Purpose;
pub(crate) use read::decode;
pub(crate) use source::Source;
pub(crate) use values::{deserialize, place_as, put, serialize};
pub(crate) use view::View;
pub(crate) use write::encode;

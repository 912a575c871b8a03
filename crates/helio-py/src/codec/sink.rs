//! Memory of Python objects as parts of a document ([`helio_proto::document::Sink`]).

use helio_proto::document::{self, Memory};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::exported::Exported;

/// A document being written.
pub(crate) type Sink = document::Sink<Held>;

/// Memory of a Python object that stays put while this lives. It is dropped where it was made, with the GIL.
pub(crate) enum Held {
    Buffer(Exported),
    Bytes(Py<PyBytes>),
}

impl Memory for Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes(),
            // SAFETY: exactly `bytes`, which never change and live as long as `self`; both calls only read where
            // they begin and how many they are.
            Self::Bytes(bytes) => unsafe {
                let start = ffi::PyBytes_AS_STRING(bytes.as_ptr()).cast::<u8>();
                let len = ffi::Py_SIZE(bytes.as_ptr()) as usize;
                std::slice::from_raw_parts(start, len)
            },
        }
    }
}

//! `Definition`: a pickled function or class, as many calls share it.

use helio_proto::bytes::Bytes;
use pyo3::prelude::*;

/// A pickled function or class. Whatever options it is called with, it is sent once a connection.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct Definition {
    pub(super) pickle: Bytes,
    /// Equal pickles have equal ids.
    pub(super) id: Vec<u8>,
}

#[pymethods]
impl Definition {
    #[new]
    fn new(pickle: &[u8]) -> Self {
        let id = blake2b_simd::Params::new().hash_length(28).hash(pickle).as_bytes().to_vec();
        Self { pickle: Bytes::copy_from_slice(pickle), id }
    }
}

//! Bytes to read from, kept alive by whatever points into them.

use std::ops::Deref;
use std::sync::Arc;

use helio_proto::document::Aligned;
use helio_worker::Bytes;

/// The runtime's bytes, or a copy of our own.
#[derive(Clone)]
pub(crate) enum Source {
    Shared(Bytes),
    Owned(Arc<Aligned>),
}

impl Source {
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self::Owned(Arc::new(Aligned::copied(bytes)))
    }

    /// The bytes at an address that numpy can use: what came inside a frame may begin anywhere.
    pub(crate) fn aligned(self) -> Self {
        if Aligned::is_aligned(&self) { self } else { Self::copied(&self) }
    }
}

impl Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Owned(copy) => copy,
        }
    }
}

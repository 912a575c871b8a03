//! Bytes to read from, kept alive by whatever points into them.

use std::ops::Deref;
use std::sync::Arc;

use helio_proto::document::ALIGNMENT;
use helio_worker::Bytes;

/// The runtime's bytes, or a copy of our own.
#[derive(Clone)]
pub(crate) enum Source {
    Shared(Bytes),
    Owned(Arc<Aligned>),
}

/// A copy that begins at a multiple of 64.
pub(crate) struct Aligned {
    blocks: Box<[Block]>,
    len: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Block([u8; 64]);

impl Source {
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        let mut blocks = vec![Block([0; 64]); bytes.len().div_ceil(64)].into_boxed_slice();
        for (block, chunk) in blocks.iter_mut().zip(bytes.chunks(64)) {
            block.0[..chunk.len()].copy_from_slice(chunk);
        }
        Self::Owned(Arc::new(Aligned { blocks, len: bytes.len() }))
    }

    /// The bytes at an address that numpy can use: what came inside a frame may begin anywhere.
    pub(crate) fn aligned(self) -> Self {
        // As large as a cache line, which vector instructions and libraries over `ctypes.data` may count on.
        if self.as_ptr().align_offset(ALIGNMENT) == 0 { self } else { Self::copied(&self) }
    }
}

impl Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            // SAFETY: blocks are plain bytes without padding, and `len` of them were asked for.
            Self::Owned(copy) => unsafe {
                std::slice::from_raw_parts(copy.blocks.as_ptr().cast(), copy.len)
            },
        }
    }
}

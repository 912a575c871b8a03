//! Values as the front reads them, and the memory in which large ones lie.

use std::fmt::Debug;
use std::sync::Arc;

use helio_types::ObjectId;

/// Access to the node's object store: the shell maps it, a simulation imitates it.
pub trait Memory {
    /// A view of one object. The daemon keeps the object in place until every view was released
    /// (SHM-1); the shell reports released views with [`crate::Event::Released`].
    type Pin: Clone + Debug;

    /// A view of the object at this range, which the daemon has pinned for this process; `None` when
    /// the range lies outside the store.
    fn pin(&self, id: ObjectId, offset: u64, size: u64) -> Option<Self::Pin>;

    /// Whether a value or a waiting call holds the view, besides the table of the store client.
    fn is_shared(pin: &Self::Pin) -> bool;
}

/// The bytes of a value: in this process's memory, or in the object store.
#[derive(Clone, Debug)]
pub enum Bytes<P> {
    /// In this process's memory.
    Memory(Arc<Vec<u8>>),
    /// In the object store, pinned.
    Pinned(P),
}

impl<P> Bytes<P> {
    /// Bytes in this process's memory.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self::Memory(Arc::new(bytes))
    }
}

impl<P: AsRef<[u8]>> std::ops::Deref for Bytes<P> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Pinned(pin) => pin.as_ref(),
        }
    }
}

/// A serialized value, or the serialized exception that reading it raises.
#[derive(Clone, Debug)]
pub struct Payload<P> {
    /// The bytes, in the front's encoding; those of exceptions: see [`helio_proto::error`].
    pub bytes: Bytes<P>,
    /// Whether reading it raises.
    pub is_error: bool,
}

impl<P> Payload<P> {
    /// A value.
    #[must_use]
    pub fn value(bytes: Bytes<P>) -> Self {
        Self { bytes, is_error: false }
    }

    /// An exception.
    #[must_use]
    pub fn error(bytes: Vec<u8>) -> Self {
        Self { bytes: Bytes::of(bytes), is_error: true }
    }
}

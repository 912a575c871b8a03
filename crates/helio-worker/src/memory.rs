//! The node's object store, mapped into this process.

use std::sync::Arc;

use helio_process_state::Memory;
use helio_store::{Arena, ArenaSlice};
use helio_types::ObjectId;

use crate::sync::{Mutex, Shared};

/// Objects whose last view was dropped since the daemon was told last.
pub(crate) type Released = Shared<Mutex<Vec<ObjectId>>>;

/// A view of one object. **SHM-1** Its range is not reused before the last clone was dropped and the daemon
/// has heard of that.
#[derive(Clone, Debug)]
pub struct Pin(Shared<View>);

#[derive(Debug)]
struct View {
    id: ObjectId,
    slice: ArenaSlice,
    released: Released,
}

impl Drop for View {
    /// Only notes the end: the next thread that polls tells the daemon.
    fn drop(&mut self) {
        self.released.lock().push(self.id);
    }
}

impl AsRef<[u8]> for Pin {
    fn as_ref(&self) -> &[u8] {
        self.0.slice.as_slice()
    }
}

/// The memory file of the node's object store as it is mapped here.
#[derive(Debug)]
pub(crate) struct MappedStore {
    /// `None`: the process has no object store.
    pub(crate) arena: Option<Arc<Arena>>,
    pub(crate) released: Released,
}

impl Memory for MappedStore {
    type Pin = Pin;

    fn pin(&self, id: ObjectId, offset: u64, size: u64) -> Option<Pin> {
        let slice = self.arena.as_ref()?.slice(offset, size).ok()?;
        Some(Pin(Shared::new(View { id, slice, released: self.released.clone() })))
    }

    fn is_shared(pin: &Pin) -> bool {
        Shared::strong_count(&pin.0) > 1
    }
}

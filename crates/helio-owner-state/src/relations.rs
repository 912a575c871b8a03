//! The relations of an object to others. Most objects have none, and there may be a million of them: they have one
//! empty pointer for it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use helio_types::{ActorId, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId};

#[derive(Debug, Default)]
pub(crate) struct Relations {
    /// The processes that borrow the object, with the number of the latest announcement of each.
    pub(crate) borrowers: Vec<(WorkerId, u64)>,
    /// Peers that asked for the value while it was pending.
    pub(crate) resolvers: Vec<Arc<WorkerAddress>>,
    /// References inside the value; each is held by a `use`.
    pub(crate) contained: Vec<ObjectId>,
    /// Calls of ours that wait for the value.
    pub(crate) dependents: Vec<TaskId>,
    /// The object stands for an actor's handle: when it goes, so does the actor.
    pub(crate) handle_of: Option<ActorId>,
    /// When the value was made again last, after its copies were lost; 0: never.
    pub(crate) made_again: u64,
    /// Of an object of ours: which of its locations are copies that were made for a reader. Those nodes give
    /// them up without a word when they need room.
    pub(crate) copies: Vec<NodeId>,
    /// Of an object of ours: other nodes that may have a copy. An attempt was given up there after it may have
    /// written the object, a call that takes the object was sent there, or only the connection to the node broke.
    /// Nobody is sent there; it is freed there, too.
    pub(crate) strays: Vec<NodeAddress>,
}

static NONE: Relations = Relations {
    borrowers: Vec::new(),
    resolvers: Vec::new(),
    contained: Vec::new(),
    dependents: Vec::new(),
    handle_of: None,
    made_again: 0,
    copies: Vec::new(),
    strays: Vec::new(),
};

/// [`Relations`] that take memory from the first change on: [`Lazy::present`] is for changes that need none
/// where there are none.
#[derive(Debug, Default)]
pub(crate) struct Lazy(Option<Box<Relations>>);

impl Lazy {
    pub(crate) fn present(&mut self) -> Option<&mut Relations> {
        self.0.as_deref_mut()
    }

    pub(crate) fn into_present(self) -> Option<Box<Relations>> {
        self.0
    }
}

impl Deref for Lazy {
    type Target = Relations;

    fn deref(&self) -> &Relations {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Lazy {
    fn deref_mut(&mut self) -> &mut Relations {
        self.0.get_or_insert_default()
    }
}

//! The relations of an object to others. Most objects have none, and there may be a million of them.

use std::sync::Arc;

use helio_types::{ActorId, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId};

use crate::lazy::Rare;

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
    /// The time at which the value was last made again because its copies were lost; 0 if never.
    pub(crate) made_again: u64,
    /// For an object of ours: the locations whose copies were made for a reader. Those nodes give them up
    /// without a word when they need room.
    pub(crate) copies: Vec<NodeId>,
    /// For an object of ours: other nodes that may have a copy. An attempt was given up there after it may have
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

impl Rare for Relations {
    fn none() -> &'static Self {
        &NONE
    }
}

//! The earlier attempts of a call.

use std::sync::Arc;

use helio_types::NodeAddress;

use crate::lazy::{Lazy, Rare};

/// The record of what a call has been through.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// The time at which the call was made, in microseconds.
    pub(crate) created: u64,
    pub(crate) earlier: Lazy<Earlier>,
}

/// The record of a call's earlier attempts. Most calls have none.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Number of attempts whose worker was ended for want of memory.
    pub(crate) ooms: u32,
    /// The error of the last attempt, as text.
    pub(crate) failure: Option<Arc<str>>,
    /// For a generator: one more than the index of the last item that came as a stored value.
    pub(crate) items: u32,
    /// The call had ended and runs once more: its results were lost, or it raised an exception that its options retry.
    pub(crate) is_remade: bool,
    /// The call's position in the order in which calls ended; calls whose results it reads ended
    /// before it.
    pub(crate) ended: u64,
    /// For a generator: its reader has left it, so the objects that are still held keep it.
    pub(crate) is_left: bool,
    /// Nodes on which an attempt was given up that may have written the call's objects.
    pub(crate) strays: Vec<NodeAddress>,
}

static NONE: Earlier = Earlier {
    ooms: 0,
    failure: None,
    items: 0,
    is_remade: false,
    ended: 0,
    is_left: false,
    strays: Vec::new(),
};

impl Rare for Earlier {
    fn none() -> &'static Self {
        &NONE
    }
}

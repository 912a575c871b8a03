//! The earlier attempts of a call.

use std::sync::Arc;

use helio_types::NodeAddress;

use crate::lazy::{Lazy, Rare};

/// The record of what a call has been through.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// When it was made.
    pub(crate) created: u64,
    pub(crate) earlier: Lazy<Earlier>,
}

/// The record of a call's earlier attempts. Most calls have none.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// How often its worker was ended for want of memory.
    pub(crate) ooms: u32,
    /// How its last attempt ended.
    pub(crate) failure: Option<Arc<str>>,
    /// Of a generator: one more than the index of the last item that came as a stored value.
    pub(crate) items: u32,
    /// The call had ended and runs once more: its results were lost, or it raised an exception that its options retry.
    pub(crate) is_remade: bool,
    /// Its place among the calls that had ended; what it reads inside ended before it.
    pub(crate) ended: u64,
    /// Of a generator: its reader has left it, so it ends with what is held of it.
    pub(crate) is_left: bool,
    /// Where attempts were given up that may have written what the call makes.
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

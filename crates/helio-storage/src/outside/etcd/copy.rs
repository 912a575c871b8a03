//! The entries that a waiting head has read; `follow.rs` reads them.

use std::collections::BTreeMap;

/// The entries and parts that were read, and how far reading and following are.
#[derive(Debug)]
pub(super) struct Copy {
    /// Values by etcd's keys, as etcd has them.
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) parts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The place where the next page begins; `None`: all was read.
    pub(super) place: Option<Place>,
    /// The revision up to which changes are in the copy, once all was read; 0: nothing was.
    pub(super) revision: u64,
    /// The id of the etcd that was read.
    pub(super) cluster: String,
}

/// The place where the next page begins.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) is_of_parts: bool,
    pub(super) from: Vec<u8>,
    pub(super) limit: usize,
}

impl Copy {
    pub(super) fn is_read(&self) -> bool {
        self.place.is_none()
    }
}

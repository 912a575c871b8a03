//! The conditional operations of a store, and how each may end.

use std::time::Duration;

use crate::{Change, Entry};

/// The outcome of asking for the lease.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The lease is ours, under this epoch, after writes up to this number.
    Won { epoch: u64, number: u64 },
    /// Another head has the lease, for that long unless it renews it.
    Held { by: String, left: Duration },
    /// The state is another cluster's.
    Foreign,
}

/// The outcome of a conditional operation.
#[derive(Debug)]
pub(super) enum Done<T> {
    /// The operation took effect; with its result.
    Ours(T),
    /// The epoch is another head's, which is named, if it still has its lease.
    Lost(String),
}

impl<T> Done<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Done<U> {
        match self {
            Self::Ours(done) => Done::Ours(change(done)),
            Self::Lost(to) => Done::Lost(to),
        }
    }
}

/// The state of a waiting head's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Followed {
    /// The copy is being read, or behind.
    Behind,
    /// The copy has that number of entries, and is as new as the lease that was seen.
    Even(usize),
}

/// The reason why the store did not carry out an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// The store does not answer, or not at the moment; whether the operation took effect is unknown.
    Away(String),
    /// The store has no room.
    Full,
    /// The store refuses the operation and would refuse it again; with its words.
    Refused(String),
}

pub(super) type Outcome<T> = Result<T, Failure>;

/// A connection to a store, made when it is needed and again when it broke. Each operation is atomic in the store.
pub(super) trait Backend: Send {
    /// Asks for the lease.
    fn acquire(&mut self, holder: &str, lease: Duration) -> Outcome<Attempt>;
    /// Renews the lease, also after it has run out, unless another head has taken it.
    fn renew(&mut self, epoch: u64, holder: &str, lease: Duration) -> Outcome<Done<()>>;
    /// While another head leads: takes a step towards a copy of the entries, or follows the changes for about so long.
    /// [`Backend::read`] does not read again what the copy has when the lease is won.
    fn follow(&mut self, within: Duration) -> Outcome<Followed>;
    /// Reads all entries, by key, after a first write under this epoch.
    fn read(&mut self, epoch: u64) -> Outcome<Done<Vec<Entry>>>;
    /// Makes the changes, unless a write of this or a higher number was made before: one that arrives late.
    fn write(&mut self, epoch: u64, number: u64, changes: &[Change]) -> Outcome<Done<()>>;
    /// Reads the value under a name beside the entries.
    fn get_beside(&mut self, epoch: u64, name: &str) -> Outcome<Done<Option<Vec<u8>>>>;
    /// Writes or deletes the value under a name beside the entries.
    fn put_beside(&mut self, epoch: u64, name: &str, value: Option<&[u8]>) -> Outcome<Done<()>>;
    /// Gives the lease up.
    fn release(&mut self, epoch: u64) -> Outcome<()>;
    /// Deletes the state; whether there was any.
    fn clean(&mut self) -> Outcome<bool>;
}

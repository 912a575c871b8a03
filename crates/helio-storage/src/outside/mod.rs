//! Stores that operators run already: the state outlives the head's machine, and another head goes on with it.
//!
//! ```text
//!   head 1 ──writes, with its epoch──►┌──────────────────────────┐◄──asks for the lease── head 2
//!          ──renews its lease────────►│ lease   who, until when  │     (waits)
//!                                     │ epoch   counts the heads │
//!                                     │ entries                  │
//!                                     └──────────────────────────┘
//! ```
//!
//! A head has the state as long as it renews its lease. Whoever takes the lease over raises the **epoch**, and the store
//! itself refuses a write of any other: a head that was stopped for a minute and wakes up can do no harm. Until when a
//! head may answer it counts from when it *asked* for the lease, so that its time is up before another one's begins.
//!
//! A head that waits **follows** the store: it reads the entries, and then what changes. When it leads it reads only what
//! it has not heard of, so that its pause does not grow with the state. It answers for nothing before its copy has what the
//! store had when it first wrote under its own epoch: from there on nobody else writes.
//!
//! [`Leased`] is what all stores have in common, a `Backend` what differs: a few conditional
//! operations.

mod address;
mod copies;
mod etcd;
mod leased;
mod redis;
mod stream;

use std::time::{Duration, Instant};

pub use address::{Kind, Target, parse};
pub use copies::Copies;
pub use leased::Leased;

use crate::{Change, Entry, Error};

/// How long a head that starts tries to reach a store that does not answer.
const REACH_MAX: Duration = Duration::from_secs(30);

/// The pause between two tries.
const REACH_PAUSE: Duration = Duration::from_millis(200);

/// So many reasons are told of a store that cannot be used; more would be the same ones by turns.
const REASONS_MAX: usize = 4;

/// How often a head that waits looks whether the lease is free.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// The outcome of asking for the lease.
#[derive(Debug)]
enum Attempt {
    /// The lease is ours, under this epoch; so many writes were numbered before.
    Won { epoch: u64, number: u64 },
    /// Another head has it, for that long unless it renews it.
    Held { by: String, left: Duration },
    /// The state is another cluster's.
    Foreign,
}

/// The outcome of a conditional operation.
#[derive(Debug)]
enum Done<T> {
    /// The operation took effect; with its result.
    Ours(T),
    /// The epoch is another head's, which is named, if it still has its lease.
    Lost(String),
}

impl<T> Done<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Done<U> {
        match self {
            Self::Ours(done) => Done::Ours(change(done)),
            Self::Lost(to) => Done::Lost(to),
        }
    }
}

/// The state of a waiting head's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Followed {
    /// The copy is being read, or behind.
    Behind,
    /// The copy has so many entries, and is as new as the lease that was seen.
    Even(usize),
}

/// Why the store did not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Failure {
    /// The store does not answer, or not at the moment; whether the operation took effect is unknown.
    Away(String),
    /// The store has no room.
    Full,
    /// The store refuses the operation and would refuse it again; with its words.
    Refused(String),
}

type Outcome<T> = Result<T, Failure>;

/// A connection to a store, made when it is needed and again when it broke. Each operation is atomic in the store.
trait Backend: Send {
    /// Asks for the lease.
    fn acquire(&mut self, holder: &str, lease: Duration) -> Outcome<Attempt>;
    /// Renews it, also after it has run out, unless another head has taken it.
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
    /// Writes or deletes that.
    fn put_beside(&mut self, epoch: u64, name: &str, value: Option<&[u8]>) -> Outcome<Done<()>>;
    /// Gives the lease up.
    fn release(&mut self, epoch: u64) -> Outcome<()>;
    /// Deletes the state; whether there was any.
    fn clean(&mut self) -> Outcome<bool>;
}

/// The reason for which a head has to wait; it is told each time that the reason changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Another head has the state. Who it is.
    For(String),
    /// The store cannot be used. Why not.
    Store(String),
    /// The head has a copy of the state that follows the changes, of so many entries at first.
    Copied(usize),
}

/// Opens the store for the head that `holder` names: at once, when another head gives the state up, or when the lease of
/// one runs out.
///
/// # Errors
/// When the store refuses, or does not answer for long.
pub fn open(
    target: &Target,
    holder: &str,
    mut on_wait: impl FnMut(&Waiting),
) -> Result<Leased, Error> {
    let mut backend = target.backend();
    let mut said: Vec<Waiting> = Vec::new();
    let mut say = |waiting: Waiting| {
        if said.contains(&waiting) {
            return;
        }
        if matches!(waiting, Waiting::For(_)) {
            said.clear();
        } else if said.len() > REASONS_MAX {
            return;
        }
        on_wait(&waiting);
        said.push(waiting);
    };
    let mut reached = Instant::now();
    let mut has_copy = false;
    loop {
        let asked = leased::now();
        match backend.acquire(holder, target.lease) {
            Ok(Attempt::Won { epoch, number }) => {
                return Ok(Leased::new(target.clone(), backend, holder, epoch, number, asked));
            }
            Ok(Attempt::Held { by, left }) => {
                reached = Instant::now();
                say(Waiting::For(by));
                let pause = left.min(target.lease / 10).clamp(LOOK_MIN, LOOK_MAX);
                match backend.follow(pause) {
                    Ok(Followed::Behind) => {}
                    Ok(Followed::Even(entries)) => {
                        if !std::mem::replace(&mut has_copy, true) {
                            say(Waiting::Copied(entries));
                        }
                    }
                    // Without a copy all is read later. Whether the store can be used is for the lease to say.
                    Err(_) => std::thread::sleep(pause),
                }
            }
            Ok(Attempt::Foreign) => {
                return Err(target.refused(
                    "it holds the state of a cluster with another token. Start the head with that cluster's token, give \
                     this cluster a namespace of its own (RAY_external_storage_namespace), or delete what is there with \
                     `ray cleanup-control-store`",
                ));
            }
            Err(Failure::Away(reason)) if reached.elapsed() < REACH_MAX => {
                say(Waiting::Store(reason));
                std::thread::sleep(REACH_PAUSE);
            }
            Err(Failure::Away(reason)) => return Err(target.not_reached(&reason)),
            Err(failure) => return Err(target.failed(failure)),
        }
    }
}

/// Deletes the state; whether there was any. A head that lives and has it ends.
///
/// # Errors
/// When the store refuses or does not answer.
pub fn clean(target: &Target) -> Result<bool, Error> {
    target.backend().clean().map_err(|failure| target.failed(failure))
}

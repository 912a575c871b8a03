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
mod backend;
mod connect;
mod copies;
mod etcd;
mod leased;
mod redis;
mod stream;

use std::time::{Duration, Instant};

pub use address::{Kind, Target, parse};
pub use copies::Copies;
pub use leased::Leased;

use self::address::REACH_MAX;
use self::backend::{Attempt, Failure, Followed};
use self::connect::connect;
use crate::Error;

/// The pause between two tries.
const REACH_PAUSE: Duration = Duration::from_millis(200);

/// Number of reasons that are told of a store that cannot be used; more would be the same ones by
/// turns.
const REASONS_MAX: usize = 4;

/// Time between two looks of a waiting head whether the lease is free.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// The reason for which a head has to wait; it is told each time that the reason changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Another head, which is named, has the state.
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
    let mut backend = connect(target);
    let mut said: Vec<Waiting> = Vec::new();
    let mut say = |waiting: Waiting| {
        if said.contains(&waiting) {
            return;
        }
        // Who leads is told once a change; reasons of a store that is away come by turns.
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
        // The lease counts from the question, not from the answer.
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
    connect(target).clean().map_err(|failure| target.failed(failure))
}

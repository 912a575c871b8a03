//! A store that is ours for as long as its lease is renewed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::address::Target;
use super::backend::{Backend, Done, Failure, Outcome};
use super::connect::connect;
use super::copies::Copies;
use crate::{Change, Entry, Error, Standing, Storage};

/// The part of a lease after which it is renewed, and the part of it that is left for clocks that differ.
const RENEWALS: u32 = 4;
const MARGIN: u32 = 10;

/// Time that goes on while the machine is suspended.
pub(super) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The state that the thread which renews the lease shares.
#[derive(Debug)]
struct State {
    /// The time at which the newest renewal that succeeded was asked for.
    asked: Duration,
    /// The reason why the newest renewal failed; empty if it did not.
    trouble: String,
    /// The head that has the state now, when that is another one.
    lost: Option<String>,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, to: &str) {
        let who = if to.is_empty() { "it was deleted, or another head has taken it" } else { to };
        self.state().lost.get_or_insert_with(|| who.to_owned());
    }
}

/// The state in an outside store, of which this process is the one writer.
pub struct Leased {
    target: Target,
    backend: Box<dyn Backend>,
    epoch: u64,
    /// The number of the newest write.
    number: u64,
    /// The store did not answer a commit: when that was found.
    away: Option<Duration>,
    shared: Arc<Shared>,
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} under epoch {}", self.target, self.epoch)
    }
}

impl Leased {
    pub(super) fn new(
        target: Target,
        backend: Box<dyn Backend>,
        holder: &str,
        epoch: u64,
        number: u64,
        asked: Duration,
    ) -> Self {
        let state = State { asked, trouble: String::new(), lost: None };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let (stop, stopped) = channel();
        let keep = {
            let (shared, holder, target) = (Arc::clone(&shared), holder.to_owned(), target.clone());
            move || {
                let mut backend = connect(&target);
                let every = target.lease / RENEWALS;
                let mut wait = every;
                while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    // Before the question: the lease counts from then, for the store may have taken it long before
                    // the answer.
                    let asked = now();
                    let outcome = backend.renew(epoch, &holder, target.lease);
                    wait = if outcome.is_ok() { every } else { every / RENEWALS };
                    match outcome {
                        Ok(Done::Ours(())) => {
                            let mut state = shared.state();
                            (state.asked, state.trouble) = (asked, String::new());
                        }
                        Ok(Done::Lost(to)) => return shared.lose(&to),
                        Err(failure) => shared.state().trouble = why(failure),
                    }
                }
            }
        };
        let keeper = std::thread::Builder::new().name("lease".to_owned()).spawn(keep);
        // Without a thread the lease runs out, and the head says so.
        let keeper = keeper.ok().map(|thread| (stop, thread));
        Self { target, backend, epoch, number, away: None, shared, keeper }
    }

    /// Returns the name of the store, without a password.
    #[must_use]
    pub fn place(&self) -> String {
        self.target.name()
    }

    /// Copies, in this store, of a folder's files of one kind, for as long as this process is the writer.
    #[must_use]
    pub fn copies(&self, kind: &'static str, folder: PathBuf) -> Copies {
        Copies::new(self.target.clone(), self.epoch, kind, folder)
    }

    fn lost(&self, to: &str) -> Error {
        self.shared.lose(to);
        let who = self.shared.state().lost.clone().unwrap_or_default();
        Error::Lost {
            place: self.target.name(),
            reason: format!("the cluster's state is another head's now: {who}"),
        }
    }

    fn checked<T>(&mut self, outcome: Outcome<Done<T>>) -> Result<T, Error> {
        match outcome {
            Ok(Done::Ours(done)) => {
                self.away = None;
                Ok(done)
            }
            Ok(Done::Lost(to)) => Err(self.lost(&to)),
            Err(Failure::Full) => Err(self.target.failed(Failure::Full)),
            // An operation that was allowed a moment ago may be allowed again: the lease bounds how long that is waited
            // for.
            Err(failure) => {
                self.away = Some(now());
                Err(self.target.failed(Failure::Away(why(failure))))
            }
        }
    }
}

fn why(failure: Failure) -> String {
    match failure {
        Failure::Away(reason) | Failure::Refused(reason) => reason,
        Failure::Full => "it has no room".to_owned(),
    }
}

impl Storage for Leased {
    fn load(&mut self) -> Result<Vec<Entry>, Error> {
        // A write that is still under way arrives now or never: its number is an older one from here on.
        self.commit(&[])?;
        let outcome = self.backend.read(self.epoch);
        self.checked(outcome)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let (asked, lost) = {
            let state = self.shared.state();
            (state.asked, state.lost.clone())
        };
        if let Some(to) = lost {
            return Err(self.lost(&to));
        }
        // The store has not answered a renewal since the commit that failed: to try again would only hold up the
        // head.
        if self.away.is_some_and(|since| asked <= since) {
            let reason = self.shared.state().trouble.clone();
            return Err(self.target.failed(Failure::Away(reason)));
        }
        // A new number for each try: the one before may still arrive. To repeat what it did does no harm.
        self.number += 1;
        // Several changes of one key in a batch are one write: only the last state counts.
        let newest: BTreeMap<&[u8], &Change> =
            changes.iter().map(|change| (change.key.as_slice(), change)).collect();
        let newest: Vec<Change> = newest.into_values().cloned().collect();
        let outcome = self.backend.write(self.epoch, self.number, &newest);
        self.checked(outcome)
    }

    fn full(&self) -> String {
        format!("the store of the cluster's state, {}, has no room left", self.target.name())
    }

    fn standing(&self) -> Standing {
        let state = self.shared.state();
        let until = state.asked + self.target.lease - self.target.lease / MARGIN;
        match &state.lost {
            Some(to) => Standing::Lost(to.clone()),
            None if now() < until => Standing::Certain,
            None => Standing::Doubtful(format!("{}: {}", self.target.name(), state.trouble)),
        }
    }

    fn regain(&mut self) -> Result<bool, Error> {
        match self.standing() {
            Standing::Certain => {
                self.away = None;
                Ok(true)
            }
            Standing::Doubtful(_) => Ok(false),
            Standing::Lost(to) => Err(self.lost(&to)),
        }
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.keeper.take() {
            drop(stop);
            // The thread renews no more when the lease is given up.
            let _ = thread.join();
        }
        // Where that fails the lease runs out by itself.
        let _ = self.backend.release(self.epoch);
    }
}

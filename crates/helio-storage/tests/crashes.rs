//! The storage contract on a machine that crashes at every write, change of length and sync.
//!
//! The medium keeps what was synced; of what came after the last sync, a crash keeps nothing, everything,
//! every other piece, only the newest, or a random part, and tears the piece at which it struck. After
//! each crash the store is opened again: each acknowledged commit must be there, the one that was under way
//! wholly or not at all, and the store must take commits again.

mod commits;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use commits::{COMMITS, Map, changes, states};
use helio_storage::{Embedded, Storage};
use redb::StorageBackend;

/// A piece of a write that is not synced.
#[derive(Clone, Debug)]
enum Piece {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Debug, Default)]
struct State {
    synced: Vec<u8>,
    /// The content that the process sees: everything that it has written.
    seen: Vec<u8>,
    pieces: Vec<Piece>,
    /// Writes, changes of length and syncs so far.
    operations: usize,
    /// The operation at which the machine crashes.
    crash_at: Option<usize>,
    is_down: bool,
}

/// A medium that loses what was not synced.
#[derive(Clone, Debug, Default)]
struct Medium(Arc<Mutex<State>>);

/// The pieces after the last sync that a crash keeps.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Nothing,
    Everything,
    EveryOther,
    Newest,
    Random(u64),
}

fn down() -> io::Error {
    io::Error::other("the machine is down")
}

fn apply(bytes: &mut Vec<u8>, piece: &Piece) {
    match piece {
        Piece::Length(length) => bytes.resize(*length as usize, 0),
        Piece::Write { offset, bytes: new } => {
            let end = *offset as usize + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset as usize..end].copy_from_slice(new);
        }
    }
}

impl Medium {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts an operation; an error where the machine is down or crashes now.
    fn count(state: &mut State) -> io::Result<()> {
        let now = state.operations;
        state.operations += 1;
        state.is_down |= state.crash_at == Some(now);
        if state.is_down { Err(down()) } else { Ok(()) }
    }

    /// The medium after the machine has started again.
    fn restarted(&self, kept: Kept) -> Medium {
        let state = self.state();
        let mut bytes = state.synced.clone();
        let last = state.pieces.len().saturating_sub(1);
        let mut random = match kept {
            Kept::Random(seed) => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            _ => 1,
        };
        for (at, piece) in state.pieces.iter().enumerate() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let is_kept = match kept {
                Kept::Nothing => false,
                Kept::Everything => true,
                Kept::EveryOther => at % 2 == 0,
                Kept::Newest => at == last,
                Kept::Random(_) => random & 1 == 0,
            };
            // A file does not shrink by losing a write, but the length may be lost with it.
            if is_kept {
                apply(&mut bytes, piece);
            }
        }
        Medium(Arc::new(Mutex::new(State {
            synced: bytes.clone(),
            seen: bytes,
            ..State::default()
        })))
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.state().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let state = self.state();
        if state.is_down {
            return Err(down());
        }
        let found = state.seen.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        let mut state = self.state();
        Self::count(&mut state)?;
        state.seen.resize(length as usize, 0);
        state.pieces.push(Piece::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut state = self.state();
        Self::count(&mut state)?;
        let state = &mut *state;
        for piece in state.pieces.drain(..) {
            apply(&mut state.synced, &piece);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut state = self.state();
        let outcome = Self::count(&mut state);
        let was_up = state.crash_at.is_none_or(|at| state.operations <= at + 1);
        if outcome.is_err() && !was_up {
            return outcome;
        }
        // A crash tears the piece that is being written: sectors, not pages, are written whole.
        let length = if outcome.is_ok() { data.len() } else { (data.len() / 2) & !511 };
        let piece = Piece::Write { offset, bytes: data[..length].to_vec() };
        let mut seen = std::mem::take(&mut state.seen);
        apply(&mut seen, &piece);
        state.seen = seen;
        state.pieces.push(piece);
        outcome
    }
}

fn loaded(store: &mut Embedded) -> Map {
    store.load().expect("a store that was opened can be read").into_iter().collect()
}

/// A medium with an empty store: `Embedded::open` links its file only when it is whole.
fn made() -> Medium {
    let medium = Medium::default();
    drop(Embedded::on(medium.clone(), "medium").expect("nothing crashes"));
    medium
}

/// Runs the program until it ends or the machine crashes; how many commits were acknowledged.
fn run(medium: &Medium, from: u8) -> u8 {
    let mut acknowledged = from;
    let Ok(mut store) = Embedded::on(medium.clone(), "medium") else { return acknowledged };
    for n in from..COMMITS {
        if store.commit(&changes(n)).is_err() {
            break;
        }
        acknowledged = n + 1;
    }
    acknowledged
}

#[test]
fn a_crash_at_any_write_loses_no_acknowledged_commit_and_tears_none() {
    let empty = made();
    let whole = empty.restarted(Kept::Nothing);
    assert_eq!(run(&whole, 0), COMMITS);
    let operations = whole.state().operations;
    assert!(
        operations > 3 * usize::from(COMMITS),
        "{operations} operations are too few to mean much"
    );
    let states = states();
    let kept = [Kept::Nothing, Kept::Everything, Kept::EveryOther, Kept::Newest];
    for crash_at in 0..operations {
        let random = (0..2).map(|n| Kept::Random(crash_at as u64 * 2 + n));
        for kept in kept.into_iter().chain(random) {
            let medium = empty.restarted(Kept::Nothing);
            medium.state().crash_at = Some(crash_at);
            let acknowledged = run(&medium, 0);
            let after = medium.restarted(kept);
            let what = format!("crash at {crash_at} of {operations}, kept {kept:?}");
            let store = Embedded::on(after.clone(), "medium");
            let mut store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = loaded(&mut store);
            let under_way = usize::from(acknowledged) + 1;
            let is_whole = (usize::from(acknowledged)..=under_way)
                .find(|n| states.get(*n).is_some_and(|state| *state == found));
            let Some(from) = is_whole else {
                panic!("{what}: {acknowledged} acknowledged, found {:?}", found.keys());
            };
            drop(store);
            if crash_at % 5 > 0 {
                continue;
            }
            assert_eq!(run(&after, from as u8), COMMITS, "{what}: no commits afterwards");
            let mut store = Embedded::on(after, "medium").expect("it ended in good order");
            assert_eq!(loaded(&mut store), states[usize::from(COMMITS)], "{what}");
        }
    }
}

/// A second crash while the first one is being repaired.
#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let states = states();
    let whole = made();
    run(&whole, 0);
    let middle = whole.state().operations / 2;
    let first = made();
    first.state().crash_at = Some(middle);
    let acknowledged = usize::from(run(&first, 0));
    for kept in [Kept::Everything, Kept::EveryOther, Kept::Nothing] {
        for crash_at in 0.. {
            let second = first.restarted(kept);
            second.state().crash_at = Some(crash_at);
            let is_through = Embedded::on(second.clone(), "medium").is_ok();
            let third = second.restarted(Kept::Random(crash_at as u64));
            let mut store = Embedded::on(third, "medium").unwrap_or_else(|error| {
                panic!("crash at {crash_at} of the recovery, kept {kept:?}: {error}")
            });
            let found = loaded(&mut store);
            assert!(
                states[acknowledged] == found || states.get(acknowledged + 1) == Some(&found),
                "crash at {crash_at} of the recovery, kept {kept:?}"
            );
            if is_through && second.state().operations <= crash_at {
                break;
            }
        }
    }
}

//! The calls of a table, each in a slot, in the order in which they were told of first.
//!
//! Slots are in blocks, and a block knows what none of its calls goes beyond. So who looks for the latest, the slowest, or those of a
//! state passes over most blocks, and who looks at all calls reads memory in a row.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault};

use helio_proto::inspect::TaskPhase;
use helio_types::TaskId;
use helio_types::hash::{IdHasher, IdMap};

use super::call::{Call, Key};

/// Calls of a block.
pub(super) const BLOCK: usize = 4096;
/// No slot.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A block of some thousand calls that were told of one after the other, and their bounds. A bound is of all calls that were ever in
/// the block.
#[derive(Debug, Default)]
pub(super) struct Block {
    calls: Vec<Call>,
    /// Number of calls in each phase.
    phases: [u32; TaskPhase::ALL.len()],
    pub(super) created_ms: u64,
    pub(super) started_us: u64,
    pub(super) ended_us: u64,
    /// The time that the slowest one took, of those that have ended.
    pub(super) took_ms: u64,
    /// The names of functions: one bit for each 64th.
    pub(super) names: u64,
}

impl Block {
    fn enter(&mut self, call: &Call) {
        self.phases[call.phase as usize] += 1;
        self.created_ms = self.created_ms.max(call.created_ms);
        self.started_us = self.started_us.max(call.started_us);
        self.ended_us = self.ended_us.max(call.ended_us);
        if call.started_us > 0 && call.ended_us > 0 {
            let took_ms = (call.ended_us / 1000).saturating_sub(call.started_us / 1000);
            self.took_ms = self.took_ms.max(took_ms);
        }
        self.names |= bit(call.name);
    }

    fn leave(&mut self, call: &Call) {
        self.phases[call.phase as usize] -= 1;
    }

    /// The phases that calls are in: a bit for each.
    pub(super) fn phases(&self) -> u32 {
        let bits = self.phases.iter().enumerate().filter(|(_, count)| **count > 0);
        bits.fold(0, |all, (phase, _)| all | 1 << phase)
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| !call.is_gone)
    }
}

/// The bit of a name in [`Block::names`].
pub(super) fn bit(name: u32) -> u64 {
    1 << (name % 64)
}

/// The bit of a phase in [`Block::phases`].
pub(super) fn phase_bit(phase: TaskPhase) -> u32 {
    1 << (phase as u32)
}

/// The bits of the phases of calls that are not over.
pub(super) const OPEN: u32 = !(1 << (TaskPhase::Finished as u32) | 1 << (TaskPhase::Failed as u32));

/// Half a hash of an id: an index of a million ids themselves would be three times as large, and slower to look into.
fn word(id: TaskId) -> u32 {
    let word = BuildHasherDefault::<IdHasher>::default().hash_one(id) as u32;
    // In tests many calls have the same.
    if cfg!(test) { word % 0x8000 } else { word }
}

/// All calls. A slot has a number, which goes round.
#[derive(Debug, Default)]
pub(super) struct Slots {
    blocks: VecDeque<Block>,
    /// The number of the first slot of the first block.
    first: u32,
    /// The slot of one of the calls whose ids have the same [`word`], and of their attempts; the others follow by
    /// [`Call::other`].
    by_word: IdMap<u32, u32>,
    len: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let place = slot.wrapping_sub(self.first) as usize;
        (place / BLOCK, place % BLOCK)
    }

    fn at(&self, slot: u32) -> &Call {
        let (block, place) = self.place(slot);
        &self.blocks[block].calls[place]
    }

    fn at_mut(&mut self, slot: u32) -> &mut Call {
        let (block, place) = self.place(slot);
        &mut self.blocks[block].calls[place]
    }

    /// The attempts of a call.
    pub(super) fn of(&self, id: TaskId) -> impl Iterator<Item = &Call> {
        let mut next = self.by_word.get(&word(id)).copied().unwrap_or(NOWHERE);
        let alike = std::iter::from_fn(move || {
            (next != NOWHERE).then(|| {
                let call = self.at(next);
                next = call.other;
                call
            })
        });
        alike.filter(move |call| call.key.0 == id)
    }

    fn slot(&self, key: &Key) -> Option<u32> {
        let mut slot = *self.by_word.get(&word(key.0))?;
        while slot != NOWHERE {
            let call = self.at(slot);
            if call.key == *key {
                return Some(slot);
            }
            slot = call.other;
        }
        None
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Call> {
        self.slot(key).map(|slot| self.at(slot))
    }

    /// The slot of a call, for [`Slots::put`].
    pub(super) fn find(&self, key: &Key) -> Option<(u32, &Call)> {
        self.slot(key).map(|slot| (slot, self.at(slot)))
    }

    /// Puts a call into its slot, which [`Slots::find`] found, or into a new one; what was there before. To look for
    /// one of a million calls is most of the cost.
    pub(super) fn put(&mut self, slot: Option<u32>, mut call: Call) -> Option<Call> {
        if let Some(slot) = slot {
            let (block, place) = self.place(slot);
            let block = &mut self.blocks[block];
            let before = block.calls[place];
            assert!(before.key == call.key, "a call is put into the slot of another");
            call.other = before.other;
            block.leave(&before);
            block.enter(&call);
            block.calls[place] = call;
            return Some(before);
        }
        if self.blocks.back().is_none_or(|block| block.calls.len() == BLOCK) {
            let calls = Vec::with_capacity(BLOCK);
            self.blocks.push_back(Block { calls, ..Block::default() });
        }
        let blocks = self.blocks.len();
        if let Some(block) = self.blocks.back_mut() {
            let place = (blocks - 1) * BLOCK + block.calls.len();
            let slot = self.first.wrapping_add(place as u32);
            call.other = self.by_word.insert(word(call.key.0), slot).unwrap_or(NOWHERE);
            block.enter(&call);
            block.calls.push(call);
            self.len += 1;
        }
        None
    }

    /// Takes a call out of the table.
    pub(super) fn take(&mut self, key: &Key) -> Option<Call> {
        let slot = self.slot(key)?;
        let call = *self.at(slot);
        let word = word(key.0);
        let first = self.by_word.get(&word).copied().unwrap_or(NOWHERE);
        if first != slot {
            let mut before = first;
            while self.at(before).other != slot {
                before = self.at(before).other;
            }
            self.at_mut(before).other = call.other;
        } else if call.other == NOWHERE {
            self.by_word.remove(&word);
        } else {
            self.by_word.insert(word, call.other);
        }
        let (block, place) = self.place(slot);
        self.blocks[block].leave(&call);
        // The place stays, so that the numbers of the slots behind it hold.
        self.blocks[block].calls[place].is_gone = true;
        self.len -= 1;
        Some(call)
    }

    /// The keys of the block that was begun first; none: there is only one.
    pub(super) fn oldest(&self) -> Option<Vec<Key>> {
        let oldest = self.blocks.front().filter(|_| self.blocks.len() > 1)?;
        Some(oldest.calls().map(|call| call.key).collect())
    }

    /// Drops the block that was begun first, of which all calls were taken.
    pub(super) fn drop_oldest(&mut self) {
        assert!(self.blocks.front().is_some_and(|block| block.calls().next().is_none()));
        self.blocks.pop_front();
        self.first = self.first.wrapping_add(BLOCK as u32);
    }

    /// The blocks, that with the latest calls first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().rev()
    }

    /// The calls in blocks of which some are in these phases.
    pub(super) fn near(&self, phases: u32) -> impl Iterator<Item = &Call> {
        self.blocks().filter(move |block| block.phases() & phases > 0).flat_map(Block::calls)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Call> {
        self.blocks().flat_map(Block::calls)
    }
}

//! Borrows that the owner has not confirmed yet, and what must wait for the confirmation.
//!
//! A message that lets somebody else drop a reference may overtake, on another connection, our
//! announcement that we hold it. Such messages pass through the *gate*: one goes out when every
//! borrow announced before it is confirmed, except those announced to its own receiver, which reads
//! them in order anyway. In the common case nothing is unconfirmed and the gate costs one check.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use helio_proto::peer::Frame;
use helio_types::{IdMap, ObjectId, TaskId, WorkerAddress, WorkerId, mutant};

use crate::context::Context;

/// The borrows that are not confirmed, and the messages that wait at the gate.
#[derive(Debug, Default)]
pub(crate) struct Borrows {
    next: u64,
    unconfirmed: BTreeMap<u64, (WorkerId, ObjectId)>,
    /// Number of entries of `unconfirmed` by owner; saves the scan in the common cases.
    waits_for: IdMap<WorkerId, usize>,
    gate: VecDeque<(u64, Arc<WorkerAddress>, Frame<'static>)>,
    /// References in the returns of calls that we ran, by call: held until the caller holds them.
    returned: IdMap<TaskId, (WorkerId, Vec<ObjectId>)>,
    /// The part of those that went to a caller whose connection broke since: held until it is known whether the caller
    /// lives.
    adrift: IdMap<WorkerId, Vec<ObjectId>>,
}

impl Borrows {
    /// Borrows that are not confirmed, and frames that wait for that.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.unconfirmed.len(), self.gate.len())
    }

    /// Whether a frame to that process waits for a borrow to be confirmed.
    pub(crate) fn holds_back(&self, to: WorkerId) -> bool {
        self.gate.iter().any(|(_, receiver, _)| receiver.worker_id == to)
    }

    /// Announces a borrow to the object's owner.
    pub(crate) fn announce(
        &mut self,
        owner: &Arc<WorkerAddress>,
        object: ObjectId,
        ctx: &mut Context,
    ) -> u64 {
        self.next += 1;
        let before = self.unconfirmed.insert(self.next, (owner.worker_id, object));
        assert!(before.is_none(), "one confirmation would stand for two borrows");
        *self.waits_for.entry(owner.worker_id).or_default() += 1;
        ctx.send(owner.clone(), Frame::AddBorrow { number: self.next, object });
        self.next
    }

    /// The number that the next announcement will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next + 1
    }

    /// Sends a frame that lets its receiver drop references.
    pub(crate) fn send(
        &mut self,
        to: &Arc<WorkerAddress>,
        frame: Frame<'static>,
        ctx: &mut Context,
    ) {
        // Frames to one receiver keep their order, so one that waits holds back those behind it.
        let waits = self.holds_back(to.worker_id) || self.blocks(self.next, to.worker_id);
        if waits && !mutant!("borrow-gate-open") {
            self.gate.push_back((self.next, to.clone(), frame));
        } else {
            ctx.send(to.clone(), frame);
        }
    }

    /// The owner knows of the borrow.
    pub(crate) fn confirmed(&mut self, number: u64, ctx: &mut Context) {
        let Some((owner, _)) = self.unconfirmed.remove(&number) else { return };
        if let Some(count) = self.waits_for.get_mut(&owner) {
            assert!(*count > 0, "an owner confirms a borrow once");
            *count -= 1;
            if *count == 0 {
                self.waits_for.remove(&owner);
            }
        }
        if !self.gate.is_empty() {
            self.open(ctx);
        }
    }

    /// A call that we ran for `caller` returned these references: they are held until the caller holds them.
    pub(crate) fn hold_for(&mut self, caller: WorkerId, task: TaskId, ids: Vec<ObjectId>) {
        self.returned.entry(task).or_insert_with(|| (caller, Vec::new())).1.extend(ids);
    }

    /// Takes out the references that were held for a caller, which holds them itself now.
    pub(crate) fn returns_held(&mut self, task: TaskId) -> Vec<ObjectId> {
        self.returned.remove(&task).map_or_else(Vec::new, |(_, held)| held)
    }

    /// Replies to a caller whose connection broke may be lost; it has given those calls up. What need not be held any
    /// more.
    pub(crate) fn take_adrift(&mut self, caller: WorkerId) -> Vec<ObjectId> {
        let mut held = self.adrift.remove(&caller).unwrap_or_default();
        // Callers' calls are in a table without an order, and equal histories are to give equal actions (STATE-1).
        held.sort_unstable();
        held
    }

    /// Returns the number of (call, caller) pairs whose returned references are held.
    pub(crate) fn returned_count(&self) -> usize {
        self.returned.len() + self.adrift.len()
    }

    /// The references that are held for callers, one for each use.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> {
        let returned = self.returned.values().flat_map(|(_, held)| held);
        returned.chain(self.adrift.values().flatten()).copied()
    }

    /// Notes that the connection to a peer broke. Messages that wait to be sent over it are dropped, since the
    /// peer lost what came before them; later answers use a new connection, also those to a call that the peer has
    /// repeated.
    pub(crate) fn broken(&mut self, peer: WorkerId) {
        self.gate.retain(|(_, to, _)| to.worker_id != peer);
        let of_peer = self.returned.extract_if(|_, (caller, _)| *caller == peer);
        let held: Vec<ObjectId> = of_peer.flat_map(|(_, (_, held))| held).collect();
        if !held.is_empty() {
            self.adrift.entry(peer).or_default().extend(held);
        }
    }

    /// Voids the announcements that the peer has not confirmed, since all that is borrowed of it will be announced
    /// anew; returns the first of their numbers.
    pub(crate) fn begin_anew(&mut self, peer: WorkerId) -> Option<u64> {
        let of_peer = self.unconfirmed.extract_if(.., |_, (owner, _)| *owner == peer);
        let first = of_peer.map(|(number, _)| number).min();
        self.waits_for.remove(&peer);
        first
    }

    /// Notes that all borrows were announced again: messages that waited for the void announcements wait for the
    /// new ones.
    pub(crate) fn announced_anew(&mut self, void_since: Option<u64>, ctx: &mut Context) {
        let Some(first) = void_since else { return };
        for (until, _, _) in &mut self.gate {
            // What they waited for is void; the new announcements stand for the same borrows.
            if *until >= first {
                *until = self.next;
            }
        }
        self.open(ctx);
    }

    /// A peer is gone: it will confirm nothing and needs nothing.
    pub(crate) fn gone(&mut self, peer: WorkerId, ctx: &mut Context) {
        self.unconfirmed.retain(|_, (owner, _)| *owner != peer);
        self.waits_for.remove(&peer);
        self.gate.retain(|(_, to, _)| to.worker_id != peer);
        self.open(ctx);
    }

    /// Returns the announcements that an owner has not confirmed.
    pub(crate) fn unconfirmed_by(&self, peer: WorkerId) -> Vec<(u64, ObjectId)> {
        let of_peer = self.unconfirmed.iter().filter(|(_, (owner, _))| *owner == peer);
        of_peer.map(|(number, (_, object))| (*number, *object)).collect()
    }

    fn blocks(&self, until: u64, receiver: WorkerId) -> bool {
        let own = usize::from(self.waits_for.contains_key(&receiver));
        // What is announced to the receiver itself goes before the frame on the same connection.
        if self.waits_for.len() == own {
            return false;
        }
        self.unconfirmed.range(..=until).any(|(_, (owner, _))| *owner != receiver)
    }

    fn open(&mut self, ctx: &mut Context) {
        let mut kept: VecDeque<(u64, Arc<WorkerAddress>, Frame<'static>)> = VecDeque::new();
        for (until, to, frame) in std::mem::take(&mut self.gate) {
            let behind = kept.iter().any(|(_, receiver, _)| receiver.worker_id == to.worker_id);
            if behind || self.blocks(until, to.worker_id) {
                kept.push_back((until, to, frame));
            } else {
                ctx.send(to, frame);
            }
        }
        self.gate = kept;
    }
}

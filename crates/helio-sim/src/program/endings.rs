//! Scenes of what ends under those who use it: owners of copies, objects on nodes that leave, groups without a place.

use helio_proto::group::GroupStrategy;

use super::Author;
use crate::ops::{Env, GroupBundle, GroupOp, Job, Op, ROOM, Slot, Target};
use crate::plan::WAIT_US_MAX;

/// More of a resource than any node has, also where nodes have slots for all actors.
pub(super) const TOO_MUCH: u32 = 1_000;

/// Number of looks of a program whether a node hands over its objects.
const HAND_OVER_LOOKS: u32 = 2_000;

impl Author<'_> {
    /// Objects that workers have put are read on other nodes, while the workers are killed.
    pub(super) fn keepers(&mut self) {
        let mut kept = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let outer = self.call(Job::Wrap, -1, Target::Spread);
            let (outer, inner) = (self.submit_op(outer), self.slot());
            self.ops.push(Op::Take { from: outer, to: inner });
            self.drop_all(&[outer]);
            kept.push(inner);
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let mut call = self.call(Job::Read, 3, Target::Spread);
            call.inner = kept.iter().copied().filter(|_| self.rng.one_in(2)).collect();
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.wait(1_500_000);
        self.drop_all(&kept);
    }

    /// Large objects lie everywhere, and are let go of one after the other.
    pub(super) fn freed(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(8, 20) {
            let mut call = self.call(Job::Big, -1, Target::Spread);
            call.cpu = 50;
            made.push(self.submit_op(call));
        }
        let (slots, count) = (made.clone(), made.len());
        self.ops.push(Op::Await { slots, count, fetch: false, for_us: WAIT_US_MAX });
        self.ops.push(Op::AwaitHandOver { looks: HAND_OVER_LOOKS });
        for slot in made {
            if self.rng.one_in(2) {
                self.wait(2_000);
            }
            self.drop_all(&[slot]);
        }
    }

    /// Generators on all nodes are read to their ends.
    pub(super) fn streams(&mut self) {
        let mut streams = Vec::new();
        for _ in 0..self.rng.range(2, 5) {
            let retries = *self.rng.pick(&[0, 3, -1]).unwrap_or(&3);
            let mut call = self.call(Job::Stream, retries, Target::Spread);
            call.count = self.rng.range(2, 8) as u32;
            (call.cpu, call.backpressure) = (50, *self.rng.pick(&[0, 0, 2]).unwrap_or(&0));
            let count = call.count;
            streams.push((self.submit_op(call), count));
        }
        for (stream, count) in streams {
            let mut items = Vec::new();
            // One more: there is the end, or the error with which it ended.
            for _ in 0..=count {
                let to = self.slot();
                self.ops.push(Op::Next { stream, to });
                items.push(to);
                self.read(&[to]);
            }
            self.ops.push(Op::DropStream(stream));
            self.drop_all(&items);
        }
    }

    /// Actors of an environment of their own have work while their processes die.
    pub(super) fn outfits(&mut self) {
        let actor = self.new_actor(-1, None);
        if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
            actor_op.needs.env = Env::Own;
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.range(4, 12) {
            let mut call = self.call(Job::Slow, -1, Target::Anywhere);
            call.actor = Some(actor);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[actor]);
    }

    /// Results that workers own are waited for, or read, while they are made.
    pub(super) fn lent(&mut self) {
        let mut inner = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let mut call = self.call(Job::Spawn, 3, Target::Spread);
            call.cpu = 50;
            let (outer, to) = (self.submit_op(call), self.slot());
            self.ops.push(Op::Take { from: outer, to });
            self.drop_all(&[outer]);
            inner.push(to);
        }
        if self.rng.one_in(2) {
            let (slots, count) = (inner.clone(), inner.len());
            let fetch = self.rng.one_in(2);
            self.ops.push(Op::Await { slots, count, fetch, for_us: WAIT_US_MAX });
        }
        self.read(&inner);
        self.drop_all(&inner);
    }

    /// A value elsewhere is waited for, and read a while later, on a node whose memory is taken.
    pub(super) fn refused(&mut self) {
        let large = |author: &mut Self, count: u64, target: Target| -> Vec<Slot> {
            let mut made = Vec::new();
            for _ in 0..count {
                let mut call = author.call(Job::Big, -1, target);
                call.cpu = 50;
                made.push(author.submit_op(call));
            }
            let (slots, count) = (made.clone(), made.len());
            author.ops.push(Op::Await { slots, count, fetch: false, for_us: WAIT_US_MAX });
            made
        };
        let n_far = self.rng.range(3, 8);
        let far = large(self, n_far, Target::Spread);
        let n_here = self.rng.range(24, 36);
        let here = large(self, n_here, Target::RatherHere);
        for _ in 0..self.rng.range(2, 4) {
            let for_us = *self.rng.pick(&[100_000, 3_000_000]).unwrap_or(&100_000);
            let (slots, count) = (far.clone(), far.len());
            self.ops.push(Op::Await { slots, count, fetch: true, for_us });
            self.wait(200_000);
            self.read(&far);
        }
        self.drop_all(&far);
        self.drop_all(&here);
    }

    /// A placement group that no node can hold is removed while calls and an actor wait for it, and some come late.
    pub(super) fn unplaced(&mut self) {
        let (to, ready) = (self.slot(), self.slot());
        let (resource, strategy) = (ROOM, GroupStrategy::Pack);
        let bundles = vec![TOO_MUCH];
        let group_op = GroupOp { to, ready, resource, bundles, gpu: 0, strategy, detached: false };
        self.ops.push(Op::Group(Box::new(group_op)));
        let mut made = self.calls_in(to);
        if self.rng.one_in(3) {
            let actor = self.new_actor(0, None);
            if let Some(Op::Actor(group_op)) = self.ops.last_mut() {
                group_op.place = Some(GroupBundle { slot: to, bundle: -1, resource });
            }
            let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
            call.actor = Some(actor);
            made.push(self.submit_op(call));
            self.drop_all(&[actor]);
        }
        self.wait(2_000_000);
        self.ops.push(Op::RemoveGroup(to));
        if self.rng.one_in(2) {
            made.extend(self.calls_in(to));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[ready]);
    }

    /// Calls that are to run in that group.
    fn calls_in(&mut self, slot: Slot) -> Vec<Slot> {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
            call.cpu = 50;
            call.place = Some(GroupBundle { slot, bundle: -1, resource: ROOM });
            made.push(self.submit_op(call));
        }
        made
    }
}

//! Scenes of what is promised beside the result of a call: demand for nodes, namespaces, how far a cancellation goes, the
//! bundles that a lost node leaves, and calls that wait for nobody else's arguments.

use helio_proto::group::GroupStrategy;

use super::Author;
use super::endings::TOO_MUCH;
use crate::ops::{GroupBundle, GroupOp, Job, Op, ROOM, Slot, Target};
use crate::plan::WAIT_US_MAX;

/// Microseconds after which all that waits is known to be demand.
const DEMAND_AFTER_US: u64 = 4_000_000;

impl Author<'_> {
    /// A placement group, an actor and a task that no node can hold wait, and are demand.
    pub(super) fn demand(&mut self) {
        let (to, ready) = (self.slot(), self.slot());
        let (bundles, strategy) = (vec![TOO_MUCH], GroupStrategy::StrictPack);
        let resource = ROOM;
        let group_op = GroupOp { to, ready, resource, bundles, gpu: 0, strategy, detached: false };
        self.ops.push(Op::Group(Box::new(group_op)));
        let actor = self.new_actor(0, None);
        if let Some(Op::Actor(group_op)) = self.ops.last_mut() {
            group_op.slots = f64::from(TOO_MUCH);
        }
        let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
        call.cpu = 100 * TOO_MUCH;
        let made = self.submit_op(call);
        self.ops.push(Op::Sleep(DEMAND_AFTER_US));
        let all = [ROOM, "slot", "CPU"];
        self.ops.push(Op::Demand(all.map(|resource| (resource, TOO_MUCH)).to_vec()));
        self.ops.push(Op::Cancel { slot: made, force: false, recursive: true });
        self.ops.push(Op::KillActor { slot: actor, no_restart: true });
        self.ops.push(Op::RemoveGroup(to));
        self.read(&[made]);
        self.drop_all(&[made, actor, ready]);
    }

    /// All drivers ask for actors of the same names, each in one namespace or another.
    pub(super) fn spaces(&mut self) {
        let space = *self.rng.pick(&["", "other/"]).unwrap_or(&"");
        let name = format!("{space}shared-{}", self.rng.below(2));
        self.shared_name(name);
    }

    /// Calls that make others are cancelled alone, or by force.
    pub(super) fn softly(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 5) {
            let job = *self.rng.pick(&[Job::Slow, Job::Nest, Job::Nest]).unwrap_or(&Job::Nest);
            let mut call = self.call(job, 3, Target::Anywhere);
            (call.count, call.cpu) = (self.rng.range(2, 8) as u32, 50);
            made.push(self.submit_op(call));
        }
        self.wait(60_000);
        for slot in made.clone() {
            if self.rng.one_in(2) {
                let force = self.rng.one_in(3);
                self.ops.push(Op::Cancel { slot, force, recursive: force });
            }
        }
        self.read(&made);
        self.drop_all(&made);
    }

    /// Calls run in every bundle of a placement group, some of whose nodes die.
    pub(super) fn resettled(&mut self) {
        let (to, ready) = (self.slot(), self.slot());
        let bundles = vec![1; self.rng.range(2, 4) as usize];
        let n_bundles = bundles.len() as i64;
        let (resource, strategy) = (ROOM, GroupStrategy::Spread);
        let group_op = GroupOp { to, ready, resource, bundles, gpu: 0, strategy, detached: false };
        self.ops.push(Op::Group(Box::new(group_op)));
        self.read(&[ready]);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            for bundle in 0..n_bundles {
                let mut call = self.call(Job::Slow, -1, Target::Anywhere);
                call.cpu = 50;
                call.place = Some(GroupBundle { slot: to, bundle, resource });
                made.push(self.submit_op(call));
            }
            self.wait(400_000);
        }
        self.read(&made);
        self.ops.push(Op::RemoveGroup(to));
        self.drop_all(&made);
        self.drop_all(&[ready]);
    }

    /// Calls of actors have large arguments from other nodes, or none, in turn.
    pub(super) fn aside(&mut self) {
        let mut large: Vec<Slot> = Vec::new();
        for _ in 0..self.rng.range(2, 5) {
            let call = self.call(Job::Big, 3, Target::Spread);
            large.push(self.submit_op(call));
        }
        let (slots, count) = (large.clone(), large.len());
        self.ops.push(Op::Await { slots, count, fetch: false, for_us: WAIT_US_MAX });
        let actors: Vec<Slot> =
            (0..self.rng.range(1, 4)).map(|_| self.new_actor(0, None)).collect();
        let mut made = Vec::new();
        for _ in 0..self.rng.range(6, 16) {
            let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
            call.actor = self.rng.pick(&actors).copied();
            if self.rng.one_in(2) {
                call.deps = self.rng.pick(&large).copied().into_iter().collect();
            }
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&large);
        self.drop_all(&actors);
    }
}

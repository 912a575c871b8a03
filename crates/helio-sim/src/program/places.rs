//! Scenes of where tasks and actors go: scheduling strategies, and GPUs in placement groups.

use crate::ops::{GroupBundle, GroupOp, Job, Op, ROOM, Slot, Target};
use helio_proto::group::GroupStrategy;

use super::Author;

/// The time by which every node knows of the others, or every call has begun, in microseconds.
const APART_AFTER_US: u64 = 4_000_000;

impl Author<'_> {
    /// A placement group whose bundles have a GPU, or a part of one, and tasks that share it.
    pub(super) fn devices_in_bundles(&mut self) {
        let (to, ready) = (self.slot(), self.slot());
        let gpu = *self.rng.pick(&[50, 100]).unwrap_or(&100);
        let bundles = vec![1; if gpu == 50 { self.rng.range(1, 2) as usize } else { 1 }];
        let n_bundles = bundles.len() as u64;
        let strategy = GroupStrategy::Pack;
        let (resource, detached) = (ROOM, false);
        let group_op = GroupOp { to, ready, resource, bundles, gpu, strategy, detached };
        self.ops.push(Op::Group(Box::new(group_op)));
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let bundle = if self.rng.one_in(2) { -1 } else { self.rng.below(n_bundles) as i64 };
            let job = *self.rng.pick(&[Job::Slow, Job::Leaf]).unwrap_or(&Job::Slow);
            let mut call = self.call(job, 3, Target::Anywhere);
            call.place = Some(GroupBundle { slot: to, bundle, resource });
            (call.cpu, call.needs.gpu) =
                (20, (*self.rng.pick(&[20, 25, 50, 100]).unwrap_or(&50)).min(gpu));
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.ops.push(Op::RemoveGroup(to));
        self.drop_all(&[made, vec![ready]].concat());
    }

    /// Writes as many calls as there are nodes, each of which goes on until it is read: one on each
    /// node.
    pub(super) fn apart(&mut self) {
        self.ops.push(Op::Sleep(APART_AFTER_US));
        let streams: Vec<Slot> = (0..self.plan.cpus.len())
            .map(|_| {
                let mut call = self.call(Job::Stream, 0, Target::Spread);
                (call.count, call.backpressure) = (6, 2);
                self.submit_op(call)
            })
            .collect();
        self.ops.push(Op::Sleep(APART_AFTER_US));
        for stream in streams {
            self.read_stream(stream);
            self.ops.push(Op::DropStream(stream));
        }
    }

    /// Returns the targets that tasks and actors may have in this run: with nodes that die, only
    /// those where some node is left.
    fn strategies(&self) -> &'static [Target] {
        use Target::{
            AnyZone, Anywhere, Here, NoZoneOrHeads, OtherZone, OtherZoneOrHeads, RatherHere,
            RatherThere, Spread, There, Zone,
        };
        match self.plan.may_lose_nodes() {
            true => &[There, RatherThere, Zone, AnyZone, NoZoneOrHeads, OtherZoneOrHeads, Spread],
            false => &[
                Anywhere,
                Spread,
                Zone,
                Here,
                RatherHere,
                There,
                RatherThere,
                OtherZone,
                AnyZone,
                NoZoneOrHeads,
                OtherZoneOrHeads,
            ],
        }
    }

    /// The first task of all rather goes to one zone, and the first actors apart, while every node has room.
    pub(super) fn placed_first(&mut self) {
        self.ops.push(Op::Sleep(APART_AFTER_US));
        let call = self.call(Job::Leaf, 0, Target::OtherZoneOrHeads);
        let first = self.submit_op(call);
        self.read(&[first]);
        let actors: Vec<Slot> = (0..self.plan.cpus.len())
            .map(|_| {
                let actor = self.new_actor(0, None);
                if let Some(Op::Actor(group_op)) = self.ops.last_mut() {
                    group_op.target = Target::Spread;
                }
                actor
            })
            .collect();
        let mut made = Vec::new();
        for actor in &actors {
            let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
            call.actor = Some(*actor);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&[made, actors, vec![first]].concat());
    }

    /// Tasks and actors of all strategies, also as calls in calls.
    pub(super) fn placed(&mut self) {
        let targets = self.strategies();
        let (mut made, mut actors) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.range(2, 8) {
            let target = *self.rng.pick(targets).unwrap_or(&Target::Anywhere);
            if self.rng.one_in(3) {
                let restarts = *self.rng.pick(&[0, 1, -1]).unwrap_or(&0);
                let actor = self.new_actor(restarts, None);
                if let Some(Op::Actor(group_op)) = self.ops.last_mut() {
                    group_op.target = target;
                }
                for _ in 0..self.rng.range(1, 4) {
                    let mut call = self.call(Job::Slow, 0, Target::Anywhere);
                    call.actor = Some(actor);
                    made.push(self.submit_op(call));
                }
                actors.push(actor);
                continue;
            }
            let job = *self.rng.pick(&[Job::Leaf, Job::Slow, Job::Big]).unwrap_or(&Job::Leaf);
            let mut call = self.call(job, 3, target);
            call.cpu = 50;
            made.push(self.submit_op(call));
            if self.rng.one_in(3) {
                self.wait(100_000);
            }
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&actors);
    }
}

//! The programs of each [`Scene`]: short plays that end with everything let go of.

use helio_proto::group::GroupStrategy;

use super::Author;
use crate::ops::{ActorOp, CallOp, Env, GroupBundle, GroupOp, Job, Needs, Op, ROOM, Slot, Target};
use crate::plan::{Scene, WAIT_US_MAX};

impl Author<'_> {
    pub(super) fn scene(&mut self, scene: Scene) {
        match scene {
            Scene::Relay => self.relay(),
            Scene::Items => self.items(),
            Scene::Leaving => self.leaving(),
            Scene::Moving | Scene::Unheard => self.moving(),
            Scene::LostOrders => self.lost_orders(),
            Scene::Orphans => self.orphans(),
            Scene::Table => self.table(),
            Scene::Names => self.shared_names(),
            Scene::Deadlines => self.deadlines(),
            Scene::BadDisks => self.bad_disks(),
            Scene::HeadDisk => self.head_disk(),
            Scene::Devices => self.devices(),
            Scene::Environments => self.environments(),
            Scene::PushBack => self.much_to_say(),
            Scene::Clocks => match self.rng.below(3) {
                0 => self.moving(),
                1 => self.table_and_jobs(),
                _ => self.deadlines(),
            },
            Scene::Ahead => self.ahead(),
            Scene::DamagedDisks => self.bad_disks(),
            Scene::Grace => match self.rng.below(2) {
                0 => self.leaving(),
                _ => self.relay_from_everywhere(),
            },
            Scene::Readers => self.readers(),
            Scene::Cancels => self.cancels(),
            Scene::Handles => self.handles(),
            Scene::Borrowed => self.borrowed(),
            Scene::Squeezed => self.squeezed(),
            Scene::Removals => self.removals(),
            Scene::Makers => self.makers(),
            Scene::Chains => self.chains(),
            Scene::Unreached => self.unreached(),
            Scene::Placed => self.placed(),
            Scene::Staying => match self.rng.below(3) {
                0 => self.moving(),
                1 => self.leaving(),
                _ => self.placed(),
            },
            Scene::Keepers => self.keepers(),
            Scene::Freed => self.freed(),
            Scene::Unplaced => self.unplaced(),
            Scene::Demand => self.demand(),
            Scene::Spaces => self.spaces(),
            Scene::Softly => self.softly(),
            Scene::Resettled => self.resettled(),
            Scene::Aside => self.aside(),
            Scene::Streams => self.streams(),
            Scene::Outfits => self.outfits(),
            Scene::Relabelled => self.placed(),
            Scene::Lent => self.lent(),
            Scene::Refused => self.refused(),
            // Its play is the first thing that happens.
            Scene::Apart => self.relay_from_everywhere(),
        }
    }

    /// A task of that kind; its first result goes where the call says.
    pub(crate) fn call(&mut self, job: Job, retries: i32, target: Target) -> CallOp {
        CallOp {
            job,
            salt: self.rng.draw(),
            deps: Vec::new(),
            inner: Vec::new(),
            count: self.rng.range(2, 5) as u32,
            depth: 1,
            retries,
            is_stored: false,
            actor: None,
            cpu: 100,
            backpressure: 0,
            to: vec![self.slot()],
            place: None,
            target,
            needs: Needs::default(),
        }
    }

    pub(crate) fn submit_op(&mut self, call_op: CallOp) -> Slot {
        let to = call_op.to.first().copied().unwrap_or_default();
        self.ops.push(Op::Submit(Box::new(call_op)));
        to
    }

    pub(crate) fn read(&mut self, slots: &[Slot]) {
        for some in slots.chunks(super::READ_MAX) {
            self.ops.push(Op::Get { slots: some.to_vec(), open: false });
        }
    }

    pub(crate) fn wait(&mut self, us_max: u64) {
        self.ops.push(Op::Sleep(self.rng.range(us_max / 4, us_max)));
    }

    pub(crate) fn drop_all(&mut self, slots: &[Slot]) {
        self.ops.extend(slots.iter().map(|slot| Op::Drop(*slot)));
    }

    pub(crate) fn new_actor(&mut self, max_restarts: i64, name: Option<String>) -> Slot {
        let to = self.slot();
        let actor_op = ActorOp { name: name.clone(), ..ActorOp::plain(self.rng, max_restarts, to) };
        self.ops.push(Op::Actor(Box::new(actor_op)));
        self.names.extend(name);
        to
    }

    /// A worker's own object goes from it to an actor, by way of this driver, which lets go of it at once.
    fn relay(&mut self) {
        let actor = self.new_actor(0, None);
        for _ in 0..self.rng.range(2, 6) {
            let outer = self.call(Job::Wrap, 0, Target::Anywhere);
            let (outer, inner) = (self.submit_op(outer), self.slot());
            self.ops.push(Op::Take { from: outer, to: inner });
            let mut keep = self.call(Job::Keep, 0, Target::Anywhere);
            (keep.actor, keep.inner) = (Some(actor), vec![inner]);
            let kept = self.submit_op(keep);
            if self.rng.one_in(2) {
                self.drop_all(&[outer]);
            }
            self.read(&[kept]);
            self.drop_all(&[inner, outer, kept]);
            if self.rng.one_in(2) {
                self.wait(2_000);
            }
            let mut look = self.call(Job::Look, 0, Target::Anywhere);
            look.actor = Some(actor);
            let seen = self.submit_op(look);
            let mut forget = self.call(Job::Forget, 0, Target::Anywhere);
            forget.actor = Some(actor);
            let forgotten = self.submit_op(forget);
            self.read(&[seen, forgotten]);
            self.drop_all(&[seen, forgotten]);
        }
        self.drop_all(&[actor]);
    }

    /// Workers everywhere keep what they have put for a driver that reads it late.
    fn relay_from_everywhere(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(3, 8) {
            let outer = self.call(Job::Wrap, 0, Target::Spread);
            let (outer, inner) = (self.submit_op(outer), self.slot());
            self.ops.push(Op::Take { from: outer, to: inner });
            made.extend([outer, inner]);
        }
        self.wait(1_500_000);
        self.read(&made);
        self.drop_all(&made);
    }

    /// A generator waits for its reader; calls that took its items lie where nodes die.
    fn items(&mut self) {
        let mut generator = self.call(Job::Stream, 0, Target::RatherHere);
        (generator.count, generator.backpressure) = (6, 2);
        let stream = self.submit_op(generator);
        let item = self.slot();
        self.ops.push(Op::Next { stream, to: item });
        self.read(&[item]);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let mut call = self.call(Job::Big, 3, Target::Spread);
            call.deps = vec![item];
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.wait(1_200_000);
        self.read(&made);
        self.read(&[item]);
        self.read_stream(stream);
        self.ops.push(Op::DropStream(stream));
        self.drop_all(&made);
        self.drop_all(&[item]);
    }

    /// Large objects are made everywhere, and read when a node has left.
    fn leaving(&mut self) {
        let retries = *self.rng.pick(&[0, 0, -1]).unwrap_or(&0);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(4, 14) {
            let call = self.call(Job::Big, retries, Target::Spread);
            made.push(self.submit_op(call));
        }
        if self.rng.one_in(2) {
            self.read(&made);
        }
        self.wait(3_000_000);
        self.read(&made);
        self.drop_all(&made);
    }

    /// Actors that may be restarted, and have work all the time.
    fn moving(&mut self) {
        let max_restarts = *self.rng.pick(&[1, -1]).unwrap_or(&1);
        let is_named = self.rng.one_in(3);
        let name = is_named.then(|| format!("actor-{}-{}", self.driver, self.next + 1));
        let actor = self.new_actor(if is_named { -1 } else { max_restarts }, name);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(4, 16) {
            let mut call = self.call(Job::Slow, -1, Target::Anywhere);
            call.actor = Some(actor);
            made.push(self.submit_op(call));
        }
        self.wait(300_000);
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[actor]);
    }

    /// Actors begin, work, and are ended for good.
    fn lost_orders(&mut self) {
        let restarts = *self.rng.pick(&[0, 1, -1]).unwrap_or(&0);
        let actor = self.new_actor(restarts, None);
        let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
        call.actor = Some(actor);
        let made = self.submit_op(call);
        if self.rng.one_in(2) {
            self.read(&[made]);
        }
        self.wait(50_000);
        if self.rng.one_in(2) {
            self.ops.push(Op::KillActor { slot: actor, no_restart: true });
        }
        self.drop_all(&[made, actor]);
        self.wait(200_000);
    }

    /// Calls make calls that wait for large arguments from other nodes.
    fn orphans(&mut self) {
        let mut large = Vec::new();
        for _ in 0..2 {
            let call = self.call(Job::Big, 3, Target::Spread);
            large.push(self.submit_op(call));
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            let mut call = self.call(Job::Nest, 3, Target::Anywhere);
            (call.inner, call.count) = (large.clone(), 6);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&large);
    }

    /// Keys of this driver's are written, overwritten or not, deleted, and listed.
    fn table(&mut self) {
        let prefix = 10 + self.driver as u8;
        for _ in 0..self.rng.range(3, 10) {
            let key = u64::from(prefix) + 256 * self.rng.below(4);
            let value = self.rng.draw();
            let op = match self.rng.below(6) {
                0 | 1 => Op::KvPut { key, value },
                2 => Op::KvPutNew { key, value },
                3 => Op::KvDel { key },
                _ => Op::KvList { prefix, is_whole: self.rng.one_in(2) },
            };
            self.ops.push(op);
            if self.rng.one_in(3) {
                self.wait(100_000);
            }
        }
        self.ops.push(Op::KvList { prefix, is_whole: true });
    }

    /// All drivers ask for actors of the same few names, use what they get, and now and then end it.
    fn shared_names(&mut self) {
        let name = format!("shared-{}", self.rng.below(2));
        self.shared_name(name);
    }

    /// Asks for the actor of a name, uses it, and now and then ends it.
    pub(super) fn shared_name(&mut self, name: String) {
        let actor = self.new_actor(-1, None);
        if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
            (actor_op.name, actor_op.get_if_exists) = (Some(name), true);
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let mut call = self.call(Job::Leaf, -1, Target::Anywhere);
            call.actor = Some(actor);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        if self.rng.one_in(3) {
            self.ops.push(Op::KillActor { slot: actor, no_restart: true });
            if self.rng.one_in(2) {
                self.wait(50_000);
            }
        }
        self.drop_all(&made);
        self.drop_all(&[actor]);
    }

    /// Values that take their time are waited for, and reads are given up.
    fn deadlines(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let job =
                *self.rng.pick(&[Job::Slow, Job::Big, Job::Big, Job::Nest]).unwrap_or(&Job::Big);
            let target =
                *self.rng.pick(&[Target::Spread, Target::Anywhere]).unwrap_or(&Target::Spread);
            let call = self.call(job, 3, target);
            made.push(self.submit_op(call));
        }
        for _ in 0..self.rng.range(1, 4) {
            let some: Vec<Slot> = made.iter().copied().filter(|_| self.rng.one_in(2)).collect();
            let for_us = *self.rng.pick(&[0, 500, 20_000, 400_000]).unwrap_or(&0);
            let (count, fetch) = (self.rng.range(1, 3) as usize, self.rng.one_in(2));
            self.ops.push(if self.rng.one_in(2) {
                Op::Await { slots: some, count, fetch, for_us }
            } else {
                Op::TryGet { slots: some, for_us }
            });
        }
        if self.rng.one_in(2) {
            self.read(&made);
        }
        self.drop_all(&made);
    }

    /// More large objects than there is memory for are made and read, and made again where a disk lost them.
    fn bad_disks(&mut self) {
        let retries = *self.rng.pick(&[0, 3, -1]).unwrap_or(&3);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(6, 20) {
            if self.rng.one_in(4) {
                self.put();
                made.extend(self.refs.pop());
                continue;
            }
            let call = self.call(Job::Big, retries, Target::Spread);
            made.push(self.submit_op(call));
        }
        self.wait(300_000);
        self.read(&made);
        for _ in 0..2 {
            let mut call = self.call(Job::Leaf, 3, Target::Spread);
            call.deps = made.iter().copied().filter(|_| self.rng.one_in(4)).take(3).collect();
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
    }

    /// Actors begin, work and end, and keys are written.
    fn head_disk(&mut self) {
        let key = u64::from(10 + self.driver as u8) + 256 * self.rng.below(4);
        self.ops.push(Op::KvPut { key, value: self.rng.draw() });
        self.lost_orders();
        self.ops.push(match self.rng.below(3) {
            0 => Op::KvDel { key },
            _ => Op::KvGet { key },
        });
    }

    /// Keys, and the list of jobs.
    fn table_and_jobs(&mut self) {
        self.table();
        self.ops.push(Op::ListJobs);
    }

    /// Returns a need of GPUs: a part of one, one, or several.
    fn gpus(&mut self) -> Needs {
        let most = 100 * self.plan.gpus;
        let amount = *self.rng.pick(&[25, 30, 50, 100, 200, 400]).unwrap_or(&100);
        Needs { gpu: amount.min(most), ..Needs::default() }
    }

    /// Tasks with GPUs, then an actor with some of them.
    fn devices(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 8) {
            let job = *self.rng.pick(&[Job::Slow, Job::Leaf, Job::Big]).unwrap_or(&Job::Slow);
            let mut call = self.call(job, 3, Target::Anywhere);
            (call.cpu, call.needs) = (50, self.gpus());
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        let restarts = self.rng.below(2) as i64;
        let actor = self.new_actor(restarts, None);
        let needs = self.gpus();
        if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
            actor_op.needs = needs;
        }
        let mut calls = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let mut call = self.call(Job::Slow, 0, Target::Anywhere);
            call.actor = Some(actor);
            calls.push(self.submit_op(call));
        }
        self.read(&calls);
        self.drop_all(&calls);
        self.drop_all(&[actor]);
        if self.plan.edition > 7 {
            self.devices_in_bundles();
        }
    }

    /// Tasks and actors of several runtime environments, one after the other and side by side.
    fn environments(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 8) {
            let job = *self.rng.pick(&[Job::Slow, Job::Leaf, Job::Nest]).unwrap_or(&Job::Leaf);
            let env =
                *self.rng.pick(&[Env::Job, Env::Own, Env::Own, Env::Broken]).unwrap_or(&Env::Own);
            if self.rng.one_in(4) {
                let actor = self.new_actor(1, None);
                if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
                    actor_op.needs.env = env;
                }
                let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
                call.actor = Some(actor);
                made.push(self.submit_op(call));
                self.drop_all(&[actor]);
                continue;
            }
            let mut call = self.call(job, 3, Target::Anywhere);
            call.needs.env = env;
            made.push(self.submit_op(call));
            if self.rng.one_in(3) {
                self.wait(200_000);
            }
        }
        self.read(&made);
        self.drop_all(&made);
    }

    /// Many calls and values at once, between machines and to actors.
    fn much_to_say(&mut self) {
        let actor = self.new_actor(-1, None);
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 5) {
            for _ in 0..self.rng.range(2, 8) {
                let job = *self
                    .rng
                    .pick(&[Job::Leaf, Job::Leaf, Job::Wrap, Job::Nest])
                    .unwrap_or(&Job::Leaf);
                let retries = *self.rng.pick(&[0, 3]).unwrap_or(&3);
                let mut call = self.call(job, retries, Target::Spread);
                (call.cpu, call.deps) = (50, made.last().copied().into_iter().collect());
                if self.rng.one_in(2) {
                    (call.job, call.actor, call.target) =
                        (Job::Leaf, Some(actor), Target::Anywhere);
                }
                made.push(self.submit_op(call));
            }
            if self.rng.one_in(2) {
                self.wait(100_000);
            }
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[actor]);
    }

    /// An actor of coroutines, one of which waits for its reader while others come and go; and an actor to which only so
    /// many calls may be under way.
    fn ahead(&mut self) {
        let actor = self.new_actor(0, None);
        if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
            (actor_op.is_async, actor_op.concurrency) = (true, 3);
        }
        let mut generator = self.call(Job::Stream, 0, Target::Anywhere);
        (generator.actor, generator.count, generator.backpressure) = (Some(actor), 6, 2);
        let stream = self.submit_op(generator);
        let mut beside = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
            call.actor = Some(actor);
            beside.push(self.submit_op(call));
        }
        // The calls end although the generator waits.
        self.read(&beside);
        self.read_stream(stream);
        self.ops.push(Op::DropStream(stream));
        self.drop_all(&beside);
        self.drop_all(&[actor]);

        let restarts = self.rng.below(2) as i64;
        let bounded = self.new_actor(restarts, None);
        let pending_max = self.rng.range(1, 4) as u32;
        let mut made = Vec::new();
        for _ in 0..self.rng.range(3, 10) {
            let job = *self.rng.pick(&[Job::Slow, Job::Leaf]).unwrap_or(&Job::Leaf);
            let mut call = self.call(job, 0, Target::Anywhere);
            (call.actor, call.needs.pending_max) = (Some(bounded), pending_max);
            made.push(self.submit_op(call));
            if self.rng.one_in(3) {
                self.wait(60_000);
            }
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[bounded]);
    }

    /// Large objects are read on other nodes than their own: as arguments, inside arguments, and by calls in calls.
    fn readers(&mut self) {
        let mut large = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let call = self.call(Job::Big, 3, Target::Spread);
            large.push(self.submit_op(call));
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.range(2, 6) {
            let job =
                *self.rng.pick(&[Job::Read, Job::Read, Job::Nest, Job::Leaf]).unwrap_or(&Job::Read);
            let mut call = self.call(job, 3, Target::Spread);
            match job {
                Job::Leaf => call.deps = large.clone(),
                _ => call.inner = large.clone(),
            }
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&large);
    }

    /// More calls than there are CPUs for, some of which make others, are cancelled at some time.
    fn cancels(&mut self) {
        let mut made = Vec::new();
        let late = self.call(Job::Slow, 3, Target::Anywhere);
        let late = self.submit_op(late);
        for _ in 0..self.rng.range(3, 12) {
            let job = *self
                .rng
                .pick(&[Job::Slow, Job::Nest, Job::Nest, Job::Spawn])
                .unwrap_or(&Job::Slow);
            let mut call = self.call(job, 3, Target::Anywhere);
            call.count = self.rng.range(2, 12) as u32;
            if self.rng.one_in(3) {
                call.deps = vec![late];
            }
            made.push(self.submit_op(call));
        }
        for slot in made.clone() {
            if self.rng.one_in(3) {
                self.wait(40_000);
            }
            if self.rng.one_in(2) {
                let force = self.rng.one_in(5);
                self.ops.push(Op::Cancel { slot, force, recursive: true });
            }
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&[late]);
    }

    /// Writes calls of an actor by a handle that was handed on, which may be before the actor is made: it waits for an
    /// argument. More actors are made than there are slots for.
    fn handles(&mut self) {
        let late = self.call(Job::Slow, 3, Target::Anywhere);
        let late = self.submit_op(late);
        let (mut actors, mut made) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.range(1, 6) {
            let restarts = *self.rng.pick(&[0, -1]).unwrap_or(&0);
            let actor = self.new_actor(restarts, None);
            let waits = self.rng.one_in(2);
            if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
                actor_op.slots = 0.25;
                if waits {
                    actor_op.deps = vec![late];
                }
            }
            for _ in 0..self.rng.below(3) {
                let mut call = self.call(Job::Ask, 3, Target::Spread);
                (call.inner, call.cpu) = (vec![actor], 50);
                made.push(self.submit_op(call));
            }
            actors.push(actor);
            if self.rng.one_in(3) {
                let done = actors.remove(0);
                self.drop_all(&[done]);
            }
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&actors);
        self.drop_all(&[late]);
    }

    /// Values that tasks on other nodes have put are waited for, then read, while their nodes are cut off and die.
    fn borrowed(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(3, 8) {
            let outer = self.call(Job::Wrap, -1, Target::Spread);
            let (outer, inner) = (self.submit_op(outer), self.slot());
            self.ops.push(Op::Take { from: outer, to: inner });
            made.push(inner);
            self.drop_all(&[outer]);
            if self.rng.one_in(3) {
                self.wait(500_000);
            }
        }
        for some in made.chunks(super::READ_MAX) {
            let (slots, count) = (some.to_vec(), some.len());
            // Longer than any wait may take.
            self.ops.push(Op::Await { slots, count, fetch: true, for_us: 2 * WAIT_US_MAX });
        }
        self.read(&made);
        self.drop_all(&made);
    }
    /// Calls that are tried again without end, and others that are not, of which a worker runs one kind only.
    fn squeezed(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(4, 12) {
            let (retries, cpu) = *self.rng.pick(&[(0, 50), (-1, 100)]).unwrap_or(&(0, 50));
            let mut call = self.call(Job::Slow, retries, Target::Anywhere);
            call.cpu = cpu;
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
    }

    /// A placement group is removed under what runs in it, and the next one needs its room.
    fn removals(&mut self) {
        for _ in 0..self.rng.range(2, 4) {
            let (to, ready) = (self.slot(), self.slot());
            let bundles = self.rng.pick(&[vec![2], vec![1, 1]]).cloned().unwrap_or_default();
            let (resource, strategy) = (ROOM, GroupStrategy::StrictPack);
            let group_op =
                GroupOp { to, ready, resource, bundles, gpu: 0, strategy, detached: false };
            self.ops.push(Op::Group(Box::new(group_op)));
            self.read(&[ready]);
            let mut made = Vec::new();
            for _ in 0..self.rng.range(2, 6) {
                let mut call = self.call(Job::Slow, 0, Target::Anywhere);
                call.cpu = 50;
                call.place = Some(GroupBundle { slot: to, bundle: -1, resource });
                made.push(self.submit_op(call));
            }
            self.wait(60_000);
            self.ops.push(Op::RemoveGroup(to));
            self.drop_all(&[ready]);
            self.drop_all(&made);
        }
    }

    /// Calls make actors of their own.
    fn makers(&mut self) {
        let mut made = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let call = self.call(Job::Hire, 3, Target::Anywhere);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
    }

    /// Large results of calls that took large results are read when the nodes are gone where all of them lay.
    fn chains(&mut self) {
        let mut last = Vec::new();
        for _ in 0..self.rng.range(2, 5) {
            let mut before = None;
            for _ in 0..self.rng.range(2, 5) {
                let mut call = self.call(Job::Big, -1, Target::Anywhere);
                call.deps = before.into_iter().collect();
                let made = self.submit_op(call);
                // Only lineage refers to the value from here on.
                self.drop_all(&before.into_iter().collect::<Vec<Slot>>());
                before = Some(made);
            }
            last.extend(before);
        }
        let (slots, count) = (last.clone(), last.len());
        self.ops.push(Op::Await { slots, count, fetch: false, for_us: WAIT_US_MAX });
        self.wait(1_500_000);
        self.read(&last);
        self.drop_all(&last);
    }
    /// Actors are called for the first time, once each: the first call opens a connection.
    fn unreached(&mut self) {
        let actors: Vec<Slot> =
            (0..self.rng.range(1, 4)).map(|_| self.new_actor(0, None)).collect();
        self.wait(100_000);
        let mut made = Vec::new();
        for actor in &actors {
            for _ in 0..self.rng.range(1, 3) {
                let mut call = self.call(Job::Leaf, 0, Target::Anywhere);
                call.actor = Some(*actor);
                made.push(self.submit_op(call));
            }
        }
        for _ in 0..self.rng.below(3) {
            let call = self.call(Job::Leaf, 0, Target::Spread);
            made.push(self.submit_op(call));
        }
        self.read(&made);
        self.drop_all(&made);
        self.drop_all(&actors);
    }
}

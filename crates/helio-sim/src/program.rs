//! The simulated user code: operations, the script of each kind of call, and the programs of drivers.

mod endings;
mod places;
mod promises;
mod scenes;
mod script;

pub(crate) use script::script;

use helio_proto::group::GroupStrategy;
use helio_proto::peer::STREAMING;

use crate::ops::Job::{
    Big, Crash, Flaky, Forget, Give, Keep, Leaf, Look, Nest, Raise, Read, Slow, Spawn, Stream, Wrap,
};
use crate::ops::{
    AGAIN, ActorOp, CallOp, GroupBundle, GroupOp, Job, KEPT_MAX, Needs, OPENED, Op, ROOM, Slot,
    Target,
};
use crate::plan::{Plan, Scene};
use crate::rng::Rng;

/// Number of values that a driver reads at a time.
const READ_MAX: usize = 3;

/// Draws a driver's program.
pub(crate) struct Author<'a> {
    rng: &'a mut Rng,
    pub(crate) plan: &'a Plan,
    driver: usize,
    next: Slot,
    /// Slots that hold references, as far as one can know beforehand.
    refs: Vec<Slot>,
    actors: Vec<Slot>,
    streams: Vec<Slot>,
    names: Vec<String>,
    /// Groups that are left for others to remove.
    kept: u32,
    pub(crate) ops: Vec<Op>,
}

impl<'a> Author<'a> {
    fn begin(rng: &'a mut Rng, plan: &'a Plan, driver: usize) -> Self {
        Self {
            rng,
            plan,
            driver,
            next: 0,
            refs: Vec::new(),
            actors: Vec::new(),
            streams: Vec::new(),
            names: Vec::new(),
            kept: 0,
            ops: Vec::new(),
        }
    }

    /// The program of the first driver, written elsewhere; it lets go of everything.
    pub(crate) fn play(rng: &'a mut Rng, plan: &'a Plan, write: impl FnOnce(&mut Self)) -> Vec<Op> {
        let mut author = Self::begin(rng, plan, 0);
        write(&mut author);
        author.ops.push(Op::DropAll);
        author.ops
    }

    pub(crate) fn write(rng: &'a mut Rng, plan: &'a Plan, driver: usize) -> Vec<Op> {
        let mut author = Self::begin(rng, plan, driver);
        match plan.scene {
            Some(Scene::Apart) => author.apart(),
            Some(Scene::Placed) => author.placed_first(),
            _ => {}
        }
        for _ in 0..plan.n_ops {
            author.one();
            if plan.has_groups && author.rng.one_in(6) {
                author.group();
            }
            if let Some(scene) = plan.scene
                && author.rng.one_in(2)
            {
                author.scene(scene);
            }
        }
        author.finish()
    }

    /// Returns a number that makes a value differ from others.
    pub(crate) fn draw(&mut self) -> u64 {
        self.rng.draw()
    }

    pub(crate) fn slot(&mut self) -> Slot {
        self.next += 1;
        self.next
    }

    fn some(&mut self, from: &[Slot], max: u64) -> Vec<Slot> {
        let n = self.rng.below(max + 1);
        (0..n).filter_map(|_| self.rng.pick(from).copied()).collect()
    }

    fn one(&mut self) {
        match self.rng.below(20) {
            0..=5 => self.submit(None),
            6..=7 => self.put(),
            8..=9 => {
                let slots = self.some(&self.refs.clone(), READ_MAX as u64);
                self.ops.push(Op::Get { slots, open: self.rng.one_in(2) });
            }
            10..=11 => self.drop_one(),
            12..=13 => self.actor(),
            14..=16 => match self.rng.pick(&self.actors).copied() {
                Some(actor) => self.submit(Some(actor)),
                None => self.actor(),
            },
            17 => self.stream(),
            18 => self.rare(),
            _ => self.ops.push(Op::Sleep(self.rng.range(10, 300_000))),
        }
    }

    fn put(&mut self) {
        let inner = self.some(&self.refs.clone(), 2);
        let to = self.slot();
        self.ops.push(Op::Put { to, is_big: self.rng.one_in(2), salt: self.rng.draw(), inner });
        self.refs.push(to);
    }

    fn drop_one(&mut self) {
        if self.refs.is_empty() {
            return;
        }
        let place = self.rng.below(self.refs.len() as u64) as usize;
        let slot = self.refs.swap_remove(place);
        self.ops.push(Op::Drop(slot));
    }

    fn submit(&mut self, actor: Option<Slot>) {
        let jobs: &[Job] = match actor {
            None => &[Leaf, Leaf, Big, Big, Wrap, Nest, Nest, Spawn, Read, Flaky, Slow, Raise],
            Some(_) => &[Leaf, Leaf, Big, Keep, Keep, Look, Forget, Give, Nest, Read, Wrap, Slow],
        };
        let job = self.rng.pick(jobs).copied().unwrap_or(Leaf);
        let job =
            if actor.is_some() && self.plan.has_kills && self.rng.one_in(10) { Crash } else { job };
        let waits = actor.is_some() && matches!(job, Nest | Read | Look);
        let job = if waits && !self.plan.methods_wait { Slow } else { job };
        let n = if self.rng.one_in(5) { 2 } else { 1 };
        let repeat = if self.rng.one_in(4) { self.rng.range(2, 8) } else { 1 };
        for _ in 0..repeat {
            let refs = self.refs.clone();
            let mut inner = self.some(&refs, 2);
            if self.rng.one_in(5) {
                inner.extend(self.rng.pick(&self.actors.clone()).copied());
            }
            let to: Vec<Slot> = (0..n).map(|_| self.slot()).collect();
            let raises_again = job == Raise && self.plan.edition > 1;
            let call_op = CallOp {
                job,
                salt: self.rng.draw(),
                deps: self.some(&refs, 2),
                inner,
                count: if raises_again { AGAIN } else { self.rng.range(1, 4) as u32 },
                depth: 2,
                // Nothing ends a method that always ends its process and is always tried again.
                retries: if job == Crash {
                    0
                } else if raises_again {
                    *self.rng.pick(&[1, 3]).unwrap_or(&1)
                } else if job == Flaky {
                    // Without a retry it raises or not, as it happens: a call that is sent again because
                    // its worker died before it began is a later attempt.
                    1
                } else {
                    *self.rng.pick(&[0, 0, 1, 3, -1]).unwrap_or(&0)
                },
                is_stored: self.rng.one_in(10),
                actor,
                cpu: *self.rng.pick(&[100, 100, 100, 50, 0]).unwrap_or(&100),
                backpressure: 0,
                to: to.clone(),
                place: None,
                target: self.target(actor.is_none()),
                needs: Needs::default(),
            };
            self.ops.push(Op::Submit(Box::new(call_op)));
            self.refs.extend(to);
        }
    }

    fn target(&mut self, is_task: bool) -> Target {
        if self.plan.edition < 2 || !is_task || !self.rng.one_in(4) {
            return Target::Anywhere;
        }
        let all = [Target::Spread, Target::Zone, Target::Here, Target::RatherHere];
        self.rng.pick(&all).copied().unwrap_or_default()
    }

    fn actor(&mut self) {
        let to = self.slot();
        let is_named = self.rng.one_in(5);
        let name = is_named.then(|| format!("actor-{}-{to}", self.driver));
        let fails = name.is_none() && self.plan.has_kills && self.rng.one_in(8);
        let refs = self.refs.clone();
        let actor_op = ActorOp {
            salt: self.rng.draw(),
            fails,
            deps: self.some(&refs, 1),
            inner: self.some(&refs, 1),
            max_restarts: if is_named { -1 } else { *self.rng.pick(&[0, 0, 1, -1]).unwrap_or(&0) },
            concurrency: if self.rng.one_in(3) { 3 } else { 1 },
            slots: if self.rng.one_in(3) { 0.25 } else { 0.0 },
            name: name.clone(),
            get_if_exists: false,
            to,
            place: None,
            target: Target::Anywhere,
            is_async: false,
            needs: Needs::default(),
        };
        self.ops.push(Op::Actor(Box::new(actor_op)));
        self.names.extend(name);
        self.actors.push(to);
    }

    /// A group, work in it, and its end. One at a time, so that programs never wait for each other's
    /// bundles in a circle.
    fn group(&mut self) {
        // A group that nobody removes uses a resource of which there is enough for all.
        let keeps = self.kept < KEPT_MAX && self.rng.one_in(5);
        self.kept += u32::from(keeps);
        let (to, ready) = (self.slot(), self.slot());
        let resource = if keeps { "keep" } else { ROOM };
        let can_spread = self.plan.cpus.len() > 1 && !self.plan.may_lose_nodes() && !keeps;
        let strategy = match self.rng.below(4) {
            0 => GroupStrategy::Pack,
            1 => GroupStrategy::Spread,
            2 if can_spread => GroupStrategy::StrictSpread,
            _ => GroupStrategy::StrictPack,
        };
        let bundles = match strategy {
            _ if keeps => vec![1],
            GroupStrategy::StrictSpread => vec![1, 1],
            _ => self
                .rng
                .pick(&[vec![1], vec![2], vec![1, 1], vec![1, 2], vec![1, 1, 1]])
                .cloned()
                .unwrap_or_default(),
        };
        let n_bundles = bundles.len() as u64;
        let detached = keeps && self.rng.one_in(2);
        let group_op = GroupOp { to, ready, resource, bundles, gpu: 0, strategy, detached };
        self.ops.push(Op::Group(Box::new(group_op)));
        if self.rng.one_in(2) {
            self.ops.push(Op::Get { slots: vec![ready], open: false });
        }
        let mut made = Vec::new();
        for _ in 0..self.rng.below(5) {
            let bundle = if self.rng.one_in(2) { -1 } else { self.rng.below(n_bundles) as i64 };
            let place = Some(GroupBundle { slot: to, bundle, resource });
            let before = self.ops.len();
            if self.rng.one_in(4) {
                self.actor();
                if let Some(Op::Actor(actor_op)) = self.ops.last_mut() {
                    // Nobody but its creator knows it, and it ends with its group.
                    let name = actor_op.name.take();
                    actor_op.place = place;
                    self.names.retain(|other| Some(other) != name.as_ref());
                }
                let actor = self.actors.pop();
                self.submit(actor);
                continue;
            }
            self.submit(None);
            for op in &mut self.ops[before..] {
                if let Op::Submit(call_op) = op {
                    (call_op.place, call_op.target) = (place, Target::Anywhere);
                    // Four actors and a call fit any bundle: a call that waits for the end of an actor
                    // that lives as long as the program would be the program's fault.
                    call_op.cpu = if call_op.cpu == 0 { 0 } else { 50 };
                    // A call that waits for others lends a CPU, and nothing else: two that wait for a third would keep
                    // it out of their bundle.
                    if matches!(call_op.job, Nest | Spawn | Read) {
                        call_op.job = Slow;
                    }
                    made.extend(call_op.to.clone());
                }
            }
        }
        if self.rng.one_in(2) {
            // The values of one read have to fit into a small store, beside those that others read.
            let at_a_time = made.chunks(READ_MAX).map(<[Slot]>::to_vec);
            self.ops.extend(at_a_time.map(|slots| Op::Get { slots, open: false }));
        }
        if keeps {
            return;
        }
        if self.rng.one_in(3) {
            self.ops.push(Op::Sleep(self.rng.range(10, 100_000)));
        }
        self.ops.push(Op::RemoveGroup(to));
        if self.rng.one_in(2) {
            self.ops.push(Op::Drop(ready));
        }
    }

    fn stream(&mut self) {
        if let Some(stream) = self.rng.pick(&self.streams).copied()
            && self.rng.one_in(2)
        {
            return self.read_stream(stream);
        }
        let to = self.slot();
        let inner = self.some(&self.refs.clone(), 1);
        let actor = if self.rng.one_in(3) { self.rng.pick(&self.actors).copied() } else { None };
        let call_op = CallOp {
            job: Stream,
            salt: self.rng.draw(),
            deps: vec![],
            inner,
            count: self.rng.range(0, 6) as u32,
            depth: 0,
            retries: *self.rng.pick(&[0, 3, -1]).unwrap_or(&0),
            is_stored: false,
            actor,
            cpu: 100,
            // An actor that waits for its reader holds back the calls behind: that is the program's fault.
            backpressure: if actor.is_none() && self.rng.one_in(2) { 2 } else { 0 },
            to: vec![to],
            place: None,
            target: Target::Anywhere,
            needs: Needs::default(),
        };
        self.ops.push(Op::Submit(Box::new(call_op)));
        self.streams.push(to);
    }

    pub(crate) fn read_stream(&mut self, stream: Slot) {
        for _ in 0..self.rng.range(1, 4) {
            let to = self.slot();
            self.ops.push(Op::Next { stream, to });
            self.ops.push(Op::Get { slots: vec![to], open: self.rng.one_in(2) });
            self.refs.push(to);
        }
        if self.rng.one_in(4) {
            self.ops.push(Op::DropStream(stream));
            self.streams.retain(|other| *other != stream);
        }
    }

    fn rare(&mut self) {
        let key = self.rng.below(3) + 100 * self.driver as u64;
        // Operations that the first edition does not know come last.
        match self.rng.below(if self.plan.edition > 1 { 9 } else { 7 }) {
            0 | 1 => self.ops.push(Op::KvPut { key, value: self.rng.draw() }),
            2 => self.ops.push(Op::KvGet { key }),
            7 => self.ops.push(Op::KvDel { key }),
            8 => {
                for _ in 0..2 {
                    self.ops.push(Op::KvPut { key, value: self.rng.draw() });
                }
            }
            3 => {
                if let Some(name) = self.rng.pick(&self.names).cloned() {
                    let to = self.slot();
                    self.ops.push(Op::Named { name, to });
                    self.actors.push(to);
                }
            }
            4 if !self.actors.is_empty() => {
                let place = self.rng.below(self.actors.len() as u64) as usize;
                let actor = self.actors.swap_remove(place);
                self.ops.push(Op::Drop(actor));
            }
            5 if self.plan.has_kills => {
                if let Some(slot) = self.rng.pick(&self.actors).copied() {
                    self.ops.push(Op::KillActor { slot, no_restart: self.rng.one_in(2) });
                }
            }
            6 if self.plan.has_kills => {
                if let Some(slot) = self.rng.pick(&self.refs).copied() {
                    let force = self.rng.one_in(4);
                    self.ops.push(Op::Cancel { slot, force, recursive: true });
                }
            }
            _ => {}
        }
    }

    /// Reads much of what is left and lets go of everything.
    fn finish(mut self) -> Vec<Op> {
        for stream in self.streams.clone() {
            if self.rng.one_in(2) {
                self.read_stream(stream);
            }
        }
        for slot in self.refs.clone() {
            if !self.rng.one_in(4) {
                self.ops.push(Op::Get { slots: vec![slot], open: false });
            }
        }
        if self.plan.edition > 1 {
            // Values that came inside other values are there, too.
            let opened: Vec<Slot> = (OPENED + 1..OPENED + 13).collect();
            let at_a_time = opened.chunks(READ_MAX).map(<[Slot]>::to_vec);
            self.ops.extend(at_a_time.map(|slots| Op::Get { slots, open: false }));
        }
        self.ops.push(Op::DropAll);
        self.ops
    }
}

/// Returns the number of values that a call of that kind returns.
pub(crate) fn returns(call_op: &CallOp) -> u32 {
    if call_op.job == Stream { STREAMING } else { call_op.to.len() as u32 }
}

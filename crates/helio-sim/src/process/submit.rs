//! Operations that make something: puts, calls, actors, items, returns.

use std::sync::Arc;

use helio_owner_state::{
    Actor, CallArgs, Creation, Event, Outcome, Outgoing, OutgoingValue, Retry, Target, TaskSpec,
    handle_object,
};
use helio_process_state::{Answer, CreationOutcome, Event as ProcessEvent};
use helio_proto::control::{ActorSpec, FailureKind, Label, Selectors, Strategy, StrategyKind};
use helio_proto::encode;
use helio_proto::node::LeaseClass;
use helio_proto::peer::STREAMING;
use helio_proto::template::{CallKind, Template};
use helio_types::{ActorId, NodeAddress, NodeId, ObjectId, ResourceSet, TaskId};

use super::Process;
use super::actors::{PLACES, group, has_groups, is_unordered};
use super::frames::{Frame, Held, Kind, Step, Wait};
use crate::core::Core;
use crate::node::{GPU, HEAD_ZONE, OTHER_ZONE, ZONE, runtime_env};
use crate::ops::{AGAIN, ActorOp, CallOp, Env, GroupBundle, Job, Slot, Target as Where};
use crate::program::returns;
use crate::rng::hash;
use crate::value::{Body, Expect, Inner, Val};

/// Returns the strategy of a call or an actor.
fn strategy(frame: &Frame, place: Option<GroupBundle>) -> Strategy {
    let group = place.and_then(|place| Some((place, frame.slots.get(&place.slot)?)));
    let Some((place, Held::Group { id })) = group else { return Strategy::default() };
    Strategy {
        kind: StrategyKind::PlacementGroup,
        placement_group: *id,
        bundle: place.bundle,
        ..Strategy::default()
    }
}

/// The strategy of a target, which may be that node.
fn targeted(target: Where, node_id: NodeId) -> Strategy {
    let kind = match target {
        Where::Spread => StrategyKind::Spread,
        _ if target.is_node() => StrategyKind::NodeAffinity,
        _ => StrategyKind::Default,
    };
    let zone = |selector: &str| vec![Label { key: ZONE.to_owned(), value: selector.to_owned() }];
    let labels = match target {
        Where::Zone => zone(HEAD_ZONE),
        Where::OtherZone => zone(&format!("!{HEAD_ZONE}")),
        Where::AnyZone => zone(&format!("in({HEAD_ZONE},{OTHER_ZONE})")),
        Where::NoZoneOrHeads => zone("nowhere"),
        Where::OtherZoneOrHeads => zone(OTHER_ZONE),
        _ => Vec::new(),
    };
    let fallbacks = match target {
        Where::NoZoneOrHeads | Where::OtherZoneOrHeads => {
            vec![Selectors { labels: zone(HEAD_ZONE) }]
        }
        _ => Vec::new(),
    };
    let soft = matches!(target, Where::RatherHere | Where::RatherThere);
    Strategy { kind, node_id, soft, labels, fallbacks, ..Strategy::default() }
}

/// Whether a worker that runs a task of that salt runs no other one: the task has `max_calls=1`.
fn is_last_call(core: &Core, salt: u64) -> bool {
    core.plan.edition > 1 && salt.is_multiple_of(13)
}

/// The namespace of a name, and the rest of it.
pub(super) fn in_space(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("sim", name))
}

/// Hundredths that an actor takes of the bundles that it lives in.
const IN_GROUP: u32 = 10;

/// Microseconds that the user waits before a value for which there was no room is written again.
const WRITE_AGAIN_US: u64 = 100_000;

impl Process {
    /// Writes bytes into the object store as that object; `None` while it has to wait.
    fn write(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        id: ObjectId,
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> Option<OutgoingValue> {
        let Wait::Room(request) = frame.wait else {
            let (id, bytes) = frame.writing.take().unwrap_or_else(|| (id, bytes()));
            let request = self.machine.as_mut()?.mint_request();
            let size = bytes.len() as u64;
            self.apply(core, ProcessEvent::Create { request, object: id, size });
            frame.wait = Wait::Room(request);
            frame.writing = Some((id, bytes));
            return None;
        };
        let Answer::Grant(grant) = self.machine.as_mut()?.take_answer(request)? else {
            return None;
        };
        let (id, bytes) = frame.writing.take()?;
        frame.wait = Wait::Nothing;
        let size = bytes.len() as u64;
        let daemon = &mut core.daemons[self.node];
        let node = &daemon.address;
        let location =
            NodeAddress { node_id: node.node_id, host: node.host.clone(), port: node.port };
        match grant {
            Ok(offset) => {
                daemon.arena[offset as usize..(offset + size) as usize].copy_from_slice(&bytes);
                self.apply(core, ProcessEvent::Written { object: id, is_whole: true });
            }
            Err(failure) if failure.kind == FailureKind::AlreadyExists => {}
            // The user tries again, as long as it takes. Whether the node may say so was looked at when it did.
            Err(failure)
                if matches!(failure.kind, FailureKind::StoreFull | FailureKind::OutOfDisk) =>
            {
                core.facts.count("refused for a full disk");
                frame.writing = Some((id, bytes));
                self.pause(core, frame, core.now + WRITE_AGAIN_US);
                return None;
            }
            Err(failure) => {
                core.violation(format!(
                    "the object store refused {size} bytes: {}",
                    failure.message
                ));
            }
        }
        Some(OutgoingValue::Stored { size, location })
    }

    /// References for a value or an argument: those slots that hold one.
    fn inner_of(&self, frame: &Frame, slots: &[Slot]) -> Vec<Inner> {
        let Some(owner) = self.owner() else { return Vec::new() };
        let inner = slots.iter().filter_map(|slot| match frame.slots.get(slot)? {
            Held::Ref { id, expect } if !expect.raises => {
                Some(Inner { reference: owner.reference(*id), expect: *expect, actor: None })
            }
            Held::Actor { id, handle: Some(handle) } => {
                let expect = Expect::default();
                Some(Inner { reference: owner.reference(*handle), expect, actor: Some(*id) })
            }
            _ => None,
        });
        inner.collect()
    }

    pub(super) fn put(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        to: Slot,
        is_big: bool,
        salt: u64,
        slots: &[Slot],
    ) -> Step {
        let inner = self.inner_of(frame, slots);
        let contained = inner.iter().map(|inner| inner.reference.id).collect();
        let value = Val { hash: hash([salt]), inner };
        let id = match &frame.writing {
            Some((id, _)) => *id,
            None => self.new_put(core),
        };
        let stored = if is_big {
            match self.write(core, frame, id, || value.encode(true)) {
                Some(stored) => stored,
                None => return Step::Stay,
            }
        } else {
            OutgoingValue::Inline(value.encode(false))
        };
        core.facts.count("puts");
        self.tell_owner(core, Event::Put { id, value: stored, contained });
        let expect = Expect { hash: value.hash, raises: false };
        frame.slots.insert(to, Held::Ref { id, expect });
        Step::Next
    }

    fn template(&mut self, call_op: &CallOp, actor: Option<ActorId>) -> Arc<Template> {
        let (job, backpressure) = (call_op.job, call_op.backpressure);
        let kind = if actor.is_some() { CallKind::Method } else { CallKind::Task };
        let is_unordered = actor.is_some_and(is_unordered);
        let concurrency_group = actor.map_or("", |actor| group(actor, call_op.salt));
        let key = (job as u32, is_unordered, concurrency_group, backpressure, kind);
        let made = self.templates.entry(key).or_insert_with(|| {
            let name = format!("{job:?}");
            let function_id = name.clone().into_bytes();
            let is_generator = job == Job::Stream;
            Arc::new(Template {
                kind,
                name,
                function_id,
                is_generator,
                backpressure,
                is_unordered,
                concurrency_group: concurrency_group.to_owned(),
                ..Template::default()
            })
        });
        made.clone()
    }

    /// The node that a target means, if it is one: of others that live, the salt chooses.
    fn node_of(&self, core: &Core, target: Where, salt: u64) -> NodeId {
        let alive = core.daemons.iter().filter(|daemon| daemon.is_alive && !daemon.is_draining);
        let alive: Vec<NodeId> = alive.map(|daemon| daemon.address.node_id).collect();
        let chosen = alive.get((salt % (alive.len().max(1) as u64)) as usize);
        let own = self.machine.as_ref().map(|machine| machine.address().node_id);
        match target {
            Where::There | Where::RatherThere => chosen.copied().unwrap_or_default(),
            Where::Here | Where::RatherHere => own.unwrap_or_default(),
            _ => NodeId::default(),
        }
    }

    fn class(
        &mut self,
        frame: &Frame,
        call_op: &CallOp,
        is_last: bool,
        node_id: NodeId,
    ) -> Arc<LeaseClass> {
        let job_id = self.job().job_id;
        let strategy = match call_op.place {
            Some(_) => strategy(frame, call_op.place),
            None => targeted(call_op.target, node_id),
        };
        let place = call_op.place.map(|place| (strategy.placement_group, place.bundle));
        let made = self
            .classes
            .entry((job_id, call_op.cpu, place, (call_op.target, node_id), is_last, call_op.needs))
            .or_insert_with(|| {
                // A call in a group takes of the resource of the group's bundles.
                let resource = call_op.place.map_or("CPU", |place| place.resource);
                let amount = f64::from(call_op.cpu) / 100.0;
                let gpu = f64::from(call_op.needs.gpu) / 100.0;
                let resources = ResourceSet::from_units([(resource, amount), (GPU, gpu)]);
                Arc::new(LeaseClass {
                    job_id,
                    resources,
                    strategy,
                    runtime_env: runtime_env(call_op.needs.env),
                    exclusive: is_last || call_op.needs.gpu > 0,
                    name: "f".to_owned(),
                })
            });
        made.clone()
    }

    /// The arguments of a call: those that are references, and what they and it must give.
    fn arguments(
        &self,
        frame: &Frame,
        call_op: &CallOp,
        order: u64,
    ) -> (Body, Vec<ObjectId>, bool) {
        let mut deps = Vec::new();
        let mut expects = Vec::new();
        for slot in &call_op.deps {
            if let Some(Held::Ref { id, expect }) = frame.slots.get(slot) {
                deps.push(*id);
                expects.push(*expect);
            }
        }
        let raises = expects.iter().any(|expect| expect.raises)
            || call_op.job == Job::Raise
            || (call_op.job == Job::Flaky && call_op.retries == 0);
        let inner = self.inner_of(frame, &call_op.inner);
        let body = Body {
            kind: call_op.job as u32,
            salt: call_op.salt,
            order,
            count: call_op.count,
            depth: call_op.depth,
            deps: expects,
            inner,
        };
        (body, deps, raises)
    }

    pub(super) fn submit(&mut self, core: &mut Core, frame: &mut Frame, call_op: &CallOp) -> Step {
        let actor = match call_op.actor.map(|slot| frame.slots.get(&slot)) {
            None => None,
            Some(Some(Held::Actor { id, .. })) => Some(*id),
            Some(_) => return Step::Next,
        };
        if let Some(actor) = actor
            && self.is_refused(core, actor, call_op.needs.pending_max as usize)
        {
            return Step::Next;
        }
        let order = match actor {
            Some(actor) if !is_unordered(actor) => {
                self.orders.get(&(actor, group(actor, call_op.salt))).copied().unwrap_or(0) + 1
            }
            _ => 0,
        };
        let (body, deps, raises) = self.arguments(frame, call_op, order);
        let contained: Vec<ObjectId> = body.inner.iter().map(|inner| inner.reference.id).collect();
        let mut args = CallArgs { body: Vec::new(), stored_body: None, deps, contained };
        if call_op.is_stored {
            let id = match &frame.writing {
                Some((id, _)) => *id,
                None => self.new_put(core),
            };
            let Some(value) = self.write(core, frame, id, || body.encode()) else {
                return Step::Stay;
            };
            self.tell_owner(core, Event::Put { id, value, contained: Vec::new() });
            args.stored_body = Some(id);
        } else {
            args.body = body.encode();
        }
        if let Some(actor) = actor {
            self.orders.insert((actor, group(actor, call_op.salt)), order);
        }
        let stored_body = args.stored_body;
        self.send_off(core, frame, call_op, &body, args, (actor, raises));
        if let Some(id) = stored_body {
            self.apply(core, ProcessEvent::Dropped(&[id]));
        }
        Step::Next
    }

    /// Whether a method is not called because so many calls are under way to its actor, as the front asks its machine.
    /// A method is refused where there are as many, and nowhere else.
    fn is_refused(&mut self, core: &mut Core, actor: ActorId, most: usize) -> bool {
        if most == 0 {
            return false;
        }
        let pending =
            self.owner().and_then(|owner| owner.actor(&actor)).map_or(0, Actor::pending_calls);
        let history = &core.facts.history;
        // A call that has no answer yet may have failed.
        let unanswered = history.unanswered(self.id, actor);
        let is_whole =
            !history.actor_may_be_over(actor) && !history.actor_lost_process(actor, None);
        let is_refused = pending >= most;
        if is_refused && unanswered < most || !is_refused && is_whole && unanswered >= most {
            core.violation(format!(
                "a call to {actor} of at most {most} at a time is {}, and {unanswered} are under way",
                if is_refused { "refused" } else { "made" }
            ));
        }
        if is_refused {
            core.facts.count("calls refused for those ahead");
        }
        is_refused
    }

    fn send_off(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        call_op: &CallOp,
        body: &Body,
        args: CallArgs,
        (actor, raises): (Option<ActorId>, bool),
    ) {
        let n = returns(call_op);
        // Exceptions are retried only where the options say so; an actor's process never stands for one.
        let raises_again = call_op.job == Job::Raise && call_op.count == AGAIN;
        let retry =
            Retry { max: call_op.retries, on_error: call_op.job == Job::Flaky || raises_again };
        let template = self.template(call_op, actor);
        let node_id = self.node_of(core, call_op.target, call_op.salt);
        let target = match actor {
            None => {
                Target::Class(self.class(frame, call_op, is_last_call(core, call_op.salt), node_id))
            }
            Some(actor) => Target::Actor(actor),
        };
        let handle = actor.and_then(|actor| self.owner()?.actor(&actor)?.handle());
        let Some(machine) = &mut self.machine else { return };
        let id = match actor {
            None => machine.new_task(),
            Some(actor) => machine.new_method_call(actor),
        };
        core.facts.count(if actor.is_some() { "method calls" } else { "tasks" });
        let group = strategy(frame, call_op.place).placement_group;
        core.facts.history.submitted(
            id,
            self.id,
            frame.task(),
            call_op.retries,
            (group, call_op.cpu),
        );
        core.facts.history.takes(id, &args.deps);
        core.facts.history.takes(id, &args.contained);
        core.facts.history.call_needs(id, call_op.needs);
        if raises_again {
            core.facts.history.raises_again(id);
        }
        if call_op.place.is_none() && actor.is_none() {
            core.facts.count(call_op.target.counted());
            core.facts.history.targeted(id, call_op.target, node_id);
        }
        core.note(|| {
            format!(
                "p{} submits {id:?} {:?} retries {} args {args:?}",
                self.pid, call_op.job, call_op.retries
            )
        });
        let parent = if self.is_driver { TaskId::NIL } else { frame.task() };
        let spec = TaskSpec { id, template, target, args, returns: n, retry, parent, handle };
        self.tell_owner(core, Event::Submit { spec: Arc::new(spec) });
        if n == STREAMING {
            if let Some(to) = call_op.to.first() {
                let body = Box::new(body.clone());
                frame.slots.insert(*to, Held::Stream { id: id.object(1), body, next: 0 });
            }
            return;
        }
        for (index, to) in (1..).zip(&call_op.to) {
            let expect = Expect { hash: body.result(index), raises };
            frame.slots.insert(*to, Held::Ref { id: id.object(index), expect });
        }
    }

    pub(super) fn make_actor(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        actor_op: &ActorOp,
    ) -> Step {
        if let Wait::Creation(actor, request) = frame.wait {
            return self.creation_answered(core, frame, actor_op, (actor, request));
        }
        let job = if actor_op.fails { Job::ConstructFails } else { Job::Construct };
        let call_op = CallOp {
            job,
            salt: actor_op.salt,
            deps: actor_op.deps.clone(),
            inner: actor_op.inner.clone(),
            count: 0,
            depth: 0,
            retries: 0,
            is_stored: false,
            actor: None,
            cpu: 0,
            backpressure: 0,
            to: vec![],
            place: None,
            target: Default::default(),
            needs: actor_op.needs,
        };
        let (body, deps, raises) = self.arguments(frame, &call_op, 0);
        let contained = body.inner.iter().map(|inner| inner.reference.id).collect();
        let Some(machine) = &mut self.machine else { return Step::Next };
        let actor = machine.new_actor();
        let may_fail = raises || actor_op.fails || actor_op.needs.env == Env::Broken;
        let is_detached = actor_op.name.is_some();
        let request = machine.mint_request();
        let node_id = self.node_of(core, actor_op.target, actor_op.salt);
        let Some(machine) = &mut self.machine else { return Step::Next };
        let needs = match actor_op.place {
            Some(place) => {
                let little = f64::from(IN_GROUP) / 100.0;
                let little = ResourceSet::from_units([(place.resource, little)]);
                (little.clone(), little)
            }
            None => {
                let gpu = f64::from(actor_op.needs.gpu) / 100.0;
                (
                    ResourceSet::from_units([("CPU", 1.0), ("slot", actor_op.slots), (GPU, gpu)]),
                    ResourceSet::from_units([("slot", actor_op.slots), (GPU, gpu)]),
                )
            }
        };
        let (space, name) = in_space(actor_op.name.as_deref().unwrap_or_default());
        let spec = ActorSpec {
            actor_id: actor,
            job_id: machine.job().job_id,
            name: name.to_owned(),
            namespace: space.to_owned(),
            detached: is_detached,
            get_if_exists: actor_op.get_if_exists,
            max_restarts: actor_op.max_restarts,
            placement_resources: needs.0,
            resources: needs.1,
            strategy: match actor_op.place {
                Some(_) => strategy(frame, actor_op.place),
                None => targeted(actor_op.target, node_id),
            },
            class_name: "Actor".to_owned(),
            template: encode::<Template>(&Template {
                kind: CallKind::Constructor,
                ..Template::default()
            }),
            owner: (**machine.address()).clone(),
            max_concurrency: match is_unordered(actor) || has_groups(actor) {
                true => PLACES,
                false => actor_op.concurrency,
            },
            is_async: actor_op.is_async,
            runtime_env: runtime_env(actor_op.needs.env),
            job_config: machine.job_wire().to_vec(),
            modules: if core.rng.one_in(3) { vec!["large".to_owned()] } else { Vec::new() },
            ..ActorSpec::default()
        };
        let handle = (!is_detached).then(|| handle_object(actor));
        let args = CallArgs { body: body.encode(), stored_body: None, deps, contained };
        core.facts.count("actors");
        core.facts.count(actor_op.target.counted());
        let kinds = [
            (actor_op.is_async, "actors of coroutines"),
            (is_unordered(actor), "actors that take calls in any order"),
            (has_groups(actor), "actors with concurrency groups"),
        ];
        for (_, kind) in kinds.iter().filter(|(is_it, _)| *is_it) {
            core.facts.count(kind);
        }
        let group = spec.strategy.placement_group;
        let takes = if group.is_nil() { (100.0 * actor_op.slots) as u32 } else { IN_GROUP };
        let promise = (actor_op.max_restarts, is_detached);
        core.facts.history.actor_made(actor, self.id, promise, (group, takes));
        core.facts.history.actor_needs(actor, actor_op.needs);
        core.facts.history.actor_targeted(actor, actor_op.target, node_id);
        if may_fail {
            core.facts.history.actor_over(actor);
        }
        core.note(|| {
            format!(
                "p{} makes actor {actor} restarts {} {:?}",
                self.pid, actor_op.max_restarts, actor_op.name
            )
        });
        if is_detached {
            self.apply(core, ProcessEvent::AwaitCreation { request, actor });
        }
        let creation = Box::new(Creation { spec, args, handle });
        self.tell_owner(core, Event::CreateActor { creation });
        if is_detached {
            core.facts.detached_sent.insert(actor);
            core.facts.names.extend(actor_op.name.clone().map(|name| (actor, name)));
            // Its handle is the caller's only when the control service has answered.
            frame.wait = Wait::Creation(actor, request);
            return Step::Stay;
        }
        frame.slots.insert(actor_op.to, Held::Actor { id: actor, handle });
        Step::Next
    }

    fn creation_answered(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        actor_op: &ActorOp,
        (actor, request): (ActorId, u64),
    ) -> Step {
        let answer = self.machine.as_mut().and_then(|machine| machine.take_answer(request));
        let Some(Answer::Control(response)) = answer else {
            let is_over = self
                .owner()
                .and_then(|owner| owner.actor(&actor))
                .is_none_or(|known| known.phase() == helio_proto::control::ActorPhase::Dead);
            return if is_over { Step::Next } else { Step::Stay };
        };
        match (CreationOutcome::of(response, actor), &actor_op.name) {
            (CreationOutcome::Made, Some(name)) => {
                core.facts.count("detached actors");
                self.has_name(core, name, actor);
                frame.slots.insert(actor_op.to, Held::Actor { id: actor, handle: None });
            }
            (CreationOutcome::Exists { actor: found, .. }, Some(name))
                if actor_op.get_if_exists =>
            {
                core.facts.count("actors found by name");
                self.has_name(core, name, found);
                self.tell_owner(core, Event::KnowActor { actor: found, handle: None });
                frame.slots.insert(actor_op.to, Held::Actor { id: found, handle: None });
            }
            (CreationOutcome::Refused(_), _) if core.facts.refusable_actors.contains(&actor) => {
                core.facts.count("actors refused by the head");
            }
            (CreationOutcome::Refused(failure), _) => {
                core.violation(format!("a named actor was refused: {}", failure.message));
            }
            _ => {}
        }
        Step::Next
    }

    /// The control service has said which actor has a name: one at a time.
    fn has_name(&self, core: &mut Core, name: &str, actor: ActorId) {
        let own = core.facts.names.get(&actor).filter(|own| *own != name).cloned();
        if let Some(own) = own {
            core.violation(format!("{actor} is found as {name}, and its name is {own}"));
        }
        let before = core.facts.detached.get(name).copied();
        let other = before.filter(|before| *before != actor);
        if other.is_some() && core.facts.history.actor_may_be_over(actor) {
            return; // The answer was on its way for long.
        }
        core.facts.detached.insert(name.to_owned(), actor);
        if let Some(other) = other.filter(|other| !core.facts.history.actor_may_be_over(*other)) {
            core.violation(format!("{actor} and {other}, which is not over, have the name {name}"));
        }
    }

    pub(super) fn kill_actor(
        &mut self,
        core: &mut Core,
        frame: &Frame,
        slot: Slot,
        no_restart: bool,
    ) -> Step {
        if let Some(Held::Actor { id, .. }) = frame.slots.get(&slot) {
            let actor = *id;
            core.facts.count("kills");
            match no_restart {
                true => core.facts.history.actor_killed(actor),
                false => core.facts.history.actor_hit(actor),
            }
            self.tell_owner(core, Event::KillActor { actor, no_restart });
        }
        Step::Next
    }

    pub(super) fn cancel(
        &mut self,
        core: &mut Core,
        frame: &Frame,
        slot: Slot,
        (force, recursive): (bool, bool),
    ) -> Step {
        if let Some(Held::Ref { id, .. }) = frame.slots.get(&slot) {
            core.facts.count(if recursive { "cancels" } else { "cancels of one call alone" });
            core.facts.history.cancelled(id.task(), recursive);
            self.stops(core, id.task());
            self.tell_owner(core, Event::Cancel { object: *id, force, recursive });
        }
        Step::Next
    }

    /// The call is cancelled; if it is this process's, nothing more of it is to begin.
    pub(super) fn stops(&mut self, core: &mut Core, task: TaskId) {
        if core.facts.history.owner(task.object(1)) == Some(self.id)
            && let Some(owner) = self.owner()
        {
            core.facts.history.stopped(task, owner.is_sent(task));
        }
    }

    fn outgoing(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        id: ObjectId,
        hash: u64,
        is_big: bool,
        give: &[Slot],
    ) -> Option<Outgoing> {
        let inner = self.inner_of(frame, give);
        let contained = inner.iter().map(|inner| inner.reference.id).collect();
        let value = Val { hash, inner };
        let value = if is_big {
            self.write(core, frame, id, || value.encode(true))?
        } else {
            OutgoingValue::Inline(value.encode(false))
        };
        Some(Outgoing { value, contained })
    }

    pub(super) fn returning(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        is_big: bool,
        give: &[Slot],
    ) -> Step {
        let Kind::Call { task, returns, .. } = frame.kind.clone() else { return Step::Leave };
        if returns == STREAMING {
            let end = Outgoing { value: OutgoingValue::Inline(Vec::new()), contained: Vec::new() };
            let outcome =
                Outcome { returns: vec![end], items: frame.body.count, ..Outcome::default() };
            return Step::End(Box::new(outcome));
        }
        while (frame.made.len() as u32) < returns {
            let index = frame.made.len() as u32 + 1;
            let hash = frame.body.result(index);
            // The second return is of the other size, so that both kinds meet in one reply.
            let is_big = is_big != (index == 2);
            match self.outgoing(core, frame, task.object(index), hash, is_big, give) {
                Some(made) => frame.made.push(made),
                None => return Step::Stay,
            }
        }
        let is_last = self.actor.is_none() && is_last_call(core, frame.body.salt);
        Step::End(Box::new(Outcome {
            returns: std::mem::take(&mut frame.made),
            leaving: is_last,
            ..Outcome::default()
        }))
    }

    pub(super) fn item(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        index: u32,
        is_big: bool,
        give: &[Slot],
    ) -> Step {
        let Kind::Call { task, backpressure, .. } = frame.kind.clone() else {
            return Step::Leave;
        };
        if !matches!(frame.wait, Wait::News) {
            let hash = frame.body.result(1000 + index);
            let id = helio_owner_state::Owner::stream_item(task, index);
            let Some(item) = self.outgoing(core, frame, id, hash, is_big, give) else {
                return Step::Stay;
            };
            core.facts.count("items");
            self.apply(core, ProcessEvent::ItemMade { task, index, item });
            frame.wait = Wait::News;
        }
        let may_yield = |bound| {
            self.machine.as_ref().is_none_or(|machine| machine.may_yield(task, index, bound))
        };
        let goes_on = backpressure == 0 || may_yield(backpressure);
        let unread = core.facts.history.items_unread(task, index + 1);
        if goes_on && backpressure > 0 && unread >= backpressure {
            core.violation(format!(
                "{task:?} goes on with {unread} unread items, and may have {backpressure}"
            ));
        }
        if goes_on { Step::Next } else { Step::Stay }
    }
}

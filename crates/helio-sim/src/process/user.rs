//! User code: frames that run scripts one operation at a time, as a Python thread would.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;

use helio_owner_state::{Event, Outcome, Outgoing, OutgoingValue, Owner};
use helio_process_state::{Event as ProcessEvent, Work};
use helio_proto::control::KillActor;
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{ActorReady, Leaving};
use helio_types::{DeathCause, DeathKind, TaskId};

use super::Process;
use super::actors::{PLACES, group};
use super::frames::{ActorState, Frame, Held, Kind, Step, Wait};
use super::memory::Payload;
use crate::core::{Core, Event as Next};
use crate::net::End;
use crate::ops::Op;
use crate::plan::WAIT_US_MAX;
use crate::program::script;
use crate::value::{Body, Inner, raised};

/// A worker's wait longer than this is told to the daemon.
const BLOCKED_AFTER_US: u64 = 800;
/// Microseconds between two looks of a program whether a node hands over its objects.
const HAND_OVER_LOOK_US: u64 = 700;

/// Returns the error of a call that was cancelled while it ran.
fn cancelled(task: TaskId) -> Vec<u8> {
    let error = SystemError::new(ErrorKind::TaskCancelled, "the task was cancelled");
    SystemError { task, ..error }.to_payload()
}

fn failed(payload: Vec<u8>, returns: u32, retryable: bool) -> Outcome {
    let n = if returns == helio_proto::peer::STREAMING { 1 } else { returns };
    let one = Outgoing { value: OutgoingValue::Error(payload), contained: Vec::new() };
    Outcome { returns: vec![one; n as usize], failed: true, retryable, ..Outcome::default() }
}

impl Process {
    /// Runs user code as far as it goes now.
    pub(crate) fn run(&mut self, core: &mut Core) {
        if self.machine.is_none() {
            return;
        }
        while !self.is_over(core) {
            let before = core.trace.steps;
            for place in (0..self.code.len()).rev() {
                if self.is_over(core) {
                    return;
                }
                let mut frame = self.code.remove(place);
                if self.run_frame(core, &mut frame) {
                    self.code.insert(place, frame);
                }
            }
            let room = self
                .actor
                .as_ref()
                .map_or(1, |actor| if actor.is_ready { actor.concurrency } else { 1 });
            let may_begin = !self.is_driver && self.code.len() < room && !self.is_over(core);
            let is_begun = may_begin && self.begin_next(core);
            if !is_begun && core.trace.steps == before {
                break;
            }
        }
        if !self.is_over(core) {
            self.check_inbox(core);
        }
        let is_free = self.owner().is_none_or(|owner| !owner.is_needed());
        if self.lingers && is_free && self.dies.is_none() {
            self.dies = Some(super::ASKED_TO_END);
        }
        let has_work = self.machine.as_ref().is_some_and(|machine| machine.has_work());
        // Calls that came behind the order to end are not begun.
        let waits = has_work && core.plan.edition < 2;
        if self.exits && self.code.is_empty() && !waits && self.dies.is_none() {
            self.dies = Some(super::ASKED_TO_END);
        }
    }

    /// Whether no user code runs any more: the process is to end, or died between two actions. A worker
    /// has answered a task before it begins the next one, so one that died in the answer begins none.
    fn is_over(&self, core: &Core) -> bool {
        let is_judged = !core.facts.violations.is_empty();
        self.dies.is_some() || core.is_dead(End::Process(self.pid)) || is_judged
    }

    /// Goes on with a frame; `false` when it is over.
    fn run_frame(&mut self, core: &mut Core, frame: &mut Frame) -> bool {
        loop {
            if self.is_over(core) {
                return true;
            }
            if let Wait::Until(at) = frame.wait {
                if core.now < at {
                    return true;
                }
                frame.wait = Wait::Nothing;
            }
            if let Kind::Call { returns, .. } = frame.kind
                && self.cancelled.remove(&frame.task())
            {
                if self.forced.contains(&frame.task()) {
                    let task = frame.task();
                    core.violation(format!(
                        "{task:?} was to end by force, and is only interrupted"
                    ));
                }
                let error = cancelled(frame.task());
                self.leave(core, frame, Some(failed(error, returns, false)));
                return false;
            }
            let Some(op) = frame.script.front().cloned() else {
                self.leave(core, frame, None);
                return false;
            };
            match self.step(core, frame, op) {
                Step::Next => {
                    core.trace.step(core.now, 900 + self.pid as u64, &[], || {
                        format!("p{} did {:?}", self.pid, frame.script.front())
                    });
                    frame.script.pop_front();
                    self.unblock(core, frame);
                    (frame.since, frame.deadline) = (0, None);
                    if !matches!(frame.wait, Wait::Until(_)) {
                        frame.wait = Wait::Nothing;
                    }
                    if core.rng.one_in(2) {
                        let at = core.now + core.rng.range(1, 200);
                        self.pause(core, frame, at);
                    }
                }
                Step::Stay => {
                    self.wait_on(core, frame);
                    return true;
                }
                Step::End(outcome) => {
                    self.unblock(core, frame);
                    self.leave(core, frame, Some(*outcome));
                    return false;
                }
                Step::Leave => {
                    self.leave(core, frame, None);
                    return false;
                }
            }
        }
    }

    pub(super) fn pause(&mut self, core: &mut Core, frame: &mut Frame, at: u64) {
        let at = if let Wait::Until(already) = frame.wait { already.max(at) } else { at };
        frame.wait = Wait::Until(at);
        core.at(at, Next::Run { pid: self.pid });
    }

    /// The frame has to wait: after a moment the daemon lends its CPU; after far too long it hangs.
    fn wait_on(&mut self, core: &mut Core, frame: &mut Frame) {
        if frame.since == 0 {
            frame.since = core.now;
            core.after(BLOCKED_AFTER_US, Next::Run { pid: self.pid });
            core.after(WAIT_US_MAX + 1, Next::Run { pid: self.pid });
        }
        let waited = core.now.saturating_sub(frame.since);
        if waited >= BLOCKED_AFTER_US && !self.is_driver && !frame.is_blocked {
            frame.is_blocked = true;
            core.process_waits(self.pid);
            self.threads += 1;
            frame.thread = self.threads;
            self.apply(core, ProcessEvent::Blocked { thread: frame.thread, awaited: None });
        }
        // A generator may wait for its reader as long as that likes.
        let is_bounded = !matches!(frame.script.front(), Some(Op::Item { .. }));
        if waited > WAIT_US_MAX && is_bounded {
            let text = format!("OWN-1: a wait hangs: p{} {}", self.pid, self.explain(frame));
            core.violation(text);
            frame.since = u64::MAX / 2;
        }
    }

    fn unblock(&mut self, core: &mut Core, frame: &mut Frame) {
        if std::mem::take(&mut frame.is_blocked) {
            self.apply(core, ProcessEvent::Unblocked { thread: frame.thread });
        }
    }

    /// The frame is over: its caller hears of it, and its variables go.
    fn leave(&mut self, core: &mut Core, frame: &mut Frame, outcome: Option<Outcome>) {
        self.unblock(core, frame);
        if let (
            Wait::Room(request) | Wait::Answer(request) | Wait::Creation(_, request),
            Some(machine),
        ) = (&frame.wait, &mut self.machine)
        {
            machine.forget_request(*request);
        }
        if let (Kind::Call { task, .. }, Some(outcome)) = (&frame.kind, outcome) {
            self.cancelled.remove(task);
            core.facts.history.call_ended(*task, self.id, !outcome.failed);
            core.task_ends(self.pid, *task);
            let is_last = outcome.leaving;
            self.apply(core, ProcessEvent::Finished { task: *task, outcome });
            if is_last {
                self.linger(core);
            }
        }
        self.check_pins(core, frame);
        for held in std::mem::take(&mut frame.slots).into_values() {
            self.drop_held(core, held);
        }
        frame.payloads.clear();
        if self.is_driver && matches!(frame.kind, Kind::Main) {
            core.facts.count("programs done");
        }
    }

    /// The worker has run as many calls as it may (`max_calls`): it tells its daemon, and takes no more.
    fn linger(&mut self, core: &mut Core) {
        let is_needed = self.owner().is_some_and(Owner::is_needed);
        let cause = DeathCause::new(DeathKind::Intended, "it has run its last task");
        self.lingers = true;
        core.facts.count("workers that ran their last task");
        self.apply(core, ProcessEvent::TellNode(Box::new(Leaving { cause, is_needed }.into())));
    }

    pub(super) fn drop_held(&mut self, core: &mut Core, held: Held) {
        let id = match held {
            Held::Ref { id, .. } => Some(id),
            Held::Actor { handle, .. } => handle,
            Held::Group { .. } => None,
            Held::Stream { id, .. } => {
                core.facts.history.stream_left(id.task());
                self.tell_owner(core, Event::StreamDropped { task: id.task() });
                Some(id)
            }
        };
        if let Some(id) = id {
            self.apply(core, ProcessEvent::Dropped(&[id]));
        }
    }

    /// Takes the next thing that came in, if one can be begun.
    fn begin_next(&mut self, core: &mut Core) -> bool {
        if self.exits || self.lingers {
            return false;
        }
        let Some(machine) = &mut self.machine else { return false };
        let Some(work) = machine.next_work(core.machine_us(self.node)) else {
            if self.code.is_empty() {
                machine.unpin_unreferenced();
            }
            return false;
        };
        let (kind, is_retry, returns, body, payloads) = match work {
            // The shell has interrupted the call already.
            Work::Cancel(_) => return true,
            Work::Exit { .. } => {
                self.exits = true;
                return false;
            }
            Work::Construct(construct) => {
                let (spec, incarnation) = (&construct.spec, construct.incarnation);
                core.note(|| {
                    format!("p{} becomes actor {} ({incarnation})", self.pid, spec.actor_id)
                });
                let concurrency = spec.max_concurrency.max(1) as usize;
                let state = ActorState {
                    concurrency,
                    is_ready: false,
                    kept: Vec::new(),
                    order: BTreeMap::new(),
                };
                self.actor = Some(state);
                if let Err(text) = core.facts.serves(self.id, spec.job_id) {
                    core.violation(text);
                }
                core.facts.history.actor_constructs(spec.actor_id, self.id);
                core.actor_begins(self.pid, spec.actor_id);
                let needs = core.facts.history.actor_needs_of(spec.actor_id);
                core.takes_devices(self.pid, TaskId::NIL, needs, &construct.assigned);
                let kind = Kind::Construct { actor: spec.actor_id };
                (kind, false, 0, construct.body, construct.deps)
            }
            Work::Call(call) => {
                let task = call.task;
                self.inbox.begun(task);
                if let Err(text) = core.facts.begins(task, self.id, core.now) {
                    core.violation(text);
                }
                let history = &core.facts.history;
                if call.lease.is_some() && history.knows_gone(self.id, call.caller) {
                    core.violation(format!(
                        "{task:?} is begun for a caller that is known to be gone"
                    ));
                } else if call.lease.is_none() && history.is_outlived(task.actor(), self.id) {
                    let text = format!("p{} goes on as an actor that lives elsewhere", self.pid);
                    core.violation(text);
                }
                if let Some(lease) = &call.lease {
                    core.task_begins(self.pid, task);
                    if let Err(text) = core.facts.serves(self.id, task.job()) {
                        core.violation(text);
                    }
                    let needs = core.facts.history.needs(task);
                    let before = self.lease.replace(lease.clone());
                    if needs.gpu > 0 && before.is_some_and(|before| Arc::ptr_eq(&before, lease)) {
                        core.violation(format!("{task:?} begins on a lease that another has used"));
                    }
                    core.takes_devices(self.pid, task, needs, &lease.assigned);
                }
                let backpressure = call.template.backpressure;
                let returns = call.returns;
                let kind = Kind::Call { task, caller: call.caller, returns, backpressure };
                (kind, call.attempt != 0, returns, call.body, call.deps)
            }
        };
        self.begin(core, (kind, is_retry, returns), &body, payloads);
        true
    }

    fn begin(
        &mut self,
        core: &mut Core,
        (kind, is_retry, returns): (Kind, bool, u32),
        body: &Payload,
        payloads: Vec<Payload>,
    ) {
        core.trace.step(core.now, 800 + self.pid as u64, &[], || {
            format!("p{} begins {kind:?}", self.pid)
        });
        let mut frame = Frame::new(kind, Body::default(), Vec::new());
        let lost = match self.bytes(core, body) {
            (bytes, true) => Some(bytes),
            (bytes, false) => match Body::decode(&bytes) {
                Ok(body) => {
                    frame.body = body;
                    None
                }
                Err(_) => {
                    core.violation("SHM-1: a call's body is not what was written".to_owned());
                    Some(raised(0))
                }
            },
        };
        let lost = lost.or_else(|| self.check_inputs(core, &frame.body, &payloads));
        frame.payloads = payloads;
        frame.payloads.push(body.clone());
        self.check_order(core, &frame, is_retry);
        for (slot, inner) in (0..).zip(frame.body.inner.clone()) {
            let held = self.take_over(core, &inner);
            frame.slots.insert(slot, held);
        }
        frame.script = script(&frame.body, is_retry, returns).into();
        match (lost, &frame.kind) {
            (Some(error), Kind::Call { returns, .. }) => {
                let outcome = failed(error, *returns, false);
                self.leave(core, &mut frame, Some(outcome));
            }
            (Some(_), _) => {
                frame.script = VecDeque::from([Op::Ready { fails: true }]);
                self.code.push(frame);
            }
            (None, _) => self.code.push(frame),
        }
    }

    /// Calls of one caller in one concurrency group come in the order in which they were made, unless the
    /// actor takes its calls in any order: those have no number.
    fn check_order(&mut self, core: &mut Core, frame: &Frame, is_retry: bool) {
        let (Kind::Call { caller, .. }, Some(actor)) = (&frame.kind, &mut self.actor) else {
            return;
        };
        let group = group(frame.task().actor(), frame.body.salt);
        let last = actor.order.entry((*caller, group)).or_default();
        let is_new = !is_retry || core.facts.history.keeps_its_place(frame.task(), self.id);
        if is_new && frame.body.order > 0 && frame.body.order <= *last {
            let text =
                format!("calls of one caller out of order: {} after {last}", frame.body.order);
            core.violation(text);
        }
        if is_new {
            *last = frame.body.order.max(*last);
        }
    }

    /// A reference that came inside a value or an argument is held from now on.
    pub(super) fn take_over(&mut self, core: &mut Core, inner: &Inner) -> Held {
        let id = inner.reference.id;
        let owner = Arc::new(inner.reference.owner.clone());
        self.tell_owner(core, Event::Adopt { owner, ids: vec![id] });
        match inner.actor {
            Some(actor) => {
                self.tell_owner(core, Event::KnowActor { actor, handle: Some(id) });
                Held::Actor { id: actor, handle: Some(id) }
            }
            None => Held::Ref { id, expect: inner.expect },
        }
    }

    fn step(&mut self, core: &mut Core, frame: &mut Frame, op: Op) -> Step {
        match op {
            Op::Sleep(us) => {
                self.pause(core, frame, core.now + us);
                Step::Next
            }
            Op::AwaitHandOver { looks } => {
                let hands_over = core.daemons.iter().any(|one| one.is_alive && one.hands_over);
                if !hands_over && looks > 0 {
                    self.pause(core, frame, core.now + HAND_OVER_LOOK_US);
                    frame.script.insert(1, Op::AwaitHandOver { looks: looks - 1 });
                }
                Step::Next
            }
            Op::Put { to, is_big, salt, inner } => self.put(core, frame, to, is_big, salt, &inner),
            Op::Submit(call_op) => self.submit(core, frame, &call_op),
            Op::Get { slots, open } => self.get(core, frame, &slots, open),
            Op::Take { from, to } => self.take(core, frame, from, to),
            Op::Await { slots, count, fetch, for_us } => {
                self.await_some(core, frame, &slots, (count, fetch), for_us)
            }
            Op::TryGet { slots, for_us } => self.try_get(core, frame, &slots, for_us),
            Op::Drop(slot) => {
                if let Some(held) = frame.slots.remove(&slot) {
                    self.drop_held(core, held);
                }
                Step::Next
            }
            Op::DropAll => {
                for held in std::mem::take(&mut frame.slots).into_values() {
                    self.drop_held(core, held);
                }
                Step::Next
            }
            Op::Actor(actor_op) => self.make_actor(core, frame, &actor_op),
            Op::Group(group_op) => self.make_group(core, frame, &group_op),
            Op::RemoveGroup(slot) => self.remove_group(core, frame, slot),
            Op::RemoveGroupById(group_id) => self.remove_group_by_id(core, group_id),
            Op::KillActorById(actor_id) => {
                let kill = KillActor { actor_id, no_restart: true, out_of_scope: false };
                self.apply(core, ProcessEvent::Tell(Box::new(kill.into())));
                Step::Next
            }
            Op::KillActor { slot, no_restart } => self.kill_actor(core, frame, slot, no_restart),
            Op::Cancel { slot, force, recursive } => {
                self.cancel(core, frame, slot, (force, recursive))
            }
            Op::Demand(wanted) => self.demand(core, frame, &wanted),
            Op::Next { stream, to } => self.next_item(core, frame, stream, to),
            Op::DropStream(slot) => {
                if let Some(held) = frame.slots.remove(&slot) {
                    self.drop_held(core, held);
                }
                Step::Next
            }
            Op::KvPut { key, value } => self.kv_put(core, frame, key, value),
            Op::KvPutNew { key, value } => self.kv_put_new(core, frame, key, value),
            Op::KvDel { key } => self.kv_del(core, frame, key),
            Op::KvList { prefix, is_whole } => self.kv_list(core, frame, prefix, is_whole),
            Op::ListJobs => self.list_jobs(core, frame),
            Op::KvGet { key } => self.kv_get(core, frame, key),
            Op::Named { name, to } => self.named(core, frame, &name, to),
            Op::Recall(first) => self.recall(core, frame, first),
            Op::Keep => {
                let held: Vec<Held> = std::mem::take(&mut frame.slots).into_values().collect();
                match &mut self.actor {
                    // Where a call may overtake another, what is kept could be what a running call makes:
                    // it would wait for itself.
                    Some(actor) if actor.concurrency < PLACES as usize => actor.kept.extend(held),
                    _ => held.into_iter().for_each(|held| self.drop_held(core, held)),
                }
                Step::Next
            }
            Op::Forget => {
                let kept = self
                    .actor
                    .as_mut()
                    .map(|actor| std::mem::take(&mut actor.kept))
                    .unwrap_or_default();
                for held in kept {
                    self.drop_held(core, held);
                }
                Step::Next
            }
            Op::Item { index, is_big, give } => self.item(core, frame, index, is_big, &give),
            Op::Return { is_big, give } => self.returning(core, frame, is_big, &give),
            Op::Raise { retryable } => {
                let Kind::Call { returns, .. } = frame.kind else { return Step::Leave };
                Step::End(Box::new(failed(raised(frame.body.salt), returns, retryable)))
            }
            Op::Crash => {
                core.facts.history.actor_hit(frame.task().actor());
                self.dies = Some("its code ended the process");
                Step::Stay
            }
            Op::Ready { fails } => self.ready(core, frame, fails),
        }
    }

    fn ready(&mut self, core: &mut Core, frame: &Frame, fails: bool) -> Step {
        let Kind::Construct { actor } = frame.kind else { return Step::Leave };
        if let Some(state) = &mut self.actor {
            state.is_ready = !fails;
        }
        let error = if fails { raised(frame.body.salt) } else { Vec::new() };
        if fails {
            core.facts.history.actor_over(actor);
        }
        let message = "the constructor raised".to_owned();
        let ready = ActorReady { actor_id: actor, error, message };
        self.apply(core, ProcessEvent::TellNode(Box::new(ready.into())));
        Step::Next
    }

    /// Ends the frame with what a read raised.
    pub(super) fn raise(&self, frame: &Frame, payload: Vec<u8>) -> Step {
        match &frame.kind {
            Kind::Call { returns, .. } => Step::End(Box::new(failed(payload, *returns, false))),
            Kind::Main | Kind::Construct { .. } => Step::Next,
        }
    }
}

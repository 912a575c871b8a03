//! Operations that read, and the checks on what is read.

use helio_owner_state::{Event, Owner, Stored};
use helio_process_state::Bytes;
use helio_proto::control::{ControlResponse, GetNamedActor};
use helio_proto::error::{SystemError, came_through};
use helio_types::ObjectId;

use super::Process;
use super::frames::{Frame, Held, Step, Wait};
use super::memory::Payload;
use super::submit::in_space;
use crate::core::Core;
use crate::judge::Reading;
use crate::ops::Slot;
use crate::value::{Body, Expect, RAISED, Val, short};

impl Process {
    /// A payload's bytes, and whether reading it raises.
    pub(super) fn bytes(&self, core: &Core, payload: &Payload) -> (Vec<u8>, bool) {
        match &payload.bytes {
            Bytes::Memory(bytes) => (bytes.to_vec(), payload.is_error),
            Bytes::Pinned(pin) => {
                let (start, end) = (pin.offset as usize, (pin.offset + pin.size) as usize);
                (core.daemons[self.node].arena[start..end].to_vec(), false)
            }
        }
    }

    /// Returns the value of an object, as far as it is known and here. Starts the fetch of a missing one.
    pub(super) fn read(&mut self, core: &mut Core, id: ObjectId) -> Option<Payload> {
        let payload = self.machine.as_mut()?.read(id);
        self.write_out(core);
        payload
    }

    /// **OWN-1** An error in place of a value is one that the program asked for, or that something done
    /// to the cluster explains.
    fn check_error(
        &self,
        core: &mut Core,
        bytes: &[u8],
        expect: Expect,
        (what, object, since): (&str, Option<ObjectId>, u64),
    ) {
        core.facts.count("errors");
        let (mut bytes, mut object) = (bytes, object);
        while let Some((_, inner)) = came_through(bytes) {
            (bytes, object) = (inner, None);
        }
        if bytes.first() == Some(&RAISED) {
            if !expect.raises {
                core.violation(format!("{what} raises what nobody raised"));
            }
            let task = object.map(|object| object.task());
            if let Some((tries, most)) = task.and_then(|task| core.facts.history.raised_after(task))
                && tries < most
            {
                core.violation(format!(
                    "{what} raises after {tries} tries, and had to be tried {most} times"
                ));
            }
            return;
        }
        let Some(error) = SystemError::from_payload(bytes) else {
            return core.violation(format!("{what} raises something unreadable: {bytes:02x?}"));
        };
        let kind = error.kind;
        core.note(|| format!("p{} reads {what}: {kind:?} {}", self.pid, error.message));
        if let Err(broken) = core.facts.judge(&error, Reading { by: self.id, object, since }) {
            core.violation(format!(
                "OWN-1: p{} reads {what}: {kind:?}, but {broken}: {} (task {:?}, object {:?}, actor {:?})",
                self.pid, error.message, error.task, error.object, error.actor
            ));
        }
    }

    /// Checks that a value is the one that its call makes of its inputs.
    fn check_value(
        &self,
        core: &mut Core,
        bytes: &[u8],
        expect: Expect,
        what: &str,
    ) -> Option<Val> {
        let Ok(value) = Val::decode(bytes) else {
            core.violation(format!("SHM-1: p{} reads {what}: not what was written", self.pid));
            return None;
        };
        if expect.raises {
            core.violation(format!("{what} has a value where it should raise"));
        } else if value.hash != expect.hash {
            core.violation(format!("{what} has the value of something else"));
        }
        core.facts.count("values");
        Some(value)
    }

    /// The arguments of a call that is about to run; the error that it fails with at once.
    pub(super) fn check_inputs(
        &self,
        core: &mut Core,
        body: &Body,
        payloads: &[Payload],
    ) -> Option<Vec<u8>> {
        if body.deps.len() != payloads.len() {
            core.violation(format!(
                "a call has {} arguments instead of {}",
                payloads.len(),
                body.deps.len()
            ));
        }
        for (payload, expect) in payloads.iter().zip(&body.deps) {
            let (bytes, is_error) = self.bytes(core, payload);
            if is_error {
                self.check_error(core, &bytes, *expect, ("an argument", None, 0));
                return Some(bytes);
            }
            self.check_value(core, &bytes, *expect, "an argument");
        }
        None
    }

    /// **SHM-1** What a frame holds pinned is at its end what it was at its begin.
    pub(super) fn check_pins(&self, core: &mut Core, frame: &Frame) {
        for (payload, expect) in frame.payloads.iter().zip(&frame.body.deps) {
            if matches!(payload.bytes, Bytes::Pinned(_)) {
                let (bytes, _) = self.bytes(core, payload);
                self.check_value(core, &bytes, *expect, "a pinned argument, once more,");
            }
        }
    }

    pub(super) fn get(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        slots: &[Slot],
        open: bool,
    ) -> Step {
        let wanted: Vec<(ObjectId, Expect)> = slots
            .iter()
            .filter_map(|slot| match frame.slots.get(slot)? {
                Held::Ref { id, expect } => Some((*id, *expect)),
                Held::Actor { .. } | Held::Stream { .. } | Held::Group { .. } => None,
            })
            .collect();
        if !matches!(frame.wait, Wait::News) {
            (frame.wait, frame.read_since) = (Wait::News, core.now);
            let ids: Vec<ObjectId> = wanted.iter().map(|(id, _)| *id).collect();
            if let Some(machine) = &mut self.machine {
                machine.begin_read(&ids);
                machine.watch_borrowed(&ids);
            }
            self.execute_actions(core);
            self.write_out(core);
        }
        let mut payloads = Vec::new();
        for (id, expect) in &wanted {
            if let Some(payload) = self.read(core, *id) {
                payloads.push((*id, *expect, payload));
            } else if self.owner().is_some_and(|owner| owner.object(id).is_none()) {
                core.violation(format!(
                    "p{} holds {} and its owner machine does not know it",
                    self.pid,
                    short(*id)
                ));
                return Step::Next;
            }
        }
        let read = |payload: &Payload| self.bytes(core, payload);
        let raised = payloads.iter().find_map(|(id, expect, payload)| match read(payload) {
            (bytes, true) => Some((*id, *expect, bytes)),
            (_, false) => None,
        });
        if let Some((id, expect, bytes)) = raised {
            self.check_error(core, &bytes, expect, (&short(id), Some(id), frame.read_since));
            return self.raise(frame, bytes);
        }
        if payloads.len() < wanted.len() {
            return Step::Stay;
        }
        for (id, expect, payload) in payloads {
            let (bytes, _) = self.bytes(core, &payload);
            let value = self.check_value(core, &bytes, expect, &short(id));
            if let Some(group) = core.facts.history.group_ready_with(id)
                && !core.is_held(group)
            {
                core.violation(format!(
                    "group {group} is ready, and not all its bundles were held"
                ));
            }
            for inner in value.filter(|_| open).map(|value| value.inner).unwrap_or_default() {
                let held = self.take_over(core, &inner);
                frame.opened += 1;
                frame.slots.insert(frame.opened, held);
            }
        }
        Step::Next
    }

    /// `get` with a timeout: what was asked for may come later, for nobody.
    pub(super) fn try_get(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        slots: &[Slot],
        for_us: u64,
    ) -> Step {
        match self.get(core, frame, slots, false) {
            Step::Stay if self.is_late(core, frame, for_us) => {
                core.facts.count("reads given up");
                Step::Next
            }
            step => step,
        }
    }

    /// `wait`: what it calls ready is there.
    pub(super) fn await_some(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        slots: &[Slot],
        (count, fetch): (usize, bool),
        for_us: u64,
    ) -> Step {
        let held = slots.iter().filter_map(|slot| match frame.slots.get(slot)? {
            Held::Ref { id, .. } => Some(*id),
            Held::Actor { .. } | Held::Stream { .. } | Held::Group { .. } => None,
        });
        let wanted: Vec<ObjectId> = held.collect();
        let Some(machine) = &mut self.machine else { return Step::Next };
        if !matches!(frame.wait, Wait::News) {
            frame.wait = Wait::News;
            machine.watch_borrowed(&wanted);
        }
        let ready: Vec<ObjectId> =
            wanted.iter().copied().filter(|id| machine.is_ready(*id, fetch)).collect();
        // The refusal stays for who reads the object next.
        let absent = ready.iter().find(|id| {
            let is_here = machine.peek(**id).is_some() || machine.is_refused(**id);
            machine.is_pending(**id) || fetch && !is_here
        });
        let absent = absent.copied();
        self.execute_actions(core);
        self.write_out(core);
        if let Some(id) = absent {
            core.violation(format!("{} counts as ready and is not there", short(id)));
        }
        core.facts.count("waits");
        match ready.len() >= count.min(wanted.len()) || self.is_late(core, frame, for_us) {
            true => Step::Next,
            false => Step::Stay,
        }
    }

    /// Whether the frame has waited so long for what it does now.
    fn is_late(&self, core: &mut Core, frame: &mut Frame, for_us: u64) -> bool {
        let deadline = *frame.deadline.get_or_insert(core.now + for_us);
        if core.now < deadline {
            core.at(deadline, crate::core::Event::Run { pid: self.pid });
        }
        core.now >= deadline
    }

    pub(super) fn take(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        from: Slot,
        to: Slot,
    ) -> Step {
        let before = frame.opened;
        let step = self.get(core, frame, &[from], true);
        if frame.opened > before
            && let Some(held) = frame.slots.remove(&frame.opened)
        {
            frame.slots.insert(to, held);
        }
        step
    }

    pub(super) fn next_item(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        stream: Slot,
        to: Slot,
    ) -> Step {
        let Some(Held::Stream { id, body, next }) = frame.slots.get(&stream).cloned() else {
            return Step::Next;
        };
        let task = id.task();
        let state =
            self.owner().and_then(|owner| owner.stream(&task)).map(|s| (s.arrived, s.total));
        let Some((arrived, total)) = state else { return Step::Next };
        if next < arrived {
            core.facts.history.items_taken(task, next + 1);
            self.tell_owner(core, Event::StreamRead { task, index: next });
            let item = Owner::stream_item(task, next);
            let known = self.owner().and_then(|owner| owner.object(&item));
            if known.is_some_and(|known| matches!(known.value(), Stored::Error(_))) {
                core.facts.history.item_failed(task);
            }
            // An item after the last can only be the error with which the generator ended.
            let expect = Expect { hash: body.result(1000 + next), raises: next >= body.count };
            frame.slots.insert(to, Held::Ref { id: item, expect });
            frame.slots.insert(stream, Held::Stream { id, body, next: next + 1 });
            return Step::Next;
        }
        match total {
            Some(total) if next >= total => {
                // A generator that fails yields its error last.
                if next < body.count && !core.facts.history.has_failed_item(task) {
                    core.violation(format!("a stream of {} items ended after {next}", body.count));
                }
                Step::Next
            }
            _ => Step::Stay,
        }
    }

    pub(super) fn recall(&mut self, core: &mut Core, frame: &mut Frame, first: Slot) -> Step {
        let kept: Vec<Held> =
            self.actor.as_ref().map(|actor| actor.kept.clone()).unwrap_or_default();
        for (slot, held) in (first..first + 8).zip(kept) {
            let id = match &held {
                Held::Ref { id, .. } | Held::Stream { id, .. } => Some(*id),
                Held::Actor { handle, .. } => *handle,
                Held::Group { .. } => None,
            };
            if let Some(id) = id {
                self.tell_owner(core, Event::AddRef { id });
            }
            frame.slots.insert(slot, held);
        }
        Step::Next
    }

    /// **STATE-2** A detached actor whose creation was acknowledged can be looked up.
    pub(super) fn named(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        name: &str,
        to: Slot,
    ) -> Step {
        let (space, own) = in_space(name);
        let get = GetNamedActor { name: own.to_owned(), namespace: space.to_owned() };
        let Some(answer) = self.control(core, frame, get) else { return Step::Stay };
        let wanted = core.facts.detached.get(name).copied();
        match answer {
            ControlResponse::NamedActor(found) => {
                self.tell_owner(core, Event::KnowActor { actor: found.actor_id, handle: None });
                frame.slots.insert(to, Held::Actor { id: found.actor_id, handle: None });
            }
            _ if wanted.is_some_and(|actor| !core.facts.history.actor_may_be_over(actor)) => {
                core.violation(format!("STATE-2: the acknowledged detached actor {name} is lost"));
            }
            _ => {}
        }
        Step::Next
    }

    /// **WHY-1** What a wait hangs on, for the report.
    pub(super) fn explain(&self, frame: &Frame) -> String {
        let mut text = frame.whereabouts();
        for held in frame.slots.values() {
            if let (Held::Ref { id, .. }, Some(owner)) = (held, self.owner())
                && let Some(object) = owner.object(id)
                && !object.is_ready()
            {
                let kind = if object.owner().is_some() { "borrowed" } else { "own" };
                let is_open = owner.is_unfinished(&id.task());
                text.push_str(&format!(
                    "\n  {} is {kind} and pending, its call is open: {is_open}",
                    short(*id)
                ));
            }
        }
        text
    }
}

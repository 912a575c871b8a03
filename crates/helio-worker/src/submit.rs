//! Calls: tasks, actors and their methods, streams, and requests to the control service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_owner_state::{
    Actor, Creation, Event as OwnerEvent, Owner, Target, TaskSpec, handle_object,
};
use helio_process_state::{Answer, CreationOutcome, Event};
use helio_proto::control::{ActorSpec, ControlRequest, ControlResponse};
use helio_proto::node::LeaseClass;
use helio_proto::peer::STREAMING;
use helio_proto::template::Template;
use helio_types::{ActorId, ObjectId, TaskId};

use crate::api::{ActorCreated, CallArgs, Error, Interrupt, Retry, StreamNext};
use crate::runtime::Runtime;

impl Runtime {
    /// Calls a function on any worker of a class; one handle of each return is held.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn submit(
        &self,
        template: &Arc<Template>,
        class: &Arc<LeaseClass>,
        args: CallArgs,
        returns: u32,
        retry: Retry,
    ) -> Result<Vec<ObjectId>, Error> {
        let mut state = self.settled();
        state.check_open()?;
        let id = state.process.new_task();
        let parent = state.process.current_task();
        let spec = TaskSpec {
            id,
            template: template.clone(),
            target: Target::Class(class.clone()),
            args,
            returns,
            retry,
            parent,
            handle: None,
        };
        state.apply(Event::Owner(OwnerEvent::Submit { spec: Arc::new(spec) }));
        self.changed(state);
        Ok(return_ids(id, returns))
    }

    /// A fresh actor id.
    #[must_use]
    pub fn new_actor_id(&self) -> ActorId {
        self.state.lock().process.new_actor()
    }

    /// Makes an actor. An unnamed one's creation is only begun; for a named one the control service's
    /// answer is waited for.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name is taken.
    pub fn create_actor(
        &self,
        spec: ActorSpec,
        template: &Arc<Template>,
        args: CallArgs,
        interrupt: Interrupt<'_>,
    ) -> Result<ActorCreated, Error> {
        let (actor, named, detached) = (spec.actor_id, !spec.name.is_empty(), spec.detached);
        let handle = (!detached).then(|| handle_object(actor));
        let request = {
            let mut state = self.settled();
            state.check_open()?;
            let spec = ActorSpec {
                template: helio_proto::encode::<Template>(template),
                owner: (*self.address).clone(),
                job_id: state.process.job().job_id,
                job_config: state.process.job_wire().to_vec(),
                ..spec
            };
            let request = state.process.mint_request();
            // Before the creation: its answer may come at once.
            if named {
                state.apply(Event::AwaitCreation { request, actor });
            }
            let creation = Creation { spec, args, handle };
            state.apply(Event::Owner(OwnerEvent::CreateActor { creation: Box::new(creation) }));
            self.changed(state);
            request
        };
        let created = ActorCreated { actor, handle: handle.unwrap_or_default(), existing: None };
        if !named {
            return Ok(created);
        }
        let outcome = CreationOutcome::of(self.control_answer(request, None, interrupt)?, actor);
        // The handle was made for an actor that does not come to be.
        if outcome != CreationOutcome::Made
            && let Some(handle) = handle
        {
            self.drop_ref(handle);
        }
        match outcome {
            CreationOutcome::Made => Ok(created),
            CreationOutcome::Exists { actor, handle } => {
                Ok(ActorCreated { actor, handle: ObjectId::NIL, existing: Some(handle) })
            }
            CreationOutcome::Refused(failure) => Err(Error::Refused(failure)),
        }
    }

    /// Calls an actor's method; one handle of each return is held.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn call_actor(
        &self,
        actor: ActorId,
        template: &Arc<Template>,
        args: CallArgs,
        returns: u32,
        retry: Retry,
    ) -> Result<Vec<ObjectId>, Error> {
        let mut state = self.settled();
        state.check_open()?;
        let id = state.process.new_method_call(actor);
        let handle = state.process.owner().actor(&actor).and_then(Actor::handle);
        let parent = state.process.current_task();
        let spec = TaskSpec {
            id,
            template: template.clone(),
            target: Target::Actor(actor),
            args,
            returns,
            retry,
            parent,
            handle,
        };
        state.apply(Event::Owner(OwnerEvent::Submit { spec: Arc::new(spec) }));
        self.changed(state);
        Ok(return_ids(id, returns))
    }

    /// A handle of an actor arrived, with the object that stands for it (`None`: a weak handle).
    pub fn know_actor(&self, actor: ActorId, handle: Option<ObjectId>) {
        self.state.lock().apply(Event::Owner(OwnerEvent::KnowActor { actor, handle }));
    }

    /// Whether this is an actor that was made or called here.
    #[must_use]
    pub fn knows_actor(&self, actor: ActorId) -> bool {
        self.state.lock().process.owner().actor(&actor).is_some()
    }

    /// Calls to the actor that have not ended.
    #[must_use]
    pub fn actor_pending_calls(&self, actor: ActorId) -> usize {
        self.state.lock().process.owner().actor(&actor).map_or(0, Actor::pending_calls)
    }

    /// Ends an actor.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn kill_actor(&self, actor: ActorId, no_restart: bool) -> Result<(), Error> {
        let mut state = self.settled();
        state.check_open()?;
        state.apply(Event::Owner(OwnerEvent::KillActor { actor, no_restart }));
        self.changed(state);
        Ok(())
    }

    /// Stops the call that returns `object`; nothing happens if it has ended.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn cancel(&self, object: ObjectId, force: bool, recursive: bool) -> Result<(), Error> {
        let mut state = self.settled();
        state.check_open()?;
        state.apply(Event::Owner(OwnerEvent::Cancel { object, force, recursive }));
        self.changed(state);
        Ok(())
    }

    /// Asks the control service.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn control(
        &self,
        message: ControlRequest,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<ControlResponse, Error> {
        // Let go of before the wait: the thread that polls needs the state to take the answer in.
        let request = {
            let mut state = self.settled();
            state.check_open()?;
            let request = state.process.mint_request();
            state.apply(Event::Ask { request, message: Box::new(message) });
            request
        };
        self.control_answer(request, timeout, interrupt)
    }

    fn control_answer(
        &self,
        request: u64,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<ControlResponse, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let answer = self.wait_until(deadline, interrupt, |state| {
            match state.process.take_answer(request) {
                Some(Answer::Control(response)) => Some(response),
                _ => None,
            }
        });
        // Nobody takes the answer any more: it would stay in the table for ever.
        if answer.is_err() {
            self.state.lock().process.forget_request(request);
        }
        answer
    }

    /// Asks the control service; the answer becomes an object, of which one handle is held: `kept` when
    /// it says yes, the refusal as an error when it says no.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn promise(&self, message: ControlRequest, kept: Vec<u8>) -> Result<ObjectId, Error> {
        let mut state = self.settled();
        state.check_open()?;
        let id = state.process.new_put();
        state.apply(Event::Promise { object: id, message: Box::new(message), value: kept });
        self.changed(state);
        Ok(id)
    }

    /// Tells the control service something whose answer does not matter.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn tell_control(&self, message: ControlRequest) -> Result<(), Error> {
        let mut state = self.settled();
        state.check_open()?;
        state.apply(Event::Tell(Box::new(message)));
        self.changed(state);
        Ok(())
    }

    /// The next item of a stream; one handle of it is held. `generator` is the call's return.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn stream_next(
        &self,
        generator: ObjectId,
        index: u32,
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<StreamNext, Error> {
        let task = generator.task();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        self.wait_until(deadline, interrupt, |state| {
            let Some(stream) = state.process.owner().stream(&task) else {
                return Some(StreamNext::End);
            };
            if index < stream.arrived {
                state.apply(Event::Owner(OwnerEvent::StreamRead { task, index }));
                return Some(StreamNext::Item(Owner::stream_item(task, index)));
            }
            stream.total.is_some_and(|total| index >= total).then_some(StreamNext::End)
        })
    }

    /// Whether [`Runtime::stream_next`] would not wait; `None` at the end of the stream.
    #[must_use]
    pub fn stream_ready(&self, generator: ObjectId, index: u32) -> Option<bool> {
        let state = self.state.lock();
        let stream = state.process.owner().stream(&generator.task())?;
        if index < stream.arrived {
            return Some(true);
        }
        if stream.total.is_some() { None } else { Some(false) }
    }

    /// The front reads no more of a stream.
    pub fn stream_drop(&self, generator: ObjectId) {
        let mut state = self.settled();
        state.apply(Event::Owner(OwnerEvent::StreamDropped { task: generator.task() }));
        self.changed(state);
    }
}

fn return_ids(task: TaskId, returns: u32) -> Vec<ObjectId> {
    let n = if returns == STREAMING { 1 } else { returns };
    (1..=n).map(|index| task.object(index)).collect()
}

//! Messages of daemons: this node's, and those of other nodes, which lend workers.

use std::sync::Arc;

use helio_owner_state::{Event as OwnerEvent, Object, OutgoingValue, Stored, sentence};
use helio_proto::control::{ActorLaunch, ControlResponse, Failure, FailureKind};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::inspect::{Answer as Rows, Answered, Asked, Topic};
use helio_proto::node::{
    AbortObject, Expected, FetchObject, JobConfig, LesseeGone, NodeDied, NodeToClient, Notice,
    ReleaseObject, Stays,
};
use helio_proto::peer::{Args, Frame};
use helio_proto::raw::Raw;
use helio_proto::template::Template;
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerAddress, mutant};

use super::Process;
use super::last_frames::Death;
use crate::event::Action;
use crate::executor::{Construct, Item, Waiting, Work};
use crate::questions::{Asker, HOPS_OF_NODE};
use crate::requests::{Answer, Pending};
use crate::value::{Bytes, Memory, Payload};

/// Returns the error that reading a promise raises which the control service refused.
fn refusal(failure: Failure) -> Vec<u8> {
    let kind = match failure.kind {
        FailureKind::GroupRemoved => ErrorKind::TaskGroupRemoved,
        _ => ErrorKind::System,
    };
    SystemError::new(kind, failure.message).to_payload()
}

impl<M: Memory> Process<M> {
    pub(crate) fn decode_from_daemon(&self, bytes: &[u8]) -> Result<NodeToClient, String> {
        helio_proto::decode(bytes).map_err(|_| "malformed message".to_owned())
    }

    pub(crate) fn on_own_node(&mut self, message: NodeToClient) {
        let node = self.owner.address().node_id;
        match message {
            NodeToClient::ObjectCreated(m) => self.on_granted(m.request_id, Ok(m.offset)),
            NodeToClient::ObjectRefused(m) => self.on_refused(m.request_id, m.failure),
            NodeToClient::ObjectFetched(m) => self.on_fetched(m.request_id, m.offset, m.size),
            NodeToClient::ObjectMissing(m) => self.on_missing(m.request_id, &m.gone, &m.reason),
            NodeToClient::ArgumentsAdmitted(m) => self.on_arguments_admitted(m.request_id),
            NodeToClient::ControlReply(m) => self.on_control_reply(m.request_id, m.response),
            NodeToClient::LivenessReply(m) => {
                if let Some(Pending::Liveness { worker }) = self.requests.close(m.request_id) {
                    if m.dead {
                        self.links.forget_epoch(worker);
                    }
                    self.on_owner(OwnerEvent::Liveness { worker, dead: m.dead });
                }
            }
            NodeToClient::LogLines(m) => {
                self.actions.push(Action::ShowLines(m.lines));
                self.signals.news = true;
            }
            NodeToClient::LogsFlushed(m) => self.confirmed(m.request_id),
            NodeToClient::Expected(m) => self.on_expected(m),
            // Others hold what this process owns, which would be lost with it.
            NodeToClient::Exit(m) if m.unless_needed && self.owner.is_needed() => {
                self.links.tell_node(Stays {});
            }
            NodeToClient::Exit(m) if m.drain => {
                self.executor.push_exit(m.reason);
                self.work_arrived();
            }
            NodeToClient::Exit(m) => {
                self.end_at_once(m.reason);
            }
            NodeToClient::LesseeGone(m) => self.on_lessee_gone(m),
            NodeToClient::StartActor(launch) => self.on_start_actor(launch),
            NodeToClient::ActorUpdate(info) => self.on_actor_news(info),
            NodeToClient::Notice(notice) => self.notify(notice),
            NodeToClient::WhyReply(m) => self.explained(m.request_id, &sentence(&m.why)),
            NodeToClient::Asked(asked) => self.on_asked(asked),
            NodeToClient::Inspected(m) => {
                if let Some(Pending::Inspection) = self.requests.close(m.request_id) {
                    self.requests.answer(m.request_id, Answer::Inspected(Box::new(m)));
                    self.signals.news = true;
                }
            }
            NodeToClient::NodeDied(m) => self.on_node_died(m),
            NodeToClient::RoomWanted(_) => {
                self.store.give_room();
                // Values that Python has let go of may not have been told of yet.
                self.actions.push(Action::CollectReleased);
                self.signals.news = true;
            }
            other => self.on_remote_node(node, other),
        }
    }

    /// News of leases, from any daemon.
    pub(crate) fn on_remote_node(&mut self, node: NodeId, message: NodeToClient) {
        match message {
            NodeToClient::LeaseGranted(grant) => {
                self.on_owner(OwnerEvent::LeaseGranted { grant: Box::new(grant), node });
            }
            NodeToClient::LeaseRefused(m) => {
                let (request, failure) = (m.request_id, m.failure);
                self.on_owner(OwnerEvent::LeaseRefused { request, failure });
            }
            NodeToClient::LeaseSpillback(m) => {
                self.on_owner(OwnerEvent::LeaseSpilled { request: m.request_id, node: m.node });
            }
            NodeToClient::LeasePending(m) => {
                if m.infeasible {
                    let name = self.owner.name_of_request(m.request_id).unwrap_or("A task");
                    let text = format!(
                        "{name} waits for a worker. {} It goes on when a node joins that can run it.",
                        sentence(&m.why)
                    );
                    self.notify(Notice { is_warning: true, text });
                }
                self.on_owner(OwnerEvent::LeasePending { request: m.request_id });
            }
            NodeToClient::WhyReply(m) => self.explained(m.request_id, &sentence(&m.why)),
            NodeToClient::RevokeLease(m) => {
                self.on_owner(OwnerEvent::LeaseRevoked { node, lease: m.lease_id });
            }
            NodeToClient::LeaseLost(m) => {
                // Its last replies may still be unread on its own connection: they count.
                self.after_last_frames(m.worker_id, Death::Worker(node, m));
            }
            // The daemon's node leaves.
            NodeToClient::NodeDied(m) if m.node_id == node => self.on_node_died(m),
            _ => {}
        }
    }

    /// The process that leased this worker has died. If one of its calls runs here, this process ends at once.
    /// Otherwise it is free for others, and calls of the dead process that have not begun are dropped, including
    /// those still unread in a connection. Replies of the dead process to calls of this one still count.
    fn on_lessee_gone(&mut self, gone: LesseeGone) {
        if self.executor.runs_for(gone.worker_id) {
            return self.end_at_once(gone.reason);
        }
        self.links.end_lease(gone.lease_id);
        self.drop_calls_of(gone.worker_id);
        self.after_last_frames(gone.worker_id, Death::Lessee(gone.worker_id));
        // The daemon lends this worker on only when it has said that it runs nothing of the dead.
        self.links.tell_node(Stays {});
    }

    /// Ends this process whatever its threads do.
    pub(crate) fn end_at_once(&mut self, reason: String) {
        // What is known of its calls goes to the daemon first: nobody can ask this process afterwards.
        self.actions.push(Action::LastWords);
        self.actions.push(Action::ForceExit { reason: reason.clone() });
        self.executor.push_urgent(Work::Exit { reason, drain: false });
        self.work_arrived();
    }

    /// A node is dead; the connection to its daemon may live on, if the daemon only hangs.
    fn on_node_died(&mut self, died: NodeDied) {
        let NodeDied { node_id: node, heir } = died;
        let heir = Some(heir).filter(|heir| !heir.node_id.is_nil());
        let has_died = heir.is_none();
        self.on_owner(OwnerEvent::NodeDied { node, heir });
        // The connection to the own daemon is this process's life: that it breaks is noticed by itself.
        if node == self.owner.address().node_id {
            return;
        }
        // A daemon that only hangs would keep its connection open, and requests to it would wait for ever.
        if let Some(link) = self.links.to_node(node) {
            self.on_closed(link);
            self.actions.push(Action::Close { link, reason: None });
        }
        // Nobody closes the connections to processes of a machine without power. Of a node that left in order the
        // processes have ended themselves.
        if has_died && !mutant!("links-into-dead-nodes-stay") {
            self.end_links_into(node);
        }
    }

    /// A worker is ready for the first call: a connection to it is opened now.
    fn on_expected(&mut self, Expected { request_id, worker }: Expected) {
        let link = (!worker.worker_id.is_nil()).then(|| self.open_process(&worker.into()));
        match link {
            // The answers for all but the last of the workers: nobody waits for those.
            _ if request_id == 0 => {}
            Some(link) if !self.links.is_greeted(link) => {
                self.awaited_greeting = Some((link, request_id));
            }
            Some(_) | None => self.confirmed(request_id),
        }
    }

    /// The thread that waits for this request goes on.
    fn confirmed(&mut self, request: u64) {
        if let Some(Pending::Notice) = self.requests.close(request) {
            self.requests.answer(request, Answer::Done);
            self.signals.news = true;
        }
    }

    /// The other end of a link has answered the greeting, or is gone.
    pub(crate) fn greeting_ended(&mut self, link: u64) {
        if let Some((_, request)) = self.awaited_greeting.take_if(|(awaited, _)| *awaited == link) {
            self.confirmed(request);
        }
    }

    fn on_control_reply(&mut self, request: u64, response: ControlResponse) {
        match self.requests.close(request) {
            Some(Pending::Control) => {
                self.requests.answer(request, Answer::Control(response));
                self.signals.news = true;
            }
            Some(Pending::Creation { actor, awaited }) => {
                if let Some(thread) = self.awaited_creations.remove(&actor).filter(|_| awaited) {
                    self.requests.answer(thread, Answer::Control(response.clone()));
                }
                self.signals.news = true;
                let response = Box::new(response);
                self.on_owner(OwnerEvent::ActorCreated { actor, response });
            }
            Some(Pending::ActorNews) => {
                if let ControlResponse::Actor(info) = response {
                    self.on_actor_news(info);
                }
            }
            Some(Pending::GroupExplanation { explanation }) => {
                self.group_explained(explanation, &response);
            }
            // Only now is the change durable, so only now may a reader of the promised object go on.
            Some(Pending::Promise { object, value, .. }) => {
                let value = match response {
                    ControlResponse::Failed(failure) => OutgoingValue::Error(refusal(failure)),
                    _ => OutgoingValue::Inline(value),
                };
                self.on_owner(OwnerEvent::Resolve { id: object, value });
            }
            _ => {}
        }
    }
}

/// The object store.
impl<M: Memory> Process<M> {
    fn on_granted(&mut self, request: u64, grant: Result<u64, Failure>) {
        match self.requests.close(request) {
            Some(Pending::Grant { object, awaited: true, .. }) => {
                match grant {
                    Ok(offset) => {
                        self.store.begin_writing(object);
                        self.requests.grant(request, object, offset);
                    }
                    Err(failure) => self.requests.answer(request, Answer::Grant(Err(failure))),
                }
                self.signals.news = true;
            }
            // The thread that asked has been interrupted meanwhile: the room is not needed.
            Some(Pending::Grant { object, .. }) if grant.is_ok() => {
                self.links.tell_node(AbortObject { object_id: object });
            }
            _ => {}
        }
    }

    /// Ends a request for which the store has no room: to write an object, or to read one here.
    fn on_refused(&mut self, request: u64, failure: Failure) {
        let Some(Pending::Fetch { object, .. }) = self.requests.get(request) else {
            return self.on_granted(request, Err(failure));
        };
        let id = *object;
        // A reader that came after the request may be luckier: there may be room by now.
        if self.end_fetch(request, id)
            && let Some(Stored::Stores { locations, .. }) =
                self.owner.object(&id).map(Object::value)
        {
            let locations = locations.clone();
            return self.fetch(id, locations);
        }
        let kind = match failure.kind {
            FailureKind::OutOfDisk => ErrorKind::OutOfDisk,
            FailureKind::StoreFull => ErrorKind::StoreFull,
            _ => ErrorKind::ObjectLost,
        };
        let error = SystemError { object: id, ..SystemError::new(kind, failure.message) };
        let error = error.to_payload();
        // A call runs with the error in place of its argument, which tells its caller the reason.
        self.argument_arrived(id, &Payload::error(error.clone()));
        self.store.refuse(id, error, self.now);
        self.look_at_watched(id);
    }

    /// Brings the bytes of an object that is referred to here to this node, once for all that want them.
    pub(crate) fn fetch(&mut self, id: ObjectId, locations: Vec<NodeAddress>) {
        let owner = self.owner_of(id);
        self.fetch_of(id, locations, owner);
    }

    /// Brings the bytes of an object of that owner to this node, as [`Self::fetch`] does.
    pub(crate) fn fetch_of(
        &mut self,
        id: ObjectId,
        locations: Vec<NodeAddress>,
        owner: Option<Arc<WorkerAddress>>,
    ) {
        if self.store.is_fetching(id) {
            return;
        }
        let here = self.owner.address().node_id;
        // The store keeps a copy under the owner's name, so that it goes when that process dies.
        let is_copied = !locations.iter().any(|location| location.node_id == here);
        let copy_of = owner.filter(|_| is_copied);
        let (owner, owner_node) =
            copy_of.as_ref().map(|owner| (owner.worker_id, owner.node_id)).unwrap_or_default();
        let request_id = self.requests.begin(Pending::Fetch { object: id, copy_of });
        self.store.begin_fetch(id);
        let fetch = FetchObject { request_id, object_id: id, locations, owner, owner_node };
        self.links.tell_node(fetch);
    }

    /// Returns the owner of an object that is referred to here, or is an argument of a call that waits here.
    fn owner_of(&self, id: ObjectId) -> Option<Arc<WorkerAddress>> {
        match self.owner.object(&id) {
            Some(object) => Some(object.owner().unwrap_or(self.owner.address()).clone()),
            None => Some(Arc::new(self.executor.lacks(id)?.owner.clone())),
        }
    }

    /// Whether a reader has begun since the request.
    fn end_fetch(&mut self, request: u64, id: ObjectId) -> bool {
        self.requests.close(request);
        self.signals.news = true;
        self.store.end_fetch(id)
    }

    fn fetched_object(&self, request: u64) -> Option<ObjectId> {
        match self.requests.get(request)? {
            Pending::Fetch { object, .. } => Some(*object),
            _ => None,
        }
    }

    fn on_fetched(&mut self, request: u64, offset: u64, size: u64) {
        let Some(Pending::Fetch { object: id, copy_of }) = self.requests.get(request) else {
            return;
        };
        let (id, copy_of) = (*id, copy_of.clone());
        self.end_fetch(request, id);
        if let Some(owner) = copy_of {
            self.tell_of_copy(id, &owner);
        }
        let is_wanted = self.owner.object(&id).is_some() || self.executor.lacks(id).is_some();
        if !is_wanted && !mutant!("late-object-pinned") {
            // The reader has let go of the object meanwhile.
            self.links.tell_node(ReleaseObject { object_id: id, pins: 1 });
            return;
        }
        let Some(payload) = self.store.pin(id, offset, size) else {
            self.links.tell_node(ReleaseObject { object_id: id, pins: 1 });
            return;
        };
        self.arrivals += 1;
        self.argument_arrived(id, &payload);
        self.look_at_watched(id);
        self.supply(id);
        // `supply` only queues: it may be called in the midst of the owner's actions.
        self.run_owner();
    }

    /// Tells the owner of an object that this node has a copy now: it names the copy to readers when another one is
    /// lost, and frees it with the object. The object may have gone meanwhile, also for its owner.
    fn tell_of_copy(&mut self, id: ObjectId, owner: &Arc<WorkerAddress>) {
        let node = self.node_address();
        if owner.worker_id == self.owner.address().worker_id {
            self.on_owner(OwnerEvent::Copied { id, node });
        } else {
            self.send_frame(owner, &Frame::LocationAdded { object: id, node });
        }
    }

    /// The object is on none of the nodes `gone`, or is somewhere and cannot come here.
    fn on_missing(&mut self, request: u64, gone: &[NodeId], reason: &str) {
        let Some(id) = self.fetched_object(request) else { return };
        self.end_fetch(request, id);
        for node in gone {
            self.on_owner(OwnerEvent::LocationLost { id, node: *node });
        }
        self.look_at_watched(id);
        if gone.is_empty() {
            self.argument_failed(id, ErrorKind::ObjectLost, reason);
        } else {
            self.recover_argument(id, gone);
        }
    }

    /// Calls that wait for the object run with an error in its place.
    fn argument_failed(&mut self, id: ObjectId, kind: ErrorKind, reason: &str) {
        let error = SystemError { object: id, ..SystemError::new(kind, reason) };
        self.argument_arrived(id, &Payload::error(error.to_payload()));
    }
}

/// The identity of this process, and its answers about itself.
impl<M: Memory> Process<M> {
    fn on_start_actor(&mut self, launch: ActorLaunch) {
        let ActorLaunch { spec, incarnation, assigned, .. } = launch;
        let (Ok(template), Ok(args), Ok(job)) = (
            helio_proto::decode::<Template>(&spec.template),
            Args::get(&spec.args),
            helio_proto::decode::<JobConfig>(&spec.job_config),
        ) else {
            return self.end("an actor's specification could not be read");
        };
        self.set_job(job.clone());
        // From here on tasks are refused: this process is the actor's until it ends.
        self.executor.serve_actor();
        let body = (!args.stored_body).then(|| Bytes::of(args.body));
        let inputs = self.inputs(args.deps);
        let construct = Construct {
            spec,
            template: template.into(),
            incarnation,
            assigned,
            job,
            body: Payload::value(Bytes::of(Vec::new())),
            deps: Vec::new(),
        };
        self.executor.push(Waiting { item: Item::Construct(Box::new(construct)), body, inputs });
        self.work_arrived();
    }

    /// The job that this worker serves: what it submits carries the same configuration.
    pub(crate) fn set_job(&mut self, job: JobConfig) {
        if self.job != job {
            // Each lease carries it: it is encoded once for all of them.
            self.job_wire = helio_proto::encode(&job);
            self.job = job;
        }
    }

    fn on_asked(&mut self, asked: Asked) {
        if asked.question.topic != Topic::Why {
            return self.actions.push(Action::Report(asked));
        }
        match self.subject_of(&asked.question) {
            Some(subject) => self.explain(subject, HOPS_OF_NODE, Asker::Node(asked.request_id)),
            None => {
                let answer = self.signed_rows();
                self.links
                    .tell_node(Answered { request_id: asked.request_id, answer: Raw::of(&answer) });
            }
        }
    }

    /// Rows of the state API without any row: who answers.
    #[must_use]
    pub fn signed_rows(&self) -> Rows {
        let me = self.owner.address();
        Rows {
            worker_id: me.worker_id,
            node_id: me.node_id,
            host: me.host.clone(),
            pid: self.pid,
            is_driver: self.is_driver,
            job_id: self.job.job_id,
            ..Rows::default()
        }
    }

    fn notify(&mut self, notice: Notice) {
        self.actions.push(Action::Notify(notice));
        self.signals.news = true;
    }
}

//! What daemons say.

use std::sync::Arc;

use helio_owner_state::Event;
use helio_proto::control::{ActorLaunch, ActorPhase, ControlResponse, Failure, FailureKind};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::group::GroupPhase;
use helio_proto::node::{
    Expected, FetchObject, JobConfig, LogsFlushed, NodeToClient, Notice, ReleaseObject, Stays,
};
use helio_proto::peer::{Args, Template};
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerId};

use crate::api::{Bytes, Construct, OutgoingValue, Payload, Pin, Work};
use crate::inbox::{Item, Waiting};
use crate::state::{Asked, LOG_LINES_MAX, State};

/// What reading a promise raises that was not kept.
fn refusal(failure: Failure) -> Vec<u8> {
    let kind = match FailureKind::from_number(failure.kind) {
        FailureKind::GroupRemoved => ErrorKind::TaskGroupRemoved,
        _ => ErrorKind::System,
    };
    SystemError::new(kind, failure.message).to_payload()
}

impl State {
    pub(crate) fn own_node_says(&mut self, message: NodeToClient) {
        let node = self.owner.address().node_id;
        match message {
            NodeToClient::ObjectCreated(m) => self.granted(m.request_id, Ok(m.offset)),
            // There is no room: for an object that was to be written, or for one to be read here.
            NodeToClient::ObjectRefused(m) if self.fetches.contains_key(&m.request_id) => {
                self.refused(m.request_id, &m.failure);
            }
            NodeToClient::ObjectRefused(m) => self.granted(m.request_id, Err(m.failure)),
            NodeToClient::ObjectFetched(m) => self.fetched(m.request_id, m.offset, m.size),
            NodeToClient::ObjectMissing(m) => self.missing(m.request_id, &m.gone, &m.reason),
            NodeToClient::ControlReply(m) => self.answered(m.request_id, m.response),
            NodeToClient::LivenessReply(m) => {
                if let Some(worker) = self.liveness_asked.remove(&m.request_id) {
                    self.apply(Event::Liveness { worker, dead: m.dead });
                }
            }
            NodeToClient::LogLines(m) => {
                self.logs.extend(m.lines);
                while self.logs.len() > LOG_LINES_MAX {
                    self.logs.pop_front();
                    self.logs_dropped += 1;
                }
                self.news = true;
            }
            NodeToClient::LogsFlushed(LogsFlushed { request_id }) => self.has_come(request_id),
            NodeToClient::Expected(m) => self.expected(m),
            NodeToClient::Exit(m) if m.unless_needed && self.owner.is_needed() => {
                self.tell_node(Stays {}.into());
            }
            NodeToClient::Exit(m) => {
                if !m.drain {
                    self.force_exit = true;
                }
                if m.drain && self.inbox.len() > 0 {
                    // What was sent before the order to end is still to be done.
                    let exit = Work::Exit { reason: m.reason, drain: true };
                    self.inbox.push(Waiting {
                        item: Item::Other(exit),
                        body: None,
                        inputs: Vec::new(),
                    });
                    self.work_came();
                } else {
                    self.add_work(Work::Exit { reason: m.reason, drain: m.drain });
                }
            }
            NodeToClient::StartActor(launch) => self.start_actor(launch),
            NodeToClient::ActorUpdate(info) => {
                if matches!(
                    ActorPhase::from_number(info.phase),
                    ActorPhase::Dead | ActorPhase::Restarting
                ) && let Some(actor) = self.owner.actor(&info.actor_id)
                    && let Some(address) = actor.address()
                {
                    self.read_last_words(address.worker_id);
                }
                self.apply(Event::ActorUpdate { info: Box::new(info) });
            }
            NodeToClient::Notice(notice) => self.tell_user(notice),
            NodeToClient::WhyReply(m) => {
                self.because(m.request_id, &helio_owner_state::sentence(&m.why));
            }
            NodeToClient::Asked(asked) => self.asked_by_node(&asked),
            NodeToClient::Inspected(m) => {
                if let Some(slot) = self.inspections.get_mut(&m.request_id) {
                    *slot = Some(m);
                    self.news = true;
                }
            }
            NodeToClient::NodeDied(m) => self.node_died(m.node_id),
            NodeToClient::RoomWanted(_) => {
                self.room_wanted += 1;
                self.news = true;
                self.return_spare_pins();
            }
            other => self.lease_news(node, other),
        }
    }

    /// A node is dead; the connection to its daemon may live on, if that only hangs.
    fn node_died(&mut self, node: NodeId) {
        self.apply(Event::NodeDied { node });
        if let Some(number) = self.nodes.get(&node).copied() {
            self.conn_ended(number, "its node has died");
        }
    }

    pub(crate) fn other_node_says(&mut self, number: u64, message: NodeToClient) {
        let node = match self.conns.get(&number).map(|conn| &conn.peer) {
            Some(crate::conn::Peer::RemoteNode(address)) => address.node_id,
            _ => return,
        };
        self.lease_news(node, message);
    }

    fn lease_news(&mut self, node: NodeId, message: NodeToClient) {
        match message {
            NodeToClient::LeaseGranted(grant) => {
                self.apply(Event::LeaseGranted { grant: Box::new(grant), node });
            }
            NodeToClient::LeaseRefused(m) => {
                self.apply(Event::LeaseRefused { request: m.request_id, failure: m.failure });
            }
            NodeToClient::LeaseSpillback(m) => {
                self.apply(Event::LeaseSpilled { request: m.request_id, node: m.node });
            }
            NodeToClient::LeasePending(m) if m.infeasible => {
                let name = self.owner.name_of_request(m.request_id).unwrap_or("A task");
                let text = format!(
                    "{name} waits for a worker. {} It goes on when a node joins that can run it.",
                    helio_owner_state::sentence(&m.why)
                );
                self.tell_user(Notice { is_warning: true, text });
            }
            NodeToClient::WhyReply(m) => {
                self.because(m.request_id, &helio_owner_state::sentence(&m.why));
            }
            NodeToClient::RevokeLease(m) => {
                self.apply(Event::LeaseRevoked { node, lease: m.lease_id })
            }
            NodeToClient::LeaseLost(m) => {
                self.read_last_words(m.worker_id);
                self.apply(Event::LeaseLost { node, lease: m.lease_id, cause: m.cause })
            }
            _ => {}
        }
    }

    /// A process has ended: what it said before is still in its connection, and goes first. News of its
    /// end came another way and may have been quicker.
    fn read_last_words(&mut self, worker: WorkerId) {
        if let Some(number) = self.peers.get(&worker).copied()
            && let Err(reason) = self.read_conn(number)
        {
            self.conn_ended(number, &reason);
        }
    }

    fn granted(&mut self, request: u64, grant: crate::state::Grant) {
        if let Some(slot) = self.grants.get_mut(&request) {
            *slot = Some(grant);
            self.news = true;
        }
    }

    /// A worker is there for what comes: the first call is to find a connection to it.
    fn expected(&mut self, Expected { request_id, worker }: Expected) {
        let number = if worker.worker_id.is_nil() { None } else { self.peer(&Arc::new(worker)) };
        match number {
            _ if request_id == 0 => {}
            Some(number) => self.awaited = Some((number, request_id)),
            None => self.has_come(request_id),
        }
    }

    /// Who waits for the answer to this request need wait no longer.
    fn has_come(&mut self, request_id: u64) {
        self.answered.insert(request_id);
        self.news = true;
    }

    /// The other end of a connection has greeted back, or is gone.
    pub(crate) fn greeting_is_over(&mut self, number: u64) {
        if let Some((_, request_id)) = self.awaited.take_if(|(awaited, _)| *awaited == number) {
            self.has_come(request_id);
        }
    }

    fn answered(&mut self, request: u64, response: ControlResponse) {
        match self.asked.remove(&request) {
            Some(Asked::Thread) => {
                self.answers.insert(request, response);
                self.news = true;
            }
            Some(Asked::Creation(actor)) => {
                if let Some(slot) = self.creations.get_mut(&actor) {
                    *slot = Some(response.clone());
                }
                self.news = true;
                self.apply(Event::ActorCreated { actor, response });
            }
            Some(Asked::News) => {
                if let ControlResponse::Actor(info) = response {
                    self.apply(Event::ActorUpdate { info: Box::new(info) });
                }
            }
            Some(Asked::Why(number)) => {
                let text = match response {
                    ControlResponse::Group(info) => {
                        let phase = GroupPhase::from_number(info.phase).name();
                        let reason = Some(info.why).filter(|why| !why.is_empty());
                        let reason = reason.map_or_else(String::new, |why| format!(": {why}"));
                        format!("The group is {phase}{reason}.")
                    }
                    ControlResponse::Failed(failure) => {
                        helio_owner_state::sentence(&failure.message)
                    }
                    _ => String::new(),
                };
                self.because(number, &text);
            }
            Some(Asked::Promise(id, kept, _)) => {
                let value = match response {
                    ControlResponse::Failed(failure) => OutgoingValue::Error(refusal(failure)),
                    _ => OutgoingValue::Inline(kept),
                };
                self.apply(Event::Resolve { id, value });
            }
            Some(Asked::Nobody) | None => {}
        }
    }

    /// Brings an object's bytes to this node, once however many want them.
    pub(crate) fn fetch(&mut self, id: ObjectId, locations: Vec<NodeAddress>) {
        if self.fetching.contains_key(&id) {
            return;
        }
        let request_id = self.request();
        self.fetching.insert(id, request_id);
        self.fetches.insert(request_id, id);
        self.tell_node(FetchObject { request_id, object_id: id, locations }.into());
    }

    fn fetched(&mut self, request: u64, offset: u64, size: u64) {
        let Some(id) = self.fetches.remove(&request) else { return };
        self.fetching.remove(&id);
        let slice = self.arena.as_ref().and_then(|arena| arena.slice(offset, size).ok());
        let Some(slice) = slice else {
            self.tell_node(ReleaseObject { object_id: id, pins: 1 }.into());
            return;
        };
        let pin = Arc::new(Pin { id, slice, returned: self.unpinned.clone() });
        self.inbox.arrived(id, &Payload { bytes: Bytes::Pinned(pin.clone()), is_error: false });
        self.work_came();
        self.pins.insert(id, pin);
        self.arrivals += 1;
        self.supply(id);
        self.perform();
    }

    fn missing(&mut self, request: u64, gone: &[NodeId], reason: &str) {
        let Some(id) = self.fetches.remove(&request) else { return };
        self.fetching.remove(&id);
        self.news = true;
        for node in gone {
            self.apply(Event::LocationLost { id, node: *node });
        }
        if !gone.is_empty() {
            return self.recover_input(id, gone);
        }
        // It is there and cannot come here.
        self.cannot_come(id, ErrorKind::ObjectLost, reason);
    }

    /// There is no room here for an object that was to be read, in memory or on disk.
    fn refused(&mut self, request: u64, failure: &Failure) {
        let Some(id) = self.fetches.remove(&request) else { return };
        self.fetching.remove(&id);
        self.news = true;
        let kind = match FailureKind::from_number(failure.kind) {
            FailureKind::OutOfDisk => ErrorKind::OutOfDisk,
            FailureKind::StoreFull => ErrorKind::StoreFull,
            _ => ErrorKind::ObjectLost,
        };
        self.cannot_come(id, kind, &failure.message);
    }

    fn cannot_come(&mut self, id: ObjectId, kind: ErrorKind, reason: &str) {
        let error = SystemError { object: id, ..SystemError::new(kind, reason) };
        let lost = Payload { bytes: Bytes::Memory(Arc::new(error.to_payload())), is_error: true };
        self.inbox.arrived(id, &lost);
        self.work_came();
    }

    fn start_actor(&mut self, launch: ActorLaunch) {
        let ActorLaunch { spec, incarnation, assigned } = launch;
        let (Ok(template), Ok(args), Ok(job)) = (
            helio_proto::decode::<Template>(&spec.template),
            Args::get(&spec.args),
            helio_proto::decode::<JobConfig>(&spec.job_config),
        ) else {
            self.close("an actor's specification could not be read");
            return;
        };
        self.set_job(job.clone());
        self.serves_actor = true;
        let body = (!args.stored_body).then(|| Bytes::Memory(Arc::new(args.body)));
        let inputs = self.inputs(args.deps);
        let construct = Construct {
            spec,
            template: Arc::new(template),
            incarnation,
            assigned,
            job,
            body: Bytes::Memory(Arc::default()),
            deps: Vec::new(),
        };
        self.inbox.push(Waiting { item: Item::Construct(Box::new(construct)), body, inputs });
        self.work_came();
    }

    /// The job that this worker serves: what it submits carries the same configuration.
    pub(crate) fn set_job(&mut self, job: JobConfig) {
        if self.job != job {
            self.job_wire = helio_proto::encode(&job);
            self.job = job;
        }
    }
}

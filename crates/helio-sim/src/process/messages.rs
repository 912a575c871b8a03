//! What daemons say; as `helio-worker`'s module of that name.

use std::rc::Rc;
use std::sync::Arc;

use helio_owner_state::{Event, OutgoingValue, Owner};
use helio_proto::control::{ActorLaunch, ControlResponse};
use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::node::{FetchObject, JobConfig, NodeToClient, ReleaseObject, Stays};
use helio_proto::peer::Args;
use helio_types::{NodeAddress, NodeId, ObjectId};

use super::inbox::{Item, Waiting};
use super::{Asked, Payload, Pin, Process};
use crate::core::Core;

impl Process {
    pub(super) fn own_node_says(&mut self, core: &mut Core, message: NodeToClient) {
        match message {
            NodeToClient::Registered(registered) => self.registered(core, registered),
            NodeToClient::ObjectCreated(m) => self.granted(m.request_id, Ok(m.offset)),
            NodeToClient::ObjectRefused(m) => self.granted(m.request_id, Err(m.failure)),
            NodeToClient::ObjectFetched(m) => self.fetched(core, m.request_id, m.offset, m.size),
            NodeToClient::ObjectMissing(m) => self.missing(core, m.request_id, &m.gone, &m.reason),
            NodeToClient::ControlReply(m) => self.answered(core, m.request_id, m.response),
            NodeToClient::LivenessReply(m) => {
                if let Some(worker) = self.liveness_asked.remove(&m.request_id) {
                    self.apply(core, Event::Liveness { worker, dead: m.dead });
                }
            }
            NodeToClient::Exit(m)
                if m.unless_needed && self.owner.as_ref().is_some_and(Owner::is_needed) =>
            {
                core.facts.count("workers that stayed");
                self.to_node(core, Stays {});
            }
            NodeToClient::Exit(m) => {
                core.note(|| format!("p{} is to exit (drain {}): {}", self.pid, m.drain, m.reason));
                if !m.drain {
                    self.dies = Some("it was told to end at once");
                } else if self.inbox.len() > 0 {
                    self.inbox.push(Waiting { item: Item::Exit, body: None, inputs: Vec::new() });
                } else {
                    self.exits = true;
                }
            }
            NodeToClient::StartActor(launch) => self.start_actor(core, launch),
            NodeToClient::ActorUpdate(info) => {
                self.apply(core, Event::ActorUpdate { info: Box::new(info) })
            }
            NodeToClient::NodeDied(m) => {
                core.facts.count("nodes declared dead");
                self.apply(core, Event::NodeDied { node: m.node_id });
                if let Some(link) = self.nodes.get(&m.node_id).copied() {
                    self.link_over(core, link);
                }
            }
            NodeToClient::RoomWanted(_) => {
                core.facts.count("pins asked for");
                self.pins.retain(|_, pin| Rc::strong_count(pin) > 1);
                // Before a waiting read fetches again what it gave up.
                self.return_pins(core);
            }
            other => {
                if let Some(node) = self.owner.as_ref().map(|owner| owner.address().node_id) {
                    self.lease_news(core, node, other);
                }
            }
        }
    }

    pub(super) fn lease_news(&mut self, core: &mut Core, node: NodeId, message: NodeToClient) {
        match message {
            NodeToClient::LeaseGranted(grant) => {
                self.apply(core, Event::LeaseGranted { grant: Box::new(grant), node });
            }
            NodeToClient::LeaseRefused(m) => {
                self.apply(core, Event::LeaseRefused { request: m.request_id, failure: m.failure });
            }
            NodeToClient::LeaseSpillback(m) => {
                core.facts.count("spills");
                self.apply(core, Event::LeaseSpilled { request: m.request_id, node: m.node });
            }
            NodeToClient::RevokeLease(m) => {
                core.facts.count("revocations");
                self.apply(core, Event::LeaseRevoked { node, lease: m.lease_id });
            }
            NodeToClient::LeaseLost(m) => {
                self.apply(core, Event::LeaseLost { node, lease: m.lease_id, cause: m.cause });
            }
            _ => {}
        }
    }

    fn granted(&mut self, request: u64, grant: Result<u64, helio_proto::control::Failure>) {
        if let Some(slot) = self.grants.get_mut(&request) {
            *slot = Some(grant);
        }
    }

    fn answered(&mut self, core: &mut Core, request: u64, response: ControlResponse) {
        match self.asked.remove(&request) {
            Some(Asked::Code) => {
                self.answers.insert(request, response);
            }
            Some(Asked::Creation(actor)) => {
                self.creations.insert(actor, response.clone());
                self.apply(core, Event::ActorCreated { actor, response });
            }
            Some(Asked::News) => {
                if let ControlResponse::Actor(info) = response {
                    self.apply(core, Event::ActorUpdate { info: Box::new(info) });
                }
            }
            Some(Asked::Promise(id, kept)) => {
                let value = match response {
                    ControlResponse::Failed(failure) => {
                        let kind = ErrorKind::TaskGroupRemoved;
                        OutgoingValue::Error(SystemError::new(kind, failure.message).to_payload())
                    }
                    _ => OutgoingValue::Inline(kept),
                };
                self.apply(core, Event::Resolve { id, value });
            }
            Some(Asked::Nobody) | None => {}
        }
    }

    /// Brings an object's bytes to this node, once however many want them.
    pub(super) fn fetch(&mut self, core: &mut Core, id: ObjectId, locations: Vec<NodeAddress>) {
        if self.fetching.contains_key(&id) {
            return;
        }
        let request_id = self.request();
        self.fetching.insert(id, request_id);
        self.fetches.insert(request_id, id);
        self.to_node(core, FetchObject { request_id, object_id: id, locations });
    }

    fn fetched(&mut self, core: &mut Core, request: u64, offset: u64, size: u64) {
        let Some(id) = self.fetches.remove(&request) else {
            return core.violation("an answer to a fetch that nobody made".to_owned());
        };
        self.fetching.remove(&id);
        if offset as usize + size as usize > core.daemons[self.node].arena.len() {
            core.violation("SHM-1: an object outside the store".to_owned());
            return self.to_node(core, ReleaseObject { object_id: id, pins: 1 });
        }
        let pin = Rc::new(Pin { id, offset, size, returned: self.unpinned.clone() });
        self.inbox.arrived(id, &Payload::Pinned(pin.clone()));
        self.pins.insert(id, pin);
        self.supply(core, id);
        self.perform(core);
    }

    fn missing(&mut self, core: &mut Core, request: u64, gone: &[NodeId], reason: &str) {
        let Some(id) = self.fetches.remove(&request) else { return };
        self.fetching.remove(&id);
        core.facts.count("missing");
        for node in gone {
            self.apply(core, Event::LocationLost { id, node: *node });
        }
        if !gone.is_empty() {
            return self.recover_input(core, id, gone);
        }
        let error = SystemError { object: id, ..SystemError::new(ErrorKind::ObjectLost, reason) };
        self.inbox
            .arrived(id, &Payload::Memory { bytes: Arc::new(error.to_payload()), is_error: true });
    }

    fn start_actor(&mut self, core: &mut Core, launch: ActorLaunch) {
        let ActorLaunch { spec, incarnation, .. } = launch;
        let (Ok(args), Ok(job)) =
            (Args::get(&spec.args), helio_proto::decode::<JobConfig>(&spec.job_config))
        else {
            return core.violation("an actor's specification cannot be read".to_owned());
        };
        self.job = job;
        let body = (!args.stored_body).then(|| Arc::new(args.body));
        let inputs = self.inputs(core, args.deps);
        let item = Item::Construct { spec: Box::new(spec), incarnation };
        self.inbox.push(Waiting { item, body, inputs });
    }
}

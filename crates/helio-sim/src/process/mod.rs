//! A driver or worker: the owner machine in a shell that does what `helio-worker` does, and user code.
//!
//! Reading order: this file (state and links), `actions` (what the owner wants done), `messages` (what
//! daemons say), `inbox` (calls that came in), `user` (the user code's operations), `submit` (those that
//! call), `read` (those that read).

mod actions;
mod groups;
mod inbox;
mod messages;
mod read;
mod submit;
mod user;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use helio_owner_state::{Action, Event, Owner};
use helio_proto::control::{ControlResponse, Failure};
use helio_proto::node::{
    ClientToNode, Expect, JobConfig, LeaseClass, Register, Registered, ReleaseObject,
};
use helio_proto::peer::{Args, Frame, Template, Value};
use helio_proto::{decode, encode};
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{
    ActorId, JobId, LeaseId, NodeAddress, NodeId, ObjectId, PlacementGroupId, TaskId,
    WorkerAddress, WorkerId,
};

use crate::core::{Core, Event as Next};
use crate::net::{End, Kind, What};
use inbox::{Inbox, Input, Item, Waiting};
pub(crate) use user::{ActorState, Frame as Code};

/// Who is at the other end.
#[derive(Clone, Debug)]
enum Peer {
    Node,
    RemoteNode(NodeAddress),
    Process(Arc<WorkerAddress>),
}

#[derive(Debug)]
struct Conn {
    peer: Peer,
    templates_sent: BTreeMap<usize, (u32, Arc<Template>)>,
    templates: BTreeMap<u32, Arc<Template>>,
    lease: Option<LeaseId>,
    /// The other end sends what it has for us here.
    speaks: bool,
}

/// Keeps a range of the object store from being reused; tells when it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    id: ObjectId,
    offset: u64,
    size: u64,
    returned: Rc<RefCell<Vec<ObjectId>>>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.returned.borrow_mut().push(self.id);
    }
}

/// A value that can be read.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Memory { bytes: Arc<Vec<u8>>, is_error: bool },
    Pinned(Rc<Pin>),
}

/// The job, hundredths of a CPU, and the place in a placement group, if there is one.
type ClassKey = (JobId, u32, Option<(PlacementGroupId, i64)>);

/// Who waits for an answer of the control service.
#[derive(Debug)]
enum Asked {
    Code,
    Creation(ActorId),
    News,
    /// A reference that becomes the bytes unless the answer is no.
    Promise(ObjectId, Vec<u8>),
    Nobody,
}

/// See the module.
pub(crate) struct Process {
    pub(crate) pid: usize,
    pub(crate) node: usize,
    pub(crate) id: WorkerId,
    pub(crate) is_driver: bool,
    pub(crate) is_alive: bool,
    /// Present once the daemon has answered the registration.
    pub(crate) owner: Option<Owner>,
    actions: Vec<Action>,
    conns: BTreeMap<u64, Conn>,
    peers: BTreeMap<WorkerId, u64>,
    nodes: BTreeMap<NodeId, u64>,
    node_link: u64,
    inbox: Inbox,
    pins: BTreeMap<ObjectId, Rc<Pin>>,
    unpinned: Rc<RefCell<Vec<ObjectId>>>,
    fetches: BTreeMap<u64, ObjectId>,
    fetching: BTreeMap<ObjectId, u64>,
    /// Arguments of waiting calls that their owners make again; one handle of each is held.
    recovering: BTreeSet<ObjectId>,
    grants: BTreeMap<u64, Option<Result<u64, Failure>>>,
    asked: BTreeMap<u64, Asked>,
    answers: BTreeMap<u64, ControlResponse>,
    creations: BTreeMap<ActorId, ControlResponse>,
    consumed: BTreeMap<TaskId, u32>,
    liveness_asked: BTreeMap<u64, WorkerId>,
    job: JobConfig,
    blocked: u32,
    current: TaskId,
    next_request: u64,
    next_id: u64,
    tick_at: Option<u64>,
    /// User code that runs.
    pub(crate) code: Vec<Code>,
    pub(crate) actor: Option<ActorState>,
    /// Calls that were cancelled while they ran.
    cancelled: BTreeSet<TaskId>,
    /// It is to end as soon as nothing runs.
    exits: bool,
    /// It ends now.
    pub(crate) dies: Option<&'static str>,
    orders: BTreeMap<ActorId, u64>,
    templates: BTreeMap<(u32, u32, u32), Arc<Template>>,
    classes: BTreeMap<ClassKey, Arc<LeaseClass>>,
}

impl Process {
    /// A process that has just been made: it registers with its daemon.
    pub(crate) fn start(core: &mut Core, pid: usize, main: Option<Code>) -> Self {
        let person = core.people[pid];
        let me = End::Process(pid);
        let node_link = core.connect(Kind::Local, me, End::Node(person.node)).unwrap_or_default();
        let register = Register {
            worker_id: person.id,
            port: 20_000 + pid as u32,
            pid: pid as u32 + 1,
            is_driver: person.is_driver,
            namespace: "sim".to_owned(),
            ..Register::default()
        };
        core.send(node_link, me, encode(&ClientToNode::from(register)));
        let next_id = core.rng.draw();
        let conn = Conn {
            peer: Peer::Node,
            templates_sent: BTreeMap::new(),
            templates: BTreeMap::new(),
            lease: None,
            speaks: false,
        };
        Self {
            pid,
            node: person.node,
            id: person.id,
            is_driver: person.is_driver,
            is_alive: true,
            owner: None,
            actions: Vec::new(),
            conns: BTreeMap::from([(node_link, conn)]),
            peers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            node_link,
            inbox: Inbox::default(),
            pins: BTreeMap::new(),
            unpinned: Rc::default(),
            fetches: BTreeMap::new(),
            fetching: BTreeMap::new(),
            recovering: BTreeSet::new(),
            grants: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            creations: BTreeMap::new(),
            consumed: BTreeMap::new(),
            liveness_asked: BTreeMap::new(),
            job: JobConfig::default(),
            blocked: 0,
            current: TaskId::NIL,
            next_request: 0,
            next_id,
            tick_at: None,
            code: main.into_iter().collect(),
            actor: None,
            cancelled: BTreeSet::new(),
            exits: false,
            dies: None,
            orders: BTreeMap::new(),
            templates: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }

    fn me(&self) -> End {
        End::Process(self.pid)
    }

    fn registered(&mut self, core: &mut Core, registered: Registered) {
        if registered.failed {
            self.dies = Some("its registration was refused");
            return;
        }
        let address = WorkerAddress {
            worker_id: self.id,
            node_id: registered.node_id,
            host: registered.host,
            port: 20_000 + self.pid as u32,
        };
        self.job.job_id = registered.job_id;
        self.job.namespace = registered.namespace;
        self.owner = Some(Owner::new(address));
        if core.rng.one_in(2) {
            let workers = core.rng.range(0, 3) as u32;
            let expect = Expect { workers, request_id: 1, ..Expect::default() };
            self.to_node(core, expect);
        }
        core.after(1, Next::Run { pid: self.pid });
    }

    /// Tells the owner machine, and does what it wants done.
    pub(crate) fn apply(&mut self, core: &mut Core, event: Event) {
        if let Some(owner) = &mut self.owner {
            owner.apply(event, core.now, &mut self.actions);
            self.perform(core);
        }
    }

    fn return_pins(&mut self, core: &mut Core) {
        let returned = std::mem::take(&mut *self.unpinned.borrow_mut());
        for object_id in returned {
            self.to_node(core, ReleaseObject { object_id, pins: 1 });
        }
    }

    /// After every event: pins that were given back, and when to hear of the time.
    pub(crate) fn settle(&mut self, core: &mut Core) {
        self.return_pins(core);
        let due = self.owner.as_ref().and_then(Owner::next_tick);
        if let Some(due) = due.map(|due| due.max(core.now))
            && self.tick_at.is_none_or(|at| due < at)
        {
            self.tick_at = Some(due);
            core.at(due, Next::OwnerTick { pid: self.pid });
        }
    }

    pub(crate) fn tick(&mut self, core: &mut Core) {
        if self.tick_at != Some(core.now) {
            return; // It was put earlier, and has been.
        }
        self.tick_at = None;
        self.apply(core, Event::Tick);
    }

    fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    fn unique(&mut self) -> u64 {
        self.next_id = self.next_id.wrapping_add(1);
        crate::rng::mix(self.next_id)
    }

    fn new_task_id(&mut self) -> TaskId {
        let mut unique = [0; 12];
        unique.copy_from_slice(&self.id.0[..12]);
        TaskId::new(self.unique(), ActorId::new(unique, self.job.job_id))
    }

    fn new_put_id(&mut self) -> ObjectId {
        self.new_task_id().object(PUT_INDEX_BASE)
    }

    /// The connection to a process, made now if there is none.
    fn peer(&mut self, core: &mut Core, address: &Arc<WorkerAddress>) -> Option<u64> {
        if let Some(link) = self.peers.get(&address.worker_id) {
            return Some(*link);
        }
        // An address without its node leads nowhere, as in the real shell.
        let whom = core.person(address.worker_id).filter(|_| !address.node_id.is_nil());
        let link = whom.and_then(|whom| core.connect(Kind::Peer, self.me(), End::Process(whom)));
        match link {
            Some(link) => {
                self.peers.insert(address.worker_id, link);
                self.add_conn(link, Peer::Process(address.clone()));
            }
            None => {
                let lost = Event::PeerLost { peer: address.clone() };
                if let Some(owner) = &mut self.owner {
                    owner.apply(lost, core.now, &mut self.actions);
                }
            }
        }
        link
    }

    fn add_conn(&mut self, link: u64, peer: Peer) {
        let conn = Conn {
            peer,
            templates_sent: BTreeMap::new(),
            templates: BTreeMap::new(),
            lease: None,
            speaks: false,
        };
        self.conns.insert(link, conn);
    }

    /// The connection to another node's daemon, made now if there is none.
    fn remote_node(&mut self, core: &mut Core, address: &NodeAddress) -> Option<u64> {
        let own = self.owner.as_ref()?.address().node_id;
        if address.node_id == own {
            return Some(self.node_link);
        }
        if let Some(link) = self.nodes.get(&address.node_id) {
            return Some(*link);
        }
        let whom = core.daemon(address.node_id);
        let Some(link) =
            whom.and_then(|whom| core.connect(Kind::Remote, self.me(), End::Node(whom)))
        else {
            let lost = Event::NodeLost { node: address.node_id };
            if let Some(owner) = &mut self.owner {
                owner.apply(lost, core.now, &mut self.actions);
            }
            return None;
        };
        self.nodes.insert(address.node_id, link);
        self.add_conn(link, Peer::RemoteNode(address.clone()));
        let register = Register {
            worker_id: self.id,
            port: 20_000 + self.pid as u32,
            is_driver: self.is_driver,
            remote: true,
            ..Register::default()
        };
        core.send(link, self.me(), encode(&ClientToNode::from(register)));
        Some(link)
    }

    pub(crate) fn arrived(&mut self, core: &mut Core, link: u64, what: What) {
        match what {
            What::Opened => self.greeted(core, link),
            What::Bytes(bytes) => match self.conns.get(&link).map(|conn| conn.peer.clone()) {
                Some(Peer::Node) => match decode(&bytes) {
                    Ok(message) => self.own_node_says(core, message),
                    Err(_) => core.violation("a daemon's message cannot be read".to_owned()),
                },
                Some(Peer::RemoteNode(address)) => {
                    if let Ok(message) = decode(&bytes) {
                        self.lease_news(core, address.node_id, message);
                    }
                }
                Some(Peer::Process(from)) => self.peer_says(core, link, &from, &bytes),
                None => {}
            },
            What::Closed => self.link_over(core, link),
        }
    }

    /// Somebody connected and said who they are.
    fn greeted(&mut self, core: &mut Core, link: u64) {
        let Some(End::Process(from)) = core.net.get(link).map(|link| link.ends[0]) else { return };
        let person = core.people[from];
        let daemon = &core.daemons[person.node].address;
        let address = WorkerAddress {
            worker_id: person.id,
            node_id: daemon.node_id,
            host: daemon.host.clone(),
            port: 20_000 + from as u32,
        };
        let older = self.peers.get(&person.id).copied().filter(|older| *older != link);
        if let Some(older) =
            older.filter(|older| self.conns.get(older).is_some_and(|conn| conn.speaks))
        {
            // Its older line broke, and the news of that are still on their way.
            self.link_over(core, older);
        }
        self.peers.entry(person.id).or_insert(link);
        self.add_conn(link, Peer::Process(Arc::new(address)));
        if let Some(conn) = self.conns.get_mut(&link) {
            conn.speaks = true;
        }
    }

    pub(super) fn link_over(&mut self, core: &mut Core, link: u64) {
        core.close(link, self.me());
        let Some(conn) = self.conns.remove(&link) else { return };
        match conn.peer {
            Peer::Node => self.dies = Some("its daemon is gone"),
            Peer::RemoteNode(address) => {
                self.nodes.remove(&address.node_id);
                self.apply(core, Event::NodeLost { node: address.node_id });
            }
            Peer::Process(address) => {
                if self.peers.get(&address.worker_id) == Some(&link) {
                    self.peers.remove(&address.worker_id);
                    self.inbox.caller_gone(&address);
                    self.apply(core, Event::PeerLost { peer: address });
                }
            }
        }
    }

    fn peer_says(&mut self, core: &mut Core, link: u64, from: &Arc<WorkerAddress>, bytes: &[u8]) {
        if let Some(conn) = self.conns.get_mut(&link) {
            conn.speaks = true;
        }
        let Ok(frame) = Frame::get(bytes) else {
            return core.violation("WIRE-1: a peer's frame cannot be read".to_owned());
        };
        match frame {
            Frame::Template { number, body, .. } => {
                if let (Some(conn), Ok(template)) =
                    (self.conns.get_mut(&link), decode::<Template>(body))
                {
                    conn.templates.insert(number, Arc::new(template));
                }
            }
            Frame::BeginLease { lease, job, .. } => {
                if let Ok(job) = decode::<JobConfig>(job) {
                    self.job = job;
                }
                if let Some(conn) = self.conns.get_mut(&link) {
                    conn.lease = Some(lease);
                }
            }
            Frame::Call { .. } => self.call_came(core, link, from, &frame),
            Frame::Steal { max } => self.hand_back(core, max as usize),
            Frame::Consumed { task, count } => {
                self.consumed.insert(task, count);
            }
            frame => {
                if let Some(frame) = frame.into_owned() {
                    self.apply(core, Event::Frame { from: from.worker_id, frame });
                }
            }
        }
    }

    fn call_came(
        &mut self,
        core: &mut Core,
        link: u64,
        from: &Arc<WorkerAddress>,
        frame: &Frame<'_>,
    ) {
        let Frame::Call { task, template, lease, returns, flags, args, .. } = frame else { return };
        let Some(conn) = self.conns.get(&link) else { return };
        let Some(template) = conn.templates.get(template).cloned() else {
            return core.violation("a call names a template that was not sent".to_owned());
        };
        if lease.0 != 0 && conn.lease != Some(*lease) {
            return core.violation(format!(
                "a call names a lease that was not begun: {lease:?} of {from:?}"
            ));
        }
        let is_task = lease.0 != 0;
        if is_task && self.blocked > 0 {
            self.send_frame(core, from, &Frame::Unstarted { tasks: vec![*task] });
            return;
        }
        let Ok(args) = Args::get(args) else {
            return core.violation("WIRE-1: a call's arguments cannot be read".to_owned());
        };
        let body = (!args.stored_body).then(|| Arc::new(args.body));
        let inputs = self.inputs(core, args.deps);
        let item = Item::Call {
            task: *task,
            caller: from.clone(),
            template,
            returns: *returns,
            is_retry: *flags != 0,
            is_task,
        };
        self.inbox.push(Waiting { item, body, inputs });
    }

    /// The values of a call's arguments, fetching those in an object store.
    fn inputs(&mut self, core: &mut Core, deps: Vec<helio_proto::peer::Dependency>) -> Vec<Input> {
        let mut inputs = Vec::new();
        for dep in deps {
            let id = dep.reference.id;
            inputs.push(match dep.value {
                Value::Inline(bytes) => {
                    Input::Here(Payload::Memory { bytes: Arc::new(bytes), is_error: false })
                }
                Value::Error(bytes) => {
                    Input::Here(Payload::Memory { bytes: Arc::new(bytes), is_error: true })
                }
                Value::Stored { locations, .. } => match self.pins.get(&id) {
                    Some(pin) => Input::Here(Payload::Pinned(pin.clone())),
                    None => {
                        self.fetch(core, id, locations);
                        Input::Fetching(dep.reference)
                    }
                },
            });
        }
        inputs
    }

    /// Gives calls that were not begun back to their callers.
    fn hand_back(&mut self, core: &mut Core, max: usize) {
        let back = self.inbox.unstarted(max);
        self.give_back(core, back);
    }

    fn give_back(&mut self, core: &mut Core, mut back: Vec<(TaskId, Arc<WorkerAddress>)>) {
        while let Some((_, caller)) = back.first().cloned() {
            let (own, rest): (Vec<_>, Vec<_>) =
                back.into_iter().partition(|(_, other)| other.worker_id == caller.worker_id);
            let tasks: Vec<TaskId> = own.into_iter().map(|(task, _)| task).collect();
            self.send_frame(core, &caller, &Frame::Unstarted { tasks });
            back = rest;
        }
    }

    /// Nodes do not have an argument that they were said to have.
    fn recover_input(&mut self, core: &mut Core, id: ObjectId, gone: &[NodeId]) {
        let back = self.inbox.take_lacking(id);
        for (place, (_, caller)) in back.iter().enumerate() {
            core.facts.count("tasks given back for an argument");
            if back[..place].iter().any(|(_, told)| told.worker_id == caller.worker_id) {
                continue;
            }
            for node in gone {
                let frame = Frame::LocationLost { object: id, node: *node };
                self.send_frame(core, caller, &frame);
            }
        }
        self.give_back(core, back);
        let Some(reference) = self.inbox.lacks(id).cloned() else { return };
        core.facts.count("arguments recovered");
        self.apply(core, Event::Recover { reference, gone: gone.to_vec() });
        if !self.recovering.insert(id) {
            self.apply(core, Event::DropRef { id });
        }
        self.supply(core, id);
        self.perform(core);
    }

    /// Gives an argument that was recovered to what waits for it, if it is here by now.
    fn supply(&mut self, core: &mut Core, id: ObjectId) {
        if !self.recovering.contains(&id) {
            return;
        }
        if self.inbox.lacks(id).is_some() {
            let Some(payload) = self.read(core, id) else { return };
            self.inbox.arrived(id, &payload);
        }
        self.recovering.remove(&id);
        if let Some(owner) = &mut self.owner {
            owner.apply(Event::DropRef { id }, core.now, &mut self.actions);
        }
    }

    /// The process is no more.
    pub(crate) fn end(&mut self, core: &mut Core) {
        self.is_alive = false;
        core.people[self.pid].is_alive = false;
        core.close_all(self.me());
        if self.owner.as_ref().is_some_and(|owner| owner.census().0 > 0) {
            core.facts.owners_ended += 1;
        }
        self.owner = None;
        self.code.clear();
        self.actor = None;
        self.inbox = Inbox::default();
        self.pins.clear();
    }
}

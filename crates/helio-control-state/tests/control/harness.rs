//! A control service with a pretended network and disk.

use std::collections::BTreeMap;

use helio_control_state::{Action, Control, Event};
use helio_proto::cluster::{
    ActorEnded, ActorStarted, ClientGone, ControlToNode, FromClient, NodeStatus, NodeToControl,
    Probed, RegisterNode,
};
use helio_proto::control::{
    ActorInfo, ActorLaunch, ActorSpec, ControlRequest, ControlResponse, JobInfo, NodeInfo, StartJob,
};
use helio_proto::node::{ControlCall, NodeToClient};
use helio_types::{
    ActorId, DeathCause, DeathKind, JobId, NodeAddress, NodeId, ResourceSet, WorkerAddress,
    WorkerId,
};

pub(crate) struct Harness {
    pub(crate) control: Control,
    pub(crate) now_ms: u64,
    /// The durable map.
    pub(crate) disk: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The disk takes nothing.
    is_full: bool,
    /// Events that wait for room on the disk, as the shell holds them back.
    held: Vec<Vec<Action>>,
    /// Messages that were sent and not yet taken by the test.
    pub(crate) sent: Vec<(NodeId, ControlToNode)>,
    pub(crate) ended: Option<String>,
    /// Whether the state is checked after each event.
    pub(crate) is_checked: bool,
    /// Whether nodes that are there reach silent ones.
    pub(crate) is_reached: bool,
}

pub(crate) fn node(number: u8) -> NodeId {
    NodeId([number; 28])
}

pub(crate) fn worker(number: u8) -> WorkerId {
    WorkerId([number; 28])
}

pub(crate) fn actor(number: u8) -> ActorId {
    ActorId::new([number; 12], job(1))
}

pub(crate) fn job(number: u8) -> JobId {
    JobId([number, 0, 0, 0])
}

pub(crate) fn info(number: u8, total: &[(&str, f64)], free: &[(&str, f64)]) -> NodeInfo {
    NodeInfo {
        address: NodeAddress { node_id: node(number), host: format!("10.0.0.{number}"), port: 7 },
        alive: true,
        total: ResourceSet::from_units(total.iter().copied()),
        available: ResourceSet::from_units(free.iter().copied()),
        workers: 1,
        ..NodeInfo::default()
    }
}

/// An actor of job 1, created by worker `owner` on node 1, that needs a CPU to be placed.
pub(crate) fn spec(number: u8, owner: u8) -> ActorSpec {
    ActorSpec {
        actor_id: actor(number),
        job_id: job(1),
        namespace: "ns".into(),
        class_name: "Counter".into(),
        placement_resources: ResourceSet::from_units([("CPU", 1.0)]),
        owner: WorkerAddress {
            worker_id: worker(owner),
            node_id: node(1),
            ..WorkerAddress::default()
        },
        template: b"class".to_vec(),
        handle: b"handle".to_vec(),
        ..ActorSpec::default()
    }
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self {
            control: Control::new("session_x"),
            now_ms: 1_000_000,
            disk: BTreeMap::new(),
            is_full: false,
            held: Vec::new(),
            sent: Vec::new(),
            ended: None,
            is_checked: true,
            is_reached: false,
        }
    }

    /// With node 1 (`cpus`), and driver 1 there running job 1.
    pub(crate) fn with_driver(cpus: f64) -> Self {
        let mut harness = Self::new();
        harness.register(1, &[("CPU", cpus)]);
        assert_eq!(harness.start_job(1, 1).job_id, job(1));
        harness.sent.clear();
        harness
    }

    pub(crate) fn apply(&mut self, event: Event) {
        let before = self.is_checked.then(|| self.control.listed());
        let actions = self.control.apply(event, self.now_ms * 1000);
        self.perform(actions);
        if let Some((count, lists)) = before {
            self.control.check().unwrap();
            let (count_now, lists_now) = self.control.listed();
            assert!(count_now > count || lists_now == lists, "a change that was not counted");
        }
    }

    /// The disk is full, or has room again: what waited for it is done.
    pub(crate) fn set_full(&mut self, is_full: bool) -> Vec<Action> {
        self.is_full = is_full;
        if !is_full {
            for actions in std::mem::take(&mut self.held) {
                self.perform(actions);
            }
        }
        let full = is_full.then(|| "/control.redb".to_owned());
        self.control.apply(Event::Disk { full }, self.now_ms * 1000)
    }

    pub(crate) fn perform(&mut self, actions: Vec<Action>) {
        if self.is_full && actions.iter().any(|action| matches!(action, Action::Persist(_))) {
            return self.held.push(actions);
        }
        for action in actions {
            match action {
                // The message says nothing but that the node is heard.
                Action::Send { message: ControlToNode::Heard(_), .. } => {}
                Action::Send { node_id, message } => self.sent.push((node_id, message)),
                Action::SendToMany { to, message } => {
                    self.sent.extend(to.into_iter().map(|node_id| (node_id, message.clone())));
                }
                Action::Persist(change) => {
                    match change.value {
                        Some(value) => self.disk.insert(change.key, value),
                        None => self.disk.remove(&change.key),
                    };
                }
                Action::End { reason } => self.ended = Some(reason),
                Action::Disconnect { .. } | Action::Log(_) => {}
            }
        }
    }

    /// The service ends without a word and starts anew on the same disk.
    pub(crate) fn restart(&mut self) {
        self.restart_without(&[]);
    }

    /// Restarts the service, and these nodes are gone.
    pub(crate) fn restart_without(&mut self, gone: &[NodeId]) {
        // Changes that were not durable are as if they had never been.
        self.held.clear();
        self.is_full = false;
        let entries: Vec<_> = self.disk.clone().into_iter().collect();
        let (control, actions) = Control::recover("session_new", entries, gone, self.now_ms * 1000);
        self.control = control;
        self.sent.clear();
        self.perform(actions);
        self.control.check().unwrap();
    }

    pub(crate) fn say(&mut self, from: u8, message: impl Into<NodeToControl>) {
        self.apply(Event::Node { node_id: node(from), message: message.into() });
    }

    pub(crate) fn register(&mut self, number: u8, total: &[(&str, f64)]) {
        self.say(
            number,
            RegisterNode { info: info(number, total, total), ..RegisterNode::default() },
        );
    }

    pub(crate) fn status(&mut self, number: u8, total: &[(&str, f64)], free: &[(&str, f64)]) {
        self.say(number, NodeStatus { info: info(number, total, free), sent_ms: 0 });
    }

    /// Lets time pass with ticks as the service asks for them; these nodes send heartbeats.
    pub(crate) fn pass(&mut self, ms: u64, beating: &[u8]) {
        let until_ms = self.now_ms + ms;
        let mut beat_ms = self.now_ms;
        while self.now_ms < until_ms {
            let due_ms = self.control.next_tick().map_or(until_ms, |us| us / 1000);
            self.now_ms = due_ms.clamp(self.now_ms, until_ms);
            if self.now_ms - beat_ms >= 1000 {
                beat_ms = self.now_ms;
                for number in beating {
                    self.say(*number, NodeToControl::Unknown);
                }
            }
            self.apply(Event::Tick);
            self.answer_probes(beating);
        }
    }

    /// Nodes that are there do not reach the silent ones either.
    fn answer_probes(&mut self, beating: &[u8]) {
        let is_probe =
            |(_, message): &mut (NodeId, ControlToNode)| matches!(message, ControlToNode::Probe(_));
        let probes: Vec<_> = self.sent.extract_if(.., is_probe).collect();
        for (witness, message) in probes {
            let ControlToNode::Probe(probe) = message else { continue };
            if let Some(number) = beating.iter().find(|number| node(**number) == witness) {
                let node_id = probe.node.node_id;
                self.say(*number, Probed { node_id, is_reached: self.is_reached });
            }
        }
    }

    /// Asks as worker `who` on node `from`.
    pub(crate) fn ask(
        &mut self,
        from: u8,
        who: u8,
        request: impl Into<ControlRequest>,
    ) -> ControlResponse {
        let call = ControlCall { request_id: 77, request: request.into() };
        self.say(from, FromClient { worker_id: worker(who), call });
        let is_answer = |(to, message): &(NodeId, ControlToNode)| {
            *to == node(from)
                && matches!(message, ControlToNode::ToClient(to)
                    if to.worker_id == worker(who) && matches!(to.message, NodeToClient::ControlReply(_)))
        };
        let index =
            self.sent.iter().position(is_answer).expect("every request is answered at once");
        match self.sent.remove(index).1 {
            ControlToNode::ToClient(to) => match to.message {
                NodeToClient::ControlReply(reply) => {
                    assert_eq!(reply.request_id, 77);
                    reply.response
                }
                other => panic!("not an answer: {other:?}"),
            },
            other => panic!("not an answer: {other:?}"),
        }
    }

    pub(crate) fn start_job(&mut self, from: u8, driver: u8) -> JobInfo {
        let request =
            StartJob { driver: worker(driver), namespace: "ns".into(), ..StartJob::default() };
        match self.ask(from, driver, request) {
            ControlResponse::Job(job) => job,
            other => panic!("no job: {other:?}"),
        }
    }

    pub(crate) fn create(&mut self, spec: ActorSpec) -> ControlResponse {
        let (from, who) = (spec.owner.node_id.0[0], spec.owner.worker_id.0[0]);
        self.ask(from, who, spec)
    }

    pub(crate) fn info(&mut self, number: u8) -> ActorInfo {
        match self.ask(1, 200, helio_proto::control::SubscribeActor { actor_id: actor(number) }) {
            ControlResponse::Actor(info) => {
                let request = helio_proto::control::UnsubscribeActor { actor_id: actor(number) };
                self.ask(1, 200, request);
                info
            }
            other => panic!("no actor: {other:?}"),
        }
    }

    pub(crate) fn follow(&mut self, number: u8, from: u8, who: u8) {
        self.ask(from, who, helio_proto::control::SubscribeActor { actor_id: actor(number) });
    }

    pub(crate) fn started(&mut self, on: u8, number: u8, incarnation: u32) {
        let address = WorkerAddress {
            worker_id: worker(100 + number),
            node_id: node(on),
            ..WorkerAddress::default()
        };
        self.say(on, ActorStarted { actor_id: actor(number), incarnation, address, pid: 9 });
    }

    pub(crate) fn ended(&mut self, on: u8, number: u8, incarnation: u32, kind: DeathKind) {
        let cause = DeathCause::new(kind, "it ended");
        self.say(
            on,
            ActorEnded { actor_id: actor(number), incarnation, cause, ..ActorEnded::default() },
        );
    }

    pub(crate) fn client_gone(&mut self, on: u8, who: u8, is_driver: bool) {
        let cause = DeathCause::new(DeathKind::Exited, "exit code 1");
        self.say(on, ClientGone { worker_id: worker(who), is_driver, cause });
    }

    /// Takes what was sent and `pick` finds.
    pub(crate) fn take<T>(&mut self, pick: impl Fn(NodeId, &ControlToNode) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        self.sent.retain(|(to, message)| match pick(*to, message) {
            Some(found) => {
                taken.push(found);
                false
            }
            None => true,
        });
        taken
    }

    /// The launches: on which node, of which actor, which incarnation.
    pub(crate) fn launches(&mut self) -> Vec<(u8, u8, u32)> {
        self.take(|to, message| match message {
            ControlToNode::LaunchActor(ActorLaunch { spec, incarnation, .. }) => {
                Some((to.0[0], spec.actor_id.0[0], *incarnation))
            }
            _ => None,
        })
    }

    /// The stops: on which node, of which actor, whether it may drain.
    pub(crate) fn stops(&mut self) -> Vec<(u8, u8, bool)> {
        self.take(|to, message| match message {
            ControlToNode::StopActor(stop) => Some((to.0[0], stop.actor_id.0[0], stop.drain)),
            _ => None,
        })
    }

    /// Takes the messages to followers: the follower, the actor, its phase and incarnation.
    pub(crate) fn updates(&mut self) -> Vec<(u8, u8, &'static str, u32)> {
        self.take(|_, message| match message {
            ControlToNode::ToClient(to) => match &to.message {
                NodeToClient::ActorUpdate(info) => Some((
                    to.worker_id.0[0],
                    info.actor_id.0[0],
                    info.phase.name(),
                    info.incarnation,
                )),
                _ => None,
            },
            _ => None,
        })
    }

    /// Warnings for drivers.
    pub(crate) fn notices(&mut self) -> Vec<(u8, String)> {
        self.take(|_, message| match message {
            ControlToNode::ToClient(to) => match &to.message {
                NodeToClient::Notice(notice) => Some((to.worker_id.0[0], notice.text.clone())),
                _ => None,
            },
            _ => None,
        })
    }
}

//! The views that nodes get of each other's resources, in small clusters and in large ones.

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{MEMBERS_AT_ONCE_MAX, WATCHED_MAX};
use helio_control_state::{Action, Control, Event};
use helio_proto::cluster::{ControlToNode, NodeStatus, NodeToControl, RegisterNode};
use helio_proto::control::{NodeInfo, PendingDemand, Strategy};
use helio_types::{NodeAddress, NodeId, ResourceSet};

fn id(number: usize) -> NodeId {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
    NodeId(bytes)
}

/// Many nodes with 4 CPU each.
struct Cluster {
    control: Control,
    now: u64,
    /// The number of views that each node was sent and the test has not taken.
    messages: BTreeMap<NodeId, usize>,
    /// The free resources of others, as each node was last told.
    seen: BTreeMap<(NodeId, NodeId), (bool, f64)>,
}

impl Cluster {
    fn new(n_nodes: usize) -> Self {
        let mut cluster = Self {
            control: Control::new("session"),
            now: 1_000_000_000,
            messages: BTreeMap::new(),
            seen: BTreeMap::new(),
        };
        for number in 0..n_nodes {
            let info = cluster.info(number, 4.0);
            cluster.say(number, RegisterNode { info, ..RegisterNode::default() });
        }
        cluster.pass(3);
        cluster.messages.clear();
        cluster
    }

    fn info(&self, number: usize, free: f64) -> NodeInfo {
        NodeInfo {
            address: NodeAddress { node_id: id(number), host: format!("h{number}"), port: 7 },
            alive: true,
            total: ResourceSet::from_units([("CPU", 4.0)]),
            available: ResourceSet::from_units([("CPU", free)]),
            version: self.now,
            ..NodeInfo::default()
        }
    }

    fn say(&mut self, from: usize, message: impl Into<NodeToControl>) {
        let event = Event::Node { node_id: id(from), message: message.into() };
        self.apply(event);
    }

    fn apply(&mut self, event: Event) {
        for action in self.control.apply(event, self.now) {
            let (to, view) = match action {
                Action::Send { node_id, message: ControlToNode::View(view) } => {
                    (vec![node_id], view)
                }
                Action::SendToMany { to, message: ControlToNode::View(view) } => (to, view),
                _ => continue,
            };
            for node_id in to {
                *self.messages.entry(node_id).or_default() += 1;
                for info in &view.nodes {
                    let other = info.address.node_id;
                    let seen = (info.alive, info.available.get("CPU").to_f64());
                    self.seen.insert((node_id, other), seen);
                }
            }
        }
    }

    /// Lets seconds pass, with ticks as the machine asks for them; nobody is silent.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let until = self.now + 1_000_000;
            while self.now < until {
                self.now = self.control.next_tick().unwrap_or(until).clamp(self.now, until);
                self.apply(Event::Tick);
            }
            let known: BTreeSet<NodeId> = self.seen.keys().map(|(node_id, _)| *node_id).collect();
            for node_id in known {
                self.apply(Event::Node { node_id, message: NodeToControl::Unknown });
            }
        }
        self.control.check().unwrap();
    }

    fn status(&mut self, number: usize, free: f64, waiting: u64) {
        let mut info = self.info(number, free);
        if waiting > 0 {
            info.pending = vec![PendingDemand {
                resources: ResourceSet::from_units([("CPU", 1.0)]),
                count: waiting,
                may_spill: true,
                strategy: Strategy::default(),
                ..PendingDemand::default()
            }];
        }
        self.say(number, NodeStatus { info, sent_ms: 0 });
    }

    /// The others on which a node sees CPUs free.
    fn sees_free(&self, number: usize) -> BTreeSet<NodeId> {
        let of_node = self.seen.range((id(number), id(0))..=(id(number), NodeId([0xff; 28])));
        of_node
            .filter(|((own, other), (alive, free))| own != other && *alive && *free > 0.0)
            .map(|((_, id), _)| *id)
            .collect()
    }

    fn sees_alive(&self, number: usize) -> usize {
        let of_node = self.seen.range((id(number), id(0))..=(id(number), NodeId([0xff; 28])));
        of_node.filter(|((own, other), (alive, _))| own != other && *alive).count()
    }
}

#[test]
fn every_node_of_a_small_cluster_watches_all_others() {
    let n_nodes = WATCHED_MAX + 1;
    let mut cluster = Cluster::new(n_nodes);
    cluster.status(5, 1.0, 0);
    cluster.pass(1);
    for number in (0..n_nodes).filter(|number| *number != 5) {
        assert_eq!(cluster.seen[&(id(number), id(5))], (true, 1.0), "node {number}");
        assert_eq!(cluster.messages[&id(number)], 1, "node {number}");
    }
}

#[test]
fn a_change_in_a_large_cluster_is_told_to_few_and_all_know_who_is_there() {
    const N_NODES: usize = 300;
    let mut cluster = Cluster::new(N_NODES);
    for number in 0..N_NODES {
        assert_eq!(cluster.sees_alive(number), N_NODES - 1, "node {number}");
        assert!(cluster.sees_free(number).len() <= WATCHED_MAX + 1, "node {number}");
        assert!(!cluster.sees_free(number).is_empty(), "node {number} has somewhere to go");
    }
    let told = |cluster: &Cluster| cluster.messages.values().sum::<usize>();
    cluster.status(150, 1.0, 0);
    cluster.pass(2);
    assert!(told(&cluster) <= 2 * WATCHED_MAX, "{} messages for one change", told(&cluster));
    // All change at once: each node hears of it in one message.
    cluster.messages.clear();
    for number in 0..N_NODES {
        cluster.status(number, 2.0, 0);
    }
    cluster.pass(2);
    assert!(cluster.messages.values().all(|n| *n <= 2), "{:?}", cluster.messages);
}

#[test]
fn a_node_that_finds_no_room_is_told_of_nodes_that_have_some() {
    const N_NODES: usize = 300;
    let mut cluster = Cluster::new(N_NODES);
    // All are full, except one that nobody watches any more.
    for number in (0..N_NODES).filter(|number| *number != 277) {
        cluster.status(number, 0.0, 0);
    }
    cluster.pass(3);
    for number in [3, 60, 299] {
        cluster.status(number, 0.0, 5);
        cluster.pass(1);
        assert_eq!(cluster.sees_free(number), BTreeSet::from([id(277)]), "node {number}");
    }
    // The nodes that were told watch it: they hear when it is full.
    cluster.status(277, 0.0, 0);
    cluster.pass(2);
    for number in [3, 60, 299] {
        assert_eq!(cluster.sees_free(number), BTreeSet::new(), "node {number}");
    }
    // And whose requests wait on is told when there is room again.
    cluster.status(3, 0.0, 5);
    cluster.status(42, 3.0, 0);
    cluster.pass(2);
    assert_eq!(cluster.sees_free(3), BTreeSet::from([id(42)]));
}

#[test]
fn deaths_that_come_together_are_told_together() {
    const N_NODES: usize = 4 * MEMBERS_AT_ONCE_MAX;
    let mut cluster = Cluster::new(N_NODES);
    for number in 0..N_NODES / 10 {
        let leaving =
            helio_proto::cluster::NodeLeaving { reason: "test".into(), ..Default::default() };
        cluster.say(number, leaving);
    }
    cluster.pass(1);
    let survivors = N_NODES / 10..N_NODES;
    for number in survivors.clone() {
        assert_eq!(cluster.sees_alive(number), survivors.len() - 1, "node {number}");
        assert!(cluster.messages[&id(number)] <= 3, "{} messages", cluster.messages[&id(number)]);
    }
}

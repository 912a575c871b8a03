//! The phases of a cluster of some size, and the counts of each.

use std::sync::Arc;

use allocation_counter::measure;
use helio_owner_state::{CallArgs, Event, Owner, Retry, Target, TaskSpec};
use helio_proto::node::LeaseClass;
use helio_proto::template::Template;
use helio_types::{ActorId, JobId, NodeId, TaskId, WorkerAddress, WorkerId};

use crate::cluster::{Cluster, Counts};
use crate::costs::Costs;
use crate::daemon::{self, Daemon};
use crate::nodes::NODE_CPUS;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The time in which no view is on its way once all have been sent: control gathers those of many nodes for seconds, and is late
/// while it works.
const VIEWS_COME_WITHIN: u64 = 15 * SECOND;

/// See [`Outcome::on_few_nodes`].
pub const FEW_NODES: usize = 10;

/// The results for a cluster of one size.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of nodes.
    pub n_nodes: usize,
    /// Number of actors.
    pub n_actors: usize,
    /// All nodes register.
    pub joining: Counts,
    /// Number of other nodes that each of the daemons knows then.
    pub known: Vec<usize>,
    /// The counts while there are only heartbeats.
    pub at_rest: Counts,
    /// Every node lends and takes back something ten times a second.
    pub under_load: Counts,
    /// Nodes without room ask for others.
    pub spilling: Counts,
    /// Actors are created and start.
    pub creating: Counts,
    /// A tenth of the nodes dies at once, and all that lived there starts elsewhere.
    pub recovering: Counts,
    /// The cost of one of the nodes' daemons.
    pub daemon: Daemon,
    /// The counts while as many actors are created among [`FEW_NODES`].
    pub on_few_nodes: Counts,
    /// The memory of the machine after the nodes have joined, in bytes.
    pub bytes_of_nodes: u64,
    /// The memory after the actors have started, in bytes.
    pub bytes_of_all: u64,
}

impl Outcome {
    /// Returns the seconds that the cluster needed until everything that died ran again.
    #[must_use]
    pub fn recovery_s(&self) -> f64 {
        self.recovering.passed_ns as f64 / 1e9
    }
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The nodes.
    pub n_nodes: usize,
    /// The actors of each.
    pub actors_a_node: usize,
    /// Number of actors that are under way at a time.
    pub window: usize,
    /// The length of each of the steady phases, in seconds.
    pub seconds: u64,
}

/// Runs all phases.
///
/// # Errors
/// When actors have not started in time.
pub fn run(size: Size, costs: &Costs, measures: bool) -> Result<Outcome, String> {
    let mut outcome = Outcome { n_nodes: size.n_nodes, ..Outcome::default() };
    let mut made = None;
    let nodes = measure(|| made = Some(joined(size, costs, measures)));
    let Some(mut cluster) = made else { return Err("no cluster was made".to_owned()) };
    outcome.bytes_of_nodes = nodes.bytes_current.max(0) as u64;
    outcome.joining = cluster.take_counts();
    outcome.known = cluster.daemons().known();

    cluster.pass(size.seconds * SECOND);
    outcome.at_rest = cluster.take_counts();

    load(&mut cluster, size);
    outcome.under_load = cluster.take_counts();

    spill(&mut cluster, size);
    outcome.spilling = cluster.take_counts();

    let mut result = Ok(());
    let actors = measure(|| result = create(&mut cluster, size));
    result?;
    outcome.n_actors = size.n_nodes * size.actors_a_node;
    outcome.creating = cluster.take_counts();
    outcome.bytes_of_all = (nodes.bytes_current + actors.bytes_current).max(0) as u64;

    cluster.pass(2 * SECOND);
    cluster.take_counts();
    recover(&mut cluster, size)?;
    outcome.recovering = cluster.take_counts();
    drop(cluster);
    outcome.on_few_nodes = on_few_nodes(size, costs, measures)?;
    outcome.daemon = daemon::run(size.n_nodes);
    Ok(outcome)
}

/// Measures the placement of as many actors on few nodes: the part of its cost that comes from the number of actors and
/// not from that of nodes.
fn on_few_nodes(size: Size, costs: &Costs, measures: bool) -> Result<Counts, String> {
    let n_actors = size.n_nodes * size.actors_a_node;
    let few = Size {
        n_nodes: FEW_NODES,
        actors_a_node: n_actors / FEW_NODES,
        window: 2 * FEW_NODES,
        ..size
    };
    let mut cluster = joined(few, costs, measures);
    cluster.take_counts();
    create(&mut cluster, few)?;
    Ok(cluster.take_counts())
}

fn joined(size: Size, costs: &Costs, measures: bool) -> Cluster {
    let mut cluster = Cluster::new(size.n_nodes, costs.clone(), measures);
    // Until control has worked off the registrations.
    for _ in 0..1000 {
        cluster.pass(SECOND);
        if cluster.control().n_nodes() == size.n_nodes {
            break;
        }
    }
    // And until every node has been told of all others.
    let mut told = None;
    while told != Some(cluster.n_views()) {
        told = Some(cluster.n_views());
        cluster.pass(VIEWS_COME_WITHIN);
    }
    cluster
}

fn load(cluster: &mut Cluster, size: Size) {
    for round in 0..size.seconds * 10 {
        for number in 0..size.n_nodes {
            let taken = (round + number as u64) % 3;
            cluster.set_free(number, NODE_CPUS - taken as f64);
        }
        cluster.pass(SECOND / 10);
    }
}

/// Nine of ten nodes are full, and some of these have more to do.
fn spill(cluster: &mut Cluster, size: Size) {
    for number in (0..size.n_nodes).filter(|number| number % 10 != 3) {
        cluster.set_free(number, 0.0);
    }
    cluster.pass(2 * SECOND);
    cluster.take_counts();
    for number in (0..size.n_nodes).filter(|number| number % 10 == 5) {
        cluster.want_room(number);
    }
    cluster.pass(2 * SECOND);
    for number in 0..size.n_nodes {
        cluster.set_free(number, NODE_CPUS);
    }
    cluster.pass(2 * SECOND);
}

fn create(cluster: &mut Cluster, size: Size) -> Result<(), String> {
    let n_actors = size.n_nodes * size.actors_a_node;
    let mut left = n_actors;
    while left > 0 {
        let more = left.min(size.window.saturating_sub(cluster.n_starting()));
        for _ in 0..more {
            cluster.create_actor();
        }
        left -= more;
        cluster.pass(SECOND / 200);
    }
    if cluster.settle(600 * SECOND) {
        Ok(())
    } else {
        Err(format!("{} of {n_actors} actors have not started in 10 minutes", cluster.n_starting()))
    }
}

fn recover(cluster: &mut Cluster, size: Size) -> Result<(), String> {
    // The first node has the driver.
    let dying: Vec<usize> = (1..size.n_nodes).filter(|number| number % 10 == 1).collect();
    cluster.kill_nodes(dying.into_iter());
    if cluster.settle(600 * SECOND) {
        Ok(())
    } else {
        Err(format!("{} actors have not started again in 10 minutes", cluster.n_starting()))
    }
}

/// The cost of a task that waits at its owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuedTask {
    /// Number of tasks that waited.
    pub n_tasks: u64,
    /// The memory of one waiting task, in bytes.
    pub bytes: f64,
    /// CPU to submit one, in nanoseconds.
    pub submit_ns: f64,
    /// Messages to the daemon for all of them.
    pub messages: u64,
}

/// Queues tasks at one owner, which has no worker for them: tasks wait where they were submitted, and a
/// daemon sees a bounded number of requests.
#[must_use]
pub fn queue_tasks(n_tasks: u64) -> QueuedTask {
    let address = WorkerAddress {
        worker_id: WorkerId([1; WorkerId::LEN]),
        node_id: NodeId([1; NodeId::LEN]),
        host: "h".to_owned(),
        port: 1,
    };
    let mut owner = Owner::new(address);
    let template = Arc::new(Template { name: "f".to_owned(), ..Template::default() });
    let class: Arc<LeaseClass> = Arc::default();
    let root = ActorId::new([7; 12], JobId([1, 0, 0, 0]));
    let mut messages = 0;
    let mut took = 0;
    let counted = measure(|| {
        let began = clock();
        for number in 0..n_tasks {
            let spec = TaskSpec {
                id: TaskId::new(number, root),
                template: Arc::clone(&template),
                target: Target::Class(Arc::clone(&class)),
                args: CallArgs::default(),
                returns: 1,
                retry: Retry { max: 3, on_error: false },
                parent: TaskId::NIL,
                handle: None,
            };
            messages += owner.apply(Event::Submit { spec: Arc::new(spec) }, 1_000).len() as u64;
        }
        took = clock() - began;
    });
    QueuedTask {
        n_tasks,
        bytes: counted.bytes_current as f64 / n_tasks as f64,
        submit_ns: took as f64 / n_tasks as f64,
        messages,
    }
}

fn clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

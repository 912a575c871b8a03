//! Questions to the processes of this node and of the others, put together into one answer.
//!
//! Nothing but last words ([`crate::last_words`]) is kept here between questions: a process makes its rows
//! when it is asked. One that does
//! not answer in time counts as silent, and the answer goes out without it. **LIMIT-1**
//! [`INSPECTIONS_MAX`] questions are open at a time; more are answered at once, by nobody.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::cluster::NodeToNode;
use helio_proto::inspect::{
    Answer, Answered, Asked, Inspect, Inspected, Metric, MetricKind, ObjectRow, Question, Series,
    Tag, Topic, WorkerRow,
};
use helio_types::{NodeId, ObjectId, Quantity};

use crate::clients::Kind;
use crate::limits::{INSPECTION_MS_MAX, INSPECTIONS_MAX};
use crate::objects::File;
use crate::pool::Use;
use crate::timers::Timer;
use crate::{Action, Conn, Node, gpus};

/// Who wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    Client(Conn, u64),
    Peer(Conn, u64),
    /// The shell, for who reads the node's measurements.
    Shell(u64),
}

#[derive(Debug)]
struct Inspection {
    asker: Asker,
    answers: Vec<Answer>,
    /// Processes that have not answered.
    clients: BTreeSet<Conn>,
    /// Daemons that have not answered.
    nodes: BTreeSet<NodeId>,
    silent: u32,
    until: u64,
    /// What processes that have ended said last belongs into the answer.
    of_the_ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Inspections {
    open: BTreeMap<u64, Inspection>,
    count: u64,
}

impl Inspections {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Node {
    pub(crate) fn client_inspects(&mut self, conn: Conn, inspect: &Inspect) {
        let asker = Asker::Client(conn, inspect.request_id);
        self.inspect(asker, &inspect.question, !inspect.own_node_only, INSPECTION_MS_MAX);
    }

    pub(crate) fn peer_inspects(&mut self, conn: Conn, asked: &Asked) {
        let asker = Asker::Peer(conn, asked.request_id);
        // Shorter than its own time, so that what is known here is not lost to it.
        self.inspect(asker, &asked.question, false, INSPECTION_MS_MAX * 2 / 3);
    }

    /// The shell asks the processes of this node for their measurements.
    pub(crate) fn shell_scrapes(&mut self, number: u64) {
        let question = Question { topic: Topic::Metrics as u32, ..Question::default() };
        self.inspect(Asker::Shell(number), &question, false, INSPECTION_MS_MAX * 2 / 3);
    }

    fn inspect(&mut self, asker: Asker, question: &Question, everywhere: bool, wait_ms: u64) {
        let mut inspection = Inspection {
            asker,
            answers: vec![self.own_answer(question)],
            clients: BTreeSet::new(),
            nodes: BTreeSet::new(),
            silent: 0,
            until: self.now + wait_ms,
            of_the_ended: Topic::from_number(question.topic) == Some(Topic::Tasks),
        };
        if self.inspections.open.len() >= INSPECTIONS_MAX {
            inspection.silent = 1;
            return self.end_inspection(inspection);
        }
        self.inspections.count += 1;
        let request_id = self.inspections.count;
        let asked = Asked { request_id, question: question.clone() };
        if Topic::from_number(question.topic) != Some(Topic::Workers) {
            inspection.clients = self.clients.with_runtime();
        }
        for conn in inspection.clients.clone() {
            self.send(conn, asked.clone());
        }
        for to in if everywhere { self.cluster.others_alive() } else { Vec::new() } {
            inspection.nodes.insert(to.node_id);
            self.out.push(Action::Ask { to, message: NodeToNode::Asked(asked.clone()) });
        }
        self.timers.set(inspection.until, Timer::Inspection);
        self.inspections.open.insert(request_id, inspection);
        self.end_if_complete(request_id);
    }

    pub(crate) fn client_answered(&mut self, conn: Conn, answered: Answered) {
        let Some(inspection) = self.inspections.open.get_mut(&answered.request_id) else { return };
        if inspection.clients.remove(&conn) {
            inspection.answers.push(answered.answer);
            self.end_if_complete(answered.request_id);
        }
    }

    pub(crate) fn peer_inspected(&mut self, node_id: NodeId, told: Inspected) {
        let Some(inspection) = self.inspections.open.get_mut(&told.request_id) else { return };
        if inspection.nodes.remove(&node_id) {
            inspection.answers.extend(told.answers);
            inspection.silent += told.silent;
            self.end_if_complete(told.request_id);
        }
    }

    /// A client is gone: it neither asks nor answers any more.
    pub(crate) fn forget_inspections(&mut self, conn: Conn) {
        let asked = |open: &Inspection| matches!(open.asker, Asker::Client(asker, _) | Asker::Peer(asker, _) if asker == conn);
        self.inspections.open.retain(|_, open| !asked(open));
        let waiting = |open: &Inspection| open.clients.contains(&conn);
        let numbers = self.inspections.open.iter().filter(|(_, open)| waiting(open));
        for number in numbers.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(open) = self.inspections.open.get_mut(&number) {
                open.clients.remove(&conn);
            }
            self.end_if_complete(number);
        }
    }

    /// A daemon cannot be reached.
    pub(crate) fn inspections_without(&mut self, node_id: NodeId) {
        let waiting = |open: &Inspection| open.nodes.contains(&node_id);
        let numbers = self.inspections.open.iter().filter(|(_, open)| waiting(open));
        for number in numbers.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(open) = self.inspections.open.get_mut(&number) {
                open.nodes.remove(&node_id);
                open.silent += 1;
            }
            self.end_if_complete(number);
        }
    }

    pub(crate) fn inspections_are_late(&mut self) {
        let late = self.inspections.open.iter().filter(|(_, open)| open.until <= self.now);
        for number in late.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(mut open) = self.inspections.open.remove(&number) {
                open.silent += (open.clients.len() + open.nodes.len()) as u32;
                self.end_inspection(open);
            }
        }
    }

    fn end_if_complete(&mut self, number: u64) {
        let complete = |open: &Inspection| open.clients.is_empty() && open.nodes.is_empty();
        if self.inspections.open.get(&number).is_some_and(complete)
            && let Some(open) = self.inspections.open.remove(&number)
        {
            self.end_inspection(open);
        }
    }

    fn end_inspection(&mut self, open: Inspection) {
        let Inspection { asker, mut answers, silent, of_the_ended, .. } = open;
        if of_the_ended {
            // After those who live, should there be more rows than are wanted.
            answers.extend(self.last_words.answers());
        }
        match asker {
            Asker::Client(conn, request_id) => {
                self.send(conn, Inspected { request_id, answers, silent })
            }
            Asker::Peer(conn, request_id) => {
                let message = NodeToNode::Inspected(Inspected { request_id, answers, silent });
                self.out.push(Action::Answer { conn, message });
            }
            Asker::Shell(number) => self.out.push(Action::Scraped { number, answers }),
        }
    }

    /// What the daemon itself says.
    fn own_answer(&self, question: &Question) -> Answer {
        let mut answer = Answer {
            node_id: self.setup.address.node_id,
            host: self.setup.address.host.clone(),
            pid: self.setup.pid,
            is_daemon: true,
            ..Answer::default()
        };
        match Topic::from_number(question.topic) {
            Some(Topic::Workers) => answer.workers = self.worker_rows(),
            Some(Topic::Metrics) => answer.metrics = self.measurements(),
            Some(Topic::Places) => answer.objects = self.place_rows(&question.objects),
            Some(Topic::Tasks | Topic::Objects | Topic::Why) | None => {}
        }
        answer.total = answer.workers.len() as u64;
        answer
    }

    fn place_rows(&self, ids: &[ObjectId]) -> Vec<ObjectRow> {
        let here = |id: &ObjectId| Some((*id, self.objects.sealed.get(id)?));
        let rows = ids.iter().filter_map(here).map(|(object_id, object)| ObjectRow {
            object_id,
            size: object.size,
            is_ready: true,
            is_stored: true,
            is_on_disk: matches!(object.file, File::Written | File::Reading),
            ..ObjectRow::default()
        });
        rows.collect()
    }

    fn worker_rows(&self) -> Vec<WorkerRow> {
        let drivers = self.clients.all.values().filter(|client| client.kind == Kind::Driver);
        let drivers = drivers.map(|client| WorkerRow {
            worker_id: client.worker_id,
            pid: client.pid(),
            is_alive: true,
            is_driver: true,
            job_id: client.job_id,
            ..WorkerRow::default()
        });
        let workers = self.pool.workers.iter().map(|(worker_id, worker)| {
            let (usage, assigned) = match worker.usage {
                Use::Starting => ("starting", None),
                Use::Idle { .. } => ("idle", None),
                Use::Leased(lease_id) => {
                    ("leased", self.leases.get(&lease_id).map(|lease| &lease.assigned))
                }
                Use::Actor(key) => {
                    ("actor", self.actors.assigned(key).map(|(assigned, _)| assigned))
                }
                Use::Ending => ("ending", None),
            };
            WorkerRow {
                worker_id: *worker_id,
                pid: worker.pid(),
                is_alive: true,
                job_id: worker.job_id(),
                usage: usage.to_owned(),
                runtime_env: worker.runtime_env().to_owned(),
                resources: assigned.map(|assigned| assigned.resources.clone()).unwrap_or_default(),
                ..WorkerRow::default()
            }
        });
        let dead = self.deaths.all().map(|(worker_id, cause)| WorkerRow {
            worker_id,
            pid: cause.pid,
            exit_type: if cause.is_intended() { "INTENDED_USER_EXIT" } else { "SYSTEM_ERROR" }
                .to_owned(),
            exit_detail: cause.message.clone(),
            ..WorkerRow::default()
        });
        drivers.chain(workers).chain(dead).collect()
    }

    fn measurements(&self) -> Vec<Metric> {
        let mut workers: BTreeMap<&str, f64> =
            ["starting", "idle", "leased", "actor", "ending"].map(|usage| (usage, 0.0)).into();
        for worker in self.pool.workers.values() {
            let usage = match worker.usage {
                Use::Starting => "starting",
                Use::Idle { .. } => "idle",
                Use::Leased(_) => "leased",
                Use::Actor(_) => "actor",
                Use::Ending => "ending",
            };
            *workers.entry(usage).or_default() += 1.0;
        }
        let series = |key: &str, name: &str, value: f64| Series {
            tags: vec![Tag { key: key.to_owned(), value: name.to_owned() }],
            value,
            counts: Vec::new(),
        };
        let gauge = |name: &str, description: &str, series: Vec<Series>| Metric {
            name: name.to_owned(),
            description: description.to_owned(),
            kind: MetricKind::Gauge as u32,
            boundaries: Vec::new(),
            series,
        };
        let one = |value: f64| vec![Series { value, ..Series::default() }];
        let (total, free) = (self.ledger.total(), self.ledger.available());
        let resources = total.iter().filter(|(name, _)| !name.starts_with("node:"));
        let resources = resources.flat_map(|(name, quantity)| {
            let available = if name == "object_store_memory" {
                Quantity(quantity.0 - Quantity::from_f64(self.objects.used() as f64).0)
            } else {
                free.get(name)
            };
            [("USED", Quantity(quantity.0 - available.0)), ("AVAILABLE", available)].map(
                |(state, quantity)| {
                    let mut one = series("Name", name, quantity.to_f64());
                    one.tags.push(Tag { key: "State".to_owned(), value: state.to_owned() });
                    one
                },
            )
        });
        let drivers =
            self.clients.all.values().filter(|client| client.kind == Kind::Driver).count();
        let mut measured = vec![
            gauge(
                "object_store_memory",
                "Bytes of the object store in use",
                one(self.objects.used() as f64),
            ),
            gauge(
                "object_store_available_memory",
                "Bytes of the object store that are free",
                one(self.setup.store_size.saturating_sub(self.objects.used()) as f64),
            ),
            gauge(
                "object_store_num_local_objects",
                "Objects in the node's store",
                one(self.objects.sealed.len() as f64),
            ),
            gauge("resources", "Logical resources by name and state", resources.collect()),
            gauge(
                "node_workers",
                "Worker processes by what they are for",
                workers.iter().map(|(usage, n)| series("State", usage, *n)).collect(),
            ),
            gauge("node_drivers", "Drivers on the node", one(drivers as f64)),
            gauge(
                "node_pending_lease_requests",
                "Requests for a worker that wait on the node",
                one(self.queue.len() as f64),
            ),
            Metric {
                kind: MetricKind::Counter as u32,
                ..gauge(
                    "memory_manager_worker_eviction_total",
                    "Workers that the memory monitor ended",
                    one(self.memory.killed as f64),
                )
            },
        ];
        measured.extend(gpus::measurements(&self.gpus));
        measured
    }
}

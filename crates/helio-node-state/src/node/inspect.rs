//! Questions to the processes of this node: whom they go to, and what the daemon itself answers.

use std::collections::{BTreeMap, BTreeSet};

use helio_proto::inspect::{
    Answer, Asked, Inspect, LastWords, Metric, ObjectRow, Question, Series, Topic, WorkerRow,
};
use helio_scheduler::is_of_bundle;
use helio_types::{ObjectId, Quantity};

use super::Node;
use crate::clients::Kind;
use crate::event::Conn;
use crate::exits::Life;
use crate::inspections::{Inquiry, Requester};
use crate::leases::Lease;
use crate::limits::INSPECTION_MS_MAX;
use crate::pool::Use;

impl Node {
    pub(super) fn on_inspect(&mut self, conn: Conn, inspect: &Inspect) {
        let requester = Requester::Client(conn, inspect.request_id);
        self.inspect(requester, &inspect.question, !inspect.own_node_only, INSPECTION_MS_MAX);
    }

    pub(super) fn on_peer_inspect(&mut self, conn: Conn, asked: &Asked) {
        let requester = Requester::Peer(conn, asked.request_id);
        // Shorter than the time of the daemon that asks, so that this answer comes in time.
        self.inspect(requester, &asked.question, false, INSPECTION_MS_MAX * 2 / 3);
    }

    /// The shell asks the processes of this node for their measurements.
    pub(super) fn on_scrape(&mut self, number: u64) {
        let question = Question { topic: Topic::Metrics, ..Question::default() };
        self.inspect(Requester::Shell(number), &question, false, INSPECTION_MS_MAX * 2 / 3);
    }

    fn inspect(
        &mut self,
        requester: Requester,
        question: &Question,
        everywhere: bool,
        wait_ms: u64,
    ) {
        let own = self.own_answer(question);
        let clients = match question.topic {
            Topic::Workers => BTreeSet::new(),
            _ => self.clients.with_runtime(),
        };
        let nodes = if everywhere { self.cluster.others_alive() } else { Vec::new() };
        let inquiry = Inquiry { requester, question, own, clients, nodes, wait_ms };
        self.inspections.on_inquiry(inquiry, &mut self.ctx);
    }

    pub(super) fn on_last_words(&mut self, conn: Conn, words: LastWords) {
        let Some(client) = self.clients.get(conn) else { return };
        let tasks = words.answer.tasks;
        let (worker_id, pid) = (client.worker_id(), client.pid());
        let answer = Answer { worker_id, pid, tasks, ..words.answer };
        self.inspections.on_last_words(answer, &self.ctx);
    }

    /// The answer of the daemon itself.
    fn own_answer(&self, question: &Question) -> Answer {
        let mut answer = Answer {
            node_id: self.ctx.setup().address.node_id,
            host: self.ctx.setup().address.host.clone(),
            pid: self.ctx.setup().pid,
            is_daemon: true,
            ..Answer::default()
        };
        match question.topic {
            Topic::Workers => {
                answer.workers = self.worker_rows();
                answer.environments = self.environments.rows();
                answer.machine = self.machine.clone();
            }
            Topic::Metrics => answer.metrics = self.measurements(),
            Topic::Places => answer.objects = self.place_rows(&question.objects),
            Topic::Tasks | Topic::Objects | Topic::Why => {}
        }
        answer.total = answer.workers.len() as u64;
        answer
    }

    fn place_rows(&self, ids: &[ObjectId]) -> Vec<ObjectRow> {
        let here = |id: &ObjectId| Some((*id, self.store.object(*id)?));
        let rows = ids.iter().filter_map(here).map(|(object_id, (size, is_on_disk))| ObjectRow {
            object_id,
            size,
            is_ready: true,
            is_stored: true,
            is_on_disk,
            ..ObjectRow::default()
        });
        rows.collect()
    }

    fn worker_rows(&self) -> Vec<WorkerRow> {
        let drivers = self.clients.iter().filter(|(_, client)| client.kind() == Kind::Driver);
        let drivers = drivers.map(|(_, client)| WorkerRow {
            worker_id: client.worker_id(),
            pid: client.pid(),
            is_alive: true,
            is_driver: true,
            job_id: client.job_id(),
            ..self.lived(client.life())
        });
        let workers = self.pool.iter().map(|(worker_id, worker)| {
            let assigned = match worker.usage() {
                Use::Leased(lease_id) => self.leases.get(lease_id).map(Lease::assigned),
                Use::Actor(key) => self.actors.assigned(key).map(|(assigned, _)| assigned),
                Use::Starting | Use::Idle { .. } | Use::Ending => None,
            };
            WorkerRow {
                worker_id,
                pid: worker.pid(),
                is_alive: true,
                job_id: worker.job_id(),
                usage: worker.usage().name().to_owned(),
                runtime_env: worker.runtime_env().document.clone(),
                resources: assigned.map(|assigned| assigned.resources.clone()).unwrap_or_default(),
                ..self.lived(worker.life())
            }
        });
        let now = self.ctx.now();
        let dead = self.exits.all().map(|(worker_id, end)| WorkerRow {
            worker_id,
            pid: end.cause.pid,
            is_driver: end.is_driver,
            // Nobody but its user knows whether a driver was to end.
            exit_type: match end.is_driver {
                true => "INTENDED_USER_EXIT",
                false => end.cause.exit_type(),
            }
            .to_owned(),
            exit_detail: end.cause.message.clone(),
            ended_ago_ms: now.saturating_sub(end.at).max(1),
            ..self.lived(end.life)
        });
        drivers.chain(workers).chain(dead).collect()
    }

    /// A row with the times of a process.
    fn lived(&self, life: Life) -> WorkerRow {
        let epoch_ms = self.ctx.setup().epoch_ms;
        let wall = |at: Option<u64>| at.map_or(0, |at| epoch_ms.saturating_add(at));
        WorkerRow {
            begun_ms: wall(life.begun),
            serving_ms: wall(life.serving),
            ..WorkerRow::default()
        }
    }

    fn measurements(&self) -> Vec<Metric> {
        // States without a worker are told as 0: a series that is missing looks like a fault in a chart.
        let mut workers: BTreeMap<&str, f64> =
            ["starting", "idle", "leased", "actor", "ending"].map(|usage| (usage, 0.0)).into();
        for (_, worker) in self.pool.iter() {
            *workers.entry(worker.usage().name()).or_default() += 1.0;
        }
        let one = |value: f64| vec![Series::of(value, [])];
        let (total, free) = (self.ledger.total(), self.ledger.available());
        let resources = total.iter();
        let resources =
            // A series for each node and each bundle would grow with the cluster, and tell nothing that the others do
            // not.
            resources.filter(|(name, _)| !name.starts_with("node:") && !is_of_bundle(name));
        let resources = resources.flat_map(|(name, quantity)| {
            // Nothing takes this resource by the ledger: objects do by being there.
            let available = if name == "object_store_memory" {
                Quantity(quantity.0 - Quantity::from_f64(self.store.used() as f64).0)
            } else {
                free.get(name)
            };
            [("USED", Quantity(quantity.0 - available.0)), ("AVAILABLE", available)].map(
                |(state, quantity)| {
                    Series::of(quantity.to_f64(), [("Name", name), ("State", state)])
                },
            )
        });
        let drivers =
            self.clients.iter().filter(|(_, client)| client.kind() == Kind::Driver).count();
        let mut measured = vec![
            Metric::gauge(
                "object_store_memory",
                "Bytes of objects, by where they are",
                vec![
                    Series::of(self.store.used() as f64, [("Location", "MMAP_SHM")]),
                    Series::of(self.store.on_disk() as f64, [("Location", "SPILLED")]),
                ],
            ),
            Metric::gauge(
                "object_store_available_memory",
                "Bytes of the object store that are free",
                one(self.ctx.setup().store_size.saturating_sub(self.store.used()) as f64),
            ),
            Metric::gauge(
                "object_store_num_local_objects",
                "Objects in the node's store",
                one(self.store.len() as f64),
            ),
            Metric::gauge("resources", "Logical resources by name and state", resources.collect()),
            Metric::gauge(
                "node_workers",
                "Worker processes by what they are for",
                workers.iter().map(|(usage, n)| Series::of(*n, [("State", usage)])).collect(),
            ),
            Metric::gauge("node_drivers", "Drivers on the node", one(drivers as f64)),
            Metric::gauge(
                "node_pending_lease_requests",
                "Requests for a worker that wait on the node",
                one(self.leases.waiting_len() as f64),
            ),
            Metric::counter(
                "memory_manager_worker_eviction_total",
                "Workers that the memory monitor ended",
                one(self.memory.killed() as f64),
            ),
            Metric::counter(
                "node_manager_unexpected_worker_failure_total",
                "Workers that ended without having been told to, by how they ended",
                self.exits
                    .unexpected()
                    .map(|(kind, n)| Series::of(n as f64, [("Type", kind), ("Name", "")]))
                    .collect(),
            ),
        ];
        measured.extend(self.gpus.measurements());
        measured
    }
}

//! What this process tells of itself when its daemon asks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helio_proto::inspect::{
    Answer, Answered, Asked, Inspect, Inspected, Metric, MetricKind, Question, ROWS_MAX, Series,
    Tag, TaskPhase, Topic,
};
use helio_types::{ActorId, ObjectId, TaskId};

use crate::api::{Error, Interrupt};
use crate::metrics;
use crate::runtime::Runtime;
use crate::state::State;
use crate::why::{Asker, Subject};

/// Through how many processes a question of the daemon goes.
const HOPS: u8 = 3;

/// How long the daemons may take to answer, the other nodes' among them.
const ANSWER_MAX: Duration = Duration::from_secs(10);

impl State {
    pub(crate) fn asked_by_node(&mut self, asked: &Asked) {
        let mut answer = self.signed();
        let limit = match asked.question.limit {
            0 => ROWS_MAX,
            limit => limit.min(ROWS_MAX),
        } as usize;
        match Topic::from_number(asked.question.topic) {
            Some(Topic::Tasks) => {
                let (now, unix) = (self.now(), unix_us());
                let wall = |at: u64| unix.saturating_sub(now.saturating_sub(at));
                let (rows, total) = self.owner.task_rows(limit, now, wall);
                (answer.tasks, answer.total) = (rows, total as u64);
            }
            Some(Topic::Objects) => {
                let (mut rows, total) = self.owner.object_rows(limit);
                for row in &mut rows {
                    row.is_pinned = self.pins.contains_key(&row.object_id);
                }
                (answer.objects, answer.total) = (rows, total as u64);
            }
            Some(Topic::Metrics) => answer.metrics = self.measurements(),
            Some(Topic::Why) => {
                if let Some(subject) = self.subject(&asked.question) {
                    return self.explain(subject, HOPS, Asker::Node(asked.request_id));
                }
            }
            Some(Topic::Workers) | None => {}
        }
        self.tell_node(Answered { request_id: asked.request_id, answer }.into());
    }

    /// The thing that is asked about, if this process knows best.
    fn subject(&self, question: &Question) -> Option<Subject> {
        if let Ok(task) = TaskId::try_from(&question.id[..]) {
            return self.owner.owns(task, None).then_some(Subject::Task(task));
        }
        if let Ok(actor) = ActorId::try_from(&question.id[..]) {
            return self.owner.made(actor).then_some(Subject::Actor(actor));
        }
        let id = ObjectId::try_from(&question.id[..]).ok()?;
        self.owner.owns(id.task(), Some(id)).then_some(Subject::Object(id))
    }

    pub(crate) fn answer_why(&mut self, request_id: u64, why: String) {
        let answer = Answer { why, ..self.signed() };
        self.tell_node(Answered { request_id, answer }.into());
    }

    fn signed(&self) -> Answer {
        let me = self.owner.address();
        Answer {
            worker_id: me.worker_id,
            node_id: me.node_id,
            host: me.host.clone(),
            pid: std::process::id(),
            is_driver: self.options.is_driver,
            job_id: self.job.job_id,
            ..Answer::default()
        }
    }

    /// The application's, and the runtime's own.
    fn measurements(&self) -> Vec<Metric> {
        let mut all = metrics::snapshot();
        let tasks = |name: &str, phase: TaskPhase, n: u64| Series {
            tags: vec![
                Tag { key: "State".to_owned(), value: name.to_owned() },
                Tag { key: "Phase".to_owned(), value: format!("{phase:?}") },
            ],
            value: n as f64,
            counts: Vec::new(),
        };
        let (finished, failed) = self.owner.calls_ended();
        let mut series: Vec<Series> = self
            .owner
            .task_counts()
            .into_iter()
            .map(|(phase, n)| tasks(phase.name(), phase, n))
            .collect();
        for (phase, n) in [(TaskPhase::Finished, finished), (TaskPhase::Failed, failed)] {
            if n > 0 {
                series.push(tasks(phase.name(), phase, n));
            }
        }
        let gauge = |name: &str, description: &str, series: Vec<Series>| Metric {
            name: name.to_owned(),
            description: description.to_owned(),
            kind: MetricKind::Gauge as u32,
            boundaries: Vec::new(),
            series,
        };
        all.push(gauge("tasks", "Calls that this process made, by state", series));
        let (objects, ..) = self.owner.census();
        let one = vec![Series { value: objects as f64, ..Series::default() }];
        all.push(gauge("owner_objects", "Objects to which this process holds references", one));
        all
    }
}

impl Runtime {
    /// Asks the processes of the cluster, or of this node alone.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn inspect(
        &self,
        question: Question,
        own_node_only: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Inspected, Error> {
        let request_id = {
            let mut state = self.settled();
            state.check_open()?;
            let request_id = state.request();
            state.inspections.insert(request_id, None);
            state.tell_node(Inspect { request_id, question, own_node_only }.into());
            self.changed(state);
            request_id
        };
        let deadline = Some(Instant::now() + ANSWER_MAX);
        let answer = self.wait_until(deadline, interrupt, |state| {
            state.inspections.get_mut(&request_id).and_then(Option::take)
        });
        self.state.lock().inspections.remove(&request_id);
        answer
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

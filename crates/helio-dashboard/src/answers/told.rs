//! The rows in which drivers and Serve's controller tell of their runs (`heliostat.util.row_writer`), and the rows of training runs.
//! They are passed on as they came.

use serde::Serialize;
use serde_json::{Map, Value};

/// The latest first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Runs<Run> {
    pub(crate) runs: Vec<Run>,
}

/// A run's row as its driver told it, and the head's knowledge beside it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    #[serde(flatten)]
    pub(crate) told: Map<String, Value>,
    /// Whether its driver has ended before it did.
    pub(crate) is_left: bool,
}

/// `/api/train/v2/runs/v1`: the rows that drivers keep, by Ray's names.
#[derive(Debug, Serialize)]
pub(crate) struct TrainRuns {
    pub(crate) train_runs: Vec<Value>,
}

/// The fields of what is told, by those who tell it: `train/controller/page_row.py`, `tune/page_row.py`, `data/execute/page_row.py`
/// and `serve/controller/page_rows.py`.
#[cfg(test)]
pub(crate) mod seen {
    #![expect(dead_code, reason = "they are read as types of the page alone")]

    use std::collections::BTreeMap;

    use ts_rs::TS;

    /// A run of training.
    #[derive(TS)]
    pub(crate) struct TrainingRun {
        name: String,
        run_id: String,
        job_id: String,
        is_over: bool,
        is_left: bool,
        text: String,
        written_at: f64,
        seen: Training,
    }

    #[derive(TS)]
    pub(crate) struct Training {
        state: String,
        path: String,
        started_at: f64,
        finished_at: Option<f64>,
        workers: u32,
        reports: u64,
        failures: u64,
        reports_per_s: Option<f64>,
        checkpoint_count: u64,
        in_flight_mean_s: Option<f64>,
        metrics: BTreeMap<String, f64>,
        phases: Vec<String>,
        times: Vec<StepTimes>,
        storing: Vec<Storing>,
        checkpoints: Vec<StoredCheckpoint>,
        ranks: Vec<Rank>,
        attempts: Vec<Attempt>,
        quorum: Option<Quorum>,
        replacements: Vec<Replacement>,
    }

    /// The parts of a rank's steps.
    #[derive(TS)]
    pub(crate) struct StepTimes {
        rank: u32,
        steps: u64,
        /// Seconds of each phase.
        spent: Vec<f64>,
    }

    /// The latest process of a rank.
    #[derive(TS)]
    pub(crate) struct Rank {
        rank: u32,
        state: String,
        node_id: String,
        host: String,
        pid: u32,
        worker_id: String,
        actor_id: String,
        reports: u64,
        reported_at: Option<f64>,
        restarts: u32,
    }

    #[derive(TS)]
    pub(crate) struct Storing {
        report: u64,
        ranks: Vec<u32>,
        since: f64,
    }

    #[derive(TS)]
    pub(crate) struct StoredCheckpoint {
        name: String,
        at: f64,
        in_flight_s: f64,
    }

    #[derive(TS)]
    pub(crate) struct Attempt {
        number: u32,
        at: f64,
        workers: u32,
        from: Option<String>,
        ended_at: Option<f64>,
        cause: Option<String>,
        recovered_s: Option<f64>,
    }

    #[derive(TS)]
    pub(crate) struct Quorum {
        number: u64,
        step: Option<u64>,
        groups: Vec<u32>,
        of: u32,
    }

    #[derive(TS)]
    pub(crate) struct Replacement {
        at: f64,
        group: u32,
        title: String,
        replaced_s: Option<f64>,
    }

    /// The metrics that a run has reported.
    #[derive(TS)]
    pub(crate) struct RunCurves {
        run_id: String,
        left_out: u64,
        curves: Vec<RunCurve>,
    }

    #[derive(TS)]
    pub(crate) struct RunCurve {
        name: String,
        /// Seconds since the start of the run, steps, and values: as many of each.
        at: Vec<f64>,
        step: Vec<u64>,
        value: Vec<f64>,
        /// None: it is not finite.
        last: Option<f64>,
        others: u64,
    }

    /// A search.
    #[derive(TS)]
    pub(crate) struct SearchRun {
        run_id: String,
        name: String,
        job_id: String,
        is_over: bool,
        is_left: bool,
        started_at: f64,
        seen: Search,
    }

    #[derive(TS)]
    pub(crate) struct Search {
        state: String,
        folder: String,
        metric: Option<String>,
        mode: Option<String>,
        total: Option<u64>,
        took_s: f64,
        best: Option<String>,
        left_out: u64,
        /// Moments in seconds since the epoch, and the best result from then on.
        #[ts(optional)]
        best_so_far: Option<Vec<(f64, f64)>>,
        /// Parameters and the share of the differences between trials that each explains.
        #[ts(optional)]
        importance: Option<Vec<(String, f64)>>,
        #[ts(optional)]
        errors: Option<Vec<TrialErrors>>,
        trials: Vec<Trial>,
    }

    #[derive(TS)]
    pub(crate) struct TrialErrors {
        text: String,
        count: u64,
        trials: Vec<String>,
    }

    #[derive(TS)]
    #[ts(untagged)]
    pub(crate) enum Parameter {
        Number(f64),
        Text(String),
        Flag(bool),
        None(()),
    }

    #[derive(TS)]
    pub(crate) struct Trial {
        id: String,
        name: String,
        state: String,
        parameters: BTreeMap<String, Parameter>,
        value: Option<f64>,
        iterations: u64,
        took_s: f64,
        failures: u64,
        error: String,
        stopped_by: String,
        #[ts(optional)]
        curve: Option<Vec<(f64, f64)>>,
    }

    /// An execution of a dataset.
    #[derive(TS)]
    pub(crate) struct DatasetRun {
        run_id: String,
        name: String,
        job_id: String,
        is_over: bool,
        is_left: bool,
        started_at: f64,
        written_at: f64,
        seen: Execution,
    }

    #[derive(TS)]
    pub(crate) struct Execution {
        state: String,
        why: String,
        took_s: f64,
        rows: u64,
        held_bytes: u64,
        budget_bytes: u64,
        /// Seconds since it began, rows and bytes held.
        past: Vec<(f64, f64, f64)>,
        operators: Vec<Operator>,
    }

    #[derive(TS)]
    pub(crate) struct Operator {
        name: String,
        sources: Vec<usize>,
        bound: String,
        waits: String,
        tasks: u64,
        expected: u64,
        running: u64,
        failed: u64,
        actors: u64,
        cpus: f64,
        gpus: f64,
        rows: u64,
        bytes: u64,
        wall_s: f64,
        udf_s: f64,
        backlog_blocks: u64,
        backlog_bytes: u64,
        nodes: BTreeMap<String, u64>,
    }

    /// An application of Serve.
    #[derive(TS)]
    pub(crate) struct ApplicationRun {
        run_id: String,
        name: String,
        written_at: f64,
        seen: Application,
    }

    #[derive(TS)]
    pub(crate) struct Application {
        state: String,
        message: String,
        route_prefix: Option<String>,
        deployed_at: f64,
        http: Http,
        deployments: Vec<Deployment>,
    }

    #[derive(TS)]
    pub(crate) struct Http {
        host: String,
        port: u16,
    }

    /// Time, replicas, requests that are open and that wait, requests and errors a second, latencies.
    #[derive(TS)]
    pub(crate) struct Moment(
        f64,
        f64,
        f64,
        f64,
        Option<f64>,
        Option<f64>,
        Option<f64>,
        Option<f64>,
    );

    #[derive(TS)]
    pub(crate) struct Deployment {
        name: String,
        state: String,
        message: String,
        target: u32,
        running: u32,
        past: Vec<Moment>,
        replicas: Vec<Replica>,
        left_out: u64,
    }

    #[derive(TS)]
    pub(crate) struct Replica {
        id: String,
        state: String,
        pid: Option<u32>,
        actor_id: Option<String>,
        node_id: String,
        since: Option<f64>,
        #[ts(optional)]
        ongoing: Option<f64>,
        #[ts(optional)]
        requests_per_s: Option<f64>,
        #[ts(optional = nullable)]
        p50_ms: Option<f64>,
        #[ts(optional = nullable)]
        p99_ms: Option<f64>,
    }

    /// The stacks of a worker, or the bytes that each has allocated (`util/state/stack_answer.py`).
    #[derive(TS)]
    pub(crate) struct StackAnswer {
        title: String,
        #[ts(optional)]
        text: Option<String>,
        #[ts(optional)]
        looks: Option<u64>,
        /// For a profile of memory: all that was allocated and is there, the process's size, and whether tracing began with
        /// it.
        #[ts(optional)]
        bytes: Option<u64>,
        #[ts(optional)]
        resident: Option<u64>,
        #[ts(optional)]
        is_new: Option<bool>,
        #[ts(optional)]
        stacks: Option<Vec<SeenStack>>,
    }

    #[derive(TS)]
    pub(crate) struct SeenStack {
        frames: Vec<String>,
        count: u64,
    }
}

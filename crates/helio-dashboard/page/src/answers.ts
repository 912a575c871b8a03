// The answers of the head's routes, and which route gives which.
//
// Written by `cargo xtask rows` from crates/helio-dashboard/src/answers; do not edit.
import type { Lists } from "./rows";

/** The calls that run and those that ended lately. */
export type Activity = {
  /** Milliseconds since 1970, by the head's clock. */
  now: number;
  bars: Array<Bar>;
  /** Earlier ones are not told. */
  is_cut: boolean;
};

/** The number of actors of each class in each state, by Ray's names. */
export type ActorSummary = {
  summary: { [key in string]: ClassCounts };
  total_actors: number;
  summary_by: string;
};

export type Application = {
  state: string;
  message: string;
  route_prefix: string | null;
  deployed_at: number;
  http: Http;
  deployments: Array<Deployment>;
};

/** An application of Serve. */
export type ApplicationRun = {
  run_id: string;
  name: string;
  written_at: number;
  seen: Application;
};

export type Attempt = {
  number: number;
  at: number;
  workers: number;
  from: string | null;
  ended_at: number | null;
  cause: string | null;
  recovered_s: number | null;
};

export type AuthenticationMode = {
  /** `disabled` or `token`. */
  authentication_mode: string;
};

export type AutoscalerReport = {
  activeNodes: number;
  /** Address and cause of each. */
  failedNodes: Array<[string, string]>;
};

/** A call as a bar of the task stream. */
export type Bar = {
  task_id: string;
  attempt: number;
  name: string;
  state: string;
  node_id: string;
  pid: number;
  /** Milliseconds since 1970. */
  start: number;
  /** The same; 0: it runs. */
  end: number;
};

/** A bundle, and the placement group that it belongs to. */
export type BundleId = {
  placement_group_id: string;
  bundle_index: number;
};

export type ByNode<Of> = {
  node_id_to_summary: WholeCluster<Of>;
};

/** A state of a call, and since when. */
export type CallStep = {
  state: string;
  created_ms: number;
};

/** The actors of a class. */
export type ClassCounts = {
  class_name: string;
  state_counts: { [key in string]: number };
};

export type ClusterMetadata = {
  rayVersion: string;
  heliostatVersion: string;
  nowMs: number;
  sessionName: string;
  rayInitCluster: { [key in string]: JsonValue };
  /** None: the cluster is alive. */
  history: PastOfCluster | null;
};

/** The figures that `status` shows. */
export type ClusterStatus = {
  autoscalingStatus: string | null;
  autoscalingError: string | null;
  clusterStatus: LoadAndNodes;
};

/** Curves as means of equal spans of time. */
export type Curves = {
  /** The length of a span. */
  every_s: number;
  /** The begin of each span, in seconds since 1970. */
  at: Array<number>;
  /** By column; none: not known of that span. */
  series: { [key in string]: Array<number | null> };
};

/** An execution of a dataset. */
export type DatasetRun = {
  run_id: string;
  name: string;
  job_id: string;
  is_over: boolean;
  is_left: boolean;
  started_at: number;
  written_at: number;
  seen: Execution;
};

/** Why an actor died. */
export type DeathCause = {
  actor_died_error_context: DiedActor;
};

export type Deleted = {
  deleted: boolean;
};

export type Deployment = {
  name: string;
  state: string;
  message: string;
  target: number;
  running: number;
  past: Array<Moment>;
  replicas: Array<Replica>;
  left_out: number;
};

/** The actor, and what it died of. */
export type DiedActor = {
  error_message: string;
  actor_id: string;
  class_name: string;
  name: string;
  ray_namespace: string;
  pid: number;
};

/** The driver of a job. */
export type DriverInfo = {
  id: string;
  /** The address of the driver's machine; not known of a cluster that is gone. */
  node_ip_address?: string;
  pid: string;
};

/** The envelope of Ray's older routes: `data` is the answer. */
export type Envelope<Data> = {
  result: boolean;
  msg: string;
  data: Data;
};

export type Execution = {
  state: string;
  why: string;
  took_s: number;
  rows: number;
  held_bytes: number;
  budget_bytes: number;
  /** Seconds since it began, rows and bytes held. */
  past: Array<[number, number, number]>;
  operators: Array<Operator>;
};

/** Tasks that failed: one function's with the same error. */
export type Failure = {
  function: string;
  error_type: string;
  message: string;
  count: number;
  /** The time of the last failure, and the call that failed. */
  last_ms: number;
  task_id: string;
  node_id: string;
};

export type Failures = {
  groups: Array<Failure>;
  /** Groups that are not told. */
  left_out: number;
};

export type FoundFiles = {
  files: Array<LogFile>;
  silent: Array<Silent>;
};

/** The calls of a function. */
export type FunctionCounts = {
  func_or_class_name: string;
  type: string;
  state_counts: { [key in string]: number };
};

export type Gpu = {
  index: number;
  name: string;
  /** Percent; none: the driver does not say. */
  utilizationGpu: number | null;
  /** MiB. */
  memoryUsed: number;
  memoryTotal: number;
};

/** A bundle of a placement group. */
export type GroupBundle = {
  bundle_id: BundleId;
  unit_resources: { [key in string]: number };
  /** None: it has no place yet. */
  node_id: string | null;
  label_selector: { [key in string]: string };
};

/** The time that a placement group took. */
export type GroupStats = {
  scheduling_attempt: number;
  end_to_end_creation_latency_ms: number;
};

export type Http = {
  host: string;
  port: number;
};

/** Within the envelope of the state API. */
export type Inner<Answer> = {
  result: Answer;
};

/** A job: submitted, or a driver that connected by itself. */
export type JobDetails = {
  /** SUBMISSION or DRIVER. */
  type: string;
  job_id: string | null;
  submission_id: string | null;
  driver_info: DriverInfo | null;
  status: string;
  entrypoint: string;
  message: string | null;
  error_type: string | null;
  /** Milliseconds since 1970. */
  start_time: number | null;
  end_time: number | null;
  metadata: { [key in string]: JsonValue } | null;
  runtime_env: { [key in string]: JsonValue } | null;
  driver_agent_http_address: string | null;
  driver_node_id: string | null;
  driver_exit_code: number | null;
};

/** The log of a job. */
export type JobLogs = {
  logs: string;
};

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

/** A part of a list. Rows are written from tables, and not one by one from structs: [`crate::page::Page`]. */
export type Listing<Row> = {
  result: Array<Row>;
  /** The number of calls, listed or not. */
  total: number;
  /** The number of calls that are known. */
  num_after_truncation: number;
  /** For how many all filters hold. */
  num_filtered: number;
  /** After which row the next part begins; none: this is the last. */
  next: string | null;
  /** The missing part in a sentence; empty: nothing is missing. */
  partial_failure_warning: string;
  warnings: Array<string> | null;
};

export type LoadAndNodes = {
  loadMetricsReport: LoadMetricsReport;
  autoscalerReport: AutoscalerReport;
};

export type LoadMetricsReport = {
  usage: { [key in string]: [number, number] };
  resourceDemand: Array<WaitingDemand>;
};

export type LogFile = {
  node_id: string;
  node_ip: string;
  name: string;
  kind: string;
  /** Bytes. */
  size: number;
  modified_ms: number;
  owner: Record<string, string | number | null> | null;
};

/** A node and its machine. */
export type Machine = {
  hostname: string;
  ip: string;
  name: string;
  gpus: Array<Gpu>;
  workers: number;
  raylet: Raylet;
};

/** The curves of machines by node. */
export type MachineCurves = {
  machines: { [key in string]: Curves };
};

/** All nodes. */
export type Machines = {
  summary: Array<Machine>;
  /** By node: used and all of each resource. */
  nodeLogicalResources: { [key in string]: { [key in string]: [number, number] } };
};

/** Time, replicas, requests that are open and that wait, requests and errors a second, latencies. */
export type Moment = [number, number, number, number, number | null, number | null, number | null, number | null];

/** The references of one place. */
export type ObjectCounts = {
  total_objects: number;
  total_size_mb: number;
  total_num_workers: number;
  total_num_nodes: number;
  task_state_counts: { [key in string]: number };
  task_attempt_number_counts: { [key in string]: number };
  ref_type_counts: { [key in string]: number };
};

/** References to objects and their sizes by where they were made, by Ray's names. */
export type ObjectSummary = {
  summary: { [key in string]: ObjectCounts };
  total_objects: number;
  total_size_mb: number;
  callsite_enabled: boolean;
  summary_by: string;
  /** The sentence that says which part is missing. */
  note?: string;
};

/** A node. */
export type OneMachine = {
  detail: Machine;
};

export type Operator = {
  name: string;
  sources: Array<number>;
  bound: string;
  waits: string;
  tasks: number;
  expected: number;
  running: number;
  failed: number;
  actors: number;
  cpus: number;
  gpus: number;
  rows: number;
  bytes: number;
  wall_s: number;
  udf_s: number;
  backlog_blocks: number;
  backlog_bytes: number;
  nodes: { [key in string]: number };
};

export type Parameter = number | string | boolean | null;

/** The times and the release of a cluster that is gone. */
export type PastOfCluster = {
  begun_ms: number;
  ended_ms: number;
  release: string;
  /** The parts of the history that could not be read, a sentence each. */
  notes: Array<string>;
};

export type Quorum = {
  number: number;
  step: number | null;
  groups: Array<number>;
  of: number;
};

/** The latest process of a rank. */
export type Rank = {
  rank: number;
  state: string;
  node_id: string;
  host: string;
  pid: number;
  worker_id: string;
  actor_id: string;
  reports: number;
  reported_at: number | null;
  restarts: number;
};

export type Raylet = {
  nodeId: string;
  nodeManagerAddress: string;
  nodeManagerHostname: string;
  nodeManagerPort: number;
  pid: number;
  /** ALIVE or DEAD. */
  state: string;
  stateMessage: string;
  isHeadNode: boolean;
  /** Bytes. */
  objectStoreUsedMemory: number;
  resourcesTotal: { [key in string]: number };
  resourcesAvailable: { [key in string]: number };
  labels: { [key in string]: string };
};

export type Replacement = {
  at: number;
  group: number;
  title: string;
  replaced_s: number | null;
};

export type Replica = {
  id: string;
  state: string;
  pid: number | null;
  actor_id: string | null;
  node_id: string;
  since: number | null;
  ongoing?: number;
  requests_per_s?: number;
  p50_ms?: number | null;
  p99_ms?: number | null;
};

export type RunCurve = {
  name: string;
  /** Seconds since the start of the run, steps, and values: as many of each. */
  at: Array<number>;
  step: Array<number>;
  value: Array<number>;
  /** None: it is not finite. */
  last: number | null;
  others: number;
};

/** The metrics that a run has reported. */
export type RunCurves = {
  run_id: string;
  left_out: number;
  curves: Array<RunCurve>;
};

/** The latest first. */
export type Runs<Run> = {
  runs: Array<Run>;
};

export type Search = {
  state: string;
  folder: string;
  metric: string | null;
  mode: string | null;
  total: number | null;
  took_s: number;
  best: string | null;
  left_out: number;
  /** Moments in seconds since the epoch, and the best result from then on. */
  best_so_far?: Array<[number, number]>;
  /** Parameters and the share of the differences between trials that each explains. */
  importance?: Array<[string, number]>;
  errors?: Array<TrialErrors>;
  trials: Array<Trial>;
};

/** A search. */
export type SearchRun = {
  run_id: string;
  name: string;
  job_id: string;
  is_over: boolean;
  is_left: boolean;
  started_at: number;
  seen: Search;
};

export type SeenStack = {
  frames: Array<string>;
  count: number;
};

/** A node that did not answer. */
export type Silent = {
  node_id: string;
  why: string;
};

/** The stacks of a worker, or the bytes that each has allocated (`util/state/stack_answer.py`). */
export type StackAnswer = {
  title: string;
  text?: string;
  looks?: number;
  /** For a profile of memory: all that was allocated and is there, the process's size, and whether tracing began with it. */
  bytes?: number;
  resident?: number;
  is_new?: boolean;
  stacks?: Array<SeenStack>;
};

/** The parts of a rank's steps. */
export type StepTimes = {
  rank: number;
  steps: number;
  /** Seconds of each phase. */
  spent: Array<number>;
};

export type Stopped = {
  /** Whether it had not ended before. */
  stopped: boolean;
};

export type StoredCheckpoint = {
  name: string;
  at: number;
  in_flight_s: number;
};

export type Storing = {
  report: number;
  ranks: Array<number>;
  since: number;
};

/** A job was taken. */
export type Submitted = {
  job_id: string;
  submission_id: string;
};

/** Counts of all that a list has. */
export type Summarized<Of> = {
  total: number;
  num_after_truncation: number;
  num_filtered: number;
  result: ByNode<Of>;
  partial_failure_warning: string;
  warnings: Array<string> | null;
};

/** The number of calls of each function in each state, by Ray's names. */
export type TaskSummary = {
  summary: { [key in string]: FunctionCounts };
  total_tasks: number;
  total_actor_tasks: number;
  total_actor_scheduled: number;
  summary_by: string;
};

export type Training = {
  state: string;
  path: string;
  started_at: number;
  finished_at: number | null;
  workers: number;
  reports: number;
  failures: number;
  reports_per_s: number | null;
  checkpoint_count: number;
  in_flight_mean_s: number | null;
  metrics: { [key in string]: number };
  phases: Array<string>;
  times: Array<StepTimes>;
  storing: Array<Storing>;
  checkpoints: Array<StoredCheckpoint>;
  ranks: Array<Rank>;
  attempts: Array<Attempt>;
  quorum: Quorum | null;
  replacements: Array<Replacement>;
};

/** A run of training. */
export type TrainingRun = {
  name: string;
  run_id: string;
  job_id: string;
  is_over: boolean;
  is_left: boolean;
  text: string;
  written_at: number;
  seen: Training;
};

export type Trial = {
  id: string;
  name: string;
  state: string;
  parameters: { [key in string]: Parameter };
  value: number | null;
  iterations: number;
  took_s: number;
  failures: number;
  error: string;
  stopped_by: string;
  curve?: Array<[number, number]>;
};

export type TrialErrors = {
  text: string;
  count: number;
  trials: Array<string>;
};

/** The release of Heliostat, the release of Ray that it matches, and the session. */
export type Version = {
  version: string;
  ray_version: string;
  ray_commit: string;
  session_name: string;
};

/** Requests of one shape that wait for room. */
export type WaitingDemand = {
  resources: { [key in string]: number };
  count: number;
  why: string;
};

export type WholeCluster<Of> = {
  cluster: Of;
};

/** What `GET` of a path answers; a name in braces stands for a part of the path. */
export interface Answers {
  "/api/version": Version;
  "/api/authentication_mode": AuthenticationMode;
  "/api/jobs/": Array<JobDetails>;
  "/api/jobs/{id}": JobDetails;
  "/api/jobs/{id}/logs": JobLogs;
  "/api/cluster_status": Envelope<ClusterStatus>;
  "/api/v0/cluster_metadata": Envelope<ClusterMetadata>;
  "/nodes": Envelope<Machines>;
  "/nodes/{id}": Envelope<OneMachine>;
  "/api/v0/tasks": Envelope<Inner<Listing<Lists["tasks"]>>>;
  "/api/v0/objects": Envelope<Inner<Listing<Lists["objects"]>>>;
  "/api/v0/workers": Envelope<Inner<Listing<Lists["workers"]>>>;
  "/api/v0/actors": Envelope<Inner<Listing<Lists["actors"]>>>;
  "/api/v0/nodes": Envelope<Inner<Listing<Lists["nodes"]>>>;
  "/api/v0/jobs": Envelope<Inner<Listing<Lists["jobs"]>>>;
  "/api/v0/placement_groups": Envelope<Inner<Listing<Lists["placement_groups"]>>>;
  "/api/v0/runtime_envs": Envelope<Inner<Listing<Lists["runtime_envs"]>>>;
  "/api/v0/cluster_events": Envelope<Inner<Listing<Lists["cluster_events"]>>>;
  "/api/v0/tasks/summarize": Envelope<Inner<Summarized<TaskSummary>>>;
  "/api/v0/actors/summarize": Envelope<Inner<Summarized<ActorSummary>>>;
  "/api/v0/objects/summarize": Envelope<Inner<Summarized<ObjectSummary>>>;
  "/api/v0/tasks/activity": Activity;
  "/api/v0/tasks/errors": Failures;
  "/api/v0/logs": Envelope<Inner<FoundFiles>>;
  "/api/v0/metrics/past": Curves;
  "/api/v0/metrics/machines": MachineCurves;
  "/api/v0/stacks/{node}/{pid}": StackAnswer;
  "/api/v0/training": Runs<TrainingRun>;
  "/api/v0/training/{run}/curves": RunCurves;
  "/api/v0/tuning": Runs<SearchRun>;
  "/api/v0/datasets": Runs<DatasetRun>;
  "/api/v0/serving": Runs<ApplicationRun>;
}

/** The same of other methods. */
export interface Done {
  "POST /api/jobs/": Submitted;
  "POST /api/jobs/{id}/stop": Stopped;
  "DELETE /api/jobs/{id}": Deleted;
}

// Rows of the state API, with what is shown in detail.
//
// Written by `cargo xtask rows` from crates/helio-report/src/columns.rs; do not edit.
import type { CallStep, DeathCause, DriverInfo, GroupBundle, GroupStats } from "./answers";

/** An actor. */
export interface ActorState {
  actor_id: string;
  class_name: string;
  state: string;
  job_id: string;
  name: string | null;
  node_id: string | null;
  pid: number | null;
  ray_namespace: string | null;
  serialized_runtime_env: string | null;
  required_resources: Record<string, number> | null;
  death_cause: DeathCause | null;
  is_detached: boolean | null;
  placement_group_id: string | null;
  repr_name: string | null;
  num_restarts: number | null;
  num_restarts_due_to_lineage_reconstruction: number | null;
  num_restarts_due_to_node_preemption: number | null;
  call_site: string | null;
  label_selector: Record<string, string> | null;
  fallback_strategy: unknown;
  why: string | null;
  creation_time_ms: number | null;
  end_time_ms: number | null;
}

/** A placement group. */
export interface PlacementGroupState {
  placement_group_id: string;
  name: string;
  creator_job_id: string;
  state: string;
  bundles: GroupBundle[] | null;
  is_detached: boolean | null;
  stats: GroupStats | null;
  topology_strategy: Record<string, unknown> | null;
  topology_assignments: Record<string, unknown> | null;
  why: string | null;
  creation_time_ms: number | null;
}

/** A node. */
export interface NodeState {
  node_id: string;
  node_ip: string;
  is_head_node: boolean;
  state: string;
  state_message: string | null;
  node_name: string;
  resources_total: Record<string, unknown>;
  labels: Record<string, string>;
  start_time_ms: number | null;
  end_time_ms: number | null;
}

/** A job. */
export interface JobState {
  job_id: string | null;
  submission_id: string | null;
  entrypoint: string;
  type: string;
  status: string;
  message: string | null;
  error_type: string | null;
  driver_info: DriverInfo | null;
  start_time: number | null;
  end_time: number | null;
  metadata: Record<string, string> | null;
  runtime_env: Record<string, unknown> | null;
  driver_agent_http_address: string | null;
  driver_node_id: string | null;
  driver_exit_code: number | null;
}

/** A process that runs or ran tasks or a driver. */
export interface WorkerState {
  worker_id: string;
  is_alive: boolean;
  worker_type: string;
  exit_type: string | null;
  node_id: string;
  ip: string;
  pid: number;
  exit_detail: string | null;
  worker_launch_time_ms: number | null;
  worker_launched_time_ms: number | null;
  start_time_ms: number | null;
  end_time_ms: number | null;
  debugger_port: number | null;
  num_paused_threads: number | null;
  job_id: string | null;
  usage: string | null;
  required_resources: Record<string, number> | null;
  runtime_env: string | null;
}

/** Something that went wrong in the cluster. */
export interface ClusterEventState {
  severity: string;
  time: string;
  source_type: string;
  message: string;
  event_id: string;
  custom_fields: Record<string, unknown> | null;
}

/** A call. */
export interface TaskState {
  task_id: string;
  attempt_number: number;
  name: string;
  state: string;
  job_id: string;
  actor_id: string | null;
  type: string;
  func_or_class_name: string;
  parent_task_id: string | null;
  node_id: string | null;
  worker_id: string | null;
  worker_pid: number | null;
  error_type: string | null;
  language: string | null;
  required_resources: Record<string, number> | null;
  runtime_env_info: Record<string, unknown> | null;
  placement_group_id: string | null;
  events: CallStep[] | null;
  profiling_data: Record<string, unknown> | null;
  creation_time_ms: number | null;
  start_time_ms: number | null;
  end_time_ms: number | null;
  task_log_info: Record<string, unknown> | null;
  error_message: string | null;
  is_debugger_paused: boolean | null;
  call_site: string | null;
  label_selector: Record<string, string> | null;
  fallback_strategy: unknown;
  why: string | null;
}

/** A reference that a process holds to an object. */
export interface ObjectState {
  object_id: string;
  object_size: number;
  task_status: string;
  attempt_number: number;
  reference_type: string;
  call_site: string;
  type: string;
  pid: number;
  ip: string;
}

/** A runtime environment on a node. */
export interface RuntimeEnvState {
  runtime_env: Record<string, unknown>;
  success: boolean;
  creation_time_ms: number | null;
  node_id: string;
  ref_cnt: number | null;
  error: string | null;
  starts: number | null;
  size: number | null;
}

/** The rows of each list. */
export interface Lists {
  actors: ActorState;
  placement_groups: PlacementGroupState;
  nodes: NodeState;
  jobs: JobState;
  workers: WorkerState;
  cluster_events: ClusterEventState;
  tasks: TaskState;
  objects: ObjectState;
  runtime_envs: RuntimeEnvState;
}

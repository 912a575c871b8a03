//! Rows of the state API: tasks, objects, workers, actors, nodes and jobs, in the columns that users of
//! Ray know, made of what processes and the control service said. The Python front and the command line
//! show the same rows.
//!
//! Reading order: [`rows`], [`select`], [`summary`], [`trace`].

#![forbid(unsafe_code)]

pub mod rows;
pub mod select;
pub mod summary;
pub mod trace;

/// A row: column to value.
pub type Row = serde_json::Map<String, serde_json::Value>;

/// What there are rows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Calls.
    Tasks,
    /// References to objects.
    Objects,
    /// Processes.
    Workers,
    /// Actors.
    Actors,
    /// Nodes.
    Nodes,
    /// Jobs.
    Jobs,
    /// Placement groups.
    Groups,
    /// Environments in which workers run.
    Envs,
    /// What went wrong.
    Events,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Self; 9] = [
        Self::Tasks,
        Self::Objects,
        Self::Workers,
        Self::Actors,
        Self::Nodes,
        Self::Jobs,
        Self::Groups,
        Self::Envs,
        Self::Events,
    ];

    /// The resource of that name, in the plural as commands use it; `_` is as good as `-`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.replace('_', "-");
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }

    /// Its name, in the plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Objects => "objects",
            Self::Workers => "workers",
            Self::Actors => "actors",
            Self::Nodes => "nodes",
            Self::Jobs => "jobs",
            Self::Groups => "placement-groups",
            Self::Envs => "runtime-envs",
            Self::Events => "cluster-events",
        }
    }

    /// The column that names one row.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tasks => "task_id",
            Self::Objects => "object_id",
            Self::Workers => "worker_id",
            Self::Actors => "actor_id",
            Self::Nodes => "node_id",
            Self::Jobs => "job_id",
            Self::Groups => "placement_group_id",
            Self::Envs => "runtime_env",
            Self::Events => "event_id",
        }
    }

    /// The columns that are always shown, in their order, and those that are shown in detail only.
    #[must_use]
    pub fn columns(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Tasks => (
                &[
                    "task_id",
                    "attempt_number",
                    "name",
                    "state",
                    "job_id",
                    "actor_id",
                    "type",
                    "func_or_class_name",
                    "parent_task_id",
                    "node_id",
                    "worker_id",
                    "worker_pid",
                    "error_type",
                ],
                &[
                    "language",
                    "required_resources",
                    "runtime_env_info",
                    "placement_group_id",
                    "events",
                    "profiling_data",
                    "creation_time_ms",
                    "start_time_ms",
                    "end_time_ms",
                    "task_log_info",
                    "error_message",
                    "is_debugger_paused",
                    "call_site",
                    "label_selector",
                    "fallback_strategy",
                    "why",
                ],
            ),
            Self::Objects => (
                &[
                    "object_id",
                    "object_size",
                    "task_status",
                    "attempt_number",
                    "reference_type",
                    "call_site",
                    "type",
                    "pid",
                    "ip",
                ],
                &[],
            ),
            Self::Workers => (
                &["worker_id", "is_alive", "worker_type", "exit_type", "node_id", "ip", "pid"],
                &["exit_detail", "job_id", "usage", "required_resources", "runtime_env"],
            ),
            Self::Actors => (
                &[
                    "actor_id",
                    "class_name",
                    "state",
                    "job_id",
                    "name",
                    "node_id",
                    "pid",
                    "ray_namespace",
                ],
                &[
                    "serialized_runtime_env",
                    "required_resources",
                    "death_cause",
                    "is_detached",
                    "placement_group_id",
                    "repr_name",
                    "num_restarts",
                    "num_restarts_due_to_lineage_reconstruction",
                    "num_restarts_due_to_node_preemption",
                    "call_site",
                    "label_selector",
                    "fallback_strategy",
                    "why",
                ],
            ),
            Self::Nodes => (
                &[
                    "node_id",
                    "node_ip",
                    "is_head_node",
                    "state",
                    "state_message",
                    "node_name",
                    "resources_total",
                    "labels",
                ],
                &[],
            ),
            Self::Groups => (
                &["placement_group_id", "name", "creator_job_id", "state"],
                &[
                    "bundles",
                    "is_detached",
                    "stats",
                    "topology_strategy",
                    "topology_assignments",
                    "why",
                ],
            ),
            Self::Envs => {
                (&["runtime_env", "success", "creation_time_ms", "node_id"], &["ref_cnt", "error"])
            }
            Self::Events => {
                (&["severity", "time", "source_type", "message", "event_id"], &["custom_fields"])
            }
            Self::Jobs => (
                &["job_id", "submission_id", "entrypoint", "type", "status", "driver_info"],
                &["start_time", "end_time", "metadata"],
            ),
        }
    }
}

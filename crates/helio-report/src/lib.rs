//! Rows of the state API: tasks, objects, workers, actors, nodes and jobs, in the columns that users of
//! Ray know, made of what processes and the control service said. The Python front and the command line
//! show the same rows.
//!
//! Reading order: [`columns`], [`rows`], [`calls`], [`select`], [`summary`], [`trace`].

#![forbid(unsafe_code)]

pub mod calls;
pub mod columns;
pub mod parts;
pub mod rows;
pub mod select;
pub mod summary;
mod tellers;
pub mod trace;

use columns::Column;

pub use helio_scheduler::{as_asked, in_bundles, without_bundles};

/// A row: column to value.
pub type Row = serde_json::Map<String, serde_json::Value>;

impl Column {
    /// Whether its values are numbers: rows can stand in their order.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.python.starts_with("int") || self.python.starts_with("float")
    }

    /// Whether its values are true or false.
    #[must_use]
    pub fn is_flag(&self) -> bool {
        self.python.starts_with("bool")
    }
}

const TASK_STATES: &[&str] = &[
    "NIL",
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
    "SUBMITTED_TO_WORKER",
    "PENDING_ACTOR_TASK_ARGS_FETCH",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    "RUNNING",
    "RUNNING_IN_RAY_GET",
    "RUNNING_IN_RAY_WAIT",
    "GETTING_AND_PINNING_ARGS",
    "FINISHED",
    "FAILED",
];
const ACTOR_STATES: &[&str] =
    &["DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"];
const GROUP_STATES: &[&str] = &["PENDING", "PREPARED", "CREATED", "REMOVED", "RESCHEDULING"];
const JOB_STATES: &[&str] = &["PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"];

/// The kinds of rows.
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
    /// Failures.
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

    /// Returns the name of the resource, in the plural.
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

    /// The column of its states, and Ray's names of them; none: a row has no state.
    #[must_use]
    pub fn states(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Tasks => Some(("state", TASK_STATES)),
            Self::Actors => Some(("state", ACTOR_STATES)),
            Self::Nodes => Some(("state", &["ALIVE", "DEAD"])),
            Self::Groups => Some(("state", GROUP_STATES)),
            Self::Jobs => Some(("status", JOB_STATES)),
            Self::Objects | Self::Workers | Self::Envs | Self::Events => None,
        }
    }

    /// Returns the columns of the resource, in the order in which they are shown.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Tasks => columns::TASKS,
            Self::Objects => columns::OBJECTS,
            Self::Workers => columns::WORKERS,
            Self::Actors => columns::ACTORS,
            Self::Nodes => columns::NODES,
            Self::Jobs => columns::JOBS,
            Self::Groups => columns::GROUPS,
            Self::Envs => columns::ENVS,
            Self::Events => columns::EVENTS,
        }
    }

    /// The names of its columns; those for detail only if `detail`.
    #[must_use]
    pub fn names(self, detail: bool) -> Vec<&'static str> {
        let shown = self.columns().iter().filter(|column| detail || !column.is_detail);
        shown.map(|column| column.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::control::ActorPhase;
    use helio_proto::group::GroupPhase;
    use helio_proto::inspect::TaskPhase;

    use super::*;

    #[test]
    fn states_are_those_that_rows_have() {
        let check = |resource: Resource, name: &str| {
            let (_, states) = resource.states().unwrap();
            assert!(states.contains(&name), "{name}");
        };
        TaskPhase::ALL.iter().for_each(|phase| check(Resource::Tasks, phase.name()));
        ActorPhase::ALL.iter().for_each(|phase| check(Resource::Actors, phase.name()));
        GroupPhase::ALL.iter().for_each(|phase| check(Resource::Groups, phase.name()));
        for resource in Resource::ALL {
            let column = resource.states().map(|(column, _)| column);
            assert!(column.is_none_or(|column| resource.names(false).contains(&column)));
        }
    }
}

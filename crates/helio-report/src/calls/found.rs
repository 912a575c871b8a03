//! A call of the table: its columns, its row, its bar.

use helio_proto::inspect::{TaskPhase, TaskRow};
use helio_types::{ActorId, JobId, NodeId, WorkerId};
use serde::Serialize;

use super::call::{Call, Key};
use super::table::Calls;
use crate::Row;
use crate::rows::{self, Told};

/// The value of a column, as cheaply as it can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A value that calls share: the same number is the same value within the column.
    Shared(u32),
    /// A number, or null.
    Number(Option<u64>),
    /// The value stands in the row alone.
    InRow,
}

/// A call as a bar of the task stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are columns of these names")]
pub struct Bar {
    pub task_id: String,
    pub attempt: u32,
    pub name: String,
    pub state: &'static str,
    pub node_id: String,
    pub pid: u32,
    /// Milliseconds since 1970.
    pub start: u64,
    /// The same; 0: it runs.
    pub end: u64,
}

/// A column that is found without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the columns of these names")]
pub enum Of {
    Name,
    State,
    Type,
    Job,
    Actor,
    Node,
    Worker,
    Error,
    Why,
    Language,
    Attempt,
    Pid,
    Created,
    Started,
    Ended,
    /// A column whose value only the row has.
    InRow,
}

impl Of {
    /// The column of that name.
    #[must_use]
    pub fn named(column: &str) -> Self {
        match column {
            "name" | "func_or_class_name" => Self::Name,
            "state" => Self::State,
            "type" => Self::Type,
            "job_id" => Self::Job,
            "actor_id" => Self::Actor,
            "node_id" => Self::Node,
            "worker_id" => Self::Worker,
            "error_type" | "error_message" => Self::Error,
            "why" => Self::Why,
            "language" => Self::Language,
            "attempt_number" => Self::Attempt,
            "worker_pid" => Self::Pid,
            "creation_time_ms" => Self::Created,
            "start_time_ms" => Self::Started,
            "end_time_ms" => Self::Ended,
            _ => Self::InRow,
        }
    }
}

/// A call in the table.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    pub(super) table: &'a Calls,
    /// The key of the call.
    pub key: Key,
    pub(super) call: &'a Call,
}

impl Found<'_> {
    /// Returns the phase of the call.
    #[must_use]
    pub fn phase(&self) -> TaskPhase {
        let is_queued = self.table.is_queued(&self.key, self.call);
        rows::standing(self.call.phase, is_queued, self.call.actor > 0)
    }

    /// Returns the times at which the call was begun and over, in microseconds since 1970; 0: not
    /// yet, or not known.
    #[must_use]
    pub fn times_us(&self) -> (u64, u64) {
        (self.call.started_us, self.call.ended_us)
    }

    /// Returns the job of the call.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        *self.table.jobs.get(self.call.job)
    }

    /// The value of a column, as cheaply as it can be had.
    #[must_use]
    pub fn field(&self, column: Of) -> Field {
        let call = self.call;
        let time = |us: u64| Field::Number((us > 0).then_some(us / 1000));
        match column {
            Of::Name => Field::Shared(call.name),
            Of::State => Field::Shared(self.phase() as u32),
            Of::Type => {
                Field::Shared(u32::from(call.is_constructor) * 2 + u32::from(call.actor > 0))
            }
            Of::Job => Field::Shared(call.job),
            Of::Actor => Field::Shared(call.actor),
            Of::Node => Field::Shared(call.node),
            Of::Worker => Field::Shared(call.worker),
            Of::Error => Field::Shared(call.error),
            Of::Why if !call.is_constructor => Field::Shared(call.why),
            Of::Language => Field::Shared(0),
            Of::Attempt => Field::Number(Some(self.key.1.into())),
            Of::Pid => {
                let worker = self.table.workers.get(call.worker);
                let pid = worker.and_then(|id| self.table.pids.get(&id));
                Field::Number(pid.filter(|pid| **pid > 0).map(|pid| u64::from(*pid)))
            }
            Of::Created => Field::Number(Some(call.created_ms).filter(|at| *at > 0)),
            Of::Started => match self.phase() == call.phase {
                true => time(call.started_us),
                false => Field::Number(None),
            },
            Of::Ended => time(call.ended_us),
            Of::Why | Of::InRow => Field::InRow,
        }
    }

    /// Returns the row of the call.
    #[must_use]
    pub fn row(&self) -> Row {
        let (table, call) = (self.table, self.call);
        let actor_id = table.actors.get(call.actor).unwrap_or(ActorId::NIL);
        if call.is_constructor {
            return table.infos.get(&actor_id).map(rows::constructor).unwrap_or_default();
        }
        let (error_type, error_message) = table.errors.get(call.error).clone();
        let class = table.infos.get(&actor_id).map(|info| info.class_name.as_str());
        let name = table.names.get(call.name);
        let prefix = class.filter(|class| !class.is_empty()).map(|class| format!("{class}."));
        // The name has its class already.
        let class =
            class.filter(|_| prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix)));
        let task = TaskRow {
            task_id: self.key.0,
            attempt: self.key.1,
            name: match (class, &prefix) {
                (Some(_), Some(prefix)) => name[prefix.len()..].to_owned(),
                _ => name.clone(),
            },
            phase: call.phase,
            actor_id,
            node_id: table.nodes.get(call.node).unwrap_or(NodeId::NIL),
            worker_id: table.workers.get(call.worker).unwrap_or(WorkerId::NIL),
            started_us: call.started_us,
            ended_us: call.ended_us,
            error_type,
            error_message,
            why: table.whys.get(call.why).clone(),
            resources: table
                .resource_sets
                .get(call.resources as usize)
                .cloned()
                .unwrap_or_default(),
            ..TaskRow::default()
        };
        rows::call(&Told {
            task: &task,
            is_over: call.is_over,
            is_queued: table.is_queued(&self.key, call),
            job_id: table.jobs.get(call.job).unwrap_or(JobId::NIL),
            maker: *table.parents.get(call.parent),
            created_ms: call.created_ms,
            class,
            pid: table.pids.get(&task.worker_id).copied(),
        })
    }
}

impl Found<'_> {
    /// Returns the values that a bar of the task stream shows: [`crate::calls`] are too many for whole rows.
    #[must_use]
    pub fn bar(&self) -> Bar {
        let (start, end) = self.times_us();
        let table = self.table;
        let worker = table.workers.get(self.call.worker);
        Bar {
            task_id: self.key.0.hex(),
            attempt: self.key.1,
            name: table.names.get(self.call.name).clone(),
            state: self.phase().name(),
            node_id: table.nodes.get(self.call.node).map_or_else(String::new, |id| id.hex()),
            pid: worker.and_then(|id| table.pids.get(&id)).copied().unwrap_or_default(),
            start: start / 1000,
            end: end / 1000,
        }
    }
}

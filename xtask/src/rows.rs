//! `rows`: the Python classes of the state API's rows, and their types for the page, from the table of columns.

use std::fmt::Write as _;

use crate::columns::{self, Column, Form};
use crate::sh;

/// The generated module, below the repository.
pub(crate) const MODULE: &str = "python/heliostat/util/state/rows.py";

/// The generated module of the page, below the repository.
pub(crate) const PAGE: &str = "crates/helio-dashboard/page/src/rows.ts";

const HEAD: &str = r#""""Rows of the state API.

Written by `cargo xtask rows` from crates/helio-report/src/columns.rs; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heliostat.util.state.schema import (
    DETAIL,
    DETAIL_EVENTS,
    DETAIL_FILTER,
    DETAIL_TIME,
    FILTER,
    SHOWN,
    SHOWN_RESOURCES,
    SHOWN_TIME,
    JobSchema,
    StateSchema,
)
"#;

const PAGE_HEAD: &str = "// Rows of the state API, with what is shown in detail.
//
// Written by `cargo xtask rows` from crates/helio-report/src/columns.rs; do not edit.
import type { CallStep, DeathCause, DriverInfo, GroupBundle, GroupStats } from \"./answers\";
";

/// Columns whose values are structs of the head's answers.
const STRUCTS: [(&str, &str); 5] = [
    ("bundles", "GroupBundle[] | null"),
    ("death_cause", "DeathCause | null"),
    ("driver_info", "DriverInfo | null"),
    ("events", "CallStep[] | null"),
    ("stats", "GroupStats | null"),
];

/// The examples of the classes' docstrings.
mod example {
    pub(super) const ACTOR: &str = r#">>> import ray
>>> from ray.util.state import list_actors
>>> @ray.remote(num_cpus=0)
... class Waiter:
...     pass
>>> waiter = Waiter.options(name="of a row").remote()
>>> ray.get(waiter.__ray_ready__.remote())
True
>>> [actor.state for actor in list_actors(filters=[("name", "=", "of a row")])]
['ALIVE']"#;
    pub(super) const GROUP: &str = r#">>> from ray.util import placement_group, remove_placement_group
>>> from ray.util.state import list_placement_groups
>>> group = placement_group([{"CPU": 0.5}], name="of a row")
>>> group.wait(timeout_seconds=60)
True
>>> [row.state for row in list_placement_groups(filters=[("name", "=", "of a row")])]
['CREATED']
>>> remove_placement_group(group)"#;
    pub(super) const NODE: &str = r#">>> from ray.util.state import list_nodes
>>> node = list_nodes()[0]
>>> node.state, node.is_head_node, node["state"]
('ALIVE', True, 'ALIVE')"#;
    pub(super) const JOB: &str = ">>> import ray
>>> from ray.util.state import list_jobs
>>> me = ray.get_runtime_context().get_job_id()
>>> [job.status for job in list_jobs() if job.job_id == me]
['RUNNING']";
    pub(super) const WORKER: &str = ">>> import os
>>> from ray.util.state import list_workers
>>> [worker.worker_type for worker in list_workers() if worker.pid == os.getpid()]
['DRIVER']";
    pub(super) const EVENT: &str = r#">>> from ray.util.state import list_cluster_events
>>> errors = [event.message for event in list_cluster_events() if event.severity == "ERROR"]"#;
    pub(super) const TASK: &str = r#">>> import ray
>>> from ray.util.state import list_tasks
>>> @ray.remote
... def work():
...     pass
>>> ray.get(work.options(name="of a row").remote())
>>> [(task.type, task.state) for task in list_tasks(filters=[("name", "=", "of a row")])]
[('NORMAL_TASK', 'FINISHED')]"#;
    pub(super) const OBJECT: &str = r#">>> import os
>>> import ray
>>> from ray.util.state import list_objects
>>> ref = ray.put(bytes(10**6))
>>> rows = list_objects(filters=[("object_id", "=", ref.hex())])
>>> [row.object_size >= 10**6 for row in rows if row.pid == os.getpid()]
[True]"#;
    pub(super) const ENV: &str = ">>> import ray
>>> from ray.util.state import list_runtime_envs
>>> failed = [env.error for env in list_runtime_envs() if not env.success]";
}

struct Class {
    name: &'static str,
    /// The list's name in routes.
    list: &'static str,
    about: &'static str,
    example: &'static str,
    columns: &'static [Column],
    /// The class is made by names only, and a column that may be None has that as its default.
    is_by_name: bool,
}

const CLASSES: &[Class] = &[
    class("ActorState", "actors", "An actor.", example::ACTOR, columns::ACTORS),
    class(
        "PlacementGroupState",
        "placement_groups",
        "A placement group.",
        example::GROUP,
        columns::GROUPS,
    ),
    class("NodeState", "nodes", "A node.", example::NODE, columns::NODES),
    Class { is_by_name: true, ..class("JobState", "jobs", "A job.", example::JOB, columns::JOBS) },
    class(
        "WorkerState",
        "workers",
        "A process that runs or ran tasks or a driver.",
        example::WORKER,
        columns::WORKERS,
    ),
    class(
        "ClusterEventState",
        "cluster_events",
        "Something that went wrong in the cluster.",
        example::EVENT,
        columns::EVENTS,
    ),
    class("TaskState", "tasks", "A call.", example::TASK, columns::TASKS),
    class(
        "ObjectState",
        "objects",
        "A reference that a process holds to an object.",
        example::OBJECT,
        columns::OBJECTS,
    ),
    class(
        "RuntimeEnvState",
        "runtime_envs",
        "A runtime environment on a node.",
        example::ENV,
        columns::ENVS,
    ),
];

const fn class(
    name: &'static str,
    list: &'static str,
    about: &'static str,
    example: &'static str,
    columns: &'static [Column],
) -> Class {
    Class { name, list, about, example, columns, is_by_name: false }
}

/// The module's text.
pub(crate) fn module() -> String {
    let mut text = HEAD.to_owned();
    for class in CLASSES {
        let Class { name, about, .. } = class;
        let (options, base) =
            if class.is_by_name { ("(kw_only=True)", "JobSchema") } else { ("", "StateSchema") };
        // Writing to a `String` does not fail.
        let _ = write!(
            text,
            "\n\n@dataclass{options}\nclass {name}({base}):\n    \"\"\"{about}\n\n    Examples:\n"
        );
        for example in class.example.lines() {
            let _ = writeln!(text, "        {example}");
        }
        text.push_str("    \"\"\"\n\n");
        for column in class.columns {
            let _ = writeln!(text, "    {}", line(column, class.is_by_name));
        }
    }
    text
}

fn line(column: &Column, is_by_name: bool) -> String {
    let Column { name, python, is_detail, is_filter, form } = *column;
    let may_be_none = python.ends_with("| None") || python == "Any";
    let has_default = is_detail || (is_by_name && may_be_none);
    let default = if has_default { "default=None, " } else { "" };
    let kind = match (is_detail, is_filter) {
        (false, true) => "FILTER",
        (false, false) => "SHOWN",
        (true, true) => "DETAIL_FILTER",
        (true, false) => "DETAIL",
    };
    let form = match form {
        Form::Plain => "",
        Form::Time => "_TIME",
        Form::Events => "_EVENTS",
        Form::Resources => "_RESOURCES",
    };
    format!("{name}: {python} = field({default}metadata={kind}{form})")
}

/// The text of the page's module.
pub(crate) fn page() -> String {
    let mut text = PAGE_HEAD.to_owned();
    for Class { name, about, columns, .. } in CLASSES {
        let _ = write!(text, "\n/** {about} */\nexport interface {name} {{\n");
        for column in *columns {
            let of_struct = STRUCTS.iter().find(|(name, _)| *name == column.name);
            let kind = of_struct
                .map_or_else(|| in_typescript(column.python), |(_, kind)| (*kind).to_owned());
            let _ = writeln!(text, "  {}: {kind};", column.name);
        }
        text.push_str("}\n");
    }
    text.push_str("\n/** The rows of each list. */\nexport interface Lists {\n");
    for class in CLASSES {
        let _ = writeln!(text, "  {}: {};", class.list, class.name);
    }
    text.push_str("}\n");
    text
}

/// Writes the types of the head's answers: a test of their crate does, for it has the structs.
pub(crate) fn answers() -> sh::Outcome {
    let arguments = ["test", "--quiet", "-p", "helio-dashboard", "--lib", "answers::schema"];
    sh::run(sh::command("cargo").args(arguments).env("WRITE_ANSWERS", "1"))
}

/// A type of Python in TypeScript.
fn in_typescript(python: &str) -> String {
    if let Some(inner) = python.strip_suffix(" | None") {
        return format!("{} | null", in_typescript(inner));
    }
    if let Some(inner) = python.strip_prefix("list[").and_then(|rest| rest.strip_suffix(']')) {
        return format!("{}[]", in_typescript(inner));
    }
    let of_values = python.strip_prefix("dict[str, ").and_then(|rest| rest.strip_suffix(']'));
    if let Some(inner) = of_values {
        return format!("Record<string, {}>", in_typescript(inner));
    }
    match python {
        "str" => "string",
        "int" | "float" => "number",
        "bool" => "boolean",
        "Any" => "unknown",
        other => panic!("the table has the type {other}, which rows.rs does not know"),
    }
    .to_owned()
}

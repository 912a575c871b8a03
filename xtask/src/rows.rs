//! `rows`: the Python classes of the state API's rows, from the table of columns.

use std::fmt::Write as _;

use crate::columns::{self, Column, Form};

/// The generated module, below the repository.
pub(crate) const MODULE: &str = "python/heliostat/util/state/rows.py";

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

struct Class {
    name: &'static str,
    about: &'static str,
    columns: &'static [Column],
    /// It is made by names only, and a column that may be None has that as its default.
    is_by_name: bool,
}

const CLASSES: &[Class] = &[
    class("ActorState", "An actor.", columns::ACTORS),
    class("PlacementGroupState", "A placement group.", columns::GROUPS),
    class("NodeState", "A node.", columns::NODES),
    Class { is_by_name: true, ..class("JobState", "A job.", columns::JOBS) },
    class("WorkerState", "A process that runs or ran tasks or a driver.", columns::WORKERS),
    class("ClusterEventState", "Something that went wrong in the cluster.", columns::EVENTS),
    class("TaskState", "A call.", columns::TASKS),
    class("ObjectState", "A reference that a process holds to an object.", columns::OBJECTS),
    class("RuntimeEnvState", "A runtime environment on a node.", columns::ENVS),
];

const fn class(name: &'static str, about: &'static str, columns: &'static [Column]) -> Class {
    Class { name, about, columns, is_by_name: false }
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
            "\n\n@dataclass{options}\nclass {name}({base}):\n    \"\"\"{about}\"\"\"\n\n"
        );
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

//! Counts of rows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Row;
use crate::select::shown;

/// The number of rows with each value of a column.
pub type Counts = BTreeMap<String, u64>;

/// The number of calls of each function in each state, by Ray's names.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct TaskSummary {
    pub summary: BTreeMap<String, FunctionCounts>,
    pub total_tasks: u64,
    pub total_actor_tasks: u64,
    pub total_actor_scheduled: u64,
    pub summary_by: &'static str,
}

/// The calls of a function.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct FunctionCounts {
    pub func_or_class_name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state_counts: Counts,
}

/// The number of actors of each class in each state, by Ray's names.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct ActorSummary {
    pub summary: BTreeMap<String, ClassCounts>,
    pub total_actors: u64,
    pub summary_by: &'static str,
}

/// The actors of a class.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct ClassCounts {
    pub class_name: String,
    pub state_counts: Counts,
}

/// References to objects and their sizes by where they were made, by Ray's names.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct ObjectSummary {
    pub summary: BTreeMap<String, ObjectCounts>,
    pub total_objects: u64,
    pub total_size_mb: f64,
    pub callsite_enabled: bool,
    pub summary_by: &'static str,
    /// The sentence that says which part is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub note: Option<String>,
}

/// The references of one place.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct ObjectCounts {
    pub total_objects: u64,
    pub total_size_mb: f64,
    pub total_num_workers: u64,
    pub total_num_nodes: u64,
    pub task_state_counts: Counts,
    pub task_attempt_number_counts: Counts,
    pub ref_type_counts: Counts,
}

fn field(row: &Row, column: &str) -> String {
    row.get(column).map(shown).unwrap_or_default()
}

fn counts<'a>(rows: impl Iterator<Item = &'a Row>, column: &str) -> Counts {
    let mut counts = Counts::new();
    for row in rows {
        *counts.entry(field(row, column)).or_default() += 1;
    }
    counts
}

fn groups<'a>(rows: &'a [Row], column: &str) -> BTreeMap<String, Vec<&'a Row>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(field(row, column)).or_default().push(row);
    }
    groups
}

/// Calls of which there are no rows: of which kind they are, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// The name, as in the column `func_or_class_name`.
    pub name: String,
    /// The kind, as in the column `type`.
    pub kind: &'static str,
    /// The state, as in the column `state`.
    pub state: &'static str,
    /// Number of rows counted here.
    pub count: u64,
}

/// Counts the calls of each function in each state.
#[must_use]
pub fn tasks(rows: &[Row], more: &[More]) -> TaskSummary {
    let mut functions: BTreeMap<String, (String, Counts)> = BTreeMap::new();
    let mut kinds = Counts::new();
    let mut add = |name: String, kind: String, state: String, count: u64| {
        *kinds.entry(kind.clone()).or_default() += count;
        // The kind of a function is that of its first call: Ray has one kind a name.
        let function = functions.entry(name).or_insert_with(|| (kind, Counts::new()));
        *function.1.entry(state).or_default() += count;
    };
    for row in rows {
        add(field(row, "func_or_class_name"), field(row, "type"), field(row, "state"), 1);
    }
    for one in more {
        add(one.name.clone(), one.kind.to_owned(), one.state.to_owned(), one.count);
    }
    let of_function = |(name, (kind, state_counts)): (String, (String, Counts))| {
        (name.clone(), FunctionCounts { func_or_class_name: name, kind, state_counts })
    };
    let of_kind = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    TaskSummary {
        summary: functions.into_iter().map(of_function).collect(),
        total_tasks: of_kind("NORMAL_TASK"),
        total_actor_tasks: of_kind("ACTOR_TASK"),
        total_actor_scheduled: of_kind("ACTOR_CREATION_TASK"),
        summary_by: "func_name",
    }
}

/// Counts the actors of each class in each state.
#[must_use]
pub fn actors(rows: &[Row]) -> ActorSummary {
    let of_class = |(name, rows): (String, Vec<&Row>)| {
        let state_counts = counts(rows.into_iter(), "state");
        (name.clone(), ClassCounts { class_name: name, state_counts })
    };
    ActorSummary {
        summary: groups(rows, "class_name").into_iter().map(of_class).collect(),
        total_actors: rows.len() as u64,
        summary_by: "class",
    }
}

/// The number of references to objects and their sizes, by call site. Where `rows` has fewer than `total` references, the
/// answer says that it is partial.
#[must_use]
pub fn objects(rows: &[Row], total: u64) -> ObjectSummary {
    let mb = |rows: &[&Row]| {
        let bytes: u64 = rows.iter().filter_map(|row| row.get("object_size")?.as_u64()).sum();
        bytes as f64 / f64::from(1 << 20)
    };
    let distinct = |rows: &[&Row], column: &str| {
        rows.iter().map(|row| field(row, column)).collect::<BTreeSet<_>>().len() as u64
    };
    let of_place = |(name, rows): (String, Vec<&Row>)| {
        let counts = ObjectCounts {
            total_objects: rows.len() as u64,
            total_size_mb: mb(&rows),
            total_num_workers: distinct(&rows, "pid"),
            total_num_nodes: distinct(&rows, "ip"),
            task_state_counts: counts(rows.iter().copied(), "task_status"),
            task_attempt_number_counts: counts(rows.iter().copied(), "attempt_number"),
            ref_type_counts: counts(rows.iter().copied(), "reference_type"),
        };
        (name, counts)
    };
    let known = rows.len() as u64;
    ObjectSummary {
        summary: groups(rows, "call_site").into_iter().map(of_place).collect(),
        // A reference may be made between the count and the rows.
        total_objects: total.max(known),
        total_size_mb: mb(&rows.iter().collect::<Vec<_>>()),
        // Each process decides for itself whether it records places; one that does is enough to look at them.
        callsite_enabled: rows.iter().any(|row| field(row, "call_site") != "disabled"),
        summary_by: "callsite",
        note: (total > known)
            .then(|| format!("sizes and groups are of {known} of {total} references")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rows(all: &[Value]) -> Vec<Row> {
        all.iter().filter_map(|row| row.as_object().cloned()).collect()
    }

    #[test]
    fn calls_are_counted_by_function_and_state() {
        let one = |name: &str, state: &str, kind: &str| json!({"func_or_class_name": name, "state": state, "type": kind});
        let rows = rows(&[
            one("f", "FINISHED", "NORMAL_TASK"),
            one("f", "RUNNING", "NORMAL_TASK"),
            one("f", "RUNNING", "NORMAL_TASK"),
            one("A.m", "FAILED", "ACTOR_TASK"),
        ]);
        let more =
            |name: &str, kind, state, count| More { name: name.to_owned(), kind, state, count };
        let more = [
            more("f", "NORMAL_TASK", "FINISHED", 90_000),
            more("g", "NORMAL_TASK", "FAILED", 5),
            more("A.m", "ACTOR_TASK", "FINISHED", 7),
        ];
        let summary = tasks(&rows, &more);
        assert_eq!(
            json!(summary.summary["f"].state_counts),
            json!({"FINISHED": 90_001, "RUNNING": 2})
        );
        assert_eq!(summary.summary["g"].kind, "NORMAL_TASK");
        assert_eq!((summary.total_tasks, summary.total_actor_tasks), (90_008, 8));
    }

    #[test]
    fn references_are_counted_with_their_bytes() {
        let one = |size: u64, pid: u32| json!({"object_size": size, "pid": pid, "ip": "h", "call_site": "disabled"});
        let rows = rows(&[one(1 << 20, 1), one(1 << 19, 2)]);
        assert!(json!(objects(&rows, 2)).get("note").is_none());
        let summary = json!(objects(&rows, 100_000));
        assert_eq!(summary["total_objects"], json!(100_000));
        assert_eq!(summary["note"], json!("sizes and groups are of 2 of 100000 references"));
        let group = &summary["summary"]["disabled"];
        assert_eq!(group["total_size_mb"], json!(1.5));
        assert_eq!(
            (&group["total_num_workers"], &group["total_num_nodes"]),
            (&json!(2), &json!(1))
        );
    }
}

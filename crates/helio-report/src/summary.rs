//! Counts of rows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::Row;
use crate::select::shown;

fn field(row: &Row, column: &str) -> String {
    row.get(column).map(shown).unwrap_or_default()
}

fn counts<'a>(rows: impl Iterator<Item = &'a Row>, column: &str) -> Value {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(field(row, column)).or_default() += 1;
    }
    json!(counts)
}

fn groups<'a>(rows: &'a [Row], column: &str) -> BTreeMap<String, Vec<&'a Row>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(field(row, column)).or_default().push(row);
    }
    groups
}

/// How many calls of each function are in which state.
#[must_use]
pub fn tasks(rows: &[Row]) -> Value {
    let summary: serde_json::Map<String, Value> = groups(rows, "func_or_class_name")
        .into_iter()
        .map(|(name, rows)| {
            let kind = rows.first().map(|row| field(row, "type")).unwrap_or_default();
            let state_counts = counts(rows.into_iter(), "state");
            (
                name.clone(),
                json!({"func_or_class_name": name, "type": kind, "state_counts": state_counts}),
            )
        })
        .collect();
    let of_kind = |kind: &str| rows.iter().filter(|row| field(row, "type") == kind).count();
    json!({
        "summary": summary,
        "total_tasks": of_kind("NORMAL_TASK"),
        "total_actor_tasks": of_kind("ACTOR_TASK"),
        "total_actor_scheduled": of_kind("ACTOR_CREATION_TASK"),
        "summary_by": "func_name",
    })
}

/// How many actors of each class are in which state.
#[must_use]
pub fn actors(rows: &[Row]) -> Value {
    let summary: serde_json::Map<String, Value> = groups(rows, "class_name")
        .into_iter()
        .map(|(name, rows)| {
            let state_counts = counts(rows.into_iter(), "state");
            (name.clone(), json!({"class_name": name, "state_counts": state_counts}))
        })
        .collect();
    json!({"summary": summary, "total_actors": rows.len(), "summary_by": "class"})
}

/// How many references there are, and to how much.
#[must_use]
pub fn objects(rows: &[Row]) -> Value {
    let mb = |rows: &[&Row]| {
        let bytes: u64 = rows.iter().filter_map(|row| row.get("object_size")?.as_u64()).sum();
        bytes as f64 / f64::from(1 << 20)
    };
    let distinct = |rows: &[&Row], column: &str| {
        rows.iter().map(|row| field(row, column)).collect::<BTreeSet<_>>().len()
    };
    let summary: serde_json::Map<String, Value> = groups(rows, "call_site")
        .into_iter()
        .map(|(name, rows)| {
            let value = json!({
                "total_objects": rows.len(),
                "total_size_mb": mb(&rows),
                "total_num_workers": distinct(&rows, "pid"),
                "total_num_nodes": distinct(&rows, "ip"),
                "task_state_counts": counts(rows.iter().copied(), "task_status"),
                "task_attempt_number_counts": counts(rows.iter().copied(), "attempt_number"),
                "ref_type_counts": counts(rows.iter().copied(), "reference_type"),
            });
            (name, value)
        })
        .collect();
    let all: Vec<&Row> = rows.iter().collect();
    json!({
        "summary": summary,
        "total_objects": rows.len(),
        "total_size_mb": mb(&all),
        "callsite_enabled": false,
        "summary_by": "callsite",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: &[Value]) -> Vec<Row> {
        all.iter().filter_map(|row| row.as_object().cloned()).collect()
    }

    #[test]
    fn calls_are_counted_by_function_and_state() {
        let one = |name: &str, state: &str, kind: &str| json!({"func_or_class_name": name, "state": state, "type": kind});
        let summary = tasks(&rows(&[
            one("f", "FINISHED", "NORMAL_TASK"),
            one("f", "RUNNING", "NORMAL_TASK"),
            one("f", "RUNNING", "NORMAL_TASK"),
            one("A.m", "FAILED", "ACTOR_TASK"),
        ]));
        assert_eq!(summary["summary"]["f"]["state_counts"], json!({"FINISHED": 1, "RUNNING": 2}));
        assert_eq!(
            (&summary["total_tasks"], &summary["total_actor_tasks"]),
            (&json!(3), &json!(1))
        );
    }

    #[test]
    fn references_are_counted_with_their_bytes() {
        let one = |size: u64, pid: u32| json!({"object_size": size, "pid": pid, "ip": "h", "call_site": "disabled"});
        let summary = objects(&rows(&[one(1 << 20, 1), one(1 << 19, 2)]));
        let group = &summary["summary"]["disabled"];
        assert_eq!(group["total_size_mb"], json!(1.5));
        assert_eq!(
            (&group["total_num_workers"], &group["total_num_nodes"]),
            (&json!(2), &json!(1))
        );
    }
}

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

/// So many calls of which there are no rows.
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

/// How many calls of each function are in which state.
#[must_use]
pub fn tasks(rows: &[Row], more: &[More]) -> Value {
    type Counts = BTreeMap<String, u64>;
    let mut functions: BTreeMap<String, (String, Counts)> = BTreeMap::new();
    let mut kinds = Counts::new();
    let mut add = |name: String, kind: String, state: String, count: u64| {
        *kinds.entry(kind.clone()).or_default() += count;
        let function = functions.entry(name).or_insert_with(|| (kind, Counts::new()));
        *function.1.entry(state).or_default() += count;
    };
    for row in rows {
        add(field(row, "func_or_class_name"), field(row, "type"), field(row, "state"), 1);
    }
    for one in more {
        add(one.name.clone(), one.kind.to_owned(), one.state.to_owned(), one.count);
    }
    let summary: serde_json::Map<String, Value> = functions
        .into_iter()
        .map(|(name, (kind, state_counts))| {
            (
                name.clone(),
                json!({"func_or_class_name": name, "type": kind, "state_counts": state_counts}),
            )
        })
        .collect();
    let of_kind = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
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

/// The number of references to objects and their sizes, by call site. Where `rows` has fewer than `total` references, the
/// answer says that it is partial.
#[must_use]
pub fn objects(rows: &[Row], total: u64) -> Value {
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
    let mut told = json!({
        "summary": summary,
        "total_objects": total.max(rows.len() as u64),
        "total_size_mb": mb(&all),
        "callsite_enabled": rows.iter().any(|row| field(row, "call_site") != "disabled"),
        "summary_by": "callsite",
    });
    if total > rows.len() as u64 {
        let note = format!("sizes and groups are of {} of {total} references", rows.len());
        told["note"] = json!(note);
    }
    told
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
            summary["summary"]["f"]["state_counts"],
            json!({"FINISHED": 90_001, "RUNNING": 2})
        );
        assert_eq!(summary["summary"]["g"]["type"], json!("NORMAL_TASK"));
        assert_eq!(
            (&summary["total_tasks"], &summary["total_actor_tasks"]),
            (&json!(90_008), &json!(8))
        );
    }

    #[test]
    fn references_are_counted_with_their_bytes() {
        let one = |size: u64, pid: u32| json!({"object_size": size, "pid": pid, "ip": "h", "call_site": "disabled"});
        let rows = rows(&[one(1 << 20, 1), one(1 << 19, 2)]);
        assert!(objects(&rows, 2).get("note").is_none());
        let summary = objects(&rows, 100_000);
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

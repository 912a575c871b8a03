//! The times of calls, as a trace for Chrome's viewer (`chrome://tracing`, Perfetto).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Row;
use crate::select::shown;

const EXECUTION: &str = "task:execute";

/// Events of the calls that have begun; `now_us` ends those that have not ended. Nodes are shown as
/// processes and workers as their threads; times are microseconds since 1970. Each call is there twice, as
/// on Ray: under its own name, and within that as `task:execute`, by which programs find executions.
#[must_use]
pub fn chrome(tasks: &[Row], nodes: &[Row], now_us: u64) -> Vec<Value> {
    let field = |row: &Row, column: &str| row.get(column).map(shown).unwrap_or_default();
    let hosts: BTreeMap<String, String> =
        nodes.iter().map(|node| (field(node, "node_id"), field(node, "node_ip"))).collect();
    let mut lanes: BTreeMap<(String, String), ()> = BTreeMap::new();
    let mut events = Vec::new();
    for row in tasks {
        let start = row.get("start_us").and_then(Value::as_u64).unwrap_or(0);
        // A call that has not begun has no bar.
        if start == 0 {
            continue;
        }
        let end = row.get("end_us").and_then(Value::as_u64).filter(|end| *end > 0);
        let node = field(row, "node_id");
        let process = format!("Node {}", hosts.get(&node).unwrap_or(&node));
        let thread = match row.get("worker_pid").and_then(Value::as_u64) {
            Some(pid) => format!("worker:{pid}"),
            None => format!("worker:{}", field(row, "worker_id")),
        };
        // The viewer names lanes by events of their own; a map keeps one for each.
        lanes.insert((process.clone(), thread.clone()), ());
        let name = field(row, "name");
        let failed = field(row, "state") == "FAILED";
        let mut call = json!({
            "cat": format!("task::{name}"),
            "name": name,
            "ph": "X",
            "ts": start,
            "dur": end.unwrap_or(now_us).saturating_sub(start),
            "pid": process,
            "tid": thread,
            "cname": if failed { "terrible" } else { "rail_response" },
            "args": {
                "task_id": row.get("task_id"),
                "attempt_number": row.get("attempt_number"),
                "state": row.get("state"),
                "job_id": row.get("job_id"),
                "actor_id": row.get("actor_id"),
                "worker_id": row.get("worker_id"),
                "node_id": row.get("node_id"),
            },
        });
        events.push(call.clone());
        call["cat"] = json!(EXECUTION);
        call["name"] = json!(EXECUTION);
        call["cname"] = json!(if failed { "terrible" } else { "rail_animation" });
        events.push(call);
    }
    for ((process, thread), ()) in lanes {
        for (what, lane) in [("process_name", &process), ("thread_name", &thread)] {
            events.push(json!({
                "name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": lane},
            }));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_begun_is_an_event_on_its_workers_lane() {
        let rows: Vec<Row> = [
            json!({"name": "f", "start_us": 10, "end_us": 25, "node_id": "n", "worker_pid": 7, "state": "FINISHED"}),
            json!({"name": "g", "start_us": 30, "end_us": 0, "node_id": "n", "worker_pid": 7, "state": "RUNNING"}),
            json!({"name": "h", "start_us": 0, "end_us": 0, "state": "PENDING_ARGS_AVAIL"}),
        ]
        .iter()
        .filter_map(|row| row.as_object().cloned())
        .collect();
        let nodes = [json!({"node_id": "n", "node_ip": "10.0.0.1"}).as_object().cloned().unwrap()];
        let events = chrome(&rows, &nodes, 100);
        let spans: Vec<(&Value, &Value, &Value)> = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["name"] != EXECUTION)
            .map(|event| (&event["name"], &event["ts"], &event["dur"]))
            .collect();
        assert_eq!(
            spans,
            [(&json!("f"), &json!(10), &json!(15)), (&json!("g"), &json!(30), &json!(70))]
        );
        assert_eq!(events[0]["cat"], "task::f");
        let executions = events.iter().filter(|event| event["name"] == EXECUTION);
        assert!(executions.map(|event| &event["ts"]).eq([10, 30].map(|ts| json!(ts)).iter()));
        assert_eq!(events[0]["pid"], "Node 10.0.0.1");
        assert_eq!(events[0]["tid"], "worker:7");
        assert!(
            events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == "worker:7")
        );
    }
}

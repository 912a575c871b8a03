//! The autoscaler's report of its plans (WHY-1): which machines it has asked for, and for which demands.
//!
//! The autoscaler writes the report into the key-value table: `{"pending": [{"type", "count", "since_ms"}],
//! "waiting": [{"resources", "gang", "types": {type: since_ms}, "why"}], "failures": [{"type", "why", "at_ms"}]}`; moments are milliseconds since 1970.

use helio_proto::control::{ControlRequest, ControlResponse, KvGet};
use helio_report::{Resource, Row};
use serde_json::{Map, Value};

use crate::state::Cluster;

/// A report that is older than this has nobody who keeps it up.
const OLD_MS: u64 = 60_000;

/// The newest report.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    report: Value,
    now_ms: u64,
}

impl Plans {
    /// Reads the plans of the cluster that `ask` asks; empty where there is no autoscaler.
    pub(crate) fn read(ask: impl Fn(ControlRequest) -> Result<ControlResponse, String>) -> Self {
        let get = KvGet { namespace: "autoscaler".to_owned(), key: b"report".to_vec() };
        let found = match ask(get.into()) {
            Ok(ControlResponse::KvValue(found)) if found.found => found.value,
            _ => return Self::default(),
        };
        let report: Value = serde_json::from_slice(&found).unwrap_or_default();
        Self::of(report, helio_env::clock::unix_ms())
    }

    fn of(report: Value, now_ms: u64) -> Self {
        let at = report["at_ms"].as_u64().unwrap_or_default();
        if at + OLD_MS < now_ms {
            return Self::default();
        }
        Self { report, now_ms }
    }

    /// Returns a line for each machine type that was asked for and has not come, for `status`.
    pub(crate) fn pending(&self) -> Vec<String> {
        let rows = self.report["pending"].as_array().into_iter().flatten();
        let line = |row: &Value| {
            let (count, kind) = (row["count"].as_u64()?, row["type"].as_str()?);
            Some(format!("{count} {kind}, asked for {}", self.ago(row["since_ms"].as_u64()?)))
        };
        rows.filter_map(line).collect()
    }

    /// Machines that were not had, the newest first: a line each.
    pub(crate) fn failures(&self) -> Vec<String> {
        let rows = self.report["failures"].as_array().into_iter().flatten().rev();
        let line = |row: &Value| {
            let (kind, why) = (row["type"].as_str()?, row["why"].as_str()?);
            Some(format!("{kind}, {}: {why}", self.ago(row["at_ms"].as_u64()?)))
        };
        rows.filter_map(line).collect()
    }

    /// Returns a line for each shape that `request_resources` asks for.
    pub(crate) fn requested(&self) -> Vec<String> {
        let rows = self.report["requested"].as_array().into_iter().flatten();
        let line = |row: &Value| {
            let (shape, count) = (row["resources"].as_object()?, row["count"].as_u64()?);
            Some(format!("{}: {count} from request_resources()", braced(shape)))
        };
        rows.filter_map(line).collect()
    }

    /// Returns the reason why a request of that shape waits; `None`: the autoscaler does not know of it.
    pub(crate) fn of_shape(&self, shape: &Map<String, Value>) -> Option<String> {
        self.waiting().find(|row| is_shape(row, shape)).map(|row| self.sentence(row))
    }

    fn of_gang(&self, id: &str) -> Option<String> {
        self.waiting().find(|row| row["gang"] == id).map(|row| self.sentence(row))
    }

    fn waiting(&self) -> impl Iterator<Item = &Value> {
        self.report["waiting"].as_array().into_iter().flatten()
    }

    fn sentence(&self, row: &Value) -> String {
        let types = row["types"].as_object().into_iter().flatten();
        let types: Vec<String> = types
            .filter_map(|(kind, since)| {
                Some(format!(
                    "waiting for a node of type {kind}, asked for {}",
                    self.ago(since.as_u64()?)
                ))
            })
            .collect();
        match types.is_empty() {
            true => row["why"].as_str().unwrap_or_default().to_owned(),
            false => types.join("; "),
        }
    }

    fn ago(&self, since_ms: u64) -> String {
        format!("{} s ago", self.now_ms.saturating_sub(since_ms) / 1000)
    }
}

/// Returns what the autoscaler does for the task, actor or group of that id; `None`: nothing, or it waits no more.
pub(crate) fn of(cluster: &Cluster, id: &str) -> Option<String> {
    let plans = Plans::read(|request| cluster.ask(request));
    plans.report.as_object()?;
    if let Some(text) = plans.of_gang(id) {
        return Some(text);
    }
    let waits = |row: &Row, key: &str| {
        let is_pending = row["state"].as_str().is_some_and(|state| state.starts_with("PENDING"));
        row[key] == id && (is_pending || row["state"] == "RESTARTING")
    };
    let rows = |resource: Resource| cluster.rows(resource).unwrap_or_default();
    let task = rows(Resource::Tasks).into_iter().find(|row| waits(row, "task_id"));
    if let Some(row) = task {
        return plans.of_shape(row["required_resources"].as_object()?);
    }
    let actor = rows(Resource::Actors).into_iter().find(|row| waits(row, "actor_id"))?;
    let mut shape = actor["required_resources"].as_object().cloned().unwrap_or_default();
    // An actor without a CPU of its own is placed by one that it gives back.
    plans.of_shape(&shape).or_else(|| {
        shape.insert("CPU".to_owned(), 1.0.into());
        plans.of_shape(&shape)
    })
}

fn is_shape(row: &Value, shape: &Map<String, Value>) -> bool {
    let Some(own) = row["resources"].as_object() else { return false };
    let holds = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter().all(|(name, quantity)| {
            let other = other.get(name).and_then(Value::as_f64);
            quantity.as_f64() == Some(0.0) || other == quantity.as_f64()
        })
    };
    holds(own, shape) && holds(shape, own)
}

fn braced(shape: &Map<String, Value>) -> String {
    let parts = shape
        .iter()
        .map(|(name, quantity)| format!("'{name}': {:?}", quantity.as_f64().unwrap_or_default()));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plans(at_ms: u64) -> Plans {
        let report = json!({
            "at_ms": at_ms,
            "pending": [{ "type": "small", "count": 2, "since_ms": 97_000 }],
            "requested": [{ "resources": { "CPU": 4.0 }, "count": 3 }],
            "waiting": [
                { "resources": { "CPU": 1.0 }, "types": { "small": 97_000 } },
                { "resources": { "GPU": 1.0 }, "types": {}, "why": "no type has a GPU" },
                { "gang": "ab", "types": { "small": 97_000, "large": 99_500 } },
            ],
            "failures": [
                { "type": "large", "why": "no room", "at_ms": 90_000 },
                { "type": "small", "why": "no ssh", "at_ms": 98_000 },
            ],
        });
        Plans::of(report, 100_000)
    }

    #[test]
    fn what_waits_says_for_which_machine_and_since_when() {
        let plans = plans(99_000);
        let shape = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let small = "waiting for a node of type small, asked for 3 s ago";
        assert_eq!(plans.of_shape(&shape(r#"{"CPU": 1}"#)).unwrap(), small);
        assert_eq!(plans.of_shape(&shape(r#"{"CPU": 1, "GPU": 0}"#)).unwrap(), small);
        assert_eq!(plans.of_shape(&shape(r#"{"GPU": 1}"#)).unwrap(), "no type has a GPU");
        assert_eq!(plans.of_shape(&shape(r#"{"CPU": 2}"#)), None);
        let gang = plans.of_gang("ab").unwrap();
        assert!(gang.contains("type small, asked for 3 s") && gang.contains("large"), "{gang}");
        assert_eq!(plans.pending(), ["2 small, asked for 3 s ago"]);
        assert_eq!(plans.failures(), ["small, 2 s ago: no ssh", "large, 10 s ago: no room"]);
        assert_eq!(plans.requested(), ["{'CPU': 4.0}: 3 from request_resources()"]);
    }

    #[test]
    fn an_autoscaler_that_is_gone_says_nothing() {
        assert!(plans(30_000).pending().is_empty());
    }
}

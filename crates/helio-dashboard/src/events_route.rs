//! The cluster's failures and its time zone, in the form of Ray's older routes.

use std::sync::Arc;

use axum::extract::State;
use helio_report::{Resource, Row};
use serde_json::{Value, json};

use crate::App;
use crate::answers::Envelope;
use crate::answers::cluster::{Events, FileEvent, OfCluster, Timezone};
use crate::reply::{self, Refusal, Reply};

/// `GET /events`. No failure belongs to one job.
pub(crate) async fn events(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    let told = app.answers.rows(&app, Resource::Events).await?;
    let global = told.rows.iter().map(|row| camel_keys(json!(event(row)))).collect();
    let data = Events { events: OfCluster { global } };
    Ok(reply::json(&Envelope::saying("All events fetched.", data)))
}

/// `GET /timezone`: all times are in UTC.
pub(crate) async fn timezone() -> Reply {
    reply::json(&Timezone { offset: "+00:00", value: "Etc/UTC" })
}

/// A failure as a line of Ray's files of events.
pub(crate) fn event(row: &Row) -> FileEvent {
    let seconds = row.get("end_ms").and_then(Value::as_u64).unwrap_or_default() / 1000;
    let column = |name: &str| row.get(name).cloned();
    FileEvent {
        event_id: column("event_id"),
        source_type: column("source_type"),
        source_hostname: "",
        source_pid: row
            .get("custom_fields")
            .and_then(|of| of.get("pid")?.as_u64())
            .unwrap_or_default(),
        severity: column("severity"),
        label: "",
        message: column("message"),
        timestamp: seconds.to_string(),
        custom_fields: column("custom_fields"),
    }
}

/// `some_name` becomes `someName`, everywhere.
pub(crate) fn camel_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(key, value)| (camel(&key), camel_keys(value))).collect(),
        ),
        Value::Array(all) => Value::Array(all.into_iter().map(camel_keys).collect()),
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(part.len().min(1));
        camel.push_str(&first.to_uppercase());
        camel.push_str(rest);
    }
    camel
}

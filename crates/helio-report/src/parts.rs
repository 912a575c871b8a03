//! The values within a column of a row, by Ray's names.

use std::collections::BTreeMap;

use serde::Serialize;

/// A state of a call, and since when.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct CallStep {
    pub state: &'static str,
    pub created_ms: u64,
}

/// Why an actor died.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct DeathCause {
    pub actor_died_error_context: DiedActor,
}

/// The actor, and what it died of.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct DiedActor {
    pub error_message: String,
    pub actor_id: String,
    pub class_name: String,
    pub name: String,
    pub ray_namespace: String,
    pub pid: u32,
}

/// A bundle of a placement group.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct GroupBundle {
    pub bundle_id: BundleId,
    pub unit_resources: BTreeMap<String, f64>,
    /// None: it has no place yet.
    pub node_id: Option<String>,
    pub label_selector: BTreeMap<String, String>,
}

/// A bundle, and the placement group that it belongs to.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct BundleId {
    pub placement_group_id: String,
    pub bundle_index: u64,
}

/// The time that a placement group took.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS))]
#[expect(missing_docs, reason = "they are Ray's fields of these names")]
pub struct GroupStats {
    pub scheduling_attempt: u32,
    pub end_to_end_creation_latency_ms: u64,
}

//! `/api/autoscaler/…`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

type Quantities = BTreeMap<String, f64>;
type Labels = BTreeMap<String, String>;

#[derive(Debug, Serialize)]
pub(crate) struct ScaledNode {
    pub(crate) node_id: String,
    pub(crate) instance_id: String,
    pub(crate) node_type: Option<String>,
    pub(crate) ip: String,
    pub(crate) is_head: bool,
    pub(crate) is_idle: bool,
    pub(crate) is_draining: bool,
    pub(crate) total: Quantities,
    pub(crate) available: Quantities,
    pub(crate) labels: Labels,
}

/// Demands for resources of one shape that no node has room for.
#[derive(Debug, Serialize)]
pub(crate) struct Demand {
    pub(crate) resources: Quantities,
    pub(crate) count: u64,
    /// The labels that it asks for, then those of each fallback.
    pub(crate) selectors: Vec<Labels>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MissingBundle {
    pub(crate) resources: Quantities,
    pub(crate) selectors: [Labels; 1],
}

/// A placement group that waits.
#[derive(Debug, Serialize)]
pub(crate) struct Gang {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) strategy: &'static str,
    /// The bundles without a place.
    pub(crate) bundles: Vec<MissingBundle>,
    /// The nodes of the others.
    pub(crate) held: Vec<String>,
}

/// The state of the cluster that the autoscaler plans by.
#[derive(Debug, Serialize)]
pub(crate) struct ScalingState {
    pub(crate) nodes: Vec<ScaledNode>,
    pub(crate) demands: Vec<Demand>,
    pub(crate) gangs: Vec<Gang>,
    /// The resources that `ray.autoscaler.sdk` was asked for.
    pub(crate) constraints: Value,
}

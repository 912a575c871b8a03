//! The cluster, its nodes and its health; actors and events in the form of Ray's older routes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// The release of Heliostat, the release of Ray that it matches, and the session.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Version {
    pub(crate) version: &'static str,
    pub(crate) ray_version: &'static str,
    pub(crate) ray_commit: String,
    pub(crate) session_name: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct AuthenticationMode {
    /// `disabled` or `token`.
    pub(crate) authentication_mode: &'static str,
}

/// The times and the release of a cluster that is gone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PastOfCluster {
    pub(crate) begun_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) release: String,
    /// The parts of the history that could not be read, a sentence each.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ClusterMetadata {
    pub(crate) ray_version: &'static str,
    pub(crate) heliostat_version: &'static str,
    pub(crate) now_ms: u64,
    pub(crate) session_name: String,
    pub(crate) ray_init_cluster: Map<String, Value>,
    /// None: the cluster is alive.
    pub(crate) history: Option<PastOfCluster>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Percent; none: the driver does not say.
    pub(crate) utilization_gpu: Option<u32>,
    /// MiB.
    pub(crate) memory_used: u64,
    pub(crate) memory_total: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Raylet {
    pub(crate) node_id: String,
    pub(crate) node_manager_address: String,
    pub(crate) node_manager_hostname: String,
    pub(crate) node_manager_port: u32,
    pub(crate) pid: u32,
    /// ALIVE or DEAD.
    pub(crate) state: &'static str,
    pub(crate) state_message: String,
    pub(crate) is_head_node: bool,
    /// Bytes.
    pub(crate) object_store_used_memory: u64,
    pub(crate) resources_total: BTreeMap<String, f64>,
    pub(crate) resources_available: BTreeMap<String, f64>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// A node and its machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Machine {
    pub(crate) hostname: String,
    pub(crate) ip: String,
    pub(crate) name: String,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) workers: u32,
    pub(crate) raylet: Raylet,
}

/// All nodes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Machines {
    pub(crate) summary: Vec<Machine>,
    /// By node: used and all of each resource.
    pub(crate) node_logical_resources: BTreeMap<String, Usage>,
}

/// Used and all of each resource.
pub(crate) type Usage = BTreeMap<String, (f64, f64)>;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostNames {
    pub(crate) host_name_list: Vec<String>,
}

/// A node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OneMachine {
    pub(crate) detail: Machine,
}

/// Requests of one shape that wait for room.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct WaitingDemand {
    pub(crate) resources: BTreeMap<String, f64>,
    pub(crate) count: u64,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LoadMetricsReport {
    pub(crate) usage: Usage,
    pub(crate) resource_demand: Vec<WaitingDemand>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct AutoscalerReport {
    pub(crate) active_nodes: u64,
    /// Address and cause of each.
    pub(crate) failed_nodes: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LoadAndNodes {
    pub(crate) load_metrics_report: LoadMetricsReport,
    pub(crate) autoscaler_report: AutoscalerReport,
}

/// The figures that `status` shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ClusterStatus {
    pub(crate) autoscaling_status: Option<String>,
    pub(crate) autoscaling_error: Option<String>,
    pub(crate) cluster_status: LoadAndNodes,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActorAddress {
    pub(crate) raylet_id: Value,
    pub(crate) ip_address: Option<String>,
}

/// An actor, with the columns of its row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogicalActor {
    pub(crate) actor_id: String,
    pub(crate) job_id: Value,
    pub(crate) actor_class: Value,
    pub(crate) state: Value,
    pub(crate) name: Value,
    pub(crate) pid: Value,
    pub(crate) num_restarts: Value,
    pub(crate) required_resources: Value,
    pub(crate) address: ActorAddress,
    pub(crate) why: Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct LogicalActors {
    pub(crate) actors: BTreeMap<String, LogicalActor>,
}

/// A failure as a line of Ray's files of events, with the columns of its row.
#[derive(Debug, Serialize)]
pub(crate) struct FileEvent {
    pub(crate) event_id: Option<Value>,
    pub(crate) source_type: Option<Value>,
    pub(crate) source_hostname: &'static str,
    pub(crate) source_pid: u64,
    pub(crate) severity: Option<Value>,
    pub(crate) label: &'static str,
    pub(crate) message: Option<Value>,
    /// Seconds since 1970.
    pub(crate) timestamp: String,
    pub(crate) custom_fields: Option<Value>,
}

/// The failures of the cluster: none belongs to one job.
#[derive(Debug, Serialize)]
pub(crate) struct Events {
    pub(crate) events: OfCluster,
}

/// The same lines with their keys in camel case.
#[derive(Debug, Serialize)]
pub(crate) struct OfCluster {
    pub(crate) global: Vec<Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Timezone {
    pub(crate) offset: &'static str,
    pub(crate) value: &'static str,
}

/// Addresses that Prometheus scrapes.
#[derive(Debug, Serialize)]
pub(crate) struct Targets {
    pub(crate) labels: TargetLabels,
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TargetLabels {
    pub(crate) job: &'static str,
}

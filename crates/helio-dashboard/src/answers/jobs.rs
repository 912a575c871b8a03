//! `/api/jobs/…`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The driver of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct DriverInfo {
    pub(crate) id: String,
    /// The address of the driver's machine; not known of a cluster that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub(crate) node_ip_address: Option<String>,
    pub(crate) pid: String,
}

/// A job: submitted, or a driver that connected by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct JobDetails {
    /// SUBMISSION or DRIVER.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) job_id: Option<String>,
    pub(crate) submission_id: Option<String>,
    pub(crate) driver_info: Option<DriverInfo>,
    pub(crate) status: String,
    pub(crate) entrypoint: String,
    pub(crate) message: Option<String>,
    pub(crate) error_type: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) start_time: Option<u64>,
    pub(crate) end_time: Option<u64>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) runtime_env: Option<Map<String, Value>>,
    pub(crate) driver_agent_http_address: Option<String>,
    pub(crate) driver_node_id: Option<String>,
    pub(crate) driver_exit_code: Option<i32>,
}

/// A job as the head tells it to other nodes.
#[derive(Debug, Serialize)]
pub(crate) struct PublishedJob {
    #[serde(flatten)]
    pub(crate) details: JobDetails,
    #[serde(flatten)]
    pub(crate) environment: Option<PublishedEnvironment>,
}

/// The time and the size of an entry point's environment.
#[derive(Debug, Serialize)]
pub(crate) struct PublishedEnvironment {
    pub(crate) environment_ms: u64,
    /// Bytes; none: it has no files of its own.
    pub(crate) environment_size: Option<u64>,
}

/// A job was taken.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Submitted {
    pub(crate) job_id: String,
    pub(crate) submission_id: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Stopped {
    /// Whether it had not ended before.
    pub(crate) stopped: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Deleted {
    pub(crate) deleted: bool,
}

/// The log of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct JobLogs {
    pub(crate) logs: String,
}

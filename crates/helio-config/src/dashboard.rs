//! Settings of the head's HTTP server.

/// The address of the dashboard unless another one is given: on this machine alone.
pub const HOST: &str = "127.0.0.1";

/// The port of the dashboard; the next free one when it is taken and nobody named it.
pub const PORT: u16 = 8265;

/// Seconds between SIGTERM and SIGKILL for a job that is stopped, unless RAY_JOB_STOP_WAIT_TIME_S
/// says another number.
pub const JOB_GRACE_S: u64 = 3;

/// The namespace of the key-value table in which drivers that a job's entry point starts write down that they are its
/// own: `<submission id>/<job id>`.
pub const DRIVERS_NAMESPACE: &str = "job_drivers";

/// The namespace of the key-value table that has what is known of each submitted job, by its id, as JSON.
pub const SUBMISSIONS_NAMESPACE: &str = "job_submissions";

//! Settings of the head's HTTP server.

/// Where it listens unless told otherwise: on this machine alone.
pub const HOST: &str = "127.0.0.1";

/// Its port; the next free one when it is taken and nobody named it.
pub const PORT: u16 = 8265;

/// How long a job that is stopped has between SIGTERM and SIGKILL, in seconds, unless
/// RAY_JOB_STOP_WAIT_TIME_S says another number.
pub const JOB_GRACE_S: u64 = 3;

/// The namespace of the key-value table in which drivers that a job's entry point starts write down that they are its
/// own: `<submission id>/<job id>`.
pub const DRIVERS_NAMESPACE: &str = "job_drivers";

/// The namespace of the key-value table that has what is known of each submitted job, by its id, as JSON.
pub const SUBMISSIONS_NAMESPACE: &str = "job_submissions";

//! The record of a job from its submission on, pure; it changes by events.
//!
//! ```text
//! PENDING ──began──▶ RUNNING ──ended──▶ SUCCEEDED | FAILED | STOPPED
//!    └───────────────── ended ───────────────▲
//! ```

use serde_json::{Map, Value, json};

use super::request::Request;
use crate::answers::jobs::{DriverInfo, JobDetails, PublishedEnvironment, PublishedJob};

/// The phase of a job; names are those of the jobs API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Running,
    Stopped,
    Succeeded,
    Failed,
}

impl Status {
    const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Stopped, Self::Succeeded, Self::Failed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether nothing follows.
    pub(crate) fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// The end of a job's entry point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The entry point ended with this code; negative: by that signal.
    Exit(i32),
    /// The job was stopped by a user.
    Stopped,
    /// The runtime environment could not be made ready.
    NoEnvironment(String),
    /// The command could not be begun.
    NotBegun(String),
    /// The end of the job was seen by nobody; what is known of it, in words.
    Lost(String),
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) request: Request,
    pub(crate) status: Status,
    message: String,
    error_type: Option<String>,
    /// Milliseconds since 1970.
    start_ms: u64,
    end_ms: Option<u64>,
    exit_code: Option<i32>,
    /// Milliseconds that the job's environment took to be ready, and its bytes on the disk, where the entry point
    /// needs one of its own.
    environment: Option<(u64, u64)>,
    /// The node on which the job runs or ran, in hex.
    node_id: Option<String>,
    /// The process that watches the entry point, and when that began (clock ticks since the machine's start).
    pub(crate) watcher: Option<(u32, u64)>,
}

impl Job {
    pub(crate) fn new(id: String, request: Request, now_ms: u64) -> Self {
        Self {
            id,
            request,
            status: Status::Pending,
            message: "The job waits for its start.".to_owned(),
            error_type: None,
            start_ms: now_ms,
            end_ms: None,
            exit_code: None,
            environment: None,
            node_id: None,
            watcher: None,
        }
    }

    /// The entry point runs.
    pub(crate) fn began(&mut self, node_id: &str, watcher: (u32, u64)) {
        self.status = Status::Running;
        self.message = "The job runs.".to_owned();
        self.node_id = Some(node_id.to_owned());
        self.watcher = Some(watcher);
    }

    /// The entry point is there and waits for what it needs.
    pub(crate) fn waits(&mut self, why: &str) {
        if self.status == Status::Pending {
            self.message = why.to_owned();
        }
    }

    /// A watcher process has begun on that node; the job may wait for what its environment needs.
    pub(crate) fn is_watched_by(&mut self, node_id: &str, watcher: (u32, u64)) {
        self.node_id = Some(node_id.to_owned());
        self.watcher = Some(watcher);
    }

    /// The entry point's environment was ready after so many milliseconds and has so many bytes.
    pub(crate) fn has_environment(&mut self, took_ms: u64, size: u64) {
        self.environment = Some((took_ms, size));
    }

    /// The job has ended; `log_end` are the last lines of its log.
    pub(crate) fn ended(&mut self, end: &End, log_end: &str, now_ms: u64) {
        // A job that was over before its head was gone keeps its own end (`from_details`).
        if self.status.is_terminal() {
            return;
        }
        let with_log = |text: String| match log_end {
            "" => format!("{text} Its log is empty."),
            _ => format!("{text} The last lines of its log:\n{log_end}"),
        };
        let (status, error_type, message) = match end {
            End::Exit(0) => (Status::Succeeded, None, "The job finished.".to_owned()),
            End::Exit(code) => {
                let text = format!("The entry point failed with exit code {code}.");
                (Status::Failed, Some("JOB_ENTRYPOINT_COMMAND_ERROR"), with_log(text))
            }
            End::Stopped => (Status::Stopped, None, "The job was stopped.".to_owned()),
            End::NoEnvironment(why) => {
                let text = format!("The runtime environment could not be made ready: {why}");
                (Status::Failed, Some("RUNTIME_ENV_SETUP_FAILURE"), text)
            }
            End::NotBegun(why) => {
                let text = format!("The entry point could not be started: {why}");
                (Status::Failed, Some("JOB_ENTRYPOINT_COMMAND_START_ERROR"), text)
            }
            End::Lost(why) => {
                (Status::Failed, Some("JOB_SUPERVISOR_ACTOR_DIED"), with_log(why.clone()))
            }
        };
        self.exit_code = match end {
            End::Exit(code) => Some(*code),
            _ => None,
        };
        self.status = status;
        self.error_type = error_type.map(str::to_owned);
        self.message = message;
        self.end_ms = Some(now_ms);
        self.watcher = None;
    }

    /// Whether it ran on that node, in hex, as far as is known.
    pub(super) fn ran_on(&self, node: &str) -> bool {
        self.node_id.as_deref().is_none_or(|own| own == node)
    }

    /// Returns the node on which the job ran, in hex.
    pub(super) fn node_id(&self) -> Option<&str> {
        self.node_id.as_deref()
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn end_ms(&self) -> Option<u64> {
        self.end_ms
    }

    /// Returns the details of the job in the form of the jobs API. `driver` is the job that its entry point made in the
    /// cluster, if any; `address` is that of this server.
    pub(crate) fn details(&self, driver: Option<DriverInfo>, address: &str) -> JobDetails {
        JobDetails {
            kind: "SUBMISSION".to_owned(),
            job_id: driver.as_ref().map(|driver| driver.id.clone()),
            submission_id: Some(self.id.clone()),
            driver_info: driver,
            status: self.status.name().to_owned(),
            entrypoint: self.request.entrypoint.clone(),
            message: Some(self.message.clone()),
            error_type: self.error_type.clone(),
            start_time: Some(self.start_ms),
            end_time: self.end_ms,
            metadata: Some(self.request.metadata.clone()),
            runtime_env: Some(self.request.runtime_env.clone()),
            driver_agent_http_address: self.node_id.as_ref().map(|_| format!("http://{address}")),
            driver_node_id: self.node_id.clone(),
            driver_exit_code: self.exit_code,
        }
    }

    /// The details as other nodes read them, to list jobs and environments.
    pub(crate) fn published(&self, address: &str) -> Value {
        let environment = self.environment.map(|(took_ms, size)| PublishedEnvironment {
            environment_ms: took_ms,
            environment_size: (size > 0).then_some(size),
        });
        json!(PublishedJob { details: self.details(None, address), environment })
    }

    /// Back again, as far as that tells, for a head that has not its predecessor's files: what was under way there is
    /// over. `None` for what tells of no job.
    pub(crate) fn from_details(told: &Value, now_ms: u64) -> Option<Self> {
        let mut file = told.clone();
        for (ours, theirs) in [
            ("start_ms", "start_time"),
            ("end_ms", "end_time"),
            ("exit_code", "driver_exit_code"),
            ("node_id", "driver_node_id"),
        ] {
            file[ours] = told[theirs].clone();
        }
        file["environment"] = json!([told["environment_ms"], told["environment_size"]]);
        let mut job = Self::from_file(&file)?;
        let lost = "The head that ran the job is gone, and another one has taken the cluster over. Submit the job again.";
        job.ended(&End::Lost(lost.to_owned()), "", now_ms);
        Some(job)
    }

    /// The job as it is kept on disk.
    pub(crate) fn to_file(&self) -> Value {
        json!({
            "submission_id": self.id,
            "entrypoint": self.request.entrypoint,
            "runtime_env": self.request.runtime_env,
            "metadata": self.request.metadata,
            "needs": self.request.needs,
            "status": self.status.name(),
            "message": self.message,
            "error_type": self.error_type,
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "exit_code": self.exit_code,
            "environment": self.environment,
            "node_id": self.node_id,
            "watcher": self.watcher,
        })
    }

    /// Back again; `None` for what is no such file.
    pub(crate) fn from_file(file: &Value) -> Option<Self> {
        let text = |name: &str| file[name].as_str().map(str::to_owned);
        let object = |name: &str| file[name].as_object().cloned();
        let status = text("status")?;
        Some(Self {
            id: text("submission_id")?,
            request: Request {
                entrypoint: text("entrypoint")?,
                submission_id: text("submission_id"),
                runtime_env: object("runtime_env").unwrap_or_else(Map::new),
                metadata: object("metadata").unwrap_or_else(Map::new),
                needs: object("needs").unwrap_or_else(Map::new),
            },
            status: Status::ALL.into_iter().find(|known| known.name() == status)?,
            message: text("message").unwrap_or_default(),
            error_type: text("error_type"),
            start_ms: file["start_ms"].as_u64()?,
            end_ms: file["end_ms"].as_u64(),
            exit_code: file["exit_code"].as_i64().and_then(|code| code.try_into().ok()),
            environment: environment(&file["environment"]),
            node_id: text("node_id"),
            watcher: watcher(&file["watcher"]),
        })
    }
}

fn environment(value: &Value) -> Option<(u64, u64)> {
    Some((value.get(0)?.as_u64()?, value.get(1)?.as_u64().unwrap_or_default()))
}

fn watcher(value: &Value) -> Option<(u32, u64)> {
    Some((value.get(0)?.as_u64()?.try_into().ok()?, value.get(1)?.as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let body = br#"{"entrypoint": "x", "metadata": {"a": "b"}, "entrypoint_num_cpus": 1}"#;
        let request = Request { submission_id: Some("id".into()), ..Request::parse(body).unwrap() };
        Job::new("id".into(), request, 5)
    }

    fn check(end: &End, status: &str, code: Option<i32>, error: Option<&str>, says: &str) {
        let mut job = job();
        job.began("node", (7, 8));
        job.ended(end, "last words", 9);
        let told = job.details(None, "h:1");
        assert_eq!((told.status.as_str(), told.error_type.as_deref()), (status, error));
        assert_eq!(told.driver_exit_code, code);
        assert_eq!((told.start_time, told.end_time), (Some(5), Some(9)));
        let message = told.message.unwrap();
        assert!(message.contains(says), "{message}");
        let before = job.clone();
        job.ended(&End::Stopped, "", 10);
        assert_eq!(job, before, "nothing follows an end");
    }

    #[test]
    fn an_end_says_what_happened() {
        check(&End::Exit(0), "SUCCEEDED", Some(0), None, "finished");
        let failed = Some("JOB_ENTRYPOINT_COMMAND_ERROR");
        check(
            &End::Exit(3),
            "FAILED",
            Some(3),
            failed,
            "exit code 3. The last lines of its log:\nlast words",
        );
        check(&End::Exit(-9), "FAILED", Some(-9), failed, "exit code -9");
        check(&End::Stopped, "STOPPED", None, None, "stopped");
        let none = End::NoEnvironment("no such package".into());
        check(&none, "FAILED", None, Some("RUNTIME_ENV_SETUP_FAILURE"), "no such package");
        check(&End::Lost("gone".into()), "FAILED", None, Some("JOB_SUPERVISOR_ACTOR_DIED"), "gone");
    }

    #[test]
    fn another_head_has_what_was_told_of_a_job() {
        let mut job = job();
        job.request.needs.clear();
        job.began("node", (7, 8));
        job.has_environment(50, 6);
        let lost = Job::from_details(&job.published("h:1"), 12).unwrap();
        assert_eq!((lost.status, lost.end_ms), (Status::Failed, Some(12)));
        assert!(lost.message().contains("another one has taken the cluster over"));
        job.ended(&End::Exit(3), "", 9);
        assert_eq!(Job::from_details(&job.published("h:1"), 12), Some(job));
        assert_eq!(Job::from_details(&json!({"status": "FAILED"}), 12), None);
    }

    #[test]
    fn a_record_is_read_back_as_it_was() {
        let mut job = job();
        assert_eq!(Job::from_file(&job.to_file()), Some(job.clone()));
        job.is_watched_by("node", (7, 8));
        job.has_environment(50, 6);
        assert_eq!(Job::from_file(&job.to_file()), Some(job.clone()));
        job.began("node", (7, 8));
        assert_eq!(Job::from_file(&job.to_file()), Some(job.clone()));
        job.ended(&End::Exit(-15), "", 9);
        assert_eq!(Job::from_file(&job.to_file()), Some(job));
        assert_eq!(Job::from_file(&json!({"submission_id": "x"})), None);
    }
}

//! Serve's applications: `/api/serve/applications/`, as Ray's command line and KubeRay speak it.
//!
//! Applications and their controller are Python: a driver (`heliostat.serve.rest`) is started for each request
//! and says what to answer. It reads the request's body and prints one line of JSON.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;

use crate::access::Verdict;
use crate::job_routes::{BODY_MAX, read};
use crate::reply::{self, Refusal, Reply};
use crate::{App, jobs};

/// How many drivers run at a time; further requests wait.
const DRIVERS_MAX: usize = 2;

/// How long a driver may take: it waits until Serve's controller has started, not for applications.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);

/// How drivers are started.
#[derive(Debug)]
pub(crate) struct Drivers {
    python: PathBuf,
    variables: [(&'static str, String); 3],
    room: Semaphore,
}

impl Drivers {
    pub(crate) fn new(around: &jobs::Surroundings) -> Self {
        Self {
            python: around.python.clone(),
            variables: [
                ("RAY_ADDRESS", around.control_address.clone()),
                ("HELIOSTAT_AUTH_TOKEN", around.token.clone()),
                ("HELIOSTAT_SESSION", around.session_name.clone()),
            ],
            room: Semaphore::new(DRIVERS_MAX),
        }
    }

    async fn ask(&self, request: &Value, body: &[u8]) -> Result<Value, String> {
        let _place = self.room.acquire().await.map_err(|error| error.to_string())?;
        let mut driver = Command::new(&self.python)
            .args(["-m", "heliostat.serve.rest", &request.to_string()])
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(jobs::usual_folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.python.display()))?;
        let (Some(input), Some(output), Some(errors)) =
            (driver.stdin.take(), driver.stdout.take(), driver.stderr.take())
        else {
            return Err("the driver for the request has no pipes".to_owned());
        };
        let pipes = (|| {
            Ok((
                ChildStdin::from_std(input)?,
                ChildStdout::from_std(output)?,
                ChildStderr::from_std(errors)?,
            ))
        })();
        let (mut input, mut output, mut errors) =
            pipes.map_err(|error: std::io::Error| error.to_string())?;
        let (mut said, mut complaint) = (Vec::new(), Vec::new());
        let talk = async {
            let write = async {
                // A driver that does not read it says why.
                let _ = input.write_all(body).await;
                drop(input);
            };
            tokio::join!(write, output.read_to_end(&mut said), errors.read_to_end(&mut complaint))
        };
        // The daemon, not this thread, reaps what has ended: here the end of the output counts.
        if tokio::time::timeout(ANSWER_TIME_MAX, talk).await.is_err() {
            let _ = driver.kill();
            return Err(format!("Serve has not answered within {} s", ANSWER_TIME_MAX.as_secs()));
        }
        let line = said.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty());
        line.and_then(|line| serde_json::from_slice(line).ok()).ok_or_else(|| {
            let text = String::from_utf8_lossy(&complaint);
            format!("the driver for the request has ended: {}", text.trim())
        })
    }
}

/// `GET`, `PUT` and `DELETE /api/serve/applications/`.
pub(crate) async fn applications(
    State(app): State<Arc<App>>,
    Extension(verdict): Extension<Verdict>,
    RawQuery(query): RawQuery,
    method: Method,
    body: Body,
) -> Result<Reply, Refusal> {
    let body = read(body, BODY_MAX).await?;
    let query: Vec<(String, String)> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let named = query.iter().find(|(name, _)| name == "api_type").map(|(_, value)| value);
    let request = json!({
        "method": method.as_str(),
        "api_type": named,
        // What a browser shows, others may see.
        "hides_variables": verdict == Verdict::Browser,
    });
    let said = app.serve.ask(&request, &body).await.map_err(Refusal::unavailable)?;
    let status = said["status"].as_u64().and_then(|code| u16::try_from(code).ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    match status {
        Some(StatusCode::OK) if said["json"].is_null() => Ok(reply::text(StatusCode::OK, "")),
        Some(StatusCode::OK) => Ok(reply::json(&said["json"])),
        Some(code) => Ok(reply::text(code, said["text"].as_str().unwrap_or_default())),
        None => Err(Refusal::unavailable("the driver for the request gave an unexpected answer")),
    }
}

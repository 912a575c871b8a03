//! Drivers that answer a request: some of what is asked for is known in Python alone.
//!
//! `python -m <module> <request as JSON>` is started for each, reads the request's body, and prints its answer as
//! the last line, in JSON.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;

use crate::jobs;

/// Maximum number of drivers that run at a time; further requests wait.
const DRIVERS_MAX: usize = 2;

/// Time that a driver may take: it waits until Serve's controller has started, not for
/// applications.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);

/// The program and the variables with which drivers are started, and the room for them.
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

    /// Runs a module in a driver of its own and returns the driver's answer.
    ///
    /// # Errors
    /// A sentence: it was not started, took too long, or has ended without an answer.
    pub(crate) async fn ask(
        &self,
        module: &str,
        request: &Value,
        body: &[u8],
    ) -> Result<Value, String> {
        let _place = self.room.acquire().await.map_err(|error| error.to_string())?;
        let mut driver = Command::new(&self.python)
            .args(["-m", module, &request.to_string()])
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
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, talk).await;
        if answer.is_err() {
            let _ = driver.kill();
        }
        // The end of the output counts. A daemon reaps what has ended by itself, and then there is nothing to wait for.
        tokio::task::spawn_blocking(move || driver.wait());
        if answer.is_err() {
            return Err(format!(
                "{module} has not answered within {} s",
                ANSWER_TIME_MAX.as_secs()
            ));
        }
        let line = said.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty());
        line.and_then(|line| serde_json::from_slice(line).ok()).ok_or_else(|| {
            let text = String::from_utf8_lossy(&complaint);
            format!("the driver for the request has ended: {}", text.trim())
        })
    }
}

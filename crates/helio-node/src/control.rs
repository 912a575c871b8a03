//! The connection to the control service: made again whenever it is lost.

use std::time::{Duration, Instant};

use helio_config::control::RECONNECT_MS_MAX;
use helio_proto::cluster::ControlToNode;
use helio_proto::hello::Hello;
use helio_rpc::service::{Error, connect_tcp};

use crate::core::{Input, Inputs};

/// How long the first try after a failed one waits; each further one twice as long, to the bound that
/// the configuration sets.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(RECONNECT_MS_MAX);

/// From when on it is worth a line that the service does not answer.
const SILENCE_LOGGED: Duration = Duration::from_secs(2);

/// How long a node lives without a control service. A service that is started again is back long
/// before; a head that was destroyed must not leave its nodes with their GPUs for ever.
const SILENCE_MAX: Duration = Duration::from_secs(300);

pub(crate) fn start(host: String, port: u16, hello: Hello, inputs: Inputs) {
    tokio::spawn(async move {
        let mut wait = RETRY_MIN;
        let mut lost_at = Instant::now();
        let mut is_logged = false;
        loop {
            match connect_tcp(&host, port, hello.clone()).await {
                Ok((mut reader, writer, _)) => {
                    (wait, is_logged) = (RETRY_MIN, false);
                    if inputs.send(Input::ControlConnected { writer }).await.is_err() {
                        return;
                    }
                    while let Ok(Some(message)) = reader.next::<ControlToNode>().await {
                        if inputs.send(Input::ControlSaid { message }).await.is_err() {
                            return;
                        }
                    }
                    lost_at = Instant::now();
                    if inputs.send(Input::ControlLost).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let silence = lost_at.elapsed();
                    let is_final = matches!(error, Error::Refused(_)) || silence > SILENCE_MAX;
                    if (silence > SILENCE_LOGGED && !is_logged) || is_final {
                        is_logged = true;
                        eprintln!(
                            "heliostat: node: the control service at {host}:{port} does not answer: {error}"
                        );
                    }
                    if is_final {
                        let reason = format!(
                            "the control service at {host}:{port} does not answer: {error}"
                        );
                        let _ = inputs.send(Input::ShutDown { reason }).await;
                        return;
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    });
}

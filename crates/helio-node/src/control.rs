//! The connection to the control service: made again whenever it is lost.

use std::time::Duration;

use helio_proto::cluster::ControlToNode;
use helio_proto::hello::Hello;
use helio_rpc::service::{Error, connect_tcp};

use crate::core::{Input, Inputs};

/// How long the first try after a failed one waits; each further one twice as long, to the bound that
/// the configuration sets.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(helio_config::control::RECONNECT_MS_MAX);

pub(crate) fn start(host: String, port: u16, hello: Hello, inputs: Inputs) {
    tokio::spawn(async move {
        let mut wait = RETRY_MIN;
        let mut was_reported = false;
        loop {
            match connect_tcp(&host, port, hello.clone()).await {
                Ok((mut reader, writer, _)) => {
                    (wait, was_reported) = (RETRY_MIN, false);
                    if inputs.send(Input::ControlConnected { writer }).await.is_err() {
                        return;
                    }
                    while let Ok(Some(message)) = reader.next::<ControlToNode>().await {
                        if inputs.send(Input::ControlSaid { message }).await.is_err() {
                            return;
                        }
                    }
                    if inputs.send(Input::ControlLost).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let is_final = matches!(error, Error::Refused(_));
                    if !std::mem::replace(&mut was_reported, wait >= RETRY_MAX || is_final)
                        && (wait >= RETRY_MAX || is_final)
                    {
                        eprintln!(
                            "heliostat: node: the control service at {host}:{port} cannot be reached: {error}"
                        );
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    });
}

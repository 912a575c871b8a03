//! The node's measurements over HTTP, in the text format of Prometheus: `GET /metrics`.
//!
//! **AUTH-1** Who reads shows the cluster's token (`Authorization: Bearer …`); everybody else learns
//! only that it is needed. A request is small, is answered once, and ends its connection: nothing here
//! is worth a web framework.
//!
//! **LIMIT-1** [`READERS_MAX`] are served at a time, each for [`REQUEST_MAX`]; a request's head has
//! [`HEAD_MAX`] bytes at most.

mod text;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use helio_proto::inspect::Answer;
use helio_types::OPEN_TOKEN;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use crate::core::{Input, Inputs};

const READERS_MAX: usize = 16;
const REQUEST_MAX: Duration = Duration::from_secs(10);
const HEAD_MAX: usize = 8 << 10;

/// What every series of the node says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) token: String,
    pub(crate) session_name: String,
}

pub(crate) fn serve(listener: TcpListener, endpoint: Endpoint, inputs: Inputs) {
    let (endpoint, room) = (Arc::new(endpoint), Arc::new(Semaphore::new(READERS_MAX)));
    tokio::spawn(async move {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (endpoint, inputs) = (Arc::clone(&endpoint), inputs.clone());
                    tokio::spawn(async move {
                        // Who is too slow, or goes away, gets nothing.
                        let _ = tokio::time::timeout(REQUEST_MAX, one(stream, &endpoint, &inputs))
                            .await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
}

async fn one(mut stream: TcpStream, endpoint: &Endpoint, inputs: &Inputs) -> io::Result<()> {
    let mut head = Vec::new();
    // Who speaks something else than HTTP is answered at once: the same refusal.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && is_text(&head) {
        if head.len() >= HEAD_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, more, body) = match judge(&String::from_utf8_lossy(&head), &endpoint.token) {
        Ok(()) => match scrape(inputs).await {
            Some(answers) => ("200 OK", "", text::render(&answers, &endpoint.session_name)),
            None => ("503 Service Unavailable", "", "the node is ending\n".to_owned()),
        },
        Err(refusal) => refusal,
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n{more}\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | b'\t' | 0x20..))
}

type Refusal = (&'static str, &'static str, String);

/// Whether the request is one for the measurements, by somebody who may have them.
fn judge(head: &str, token: &str) -> Result<(), Refusal> {
    let mut lines = head.split("\r\n");
    let mut request = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (request.next().unwrap_or_default(), request.next().unwrap_or_default());
    let given = lines
        .filter_map(|line| line.split_once(':'))
        .find_map(|(name, value)| name.eq_ignore_ascii_case("authorization").then(|| value.trim()));
    let given = given
        .and_then(|value| value.split_once(' '))
        .map(|(kind, token)| (kind.to_ascii_lowercase(), token.trim()));
    let may = given.is_some_and(|(kind, given)| {
        kind == "bearer" && helio_proto::hello::is_right(given.as_bytes(), token)
    });
    if !may && token != OPEN_TOKEN {
        let text = "The cluster's token is needed: send `Authorization: Bearer` and what `heliostat get-auth-token` \
                    prints.\n";
        return Err(("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", text.to_owned()));
    }
    match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics" | "/") => Ok(()),
        ("GET", _) => Err(("404 Not Found", "", "Measurements are at /metrics.\n".to_owned())),
        _ => Err(("405 Method Not Allowed", "Allow: GET\r\n", "Only GET.\n".to_owned())),
    }
}

async fn scrape(inputs: &Inputs) -> Option<Vec<Answer>> {
    let (reply, answers) = oneshot::channel();
    inputs.send(Input::Scrape { reply }).await.ok()?;
    answers.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expect: &str) {
        let found = match judge(&head.replace('\n', "\r\n"), "secret") {
            Ok(()) => "200",
            Err((status, ..)) => &status[..3],
        };
        assert_eq!(found, expect, "{head}");
    }

    #[test]
    fn only_who_has_the_token_reads_and_only_what_there_is() {
        check("GET /metrics HTTP/1.1\nHost: x\nAuthorization: Bearer secret\n\n", "200");
        check("GET /metrics?x=1 HTTP/1.1\nauthorization: bearer secret\n\n", "200");
        for head in [
            "GET /metrics HTTP/1.1\nHost: x\n\n",
            "GET /metrics HTTP/1.1\nAuthorization: Bearer wrong\n\n",
            "GET /metrics HTTP/1.1\nAuthorization: secret\n\n",
            "GET /metrics HTTP/1.1\nAuthorization: Basic secret\n\n",
            "",
            "\n\n",
        ] {
            check(head, "401");
        }
        check("GET /else HTTP/1.1\nAuthorization: Bearer secret\n\n", "404");
        check("POST /metrics HTTP/1.1\nAuthorization: Bearer secret\n\n", "405");
    }
}

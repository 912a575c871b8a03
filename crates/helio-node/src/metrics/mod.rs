//! The node's measurements over HTTP, in the text format of Prometheus: `GET /metrics`; and sent to a collector ([`otlp`])
//! where a setting names one.
//!
//! **AUTH-1** Who reads shows the cluster's token (`Authorization: Bearer …`); everybody else learns
//! only that it is needed.

mod cluster;
mod machine;
mod otlp;
mod reader;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use helio_observer::Asker;
use helio_rpc::http::Entrance;
use helio_types::OPEN_TOKEN;
use tokio::net::TcpListener;

use crate::gpus::Parts;
use crate::http::{self, Answer, Answers};
use crate::input::Inputs;

use self::machine::Watch;
use self::reader::Reader;

pub(crate) use self::otlp::Export;

/// The node whose measurements are served, and the token that a reader must have.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) token: String,
    pub(crate) session_name: String,
    pub(crate) session_dir: PathBuf,
    pub(crate) node_socket: PathBuf,
    pub(crate) is_head: bool,
    pub(crate) gpu_parts: Parts,
    pub(crate) entrance: Entrance,
}

/// Serves on that listener, and sends to that collector.
pub(crate) fn serve(
    listener: Option<TcpListener>,
    export: Option<Export>,
    endpoint: Endpoint,
    inputs: Inputs,
) {
    let Endpoint { token, session_name, session_dir, node_socket, is_head, gpu_parts, entrance } =
        endpoint;
    let cluster = is_head.then(|| Asker::new(&node_socket, &token));
    let machine = Arc::new(Watch::new(session_dir, is_head, gpu_parts));
    let reader = Reader { token, session_name, machine, cluster, inputs };
    if let Some(export) = export {
        tokio::spawn(export.keep(reader.clone()));
    }
    if let Some(listener) = listener {
        http::serve(listener, entrance, reader);
    }
}

impl Answers for Reader {
    async fn answer(&self, head: &str) -> Answer {
        if let Err(refusal) = judge(head, &self.token) {
            return refusal;
        }
        match self.scrape().await {
            Some(answers) => Answer {
                status: "200 OK",
                body: text::render(&answers, &self.session_name),
                ..Answer::default()
            },
            None => {
                let body = "the node is ending\n".to_owned();
                Answer { status: "503 Service Unavailable", body, ..Answer::default() }
            }
        }
    }
}

/// Whether the request is one for the measurements, by somebody who may have them.
fn judge(head: &str, token: &str) -> Result<(), Answer> {
    let given =
        head.split("\r\n").skip(1).filter_map(|line| line.split_once(':')).find_map(
            |(name, value)| name.eq_ignore_ascii_case("authorization").then(|| value.trim()),
        );
    let given = given
        .and_then(|value| value.split_once(' '))
        .map(|(kind, token)| (kind.to_ascii_lowercase(), token.trim()));
    let may = given.is_some_and(|(kind, given)| {
        kind == "bearer" && helio_proto::hello::is_right(given.as_bytes(), token)
    });
    if !may && token != OPEN_TOKEN {
        let text = "The cluster's token is needed: send `Authorization: Bearer` and what `heliostat get-auth-token` \
                    prints.\n";
        return refuse("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", text);
    }
    match http::target(head) {
        ("GET", "/metrics" | "/") => Ok(()),
        ("GET", _) => refuse("404 Not Found", "", "Measurements are at /metrics.\n"),
        _ => refuse("405 Method Not Allowed", "Allow: GET\r\n", "Only GET.\n"),
    }
}

fn refuse(status: &'static str, more: &'static str, body: &str) -> Result<(), Answer> {
    Err(Answer { status, more, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expect: &str) {
        let found = match judge(&head.replace('\n', "\r\n"), "secret") {
            Ok(()) => "200",
            Err(refusal) => &refusal.status[..3],
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

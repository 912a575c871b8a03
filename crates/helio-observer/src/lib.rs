//! Asks a cluster for what is in it, as any client could: the control service over TCP, and everything
//! else through the socket of a node's daemon.
//!
//! Reading order: [`Asker`], then [`introduction`] for machines that have no daemon yet. Each question
//! has a connection of its own and [`ANSWER_MAX`] to be answered.

#![forbid(unsafe_code)]

pub mod log_files;
mod logs;
mod rows;

use std::path::{Path, PathBuf};
use std::time::Duration;

use helio_proto::cluster::ControlToNode;
use helio_proto::control::{ControlRequest, ControlResponse, NodeInfo};
use helio_proto::hello::{Destination, Hello, Role};
use helio_proto::inspect::{Inspect, Inspected, Question};
use helio_proto::node::{ClientToNode, ControlCall, NodeToClient, Register};
use helio_rpc::service::{Error, connect_tcp, connect_unix};
use helio_types::WorkerId;

pub use logs::LogNode;
pub use rows::Told;

/// How long an answer may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Asks through a node's daemon.
#[derive(Debug, Clone)]
pub struct Asker {
    socket: PathBuf,
    token: String,
}

impl Asker {
    /// Through the daemon behind that socket, with the cluster's token.
    #[must_use]
    pub fn new(socket: &Path, token: &str) -> Self {
        Self { socket: socket.to_owned(), token: token.to_owned() }
    }

    /// Asks the control service. An answer also says that the node is in the cluster.
    ///
    /// # Errors
    /// A sentence for the user: the daemon does not answer, or the control service refuses.
    pub async fn ask(&self, request: impl Into<ControlRequest>) -> Result<ControlResponse, String> {
        let message = ControlCall { request_id: 1, request: request.into() };
        let answer = self.say(message.into(), |answer| match answer {
            NodeToClient::ControlReply(reply) => Some(reply.response),
            _ => None,
        });
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(Ok(ControlResponse::Failed(failure))) => Err(failure.message),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(format!(
                "No cluster status. It may take a few seconds for the cluster to be ready, or the head node cannot \
                 be reached (asked {} for {} s).",
                self.socket.display(),
                ANSWER_MAX.as_secs()
            )),
        }
    }

    /// Asks the processes of the cluster.
    ///
    /// # Errors
    /// A sentence for the user: the daemon does not answer.
    pub async fn inspect(&self, question: Question) -> Result<Inspected, String> {
        let message = Inspect { request_id: 1, question, own_node_only: false };
        let answer = self.say(message.into(), |answer| match answer {
            NodeToClient::Inspected(told) => Some(told),
            _ => None,
        });
        tokio::time::timeout(ANSWER_MAX, answer)
            .await
            .map_err(|_| "the daemon did not answer in time".to_owned())?
            .map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &Error) -> String {
        format!("The daemon at {} cannot be asked: {error}", self.socket.display())
    }

    /// Registers with the daemon, says one thing and waits for its answer.
    async fn say<T>(
        &self,
        message: ClientToNode,
        answer: impl Fn(NodeToClient) -> Option<T>,
    ) -> Result<T, Error> {
        let hello = hello(&self.token);
        let worker_id = hello.worker_id;
        let (mut reader, writer, _) = connect_unix(&self.socket, hello).await?;
        let pid = std::process::id();
        let register = Register { worker_id, pid, observer: true, ..Register::default() };
        // What cannot be sent is reported by the read.
        let _ = writer.send(&ClientToNode::Register(register));
        let _ = writer.send(&message);
        loop {
            match reader.next::<NodeToClient>().await? {
                Some(NodeToClient::Registered(registered)) if registered.failed => {
                    return Err(Error::Refused(registered.failure.message));
                }
                Some(message) => {
                    if let Some(answer) = answer(message) {
                        return Ok(answer);
                    }
                }
                None => return Err(Error::Truncated),
            }
        }
    }
}

/// What a control service says of its cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The session's name, which joining nodes take over.
    pub session_name: String,
    /// Its nodes.
    pub nodes: Vec<NodeInfo>,
}

/// Asks the control service at that address which cluster it serves. Who is about to join it as a node says
/// at which host and port it listens already, and is refused when the head does not reach it there.
///
/// # Errors
/// When it cannot be reached, refuses the token or the node, is silent, or says something else.
pub async fn introduction(
    host: &str,
    port: u16,
    token: &str,
    joining: Option<(&str, u16)>,
) -> Result<Cluster, Error> {
    let (own_host, own_port) = joining.unwrap_or_default();
    let hello = Hello {
        to: Destination::Control as u32,
        host: own_host.to_owned(),
        port: u32::from(own_port),
        ..hello(token)
    };
    let (mut reader, _writer, _) = connect_tcp(host, port, hello).await?;
    let said = async {
        let Some(ControlToNode::Accepted(accepted)) = reader.next().await? else {
            return Err(Error::Truncated);
        };
        if !accepted.refused.is_empty() {
            return Err(Error::Refused(accepted.refused));
        }
        match reader.next().await? {
            Some(ControlToNode::View(view)) => {
                Ok(Cluster { session_name: accepted.session_name, nodes: view.nodes })
            }
            _ => Err(Error::Truncated),
        }
    };
    tokio::time::timeout(ANSWER_MAX, said).await.map_err(|_| Error::Silent)?
}

fn hello(token: &str) -> Hello {
    Hello {
        token: token.to_owned(),
        role: Role::Observer,
        worker_id: WorkerId(helio_env::random::bytes()),
        pid: std::process::id(),
        ..Hello::default()
    }
}

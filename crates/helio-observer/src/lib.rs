//! Asks a cluster for what is in it, as any client could: the control service over TCP, and everything
//! else through the socket of a node's daemon.
//!
//! Reading order: [`Asker`], then [`introduction`] for machines that have no daemon yet, then [`history`] for clusters
//! that are gone, and [`Mirror`] for those who look again and again. Each question has [`ANSWER_MAX`] to be answered, and a connection of its own unless the asker keeps some.

#![forbid(unsafe_code)]

pub mod collector;
pub mod history;
pub mod log_files;
mod logs;
mod mirror;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helio_proto::cluster::ControlToNode;
use helio_proto::control::{ControlRequest, ControlResponse, NodeInfo};
use helio_proto::hello::{Destination, Hello, Role};
use helio_proto::inspect::{Answers, Inspect, Question};
use helio_proto::node::{ClientToNode, ControlCall, NodeToClient, Register};
use helio_rpc::service::{Error, Reader, Writer, connect_tcp, connect_unix};
use helio_types::WorkerId;

use crate::history::Recorded;

pub use logs::LogNode;
pub use mirror::{Following, Mirror};
pub use rows::{Table, Told, read};

/// Time that an answer may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Asks through a node's daemon, or a history for what it would have said.
#[derive(Debug, Clone)]
pub struct Asker {
    socket: PathBuf,
    token: String,
    past: Option<Arc<Recorded>>,
    /// Connections that wait for the next question; none: each question has one of its own.
    idle: Option<Arc<Mutex<Vec<Link>>>>,
}

/// Number of connections that are kept for further questions (LIMIT-1).
const IDLE_MAX: usize = 4;

/// A connection to a daemon that knows this observer.
#[derive(Debug)]
struct Link {
    reader: Reader,
    writer: Writer,
    /// The number of the latest question.
    asked: u64,
}

impl Link {
    async fn open(socket: &Path, token: &str) -> Result<Self, Error> {
        let hello = hello(token);
        let worker_id = hello.worker_id;
        let (reader, writer, _) = connect_unix(socket, hello).await?;
        let pid = std::process::id();
        let register = Register { worker_id, pid, observer: true, ..Register::default() };
        // The read reports a failure to send.
        let _ = writer.send(&ClientToNode::Register(register));
        Ok(Self { reader, writer, asked: 0 })
    }

    /// Says one thing, with the number that its answer has, and waits for that.
    async fn say<T>(
        &mut self,
        message: impl Fn(u64) -> ClientToNode,
        answer: impl Fn(u64, NodeToClient) -> Option<T>,
    ) -> Result<T, Error> {
        self.asked += 1;
        let _ = self.writer.send(&message(self.asked));
        loop {
            match self.reader.next::<NodeToClient>().await? {
                Some(NodeToClient::Registered(registered)) if registered.failed => {
                    return Err(Error::Refused(registered.failure.message.into()));
                }
                // A message that is no answer to this question is left out: the daemon also tells news.
                Some(message) => {
                    if let Some(answer) = answer(self.asked, message) {
                        return Ok(answer);
                    }
                }
                None => return Err(Error::Truncated),
            }
        }
    }
}

impl Asker {
    /// Through the daemon behind that socket, with the cluster's token.
    #[must_use]
    pub fn new(socket: &Path, token: &str) -> Self {
        Self { socket: socket.to_owned(), token: token.to_owned(), past: None, idle: None }
    }

    /// Keeps its connections for the next question: for who asks often, and within one runtime.
    #[must_use]
    pub fn keeping(self) -> Self {
        Self { idle: Some(Arc::default()), ..self }
    }

    /// Asks a cluster that is gone.
    #[must_use]
    pub fn of_past(past: Arc<Recorded>) -> Self {
        Self { socket: PathBuf::new(), token: String::new(), past: Some(past), idle: None }
    }

    /// The history that is asked; none: the cluster is there.
    #[must_use]
    pub fn past(&self) -> Option<&Arc<Recorded>> {
        self.past.as_ref()
    }

    /// Asks the control service. An answer also says that the node is in the cluster.
    ///
    /// # Errors
    /// A sentence for the user: the daemon does not answer, or the control service refuses.
    pub async fn ask(&self, request: impl Into<ControlRequest>) -> Result<ControlResponse, String> {
        let request = request.into();
        if let Some(past) = &self.past {
            return past.ask(&request);
        }
        let message =
            |request_id| ClientToNode::from(ControlCall { request_id, request: request.clone() });
        let answer = self.say(message, |request_id, answer| match answer {
            NodeToClient::ControlReply(reply) if reply.request_id == request_id => {
                Some(reply.response)
            }
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
    pub async fn inspect(&self, question: Question) -> Result<Answers, String> {
        if let Some(past) = &self.past {
            return past.inspect(&question);
        }
        let message = |request_id| {
            let question = question.clone();
            ClientToNode::from(Inspect { request_id, question, own_node_only: false })
        };
        let answer = self.say(message, |request_id, answer| match answer {
            NodeToClient::Inspected(told) if told.request_id == request_id => Some(told),
            _ => None,
        });
        tokio::time::timeout(ANSWER_MAX, answer)
            .await
            .map_err(|_| "the daemon did not answer in time".to_owned())?
            .map(|told| told.read())
            .map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &Error) -> String {
        format!("The daemon at {} cannot be asked: {error}", self.socket.display())
    }

    /// Says one thing and waits for its answer, over a connection that was kept, or a new one.
    async fn say<T>(
        &self,
        message: impl Fn(u64) -> ClientToNode,
        answer: impl Fn(u64, NodeToClient) -> Option<T>,
    ) -> Result<T, Error> {
        let idle =
            || self.idle.as_ref().map(|all| all.lock().unwrap_or_else(PoisonError::into_inner));
        let kept = idle().and_then(|mut all| all.pop());
        // A connection is put back only after a whole answer: after an error its next message would be an old one.
        if let Some(mut link) = kept
            && let Ok(said) = link.say(&message, &answer).await
        {
            self.put_back(link);
            return Ok(said);
        }
        // None was kept, or the daemon has closed it.
        let mut link = Link::open(&self.socket, &self.token).await?;
        let said = link.say(&message, &answer).await?;
        self.put_back(link);
        Ok(said)
    }

    fn put_back(&self, link: Link) {
        if let Some(idle) = &self.idle {
            let mut all = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() < IDLE_MAX {
                all.push(link);
            }
        }
    }
}

/// The facts of a cluster that its control service tells.
#[derive(Debug)]
pub struct Cluster {
    /// The session's name, which joining nodes take over.
    pub session_name: String,
    /// The nodes of the cluster.
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
            return Err(Error::Refused(accepted.refused.into()));
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

//! Log files of any node, from its daemon.

use helio_proto::hello::{Destination, Hello};
use helio_proto::logs::{LogAnswer, LogRequest};
use helio_rpc::service::{Error, Reader, Writer, connect_tcp, connect_unix};
use helio_types::NodeAddress;

use crate::{ANSWER_MAX, Asker, hello};

/// A node whose log files are asked for, over one connection.
#[derive(Debug)]
pub struct LogNode {
    reader: Reader,
    writer: Writer,
}

impl Asker {
    /// Connects to a node's daemon; `None`: the one that is asked for everything else.
    ///
    /// # Errors
    /// A sentence for the user: it cannot be reached.
    pub async fn logs_of(&self, node: Option<&NodeAddress>) -> Result<LogNode, String> {
        let hello = Hello { to: Destination::Logs as u32, ..hello(&self.token) };
        let connected = async {
            match node {
                None => connect_unix(&self.socket, hello).await,
                Some(node) => {
                    let port = u16::try_from(node.port).unwrap_or_default();
                    let hello = Hello { to_node: node.node_id, ..hello };
                    connect_tcp(&node.host, port, hello).await
                }
            }
        };
        let connected = tokio::time::timeout(ANSWER_MAX, connected).await;
        match connected.unwrap_or(Err(Error::Silent)) {
            Ok((reader, writer, _)) => Ok(LogNode { reader, writer }),
            Err(error) => {
                let place = node.map_or_else(
                    || self.socket.display().to_string(),
                    |node| format!("{}:{}", node.host, node.port),
                );
                Err(format!("The node at {place} cannot be asked for its logs: {error}"))
            }
        }
    }
}

impl LogNode {
    /// Asks one question.
    ///
    /// # Errors
    /// A sentence for the user: the node does not answer, or has no such file.
    pub async fn ask(&mut self, request: &LogRequest) -> Result<LogAnswer, String> {
        // The read reports a failure to send.
        let _ = self.writer.send(request);
        let answer = tokio::time::timeout(ANSWER_MAX, self.reader.next::<LogAnswer>()).await;
        match answer.unwrap_or(Err(Error::Silent)) {
            Ok(Some(answer)) if answer.refused.is_empty() => Ok(answer),
            Ok(Some(answer)) => Err(answer.refused),
            Ok(None) => Err("The node's daemon has ended.".to_owned()),
            Err(error) => Err(format!("The node's daemon does not answer: {error}")),
        }
    }
}

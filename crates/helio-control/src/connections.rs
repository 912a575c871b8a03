//! The nodes' connections: one task each that reads, and the table of those to write to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helio_proto::cluster::{ControlToNode, NodeAccepted, NodeToControl};
use helio_proto::hello::{Hello, Role};
use helio_rpc::service::{Encoded, Gate, Reader, SendError, Writer};
use helio_types::NodeId;
use helio_types::address::host_port;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;

use crate::input::Input;

/// Time that a node that wants to join may take to be reached.
const REACH_MAX: Duration = Duration::from_secs(3);

/// Numbers connections, so that what an old one still says is told from a new one's words.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Pause when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections that messages go out on, the newest of each node.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: BTreeMap<NodeId, (u64, Writer)>,
}

impl Connections {
    /// A node's connection takes the place of its older one.
    pub(crate) fn add(&mut self, node_id: NodeId, number: u64, writer: Writer) {
        if let Some((_, older)) = self.open.insert(node_id, (number, writer)) {
            older.abort();
        }
    }

    pub(crate) fn is_newest(&self, node_id: NodeId, number: u64) -> bool {
        self.open.get(&node_id).is_some_and(|(newest, _)| *newest == number)
    }

    pub(crate) fn remove(&mut self, node_id: NodeId) {
        if let Some((_, writer)) = self.open.remove(&node_id) {
            writer.close();
        }
    }

    pub(crate) fn send(&self, node_id: NodeId, message: &ControlToNode) {
        if let Some((_, writer)) = self.open.get(&node_id) {
            close_if_full(node_id, writer, writer.send(message));
        }
    }

    /// Encodes the message once.
    pub(crate) fn send_to_many(&self, to: &[NodeId], message: &ControlToNode) {
        let encoded = Encoded::new(message);
        for node_id in to {
            if let Some((_, writer)) = self.open.get(node_id) {
                close_if_full(*node_id, writer, writer.send_encoded(&encoded));
            }
        }
    }

    /// Ends all at once.
    pub(crate) fn abort(&mut self) {
        for (_, writer) in std::mem::take(&mut self.open).into_values() {
            writer.abort();
        }
    }

    /// Waits until everything that was sent is written out.
    pub(crate) async fn flushed(&self) {
        for (_, writer) in self.open.values() {
            writer.flushed().await;
        }
    }
}

/// A node that does not read loses its connection.
fn close_if_full(node_id: NodeId, writer: &Writer, outcome: Result<(), SendError>) {
    match outcome {
        // A closed connection is reported by its reader.
        Ok(()) | Err(SendError::Closed) => {}
        Err(SendError::Full) => {
            tracing::warn!(%node_id, "connection closed: the node does not read what it is sent");
            writer.abort();
        }
    }
}

/// Lets nodes in for as long as somebody listens to `inputs`.
pub(crate) async fn accept(listener: UnixListener, gate: Arc<Gate>, inputs: mpsc::Sender<Input>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, number, Arc::clone(&gate), inputs.clone()));
            }
            Err(error) => {
                gate.report("listener", &error.to_string());
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        if inputs.is_closed() {
            return;
        }
    }
}

async fn serve(stream: UnixStream, number: u64, gate: Arc<Gate>, inputs: mpsc::Sender<Input>) {
    let Some(arrival) = gate.greeted(stream).await else { return };
    let source = arrival.source();
    let Some((reader, writer, hello)) = gate.let_in(arrival) else { return };
    let node_id = hello.node_id;
    match hello.role {
        Role::Node if !node_id.is_nil() => {}
        // A process that looks for a cluster, or is about to start a node of it, asks what it is.
        Role::Observer => {
            if let Err(why) = reach_back(&hello).await {
                gate.report(&source, &why);
                let accepted = NodeAccepted { refused: why, ..NodeAccepted::default() };
                // If it is gone, nobody misses the answer.
                let _ = writer.send(&ControlToNode::Accepted(accepted));
                writer.close();
                return;
            }
            // Without the loop there is no cluster any more, and the connection ends unanswered.
            let _ = inputs.send(Input::Observer { writer }).await;
            return;
        }
        _ => {
            gate.report(
                &source,
                "only nodes connect to the control service; ask through the node's socket",
            );
            writer.close();
            return;
        }
    }
    if inputs.send(Input::Connected { node_id, number, writer }).await.is_err() {
        return;
    }
    if let Err(error) = read(reader, node_id, number, &inputs).await {
        gate.report(&source, &error.to_string());
    }
    // When nobody listens any more, the service has ended and needs no news.
    let _ = inputs.send(Input::Closed { node_id, number }).await;
}

/// A node that is about to start listens already: that other machines do not reach it is told to its operator now,
/// and not to a user by tasks that do not start.
async fn reach_back(hello: &Hello) -> Result<(), String> {
    let Ok(port @ 1..) = u16::try_from(hello.port) else { return Ok(()) };
    let reached = tokio::time::timeout(REACH_MAX, TcpStream::connect((hello.host.as_str(), port)));
    let why = match reached.await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", REACH_MAX.as_secs()),
    };
    Err(format!(
        "the head does not reach the node at {}: {why}. Open that port in the firewall of the node's machine \
         (`--node-manager-port` chooses it), or give the address at which other machines reach it with \
         `--node-ip-address`",
        host_port(&hello.host, port)
    ))
}

async fn read(
    mut reader: Reader,
    node_id: NodeId,
    number: u64,
    inputs: &mpsc::Sender<Input>,
) -> Result<(), helio_rpc::service::Error> {
    while let Some(message) = reader.next::<NodeToControl>().await? {
        if inputs.send(Input::Message { node_id, number, message }).await.is_err() {
            break;
        }
    }
    Ok(())
}

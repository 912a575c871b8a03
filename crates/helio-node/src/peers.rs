//! Connections between daemons. Whoever wants something connects; the answer comes back on the same
//! connection, so two daemons may have two.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_node_state::{Conn, Event};
use helio_proto::cluster::{NodeToNode, PullChunk};
use helio_proto::hello::Hello;
use helio_rpc::service::{Error, Reader, Writer, connect_tcp};
use helio_store::Arena;
use helio_types::address::host_port;
use helio_types::{NodeAddress, NodeId};
use tokio::sync::Notify;

use crate::input::{Input, Inputs, next_conn};

/// Number of bytes of an object in one message.
const CHUNK: u64 = 1 << 20;

/// A line that a node is not reached is followed by no other for so long.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Number of messages that wait for a connection that is being made; more are dropped, as if it had
/// failed.
const WAITING_MAX: usize = 10_000;

/// The connections.
#[derive(Debug)]
pub(crate) struct Peers {
    hello: Hello,
    inputs: Inputs,
    /// All connections, whoever made them.
    open: HashMap<Conn, (NodeId, Writer)>,
    /// The connections that were made here, or are being made.
    made: HashMap<NodeId, Made>,
    /// The objects that are being streamed, by connection and request, and the signal that stops each.
    serving: HashMap<(Conn, u64), Arc<Notify>>,
    /// The time at which it was last logged that a node is not reached.
    logged: Option<Instant>,
}

#[derive(Debug)]
enum Made {
    Connecting(Vec<NodeToNode>),
    Open(Conn),
}

impl Peers {
    pub(crate) fn new(hello: Hello, inputs: Inputs) -> Self {
        Self {
            hello,
            inputs,
            open: HashMap::new(),
            made: HashMap::new(),
            serving: HashMap::new(),
            logged: None,
        }
    }

    /// A node that lives for the cluster may be unreachable from this one alone: a firewall, a wrong address.
    pub(crate) fn unreachable(&mut self, to: &NodeAddress, why: &Error) {
        if self.logged.is_some_and(|at| at.elapsed() < LOG_PAUSE) {
            return;
        }
        self.logged = Some(Instant::now());
        let to = host_port(&to.host, to.port);
        tracing::warn!(to, from = self.hello.host, error = %why, "a node is not reached");
    }

    pub(crate) fn ask(&mut self, to: NodeAddress, message: NodeToNode) {
        match self.made.get_mut(&to.node_id) {
            Some(Made::Open(conn)) => {
                let conn = *conn;
                self.answer(conn, &message);
            }
            Some(Made::Connecting(waiting)) => {
                if waiting.len() < WAITING_MAX {
                    waiting.push(message);
                }
            }
            None => {
                self.made.insert(to.node_id, Made::Connecting(vec![message]));
                tokio::spawn(connect(to, self.hello.clone(), self.inputs.clone()));
            }
        }
    }

    pub(crate) fn answer(&mut self, conn: Conn, message: &NodeToNode) {
        if let Some((_, writer)) = self.open.get(&conn) {
            // A peer that does not read has its connection ended; both sides notice and start over.
            if writer.send(message).is_err() {
                writer.abort();
            }
        }
    }

    /// A connection is there. It may be one that was made here: then what waited for it is sent.
    pub(crate) fn opened(
        &mut self,
        conn: Conn,
        node_id: NodeId,
        writer: Writer,
        is_made_here: bool,
    ) {
        self.open.insert(conn, (node_id, writer));
        if is_made_here
            && let Some(Made::Connecting(waiting)) = self.made.insert(node_id, Made::Open(conn))
        {
            for message in waiting {
                self.answer(conn, &message);
            }
        }
    }

    /// The node at the other end of a connection.
    pub(crate) fn node(&self, conn: Conn) -> Option<NodeId> {
        self.open.get(&conn).map(|(node_id, _)| *node_id)
    }

    pub(crate) fn closed(&mut self, conn: Option<Conn>, node_id: NodeId) {
        if let Some(conn) = conn {
            self.open.remove(&conn);
        }
        let is_it = match self.made.get(&node_id) {
            Some(Made::Open(open)) => conn == Some(*open),
            Some(Made::Connecting(_)) => conn.is_none(),
            None => false,
        };
        if is_it {
            self.made.remove(&node_id);
        }
    }

    /// Streams an object's bytes; the machine keeps it pinned until it hears that this is over.
    pub(crate) fn serve(
        &mut self,
        conn: Conn,
        request_id: u64,
        arena: Arc<Arena>,
        offset: u64,
        size: u64,
    ) {
        let inputs = self.inputs.clone();
        let stop = Arc::new(Notify::new());
        let writer = self.open.get(&conn).map(|(_, writer)| writer.clone());
        self.serving.insert((conn, request_id), Arc::clone(&stop));
        tokio::spawn(async move {
            if let Some(writer) = writer {
                tokio::select! {
                    () = stream(&writer, request_id, &arena, offset, size) => {}
                    () = stop.notified() => {}
                }
            }
            // Also when it was stopped: the pin ends with this.
            let _ = inputs.send(Event::Served { conn, request_id }.into()).await;
        });
    }

    pub(crate) fn stop_serving(&mut self, conn: Conn, request_id: u64) {
        if let Some(stop) = self.serving.get(&(conn, request_id)) {
            stop.notify_one();
        }
    }

    pub(crate) fn served(&mut self, conn: Conn, request_id: u64) {
        self.serving.remove(&(conn, request_id));
    }
}

async fn stream(writer: &Writer, request_id: u64, arena: &Arc<Arena>, start: u64, size: u64) {
    let mut offset = 0;
    while offset < size {
        writer.room().await;
        let length = CHUNK.min(size - offset);
        // The machine only serves what it has allocated, so the range is inside.
        let Ok(slice) = arena.slice(start + offset, length) else { return };
        let chunk = PullChunk { request_id, offset, bytes: slice.as_slice().to_vec() };
        if writer.send(&NodeToNode::PullChunk(chunk)).is_err() {
            return;
        }
        offset += length;
    }
}

async fn connect(to: NodeAddress, hello: Hello, inputs: Inputs) {
    let node_id = to.node_id;
    let port = u16::try_from(to.port).unwrap_or(0);
    let hello = Hello { to_node: node_id, ..hello };
    match connect_tcp(&to.host, port, hello).await {
        // Another daemon has the port now: the one that was meant is gone.
        Ok((_, _, welcome)) if welcome.node_id != node_id => {
            let _ = inputs.send(Input::PeerClosed { conn: None, node_id }).await;
        }
        Ok((reader, writer, _)) => {
            let conn = next_conn();
            let opened = Input::PeerOpened { conn, node_id, writer, is_made_here: true };
            if inputs.send(opened).await.is_ok() {
                read(reader, conn, node_id, inputs).await;
            }
        }
        Err(why) => {
            // The core has ended: nobody is interested.
            let _ = inputs.send(Input::PeerUnreachable { to, why }).await;
        }
    }
}

/// Serves a connection that another daemon made.
pub(crate) async fn serve(
    reader: Reader,
    writer: Writer,
    conn: Conn,
    node_id: NodeId,
    inputs: Inputs,
) {
    let opened = Input::PeerOpened { conn, node_id, writer, is_made_here: false };
    if inputs.send(opened).await.is_ok() {
        read(reader, conn, node_id, inputs).await;
    }
}

async fn read(mut reader: Reader, conn: Conn, node_id: NodeId, inputs: Inputs) {
    loop {
        match reader.next::<NodeToNode>().await {
            Ok(Some(message)) => {
                if inputs.send(Event::PeerSaid { conn, node_id, message }.into()).await.is_err() {
                    return;
                }
            }
            Ok(None) => break,
            Err(error) => {
                if !matches!(error, Error::Truncated | Error::Io(_)) {
                    tracing::warn!(%node_id, %error, "connection from another node closed");
                }
                break;
            }
        }
    }
    let _ = inputs.send(Input::PeerClosed { conn: Some(conn), node_id }).await;
}

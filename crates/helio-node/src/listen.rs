//! Listeners and signals: who knocks becomes inputs of the core.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helio_node_state::Event;
use helio_proto::cluster::NodeToNode;
use helio_proto::hello::{Destination, Hello, Role};
use helio_proto::node::ClientToNode;
use helio_rpc::service::{Gate, Reader, Writer};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::input::{Input, Inputs, next_conn};
use crate::{log_server, peers};

pub(crate) fn unix(listener: UnixListener, gate: Arc<Gate>, logs: Arc<PathBuf>, inputs: Inputs) {
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (gate, inputs) = (Arc::clone(&gate), inputs.clone());
                    let logs = Arc::clone(&logs);
                    tokio::spawn(async move {
                        let Some((reader, writer, hello)) = gate.admit(stream).await else {
                            return;
                        };
                        if hello.to == Destination::Logs as u32 {
                            return log_server::serve(reader, writer, logs).await;
                        }
                        serve(reader, writer, &hello, true, inputs).await;
                    });
                }
                Err(error) => pause_after(&error).await,
            }
        }
    });
}

/// Out of descriptors, most likely: others give theirs back; trying at once would only burn the CPU.
pub(crate) async fn pause_after(error: &io::Error) {
    tracing::error!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

pub(crate) async fn serve(
    reader: Reader,
    writer: Writer,
    hello: &Hello,
    is_local: bool,
    inputs: Inputs,
) {
    // The gate has checked it.
    let role = hello.role;
    // A new head that calls the nodes has no node of its own yet.
    if role == Role::Node && hello.node_id.is_nil() {
        return hear_head(reader, &inputs).await;
    }
    if role == Role::Node {
        let conn = next_conn();
        return peers::serve(reader, writer, conn, hello.node_id, inputs).await;
    }
    serve_client(reader, writer, role, hello, is_local, inputs).await;
}

/// A head that has taken the cluster over is not a node yet, and says one thing.
async fn hear_head(mut reader: Reader, inputs: &Inputs) {
    if let Ok(Some(NodeToNode::HeadMoved(moved))) = reader.next().await {
        // The core has ended: nobody is interested.
        let _ = inputs.send(Input::HeadMoved(moved)).await;
    }
}

async fn serve_client(
    mut reader: Reader,
    writer: Writer,
    role: Role,
    hello: &Hello,
    is_local: bool,
    inputs: Inputs,
) {
    let conn = next_conn();
    let read_out = Arc::new(Notify::new());
    let opened = Input::ClientOpened {
        conn,
        writer,
        role,
        node_id: hello.node_id,
        is_local,
        read_out: read_out.clone(),
    };
    if inputs.send(opened).await.is_err() {
        return;
    }
    // Its process has ended: what it had sent has arrived, and nothing else is waited for.
    let mut is_over = false;
    let why = loop {
        let next = if is_over {
            reader.buffered()
        } else {
            tokio::select! {
                next = reader.next::<ClientToNode>() => next,
                () = read_out.notified() => {
                    reader.read_arrived();
                    is_over = true;
                    continue;
                }
            }
        };
        match next {
            Ok(Some(message)) => {
                if inputs.send(Event::ClientSaid { conn, message }.into()).await.is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            // A process that was killed may leave half a frame behind.
            Err(helio_rpc::service::Error::Truncated | helio_rpc::service::Error::Io(_)) => {
                break None;
            }
            Err(error) => break Some(format!("client {}: {error}", hello.worker_id)),
        }
    };
    // The core has ended: nobody is interested.
    let _ = inputs.send(Input::ClientClosed { conn, why }).await;
}

pub(crate) fn signals(inputs: Inputs) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut child = signal(SignalKind::child())?;
    tokio::spawn(async move {
        loop {
            let input = tokio::select! {
                _ = terminate.recv() => Input::Terminate,
                _ = interrupt.recv() => Input::ShutDown { reason: "it was told to end (SIGINT)".to_owned() },
                _ = child.recv() => Input::ChildEnded,
            };
            if inputs.send(input).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

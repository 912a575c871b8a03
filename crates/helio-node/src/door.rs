//! The node's one TCP port: every connection of another machine arrives here, says whom it is for, and is handed
//! over to that process. From then on nothing of it passes through the daemon (decision 37).
//!
//! **LIMIT-1** The [`Gate`] bounds how many may owe their greeting, and for how long.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use helio_config::session::{CONTROL_SOCKET, GATEWAY_SOCKET, NODE_SOCKET};
use helio_proto::hello::Destination;
use helio_rpc::service::{Arrival, Gate};
use tokio::net::{TcpListener, TcpStream};

use crate::bulk::Server;
use crate::input::Inputs;
use crate::listen::{pause_after, serve};
use crate::log_server;
use crate::packages::Packages;

/// The acceptor of the node's connections.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) gate: Arc<Gate>,
    pub(crate) session_dir: PathBuf,
    /// Whether the control service is on this node.
    pub(crate) is_head: bool,
    pub(crate) inputs: Inputs,
    /// Serves those who take the bytes of objects.
    pub(crate) objects: Server,
    /// Serves those who bring or take packages of code.
    pub(crate) packages: Packages,
    /// The folder of log files.
    pub(crate) logs: Arc<PathBuf>,
}

impl Door {
    /// Accepts as long as the daemon lives.
    pub(crate) fn open(self, listener: TcpListener) {
        let door = Arc::new(self);
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(Arc::clone(&door).answer(stream))),
                    Err(error) => pause_after(&error).await,
                }
            }
        });
    }

    async fn answer(self: Arc<Self>, stream: TcpStream) {
        let Some(arrival) = self.gate.greeted(stream).await else { return };
        let to = Destination::from_number(arrival.hello().to);
        let is_for_guest = self.is_head && self.gate.is_for_other_node(arrival.hello());
        // A stranger is refused here: it must not so much as wake the process that it names.
        match to.filter(|_| self.gate.would_let_in(&arrival)) {
            Some(_) if is_for_guest => self.to_gateway(arrival).await,
            Some(Destination::Control) => self.to_control(arrival).await,
            Some(Destination::Process) => self.to_process(arrival).await,
            Some(Destination::Objects) => self.objects.serve(arrival),
            Some(Destination::Packages) => self.packages.serve(arrival),
            Some(Destination::Logs) => {
                if let Some((reader, writer, _)) = self.gate.let_in(arrival) {
                    log_server::serve(reader, writer, Arc::clone(&self.logs)).await;
                }
            }
            Some(Destination::Daemon | Destination::Gateway) | None => {
                if let Some((reader, writer, hello)) = self.gate.let_in(arrival) {
                    serve(reader, writer, &hello, false, self.inputs.clone()).await;
                }
            }
        }
    }

    async fn to_control(&self, arrival: Arrival) {
        if !self.is_head {
            return arrival
                .refuse("this is a node of a cluster and not its head: use the head's address");
        }
        if let Err((_, error)) = arrival.hand_over(&self.session_dir.join(CONTROL_SOCKET)).await {
            // The control service is starting or ending: the node that connects tries again.
            self.gate.report("the control service", &error.to_string());
        }
    }

    /// The machines of drivers outside the cluster have the head's address.
    async fn to_gateway(&self, arrival: Arrival) {
        if let Err((arrival, _)) = arrival.hand_over(&self.session_dir.join(GATEWAY_SOCKET)).await {
            arrival.refuse("the node that is meant is not in the cluster any more");
        }
    }

    async fn to_process(&self, arrival: Arrival) {
        let name = arrival.hello().to_process.socket_name();
        let socket = self.session_dir.join(NODE_SOCKET).with_file_name(name);
        if let Err((arrival, error)) = arrival.hand_over(&socket).await {
            let has_ended =
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
            let process = arrival.hello().to_process;
            arrival.refuse(if has_ended {
                format!("process {process} of this node has ended")
            } else {
                format!("process {process} of this node takes no connection: {error}")
            });
        }
    }
}

//! The control service that the node joins: in this process, or elsewhere.

use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use helio_config::control::LATE_NODES_MS;
use helio_config::session::{CONTROL_FILE, CONTROL_SOCKET, START_S_MAX};
use helio_node::Reach;
use helio_proto::hello::Refusal;
use helio_storage::outside::Leased;
use helio_storage::{Embedded, Memory, Storage};
use helio_tls::Identity;
use helio_types::address::host_port;
use rustix::process::Signal;

use crate::args::Node;
use crate::session::Session;
use crate::{observer, settings, values};

/// Time that the control service may take to end after the node has: it may have to wait for nodes that are to be
/// told.
const CONTROL_END_MAX: Duration =
    Duration::from_millis(LATE_NODES_MS).saturating_add(helio_control::FLUSH_MAX);

/// The control service that the node joins: in this process, or elsewhere.
pub(super) struct Control {
    /// The name of the control service: host and port of the head.
    pub(super) address: String,
    pub(super) reach: Reach,
    pub(super) session_name: String,
    /// The one in this process, and the end of a channel that its thread closes when it is over.
    local: Option<(helio_control::Handle, mpsc::Receiver<()>)>,
    /// The state is where another head finds it.
    is_shared: bool,
}

impl Control {
    /// Starts it on a thread of its own, and waits until its socket is open.
    pub(super) fn start(
        args: &Node,
        host: &str,
        port: u16,
        token: &str,
        identity: Option<Arc<Identity>>,
        session: &Session,
        store: Option<Leased>,
    ) -> Result<Self, String> {
        let is_shared = store.is_some();
        let storage: Box<dyn Storage> = if let Some(store) = store {
            Box::new(store)
        } else if args.owner_driver {
            // Its state ends with the driver, so nothing is written.
            Box::new(Memory::forgetful())
        } else {
            Box::new(
                Embedded::open(&session.dir.join(CONTROL_FILE))
                    .map_err(|error| error.to_string())?,
            )
        };
        let ip: IpAddr = host.parse().map_err(|_| format!("{host:?} is not an IP address"))?;
        let socket = session.dir.join(CONTROL_SOCKET);
        let options = helio_control::Options {
            socket: socket.clone(),
            host: ip,
            port,
            token: token.to_owned(),
            identity,
            session_name: session.name.clone(),
            health: settings::health()?,
            storage,
            gone: session.before.into_iter().collect(),
        };
        let (said, hear) = mpsc::channel();
        let tell = said.clone();
        let (ends, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let _ends: mpsc::Sender<()> = ends;
            let outcome = helio_control::run(options, move |ready| {
                // The starting thread has the receiver until it has heard.
                let _ = tell.send(Ok(ready));
            });
            if let Err(error) = outcome
                && let Err(mpsc::SendError(Err(error))) = said.send(Err(error))
            {
                // The control service was running: nothing can be acknowledged any more, so the whole daemon ends.
                tracing::error!(fatal = true, %error, "the control service has failed");
                end_own_process();
            }
        });
        thread.map_err(|error| error.to_string())?;
        let ready = hear.recv_timeout(Duration::from_secs(START_S_MAX));
        let ready = ready
            .map_err(|_| "the control service did not start".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok(Self {
            address: host_port(host, port),
            reach: Reach::Socket(socket),
            session_name: ready.session_name,
            local: Some((ready.handle, ended)),
            is_shared,
        })
    }

    /// Asks the one at that address for the name of its session.
    pub(super) fn elsewhere(address: &str, token: &str, own: (&str, u16)) -> Result<Self, Refusal> {
        let (host, port) = values::address(address)?;
        let session_name = observer::cluster(&host, port, token, Some(own))?.session_name;
        let address = host_port(&host, port);
        Ok(Self {
            address,
            reach: Reach::Port(host, port),
            session_name,
            local: None,
            is_shared: false,
        })
    }

    /// The node has ended: on the head the cluster ends with it, unless another head can go on with it.
    pub(super) fn end(self) {
        let Some((handle, ended)) = self.local else { return };
        if self.is_shared {
            handle.leave();
        } else {
            handle.stop("the head node has ended");
        }
        // Nothing is ever sent.
        let _ = ended.recv_timeout(CONTROL_END_MAX);
    }
}

pub(super) fn end_own_process() {
    // The system refuses no signal from a process to itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
}

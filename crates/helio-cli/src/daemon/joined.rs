//! Joining: the store of the state, the node's port, the gateway, and the control service.

use std::sync::Arc;

use helio_config::session::PACKAGES_FOLDER;
use helio_gateway::guest::Guest;
use helio_node::GuestNode;
use helio_proto::hello::Refusal;
use helio_storage::outside::{Copies, Leased};
use helio_tls::Identity;
use helio_types::address::host_port;

use super::control::{Control, end_own_process};
use super::given::Given;
use crate::afar::Gateway;
use crate::args::{Node, Store, Tls};
use crate::port::Port;
use crate::session::Session;
use crate::starter::Starter;
use crate::{afar, authority, control_store, names};

/// The cluster that the node has joined, and the ways by which the node is reached.
pub(super) struct Joined {
    pub(super) control: Control,
    pub(super) guest_node: Option<GuestNode>,
    /// The machine of a driver outside the cluster, if this is one.
    pub(super) guest: Option<Guest>,
    /// The gateway for such machines, which does not serve yet.
    pub(super) gateway: Option<Gateway>,
    pub(super) job_logs: Option<Copies>,
    pub(super) packages: Option<Copies>,
    /// The name of the store that the state is in; empty: it is on the disk.
    pub(super) control_store: String,
    pub(super) port: Port,
    /// The address under which the cluster knows this machine.
    pub(super) host: String,
    pub(super) identity: Option<Arc<Identity>>,
}

impl Joined {
    /// Joins the cluster, or on the head starts it.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(super) fn join(
        args: &Node,
        given: &Given,
        session: &Session,
        starter: &mut Starter,
    ) -> Result<Self, Refusal> {
        let (token, mut host) = (&given.token, given.host.clone());
        let mut identity = match args.tls {
            None => given.identity.clone(),
            Some(Tls::Auto) => Some(authority::begin(&session.dir, token, &host)?),
        };
        // Before the port is open: a head that waits for the state is not to be taken for one that leads.
        let store = open_store(args, given, starter)?;
        let port = open_port(args, given)?;
        let control_store = store.as_ref().map(Leased::place).unwrap_or_default();
        let copies = |kind, folder| store.as_ref().map(|store| store.copies(kind, folder));
        let packages = copies("packages", session.dir.join(PACKAGES_FOLDER));
        let job_logs = copies("job logs", session.dir.join("logs"));
        let gateway = Gateway::open(args, &host)?;
        let join =
            |at| afar::join(at, token, &session.dir, &args.python_version, &port, end_own_process);
        let (guest, guest_node) = args.gateway.as_deref().map(join).transpose()?.unzip();
        if let Some(guest) = &guest {
            // Other nodes reach this machine through the gateway, so its address is the gateway's.
            host.clone_from(&guest.host);
            if guest.is_by_token {
                identity = Some(authority::begin(&session.dir, token, &host)?);
            }
        }
        let control = match (&args.address, &guest) {
            (None, None) => {
                Control::start(args, &host, port.number(), token, identity.clone(), session, store)?
            }
            (Some(address), _) => Control::elsewhere(address, token, (&host, port.number()))?,
            (None, Some(head)) => {
                let address = host_port(&head.host, head.port);
                Control::elsewhere(&address, token, (&host, head.port))?
            }
        };
        Ok(Self {
            control,
            guest_node,
            guest,
            gateway,
            job_logs,
            packages,
            control_store,
            port,
            host,
            identity,
        })
    }
}

/// Opens the store that a head's state is in, if it is to be in one. Waits until no other head leads: a head that waits
/// has no port, so that nobody takes it for the one that leads.
fn open_store(args: &Node, given: &Given, starter: &mut Starter) -> Result<Option<Leased>, String> {
    let store = control_store::target(&Store::default(), &given.token)?.filter(|_| args.head);
    if given.is_local && store.is_some() {
        return Err(format!(
            "{} is refused: this cluster ends with its driver, and so does its state. Unset it, or start the cluster \
             with `{} start --head`.",
            control_store::given(),
            names::command(),
        ));
    }
    store.map(|target| control_store::open(&target, args, &given.host, starter)).transpose()
}

fn open_port(args: &Node, given: &Given) -> Result<Port, String> {
    match () {
        () if given.is_local => Port::name(),
        // Only its own gateway connects.
        () if args.gateway.is_some() => Port::open("127.0.0.1", 0, false),
        () => Port::open(&given.host, args.port, args.head),
    }
}

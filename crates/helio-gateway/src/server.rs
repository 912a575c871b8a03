//! The gateway, on the head: sessions of guests, and the connections that the cluster's processes make to them.
//!
//! Guests connect to a port of the gateway's own. Who wants a guest connects to the head's port as to any node's; the
//! daemon hands such a connection over ([`Arrival::hand_over`]) to the gateway's socket.

use std::collections::HashMap;
use std::io::Read as _;
use std::net::TcpListener as StdListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use helio_proto::gateway::{Began, Begin};
use helio_proto::hello::{Destination, Hello, VERSION, Welcome};
use helio_rpc::service::{Arrival, Gate, Reader, Writer, listen_unix};
use helio_tls::Identity;
use helio_types::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, oneshot};

use crate::DIAL_MAX;
use crate::session::{Parted, Session, Side};

/// Maximum number of guests of a head.
pub const GUESTS_MAX: usize = 4096;

/// Pause when the operating system refuses to accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The options of the gateway.
#[derive(Debug)]
pub struct Options {
    /// The socket to which guests connect.
    pub listener: StdListener,
    /// The socket by which the daemon hands over connections that want a guest.
    pub socket: PathBuf,
    /// The cluster's token.
    pub token: String,
    /// The certificate for guests, which have to encrypt; `None`: they speak in the clear.
    pub identity: Option<Arc<Identity>>,
    /// The head's address, as the cluster's machines know it.
    pub host: String,
    /// The head's port.
    pub port: u16,
    /// The Python that the cluster's workers run.
    pub python: PathBuf,
    /// Time for which a session without a connection is kept.
    pub grace: Duration,
}

/// A gateway that runs.
#[derive(Debug)]
pub struct Handle {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Handle {
    /// Ends it, and all its sessions.
    pub fn stop(self) {
        // One that has failed is over already, and has said why.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Starts the gateway on a thread of its own.
///
/// # Errors
/// When its socket cannot be made.
pub fn start(options: Options) -> std::io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (guests, handed_over) = {
        let _guard = runtime.enter();
        options.listener.set_nonblocking(true)?;
        let handed_over = listen_unix(&options.socket)?;
        (TcpListener::from_std(options.listener.try_clone()?)?, handed_over)
    };
    let (stop, stopped) = oneshot::channel();
    let gateway = Arc::new(Gateway::new(options));
    let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        runtime.block_on(async {
            let serve = async {
                loop {
                    tokio::select! {
                        guest = guests.accept() => match guest {
                            Ok((socket, _)) => drop(tokio::spawn(Arc::clone(&gateway).admit(socket))),
                            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                        },
                        wanted = handed_over.accept() => match wanted {
                            Ok((socket, _)) => {
                                let arrival = Arrival::read(socket);
                                drop(tokio::spawn(Arc::clone(&gateway).lead(arrival)));
                            }
                            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                        },
                    }
                }
            };
            tokio::select! {
                () = serve => {}
                _ = stopped => {}
            }
            gateway.end().await;
        });
    })?;
    Ok(Handle { stop, thread })
}

struct Gateway {
    options: Options,
    /// Tells this gateway from one that is started after it.
    name: Vec<u8>,
    gate: Gate,
    sessions: Mutex<Sessions>,
    /// The version of the workers' Python; empty: not known.
    python: OnceCell<String>,
}

#[derive(Default)]
struct Sessions {
    by_name: HashMap<Vec<u8>, Arc<Session>>,
    by_node: HashMap<NodeId, Arc<Session>>,
}

impl Gateway {
    fn new(options: Options) -> Self {
        let welcome = Welcome { version: VERSION, pid: std::process::id(), ..Welcome::default() };
        let gate =
            Gate::new("gateway", &options.token, welcome).encrypting(options.identity.clone());
        let name = helio_env::random::bytes::<16>().to_vec();
        Self { options, name, gate, sessions: Mutex::default(), python: OnceCell::new() }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn end(&self) {
        let all: Vec<_> = self.sessions().by_name.drain().map(|(_, session)| session).collect();
        for session in all {
            session.leave().await;
        }
    }

    /// Takes in a guest's connection, and serves it until it ends.
    async fn admit(self: Arc<Self>, socket: TcpStream) {
        let Some(arrival) = self.gate.greeted(socket).await else { return };
        if arrival.hello().to != Destination::Gateway as u32 {
            return arrival.refuse(
                "this is the port for drivers outside the cluster: use ray.init(\"ray://host:port\"), or the port of \
                 the head",
            );
        }
        let Some((mut reader, writer, _)) = self.gate.let_in(arrival) else { return };
        let begin = tokio::time::timeout(DIAL_MAX, reader.next::<Begin>()).await;
        let Ok(Ok(Some(begin))) = begin else { return };
        match self.begin(&begin).await {
            Ok((name, session)) => self.carry(name, session, &begin, reader, writer).await,
            Err(refused) => {
                // A guest that is gone needs no answer.
                let gateway = self.name.clone();
                let _ = writer.send(&Began { refused, gateway, ..Began::default() });
                writer.close();
            }
        }
    }

    /// The session that a guest begins or goes on with.
    async fn begin(&self, begin: &Begin) -> Result<(Vec<u8>, Arc<Session>), String> {
        if !begin.session.is_empty() {
            let known = self.sessions().by_name.get(&begin.session).cloned();
            let known = known.ok_or("the gateway has no such session any more")?;
            return Ok((begin.session.clone(), known));
        }
        self.check_python(&begin.python).await?;
        let mut sessions = self.sessions();
        if sessions.by_name.len() >= GUESTS_MAX {
            return Err(format!(
                "this head serves {GUESTS_MAX} drivers outside the cluster already"
            ));
        }
        if begin.node_id.is_nil() || sessions.by_node.contains_key(&begin.node_id) {
            return Err("a node of that id is there already".to_owned());
        }
        let anywhere = Box::new(|open: &helio_proto::gateway::Open| {
            Some((open.host.clone(), u16::try_from(open.port).ok()?))
        });
        let session = Session::new(Side::Gateway, anywhere);
        let name = helio_env::random::bytes::<32>().to_vec();
        sessions.by_name.insert(name.clone(), Arc::clone(&session));
        sessions.by_node.insert(begin.node_id, Arc::clone(&session));
        Ok((name, session))
    }

    async fn carry(
        &self,
        name: Vec<u8>,
        session: Arc<Session>,
        begin: &Begin,
        reader: Reader,
        writer: Writer,
    ) {
        let began = Began {
            refused: String::new(),
            session: name.clone(),
            received: session.received(),
            host: self.options.host.clone(),
            port: u32::from(self.options.port),
            grace_ms: u64::try_from(self.options.grace.as_millis()).unwrap_or(u64::MAX),
            gateway: self.name.clone(),
        };
        // A connection that ended already is reported by its reader.
        let _ = writer.send(&began);
        let guest = begin.node_id;
        tracing::info!(node_id = %guest, is_again = !begin.session.is_empty(), "guest connected");
        if let Parted::Broken(reason) = session.carried_by(reader, writer, begin.received).await {
            tracing::info!(node_id = %guest, reason, "guest's connection broke");
            self.wait_for(&session).await;
        }
        if session.is_over() && self.sessions().by_name.remove(&name).is_some() {
            self.sessions().by_node.retain(|_, known| !Arc::ptr_eq(known, &session));
            tracing::info!(node_id = %guest, "guest is gone");
        }
    }

    /// Ends a session that stays without a connection; one that goes on is another task's.
    async fn wait_for(&self, session: &Session) {
        while let Some(silence) = session.silence() {
            match self.options.grace.checked_sub(silence) {
                None | Some(Duration::ZERO) => return session.end(),
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }

    /// Leads who wants a guest to it.
    async fn lead(
        self: Arc<Self>,
        arrival: impl Future<Output = Result<Arrival, helio_rpc::service::Error>>,
    ) {
        let Ok(arrival) = arrival.await else { return };
        let Hello { to_node, .. } = *arrival.hello();
        let session = self.sessions().by_node.get(&to_node).cloned();
        match session.filter(|session| !session.is_over()) {
            None => arrival.refuse("the driver's machine that is meant has left the cluster"),
            Some(session) => {
                if let Some((socket, early)) = arrival.into_tcp() {
                    session.open(socket, early, (String::new(), 0));
                }
            }
        }
    }

    /// Code travels as byte code, which only the same version of Python runs.
    async fn check_python(&self, guests: &str) -> Result<(), String> {
        if guests.is_empty() {
            return Ok(());
        }
        let own = self.python.get_or_init(|| version_of(self.options.python.clone())).await;
        if own.is_empty() || minor(own) == minor(guests) {
            return Ok(());
        }
        Err(format!(
            "the driver runs Python {guests} and the cluster Python {own}: run the driver with Python {}, any patch of it",
            minor(own)
        ))
    }
}

/// `3.12` of `3.12.4`.
fn minor(version: &str) -> &str {
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    version.get(..dots.nth(1).unwrap_or(version.len())).unwrap_or(version)
}

/// Returns the interpreter's version; empty: it is not known.
async fn version_of(python: PathBuf) -> String {
    let ask = move || {
        let asked = Command::new(python).arg("-V").stdout(Stdio::piped()).spawn();
        let mut said = String::new();
        if let Ok(mut child) = asked {
            if let Some(output) = &mut child.stdout {
                // One that cannot be read is not known, as one that says something else.
                let _ = output.read_to_string(&mut said);
            }
            // The daemon, whose child it is, too, may have been told of its end first.
            let _ = child.wait();
        }
        said
    };
    let said = tokio::task::spawn_blocking(ask).await.unwrap_or_default();
    said.trim().strip_prefix("Python ").unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_python_are_alike_and_minor_versions_are_not() {
        for (version, expect) in
            [("3.12.4", "3.12"), ("3.13.0rc1", "3.13"), ("3.11", "3.11"), ("", "")]
        {
            assert_eq!(minor(version), expect);
        }
    }
}

//! The guest's end: an entrance for the connections of this machine's driver and daemon, and the connection to the
//! gateway that carries them.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use helio_proto::decode;
use helio_proto::frame::{HELLO_MAX, split};
use helio_proto::gateway::{Began, Begin, Dial};
use helio_proto::hello::{Destination, Hello, PLAIN_HERE, Refusal, RefusalKind, Role, is_right};
use helio_rpc::service::{Error, Reader, Writer, connect_by_token, connect_directly};
use helio_tls::Identity;
use helio_types::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::DIAL_MAX;
use crate::session::{Parted, Session, Side};

/// Pause after the first failed try; each further pause is twice as long, up to the bound.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Time that the first connection may take with all that is said on it.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// The advice for a driver that has only the token and meets a cluster that encrypts otherwise.
const NOT_BY_TOKEN: &str = "use the authentication token of the cluster's head node (HELIOSTAT_AUTH_TOKEN, or the file \
                            ~/.heliostat/auth_token); where the cluster has certificates of its own, set RAY_USE_TLS=1, \
                            RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT here, too";

/// The options of a guest.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host of the gateway.
    pub host: String,
    /// The port of the gateway.
    pub port: u16,
    /// The cluster's token.
    pub token: String,
    /// The id of this machine's node.
    pub node_id: NodeId,
    /// The driver's version of Python.
    pub python: String,
    /// The port of this machine's own node.
    pub door: u16,
    /// The certificate that the token has signed, for a cluster that was started with `--tls=auto`; `None`: the process shows
    /// what it is told to, or speaks in the clear.
    pub by_token: Option<Arc<Identity>>,
}

/// A guest whose session has begun.
#[derive(Debug)]
pub struct Guest {
    /// The port of this machine where connections to the cluster are made.
    pub entrance: u16,
    /// The head's address, as the cluster's machines know it.
    pub host: String,
    /// The head's port.
    pub port: u16,
    /// Time for which the gateway keeps the session without a connection.
    pub grace: Duration,
    /// Whether the cluster's connections are encrypted by certificates that its token has signed.
    pub is_by_token: bool,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Guest {
    /// Leaves: the gateway ends the session.
    pub fn leave(self) {
        // One that has failed is over already, and has said why.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Connects to the gateway, and stays connected. `on_end` is called with the reason when the session is over before
/// the guest leaves.
///
/// # Errors
/// The reason why the gateway is not reached, or does not take this machine in.
pub fn join(
    options: Options,
    on_end: impl FnOnce(&str) + Send + 'static,
) -> Result<Guest, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (stop, stopped) = oneshot::channel();
    let (say, hear) = mpsc::channel();
    let thread = std::thread::Builder::new().name("guest".to_owned()).spawn(move || {
        runtime.block_on(async {
            let begun = tokio::time::timeout(BEGIN_MAX, begin(&options)).await;
            let begun = begun.unwrap_or_else(|_| {
                Err(format!("no answer within {} s", BEGIN_MAX.as_secs()).into())
            });
            let (task, began) = match begun {
                Ok(begun) => begun,
                // The waiting thread has the receiver until it has heard.
                Err(why) => return drop(say.send(Err(why))),
            };
            let session = Arc::clone(&task.session);
            let _ = say.send(Ok((task.entrance, began, task.options.by_token.is_some())));
            tokio::select! {
                why = task.run() => on_end(&why),
                _ = stopped => session.leave().await,
            }
        });
    });
    let thread = thread.map_err(|error| error.to_string())?;
    let (entrance, began, is_by_token) = hear.recv().map_err(|error| error.to_string())??;
    Ok(Guest {
        entrance,
        host: began.host,
        port: u16::try_from(began.port).unwrap_or_default(),
        grace: Duration::from_millis(began.grace_ms),
        is_by_token,
        stop,
        thread,
    })
}

struct Task {
    options: Options,
    session: Arc<Session>,
    /// The gateway's answer when the session began.
    last: Began,
    grace: Duration,
    entrance: u16,
    listener: TcpListener,
    /// The first connection.
    first: Option<(Reader, Writer, u64)>,
}

async fn begin(options: &Options) -> Result<(Task, Began), Refusal> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| format!("no entrance on this machine: {error}"))?;
    let entrance = listener.local_addr().map_err(|error| error.to_string())?.port();
    let mut options = options.clone();
    let (reader, writer, began) = first(&mut options).await?;
    if !began.refused.is_empty() {
        return Err(began.refused.into());
    }
    let door = options.door;
    let own_node = Box::new(move |_: &_| Some((Ipv4Addr::LOCALHOST.to_string(), door)));
    let task = Task {
        options,
        session: Session::new(Side::Guest, own_node),
        last: began.clone(),
        grace: Duration::from_millis(began.grace_ms),
        entrance,
        listener,
        first: Some((reader, writer, began.received)),
    };
    Ok((task, began))
}

/// The first connection. **TLS-1** It is made as to a cluster that encrypts, as far as the token allows: one that does not says
/// so before it has heard the token.
async fn first(options: &mut Options) -> Result<(Reader, Writer, Began), Error> {
    let tried = connect(options, &[], 0).await;
    let why = match &tried {
        Err(Error::Tls(why)) if options.by_token.is_some() => why.as_str(),
        Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::Encrypted => {
            "a token so short signs none"
        }
        _ => return tried,
    };
    if why != PLAIN_HERE {
        let text = format!(
            "certificates of this token do not encrypt its connections ({why}): {NOT_BY_TOKEN}"
        );
        return Err(Error::Refused(Refusal { kind: RefusalKind::Token, text }));
    }
    options.by_token = None;
    connect(options, &[], 0).await
}

async fn connect(
    options: &Options,
    session: &[u8],
    received: u64,
) -> Result<(Reader, Writer, Began), Error> {
    let hello = Hello {
        token: options.token.clone(),
        role: Role::Driver,
        pid: std::process::id(),
        to: Destination::Gateway as u32,
        ..Hello::default()
    };
    let (mut reader, writer, _) = match &options.by_token {
        None => connect_directly(&options.host, options.port, hello).await?,
        Some(first) => {
            // The session's own is renewed.
            let shown = helio_tls::current().ok().flatten().unwrap_or_else(|| Arc::clone(first));
            connect_by_token(&options.host, options.port, hello, &shown).await?
        }
    };
    let begin = Begin {
        session: session.to_vec(),
        received,
        node_id: options.node_id,
        python: options.python.clone(),
    };
    // A connection that ended already is reported by the read.
    let _ = writer.send(&begin);
    let began: Began = reader.next().await?.ok_or(Error::Left)?;
    Ok((reader, writer, began))
}

impl Task {
    /// Serves until the session is over, and says why it is.
    async fn run(self) -> String {
        let (listener, token) = (self.listener, self.options.token.clone());
        let accept = accept(&listener, &self.session, &token);
        let mut connection = Connection {
            options: self.options,
            session: Arc::clone(&self.session),
            last: self.last,
            grace: self.grace,
        };
        // A task of its own: what comes does not wake what listens.
        let first = self.first;
        let mut stays = tokio::spawn(async move { connection.stay(first).await });
        tokio::select! {
            never = accept => match never {},
            why = &mut stays => why.unwrap_or_else(|error| error.to_string()),
        }
    }
}

/// The task that keeps a session connected.
struct Connection {
    options: Options,
    session: Arc<Session>,
    last: Began,
    grace: Duration,
}

impl Connection {
    async fn stay(&mut self, first: Option<(Reader, Writer, u64)>) -> String {
        let mut opened = first;
        loop {
            if let Some((reader, writer, received)) = opened.take() {
                match self.session.carried_by(reader, writer, received).await {
                    Parted::Over => return "the cluster has ended the session".to_owned(),
                    Parted::Broken(reason) => {
                        tracing::warn!(reason, "the connection to the gateway broke")
                    }
                }
            }
            match self.again().await {
                Ok(again) => opened = Some(again),
                Err(why) => {
                    self.session.end();
                    return why;
                }
            }
        }
    }

    /// Connects again, for as long as the gateway keeps the session.
    async fn again(&mut self) -> Result<(Reader, Writer, u64), String> {
        let began = Instant::now();
        let mut wait = RETRY_MIN;
        loop {
            let received = self.session.received();
            let tried = connect(&self.options, &self.last.session, received);
            let tried = tokio::time::timeout(DIAL_MAX, tried).await;
            let why = match tried {
                Ok(Ok((reader, writer, said))) if said.refused.is_empty() => {
                    tracing::info!("connected to the gateway again");
                    return Ok((reader, writer, said.received));
                }
                // The same gateway knows the session no more: nothing of it can be saved.
                Ok(Ok((_, _, said))) if said.gateway == self.last.gateway => {
                    return Err(said.refused);
                }
                // A head that took over has another gateway, which has no sessions yet: a new one begins for the same
                // node.
                Ok(Ok(_)) => match tokio::time::timeout(DIAL_MAX, self.begin_anew()).await {
                    Ok(Ok((reader, writer))) => return Ok((reader, writer, 0)),
                    Ok(Err(Error::Refused(why))) => return Err(why.text),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".to_owned(),
                },
                Ok(Err(Error::Refused(why))) => return Err(why.text),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            // By then the gateway has given the session up as well.
            if began.elapsed() > self.grace {
                let seconds = began.elapsed().as_secs();
                return Err(format!("the gateway was not reached for {seconds} s: {why}"));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Begins a session with the gateway that has taken the place of the one before.
    async fn begin_anew(&mut self) -> Result<(Reader, Writer), Error> {
        let (reader, writer, began) = connect(&self.options, &[], 0).await?;
        if !began.refused.is_empty() {
            return Err(Error::Refused(began.refused.into()));
        }
        if (&began.host, began.port) != (&self.last.host, self.last.port) {
            let (host, port) = (&began.host, began.port);
            let why = format!("the head is at another address now, {host}:{port}: connect again");
            return Err(Error::Refused(why.into()));
        }
        tracing::warn!("another gateway has taken the place of the one before");
        self.last = began;
        self.session.begin_anew();
        Ok((reader, writer))
    }
}

async fn accept(
    listener: &TcpListener,
    session: &Arc<Session>,
    token: &str,
) -> std::convert::Infallible {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let (session, token) = (Arc::clone(session), token.to_owned());
                tokio::spawn(async move {
                    // A program that lacks the token hears nothing.
                    if let Ok(Ok((early, to))) =
                        tokio::time::timeout(DIAL_MAX, dialled(&socket, &token)).await
                    {
                        session.open(socket, early, to);
                    }
                });
            }
            Err(_) => tokio::time::sleep(RETRY_MIN).await,
        }
    }
}

/// Reads where a connection of this machine is to go, and what came with that. **AUTH-1** Every user of this machine
/// reaches the entrance, so it asks for the token.
async fn dialled(socket: &TcpStream, token: &str) -> io::Result<(Bytes, (String, u16))> {
    let mut read = BytesMut::with_capacity(HELLO_MAX);
    loop {
        if let Some((start, end)) = split(&read, HELLO_MAX).map_err(io::Error::other)? {
            let dial: Dial = decode(&read[start..end]).map_err(io::Error::other)?;
            let port = u16::try_from(dial.port).map_err(io::Error::other)?;
            if !is_right(dial.token.as_bytes(), token) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let early = read.split_off(end).freeze();
            return Ok((early, (dial.host, port)));
        }
        socket.readable().await?;
        match socket.try_read_buf(&mut read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}

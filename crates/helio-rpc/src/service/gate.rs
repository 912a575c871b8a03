//! The door of a listener: the number of peers that may knock at once, and the log of those turned
//! away.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helio_proto::hello::{
    Destination, Hello, RefusalKind, Welcome, misrouted, refusal, wrong_transport,
};
use helio_tls::Identity;
use tokio::sync::oneshot;

use super::arrival::Arrival;
use super::error::{Error, HANDSHAKE_MAX};
use super::read::Reader;
use super::stream::Stream;
use super::write::Writer;

/// Maximum number of peers that owe their greeting. One more, and the oldest is turned away: who means it has
/// greeted within a round trip, who only holds a place is the oldest.
pub const HANDSHAKES_MAX: usize = 256;

/// Number of lines that a source is given in this time; a flood must not fill the disk.
const LINES_MAX: u32 = 30;
const LINES_INTERVAL: Duration = Duration::from_secs(60);

/// Number of sources that are remembered; beyond it all are forgotten.
const SOURCES_MAX: usize = 1024;

/// The door of a listener.
#[derive(Debug)]
pub struct Gate {
    name: &'static str,
    token: String,
    welcome: Welcome,
    /// Whether other machines have to encrypt, and what they are shown.
    identity: Option<Arc<Identity>>,
    /// Whether what is for other processes of the node is handed over to them, handshake and all.
    is_door: bool,
    /// The connections that owe a greeting, oldest first, and how each is told to give up.
    pending: Mutex<VecDeque<(u64, oneshot::Sender<()>)>>,
    /// Number of connections that have come.
    count: AtomicU64,
    /// The log lines of each source: when its present interval began, and how many it has had since.
    logged: Mutex<HashMap<String, (Instant, u32)>>,
}

impl Gate {
    /// `name` is the listener's, for the log; `welcome` says who this side is.
    #[must_use]
    pub fn new(name: &'static str, token: &str, welcome: Welcome) -> Self {
        Self {
            name,
            token: token.to_owned(),
            welcome,
            identity: None,
            is_door: false,
            pending: Mutex::default(),
            count: AtomicU64::new(0),
            logged: Mutex::default(),
        }
    }

    /// Makes the gate use an identity; with one, connections of other machines have to be
    /// encrypted.
    #[must_use]
    pub fn encrypting(self, identity: Option<Arc<Identity>>) -> Self {
        Self { identity, ..self }
    }

    /// Makes the gate one for a process that hands connections to other processes of the node: they take up
    /// the session.
    #[must_use]
    pub fn handing_over(self) -> Self {
        Self { is_door: true, ..self }
    }

    /// The handshake with one peer; `None` when it was turned away, which is logged, but not so often
    /// that a peer could fill the disk (LIMIT-1).
    pub async fn admit(&self, stream: impl Into<Stream>) -> Option<(Reader, Writer, Hello)> {
        let arrival = self.greeted(stream).await?;
        self.let_in(arrival)
    }

    /// Waits for one peer's greeting; `None` when it was turned away, see [`Gate::admit`].
    pub async fn greeted(&self, stream: impl Into<Stream>) -> Option<Arrival> {
        let stream = stream.into();
        let source = stream.source();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (give_up, given_up) = oneshot::channel();
        let oldest = {
            let mut pending = self.pending();
            pending.push_back((number, give_up));
            if pending.len() > HANDSHAKES_MAX { pending.pop_front() } else { None }
        };
        if let Some((_, oldest)) = oldest {
            // The peer may have greeted in this moment.
            let _ = oldest.send(());
        }
        let outcome = tokio::select! {
            biased;
            arrival = tokio::time::timeout(HANDSHAKE_MAX, self.arrived(stream)) => {
                arrival.unwrap_or(Err(Error::Silent))
            }
            _ = given_up => Err(Error::Crowded),
        };
        self.pending().retain(|(pending, _)| *pending != number);
        match outcome {
            Ok(arrival) => Some(arrival),
            // A port scanner or health check that hangs up unheard is not worth a line.
            Err(Error::Left) => None,
            Err(error) => {
                self.report(&source, &error.to_string());
                None
            }
        }
    }

    /// Waits for the greeting, and before it for the session that it comes in.
    async fn arrived(&self, stream: Stream) -> Result<Arrival, Error> {
        let arrival = Arrival::read_unhurried(stream).await?;
        let hello = arrival.hello();
        let wanted = self.identity.as_ref().filter(|_| arrival.is_plain_of_machine());
        let refused = match (wanted, hello.is_encrypted) {
            (None, false) => return Ok(arrival),
            (Some(identity), true) => match misrouted(hello) {
                None if self.is_door && self.is_handed_over(hello) => return Ok(arrival),
                None => return arrival.secured(identity).await,
                Some(refused) => refused,
            },
            (Some(_), false) => wrong_transport(true),
            (None, true) => wrong_transport(false),
        };
        // A driver elsewhere asks that way whether the cluster encrypts.
        let asks = refused.kind == RefusalKind::Plain && hello.to == Destination::Gateway as u32;
        let why = refused.text.clone();
        arrival.refuse(refused);
        Err(if asks { Error::Left } else { Error::Unwelcome(why) })
    }

    /// Whether the peer would be let in; one whose greeting is still to come is let in by whom it is for.
    #[must_use]
    pub fn would_let_in(&self, arrival: &Arrival) -> bool {
        let hello = arrival.hello();
        hello.is_encrypted || refusal(hello, &self.token).is_none()
    }

    /// Lets a peer in that has greeted; `None` when it was refused, see [`Gate::admit`].
    #[must_use]
    pub fn let_in(&self, arrival: Arrival) -> Option<(Reader, Writer, Hello)> {
        let source = arrival.source();
        match arrival.welcome(&self.token, self.welcome.clone()) {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                self.report(&source, &error.to_string());
                None
            }
        }
    }

    /// Whether a connection is for a node that this one only knows the way to.
    #[must_use]
    pub fn is_for_other_node(&self, hello: &Hello) -> bool {
        !hello.to_node.is_nil() && hello.to_node != self.welcome.node_id
    }

    fn is_handed_over(&self, hello: &Hello) -> bool {
        let to = Destination::from_number(hello.to);
        matches!(to, Some(Destination::Control | Destination::Process))
            || self.is_for_other_node(hello)
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<(u64, oneshot::Sender<()>)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a peer broke the protocol, also after it was let in.
    pub fn report(&self, source: &str, what: &str) {
        let now = Instant::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= SOURCES_MAX {
            logged.clear();
        }
        let (since, lines) = logged.entry(source.to_owned()).or_insert((now, 0));
        if now.duration_since(*since) >= LINES_INTERVAL {
            (*since, *lines) = (now, 0);
        }
        *lines += 1;
        if *lines > LINES_MAX {
            return;
        }
        let rest =
            if *lines == LINES_MAX { "; further ones are not logged for a minute" } else { "" };
        tracing::warn!(listener = self.name, source, reason = what, "connection closed{rest}");
    }
}

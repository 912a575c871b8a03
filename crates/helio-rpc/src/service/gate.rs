//! The door of a listener: how many may knock at once, and what is said of those turned away.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use helio_proto::hello::{Hello, Welcome};
use tokio::sync::Semaphore;

use super::{Error, Reader, Stream, Writer, accept};

/// How many peers may be in the handshake at a time; more are turned away at once.
pub const HANDSHAKES_MAX: usize = 256;

/// So many lines a source in this time; a flood must not fill the disk.
const LINES_MAX: u32 = 30;
const LINES_INTERVAL: Duration = Duration::from_secs(60);

/// How many sources are remembered; beyond it the memory starts anew.
const SOURCES_MAX: usize = 1024;

/// The door of a listener.
#[derive(Debug)]
pub struct Gate {
    name: &'static str,
    token: String,
    welcome: Welcome,
    handshakes: Semaphore,
    /// By source: when its present interval began, and how many lines it has had since.
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
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            logged: Mutex::default(),
        }
    }

    /// The handshake with one peer; `None` when it was turned away, which is logged, but not so often
    /// that a peer could fill the disk (LIMIT-1).
    pub async fn admit(&self, stream: impl Into<Stream>) -> Option<(Reader, Writer, Hello)> {
        let stream = stream.into();
        let source = stream.source();
        let Ok(_permit) = self.handshakes.try_acquire() else {
            self.report(&source, "too many connections are being opened");
            return None;
        };
        match accept(stream, &self.token, self.welcome.clone()).await {
            Ok(accepted) => Some(accepted),
            // A port scanner or health check that hangs up unheard is not worth a line.
            Err(Error::Left) => None,
            Err(error) => {
                self.report(&source, &error.to_string());
                None
            }
        }
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

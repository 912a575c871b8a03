//! The connection to the control service: made again whenever it is lost, and tried anew beside one that is
//! silent. A connection over a link that was cut and mended goes on only when its next retransmission is due,
//! which may be long; a new one is there at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_config::control::RECONNECT_MS_MAX;
use helio_node_state::Event;
use helio_proto::cluster::ControlToNode;
use helio_proto::hello::{Destination, Hello, Welcome};
use helio_rpc::service::{Error, Reader, Writer, connect_tcp, connect_unix};
use helio_types::address::host_port;
use tokio::sync::Notify;

use crate::head::Head;
use crate::input::{Input, Inputs};
use crate::options::Reach;

/// Pause after the first failed try; each further pause is twice as long, up to the bound that the
/// configuration sets.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(RECONNECT_MS_MAX);

/// Time that a try may take: over a link that is mended the first packet of the next try passes at once,
/// where that of an old one waits for its retransmission.
const TRY_MAX: Duration = Duration::from_secs(2);

/// Silence of the service from which on it is worth a line in the log.
const SILENCE_LOGGED: Duration = Duration::from_secs(2);

/// Time that a daemon without a connection lives. A service that is started again is back long before; a
/// head that was destroyed must not leave its nodes with their GPUs for ever.
const SILENCE_MAX: Duration = Duration::from_secs(300);

type Opened = Result<(Reader, Writer, Welcome), Error>;
type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// The task that holds the connection.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    nudge: Arc<Notify>,
}

impl Link {
    /// Has a new connection tried beside the one that is silent.
    pub(crate) fn try_anew(&self) {
        self.nudge.notify_one();
    }
}

pub(crate) fn start(reach: Reach, head: Arc<Head>, hello: Hello, inputs: Inputs) -> Link {
    let nudge = Arc::new(Notify::new());
    let hello = Hello { to: Destination::Control as u32, ..hello };
    let task = Task { usual: reach, head, hello, inputs, nudge: Arc::clone(&nudge), tries: 0 };
    tokio::spawn(task.run());
    Link { nudge }
}

struct Task {
    /// The address of the head with which the node was started.
    usual: Reach,
    head: Arc<Head>,
    hello: Hello,
    inputs: Inputs,
    nudge: Arc<Notify>,
    tries: u32,
}

impl Task {
    /// Ends when the daemon does not listen any more, or with the reason for which it has to end.
    async fn run(mut self) {
        let mut wait = RETRY_MIN;
        let mut lost_at = Instant::now();
        let mut is_logged = false;
        loop {
            let reach = self.reach();
            match self.open(&reach).await {
                Ok((reader, writer, _)) => {
                    self.tries = 0;
                    (wait, is_logged) = (RETRY_MIN, false);
                    if self.hold(reader, writer).await.is_none() {
                        return;
                    }
                    lost_at = Instant::now();
                    if self.inputs.send(Event::ControlLost.into()).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let silence = lost_at.elapsed();
                    self.tries += 1;
                    // Where the head was there may be another node now.
                    let is_refused_here =
                        matches!(error, Error::Refused(_)) && !self.head.may_move();
                    let is_final = is_refused_here || silence > SILENCE_MAX;
                    let at = match &reach {
                        Reach::Socket(path) => path.display().to_string(),
                        Reach::Port(host, port) => host_port(host, port),
                    };
                    let text = format!("the control service at {at} does not answer: {error}");
                    if (silence > SILENCE_LOGGED && !is_logged) || is_final {
                        is_logged = true;
                        tracing::error!(at, %error, "the control service does not answer");
                    }
                    let news = if is_final {
                        Some(Input::ShutDown { reason: text })
                    } else {
                        is_refused(&error).then_some(Event::ControlRefused.into())
                    };
                    if let Some(news) = news
                        && self.inputs.send(news).await.is_err()
                    {
                        return;
                    }
                    if is_final {
                        return;
                    }
                }
            }
            // News of a new head end the wait: without them it may last until the longest pause is over.
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY_MAX),
                () = self.head.moved() => (wait, self.tries) = (RETRY_MIN, 0),
            }
        }
    }

    /// Returns the address to try next: the one that the head said last; if it is not there, by turns the first one,
    /// which may be a name that leads to the next head.
    fn reach(&self) -> Reach {
        match self.head.address().filter(|_| self.tries.is_multiple_of(2)) {
            Some((host, port)) => Reach::Port(host, port),
            None => self.usual.clone(),
        }
    }

    fn open(&self, reach: &Reach) -> Opening {
        let (reach, hello) = (reach.clone(), self.hello.clone());
        Box::pin(async move {
            let opening = async {
                match reach {
                    Reach::Socket(path) => connect_unix(&path, hello).await,
                    Reach::Port(host, port) => connect_tcp(&host, port, hello).await,
                }
            };
            tokio::time::timeout(TRY_MAX, opening).await.unwrap_or(Err(Error::Silent))
        })
    }

    /// Passes on what the service says, until the connection ends; `None`: nobody listens any more.
    async fn hold(&self, mut reader: Reader, writer: Writer) -> Option<()> {
        self.inputs.send(Input::ControlConnected { writer }).await.ok()?;
        let mut opening: Option<Opening> = None;
        loop {
            tokio::select! {
                message = reader.next::<ControlToNode>() => match message {
                    Ok(Some(message)) => {
                        // The old connection works after all.
                        opening = None;
                        if let ControlToNode::Accepted(accepted) = &message
                            && accepted.refused.is_empty()
                        {
                            self.head.on_accepted(accepted.epoch);
                        }
                        self.inputs.send(Event::ControlSaid(message).into()).await.ok()?;
                    }
                    Ok(None) | Err(_) => return Some(()),
                },
                // The machine that still talks to this node is the head no more.
                () = self.head.moved() => return Some(()),
                () = self.nudge.notified(), if opening.is_none() => {
                    opening = Some(self.open(&self.reach()));
                }
                opened = finished(&mut opening), if opening.is_some() => {
                    opening = None;
                    match opened {
                        Ok((new_reader, writer, _)) => {
                            reader = new_reader;
                            self.inputs.send(Input::ControlConnected { writer }).await.ok()?;
                        }
                        Err(error) if is_refused(&error) => {
                            self.inputs.send(Event::ControlRefused.into()).await.ok()?;
                        }
                        // The machine tells when to try again.
                        Err(_) => {}
                    }
                }
            }
        }
    }
}

async fn finished(opening: &mut Option<Opening>) -> Opened {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

/// The machine is there, and nobody listens at the port, or nobody for whom its daemon could take the connection.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Io(source) => source.kind() == std::io::ErrorKind::ConnectionRefused,
        Error::Left => true,
        _ => false,
    }
}

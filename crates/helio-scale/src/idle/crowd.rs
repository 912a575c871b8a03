//! Pretended nodes: each has a connection of its own to a control service, registers and sends heartbeats.
//!
//! One thread serves all of them and keeps nothing of what they are told but counts: the other end of the
//! connections is what is measured, and ten thousand descriptions of ten thousand nodes have no room here.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use helio_proto::cluster::{ControlToNode, NodeToControl, RegisterNode, StatusUnchanged};
use helio_proto::frame::{self, FRAME_MAX};
use helio_proto::hello::{Hello, Role, VERSION, Welcome};
use helio_proto::{Wire, decode};
use rustix::event::epoll;
use rustix::time::Timespec;

use crate::nodes::{describe, node_id};

/// The token of the measured service.
pub(super) const TOKEN: &str = "of a measurement";

/// Time between two heartbeats of a node.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Frames of this length and less are decoded; a longer one is a view of nodes.
const DECODED_MAX: usize = 1 << 10;

/// Bytes that are read at a time.
const READ_SIZE: usize = 256 << 10;

/// Number of nodes that register before the others are told of them: a list of all nodes for each new one
/// would else wait in the service's memory.
const REGISTERED_AT_ONCE: usize = 500;

/// The schedule of heartbeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beats {
    /// Number of rounds: in each, every node sends one.
    pub(super) rounds: usize,
    /// The time from one round to the next.
    pub(super) every: Duration,
    /// The heartbeats of a round are spread over its time; else they come all at once.
    pub(super) are_spread: bool,
}

impl Beats {
    /// The messages that nodes send in some seconds.
    pub(super) fn usual(seconds: usize) -> Self {
        Self { rounds: seconds, every: HEARTBEAT, are_spread: true }
    }

    /// Returns the time of the heartbeat of that number, from the start.
    fn due(&self, number: usize, n_nodes: usize) -> Duration {
        let rounds = if self.are_spread {
            number as f64 / n_nodes as f64
        } else {
            (number / n_nodes) as f64
        };
        self.every.mul_f64(rounds)
    }
}

/// The messages to the service and from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Heartbeats that were sent.
    pub(super) beats: u64,
    /// Heartbeats that were answered.
    pub(super) answers: u64,
    /// Registrations that were accepted.
    pub(super) accepted: u64,
    /// Bytes of all other messages that came.
    pub(super) other_bytes: u64,
}

/// A connection that was let in.
struct Node {
    stream: UnixStream,
    /// The beginning of the frame that is arriving, with its length.
    begun: Vec<u8>,
    /// Bytes of a long frame that are to be passed over.
    passed_over: usize,
    /// A heartbeat was answered since this was last asked.
    is_answered: bool,
}

/// The nodes.
pub(super) struct Crowd {
    nodes: Vec<Node>,
    epoll: OwnedFd,
    buffer: Vec<u8>,
    traffic: Traffic,
    /// The reason why the service turned a node away.
    refusal: Option<String>,
}

impl Crowd {
    /// A crowd of nodes that are connected and have not registered.
    pub(super) fn connect(socket: &Path, n_nodes: usize) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut nodes = Vec::with_capacity(n_nodes);
        for number in 0..n_nodes {
            let stream = greeted(socket, number)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
            nodes.push(Node { stream, begun: Vec::new(), passed_over: 0, is_answered: false });
        }
        let (traffic, refusal) = (Traffic::default(), None);
        Ok(Self { nodes, epoll, buffer: vec![0; READ_SIZE], traffic, refusal })
    }

    /// Takes the counts since the last call.
    pub(super) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// All nodes register, and send heartbeats until they have been told of each other: until nothing but
    /// answers has come for `quiet`.
    pub(super) fn register(&mut self, quiet: Duration) -> Result<(), String> {
        let mut n_registered = 0;
        let mut n_accepted = 0;
        let mut silent_since = Instant::now();
        let mut beats_from = Instant::now();
        let mut beaten = 0;
        while n_registered < self.nodes.len() || silent_since.elapsed() < quiet {
            let is_settled = n_accepted == n_registered && silent_since.elapsed() >= quiet / 10;
            if n_registered < self.nodes.len() && (n_registered == 0 || is_settled) {
                let until = self.nodes.len().min(n_registered + REGISTERED_AT_ONCE);
                for number in n_registered..until {
                    let info = describe(number);
                    let node =
                        RegisterNode { info, clients_known: true, ..RegisterNode::default() };
                    self.say(number, &node.into())?;
                }
                n_registered = until;
                silent_since = Instant::now();
            }
            // All that are due: a turn may take long while lists of all nodes come, and a node whose
            // heartbeats stay away is declared dead.
            let mut due = Beats::usual(1).due(beaten, self.nodes.len());
            while beats_from.elapsed() >= due {
                if beaten < n_registered {
                    self.say(beaten, &StatusUnchanged::default().into())?;
                }
                beaten += 1;
                if beaten == self.nodes.len() {
                    (beaten, beats_from) = (0, beats_from + HEARTBEAT);
                }
                due = Beats::usual(1).due(beaten, self.nodes.len());
            }
            self.hear(due.saturating_sub(beats_from.elapsed()).min(quiet / 10))?;
            let came = self.take_traffic();
            n_accepted += came.accepted as usize;
            if came.other_bytes > 0 || came.accepted > 0 {
                silent_since = Instant::now();
            }
        }
        Ok(())
    }

    /// The nodes send heartbeats, and take what comes.
    pub(super) fn beat(&mut self, beats: Beats) -> Result<(), String> {
        let n_nodes = self.nodes.len();
        let began = Instant::now();
        let message = NodeToControl::from(StatusUnchanged { sent_ms: 1 << 30 });
        for number in 0..beats.rounds * n_nodes {
            let due = beats.due(number, n_nodes);
            while began.elapsed() < due {
                self.hear(due.saturating_sub(began.elapsed()))?;
            }
            self.say(number % n_nodes, &message)?;
            self.traffic.beats += 1;
        }
        // The last ones have their time, too.
        let end = beats.every * beats.rounds as u32;
        while began.elapsed() < end {
            self.hear(end.saturating_sub(began.elapsed()))?;
        }
        Ok(())
    }

    /// Each node sends heartbeats until one is answered, a second apart, because answers have a shortest
    /// interval. Answers how many nodes were answered within `limit`.
    pub(super) fn be_answered(&mut self, limit: Duration) -> Result<usize, String> {
        let began = Instant::now();
        self.nodes.iter_mut().for_each(|node| node.is_answered = false);
        loop {
            let round = Instant::now();
            for number in 0..self.nodes.len() {
                if !self.nodes[number].is_answered {
                    self.say(number, &StatusUnchanged::default().into())?;
                }
            }
            while round.elapsed() < HEARTBEAT {
                let answered = self.nodes.iter().filter(|node| node.is_answered).count();
                if answered == self.nodes.len() || began.elapsed() >= limit {
                    return Ok(answered);
                }
                self.hear(HEARTBEAT.saturating_sub(round.elapsed()))?;
            }
        }
    }

    fn say(&mut self, number: usize, message: &NodeToControl) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("a heartbeat could not be sent: {error}");
        send(&mut self.nodes[number].stream, message).map_err(failed)
    }

    /// Waits for something to come, at most for `limit`, and takes it.
    fn hear(&mut self, limit: Duration) -> Result<(), String> {
        let mut events = [const { MaybeUninit::uninit() }; 256];
        let limit = Timespec::try_from(limit).map_err(|error| error.to_string())?;
        let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&limit)) {
            Ok((ready, _)) => &*ready,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(format!("waiting for answers: {error}")),
        };
        for event in ready {
            let node = &mut self.nodes[event.data.u64() as usize];
            match node.stream.read(&mut self.buffer) {
                Ok(0) => {
                    let why = self.refusal.take().unwrap_or_else(|| "without a word".to_owned());
                    return Err(format!("the control service closed a connection: {why}"));
                }
                Ok(length) => node
                    .take(&self.buffer[..length], &mut self.traffic, &mut self.refusal)
                    .map_err(|error| format!("an answer cannot be read: {error}"))?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("a connection broke: {error}")),
            }
        }
        Ok(())
    }
}

impl Node {
    /// Counts the messages that have come.
    fn take(
        &mut self,
        mut bytes: &[u8],
        traffic: &mut Traffic,
        refusal: &mut Option<String>,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.passed_over > 0 {
                let length = self.passed_over.min(bytes.len());
                self.passed_over -= length;
                traffic.other_bytes += length as u64;
                bytes = &bytes[length..];
                continue;
            }
            let wanted = match self.begun.first_chunk::<4>() {
                Some(head) => 4 + u32::from_le_bytes(*head) as usize,
                None => 4,
            };
            if wanted > DECODED_MAX {
                self.passed_over = wanted - self.begun.len();
                self.begun.clear();
                continue;
            }
            let (more, rest) = bytes.split_at(bytes.len().min(wanted - self.begun.len()));
            self.begun.extend_from_slice(more);
            bytes = rest;
            let split = frame::split(&self.begun, FRAME_MAX).map_err(|error| error.to_string())?;
            let Some((start, end)) = split else { continue };
            let message = decode::<ControlToNode>(&self.begun[start..end]);
            match message.map_err(|error| error.to_string())? {
                ControlToNode::Heard(_) => {
                    traffic.answers += 1;
                    self.is_answered = true;
                }
                ControlToNode::Accepted(accepted) if accepted.refused.is_empty() => {
                    traffic.accepted += 1;
                }
                ControlToNode::Accepted(accepted) => *refusal = Some(accepted.refused),
                ControlToNode::ShutDown(order) => *refusal = Some(order.reason),
                _ => traffic.other_bytes += end as u64,
            }
            self.begun.clear();
        }
        Ok(())
    }
}

fn send<M: Wire>(stream: &mut UnixStream, message: &M) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(message.encoded_len() + 4);
    frame::put(&mut bytes, |out| message.encode(out).expect("a Vec grows as needed"));
    stream.write_all(&bytes)
}

/// Connects, and says who it is.
fn greeted(socket: &Path, number: usize) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let hello = Hello {
        version: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        token: TOKEN.to_owned(),
        role: Role::Node,
        node_id: node_id(number),
        ..Hello::default()
    };
    send(&mut stream, &hello)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    let welcome = decode::<Welcome>(&bytes).map_err(std::io::Error::other)?;
    if !welcome.refused.is_empty() {
        return Err(std::io::Error::other(welcome.refused));
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

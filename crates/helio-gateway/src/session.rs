//! The streams between a guest and its gateway, whichever connection carries them now. Both sides run the same code.
//!
//! **LIMIT-1** A side keeps at most [`KEPT_MAX`] bytes and a piece of each stream that the other has not confirmed, and at
//! most [`WINDOW`] bytes of a stream that its end here does not take.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use helio_env::random;
use helio_proto::gateway::{
    Ack, Credit, Data, End, Leave, Message, Open, PIECE_MAX, Ping, Reset, WINDOW,
};
use helio_rpc::service::{Encoded, Reader, Writer};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::link::{Link, Strange};
use crate::{DIAL_MAX, PING, SILENCE_MAX};

/// Number of unconfirmed bytes at which streams are read no further.
const KEPT_MAX: usize = 3 << 20;

/// Number of bytes of a stream that are passed on before the other side is told.
const CREDIT_STEP: u64 = WINDOW / 4;

/// The side of a session: it numbers its streams so that the other side's numbers are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Guest,
    Gateway,
}

/// Returns the destination of a stream that the other side opens; `None`: the stream is refused.
pub(crate) type Target = Box<dyn Fn(&Open) -> Option<(String, u16)> + Send + Sync>;

/// The session of a guest: its streams, and the bytes that the other side has not confirmed.
pub(crate) struct Session {
    state: Mutex<State>,
    /// Streams may be read further, or the session is over.
    moved: Notify,
    target: Target,
}

struct State {
    link: Link<Arc<Encoded>>,
    /// The connection that carries the session, and its number.
    carrier: Option<Writer>,
    generation: u64,
    /// The time since which there is no connection.
    lost_at: Instant,
    streams: HashMap<u64, Stream>,
    next_stream: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Stream {
    /// Number of further bytes that the other side takes.
    credit: u64,
    /// The queue to the end of the stream here; dropped: the stream is broken.
    pieces: mpsc::UnboundedSender<Piece>,
    /// Number of pieces in the queue. While there are none, what comes is written at once: no other task has to be
    /// woken for it.
    queued: usize,
    /// The end of the stream here, once it is connected.
    end: Option<Arc<TcpStream>>,
    /// Number of bytes that the end has taken since the other side was told.
    taken: u64,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    End,
}

/// The end of the connection that carried a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parted {
    /// The connection broke; the session waits for another one.
    Broken(String),
    /// The session is over.
    Over,
}

impl Session {
    pub(crate) fn new(side: Side, target: Target) -> Arc<Self> {
        let state = State {
            link: Link::default(),
            carrier: None,
            generation: 0,
            lost_at: Instant::now(),
            streams: HashMap::new(),
            next_stream: match side {
                Side::Guest => 1,
                // No gateway that takes the place of another counts as that did: what is left of its streams may
                // not be taken for streams of this one.
                Side::Gateway => (u64::from(u32::from_le_bytes(random::bytes())) << 31) | 2,
            },
            is_over: false,
        };
        Arc::new(Self { state: Mutex::new(state), moved: Notify::new(), target })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of messages of the other side that have come.
    pub(crate) fn received(&self) -> u64 {
        self.lock().link.received()
    }

    /// Returns the time for which no connection has carried the session.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let state = self.lock();
        state.carrier.is_none().then(|| state.lost_at.elapsed())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Ends the session: all streams break.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.streams.clear();
        if let Some(writer) = state.carrier.take() {
            writer.close();
        }
        drop(state);
        self.moved.notify_waiters();
    }

    /// Begins a new session, because the other side knows nothing of this one: all streams break.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.lock();
        state.streams.clear();
        state.link = Link::default();
        drop(state);
        self.moved.notify_waiters();
    }

    /// Tells the other side that the session is over, and ends it. What was sent before is written out.
    pub(crate) async fn leave(&self) {
        let writer = self.lock().carrier.clone();
        if let Some(writer) = writer {
            // A connection that is broken carries no farewell: the grace period ends the session.
            let _ = writer.send(&Message::from(Leave {}));
            let _ = tokio::time::timeout(DIAL_MAX, writer.flushed()).await;
        }
        self.end();
    }

    /// Has this connection carry the session until it ends. `received` is what the other side has.
    pub(crate) async fn carried_by(
        self: &Arc<Self>,
        mut reader: Reader,
        writer: Writer,
        received: u64,
    ) -> Parted {
        let generation = match self.take_up(&writer, received) {
            Ok(generation) => generation,
            Err(Strange) => {
                self.end();
                return Parted::Over;
            }
        };
        let mut ping = tokio::time::interval(PING);
        let mut heard = Instant::now();
        let reason = loop {
            tokio::select! {
                biased;
                read = reader.next::<Message>() => match read {
                    Ok(Some(message)) => {
                        heard = Instant::now();
                        match self.on_message(generation, message) {
                            Ok(true) => {}
                            Ok(false) => break "another connection has taken its place".to_owned(),
                            Err(Strange) => self.end(),
                        }
                    }
                    Ok(None) => break "it was closed".to_owned(),
                    Err(error) => break error.to_string(),
                },
                _ = ping.tick() => {
                    if heard.elapsed() > SILENCE_MAX {
                        break format!("it was silent for {} s", SILENCE_MAX.as_secs());
                    }
                    self.lock().ping();
                }
            }
            if self.is_over() {
                return Parted::Over;
            }
        };
        writer.abort();
        let mut state = self.lock();
        // A newer connection may carry the session already.
        if state.generation == generation {
            state.carrier = None;
            state.lost_at = Instant::now();
        }
        if state.is_over { Parted::Over } else { Parted::Broken(reason) }
    }

    fn take_up(&self, writer: &Writer, received: u64) -> Result<u64, Strange> {
        let mut state = self.lock();
        if state.is_over {
            return Err(Strange);
        }
        // What the other side has not got is sent again before anything new.
        for message in state.link.on_resumed(received)? {
            // A connection that ended already is reported by its reader.
            let _ = writer.send_encoded(message);
        }
        state.generation += 1;
        if let Some(older) = state.carrier.replace(writer.clone()) {
            older.abort();
        }
        let generation = state.generation;
        drop(state);
        self.moved.notify_waiters();
        Ok(generation)
    }

    /// Takes in a message; whether its connection still is the one that carries the session.
    fn on_message(self: &Arc<Self>, generation: u64, message: Message) -> Result<bool, Strange> {
        let mut state = self.lock();
        // Its messages come again over the connection that took its place.
        if state.generation != generation {
            return Ok(false);
        }
        if message.is_numbered() && state.link.on_message(message.length()) {
            state.confirm();
        }
        let mut has_moved = false;
        match message {
            Message::Open(open) => {
                let pieces = state.add(open.stream);
                tokio::spawn(Arc::clone(self).answer(open, pieces));
            }
            Message::Data(data) => state.deliver(data.stream, data.bytes),
            Message::End(end) => state.queue(end.stream, Piece::End),
            Message::Reset(reset) => {
                state.streams.remove(&reset.stream);
                has_moved = true;
            }
            Message::Credit(credit) => {
                if let Some(stream) = state.streams.get_mut(&credit.stream) {
                    stream.credit = stream.credit.saturating_add(credit.bytes).min(WINDOW);
                }
                has_moved = true;
            }
            Message::Ack(ack) => {
                state.link.on_ack(ack.received)?;
                has_moved = true;
            }
            Message::Ping(_) => {
                let received = state.link.take_ack().unwrap_or(state.link.received());
                state.say(&Ack { received }.into());
            }
            Message::Leave(_) => {
                drop(state);
                self.end();
                return Ok(true);
            }
            Message::Unknown => {}
        }
        drop(state);
        if has_moved {
            self.moved.notify_waiters();
        }
        Ok(true)
    }

    /// Opens a stream for a connection that was made here; `early` was read from it already.
    pub(crate) fn open(self: &Arc<Self>, socket: TcpStream, early: Bytes, to: (String, u16)) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        let stream = state.next_stream;
        state.next_stream += 2;
        let pieces = state.add(stream);
        let (host, port) = (to.0, u32::from(to.1));
        state.send(&Open { stream, host, port }.into());
        if !early.is_empty() {
            state.send_data(stream, early);
        }
        drop(state);
        tokio::spawn(Arc::clone(self).carry(stream, socket, pieces));
    }

    /// Makes the connection that a stream of the other side is for.
    async fn answer(self: Arc<Self>, open: Open, pieces: mpsc::UnboundedReceiver<Piece>) {
        let made = async {
            let (host, port) = (self.target)(&open).ok_or(io::ErrorKind::AddrNotAvailable)?;
            let made = TcpStream::connect((host.as_str(), port));
            tokio::time::timeout(DIAL_MAX, made).await.map_err(|_| io::ErrorKind::TimedOut)?
        };
        match made.await {
            Ok(socket) => self.carry(open.stream, socket, pieces).await,
            Err(error) => {
                tracing::debug!(host = open.host, port = open.port, %error, "no connection for a stream");
                self.broken(open.stream);
            }
        }
    }

    /// Moves bytes between a stream and its end here, until both directions have ended.
    async fn carry(
        self: Arc<Self>,
        stream: u64,
        socket: TcpStream,
        pieces: mpsc::UnboundedReceiver<Piece>,
    ) {
        // The call fails only on a socket that is closed already, which the first read reports.
        let _ = socket.set_nodelay(true);
        let socket = Arc::new(socket);
        if let Some(known) = self.lock().streams.get_mut(&stream) {
            known.end = Some(Arc::clone(&socket));
        }
        let outcome = tokio::try_join!(
            self.take_from(stream, &socket),
            self.give_to(stream, &socket, pieces)
        );
        match outcome {
            Ok(_) => drop(self.lock().streams.remove(&stream)),
            Err(_) => {
                // The process at the other end hears that the stream did not end in order.
                let _ = rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
                self.broken(stream);
            }
        }
    }

    fn broken(&self, stream: u64) {
        let mut state = self.lock();
        if state.streams.remove(&stream).is_some() {
            state.send(&Reset { stream }.into());
        }
    }

    /// From the end here to the other side.
    async fn take_from(&self, stream: u64, end: &TcpStream) -> io::Result<()> {
        loop {
            let room = self.room(stream).await?;
            let bytes = arrived(end, room).await?;
            if bytes.is_empty() {
                self.lock().send(&End { stream }.into());
                return Ok(());
            }
            self.lock().send_data(stream, bytes);
        }
    }

    /// Waits until some of the stream may be sent; how much of it.
    async fn room(&self, stream: u64) -> io::Result<usize> {
        loop {
            let moved = self.moved.notified();
            {
                let state = self.lock();
                let Some(known) = state.streams.get(&stream) else {
                    return Err(io::ErrorKind::ConnectionReset.into());
                };
                if known.credit > 0 && state.link.kept_bytes() < KEPT_MAX {
                    return Ok(usize::try_from(known.credit).unwrap_or(PIECE_MAX).min(PIECE_MAX));
                }
            }
            moved.await;
        }
    }

    /// From the other side to the end here.
    async fn give_to(
        &self,
        stream: u64,
        end: &TcpStream,
        mut pieces: mpsc::UnboundedReceiver<Piece>,
    ) -> io::Result<()> {
        loop {
            match pieces.recv().await {
                Some(Piece::Bytes(bytes)) => {
                    write_all(end, &bytes).await?;
                    self.lock().on_written(stream, bytes.len());
                }
                // Only the writing half: the program here may still answer.
                Some(Piece::End) => {
                    return Ok(rustix::net::shutdown(end, rustix::net::Shutdown::Write)?);
                }
                None => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
    }
}

/// Waits for bytes and returns them, at most `room`; none at the end of the stream. Memory is taken when bytes are there: most
/// streams are at rest.
async fn arrived(end: &TcpStream, room: usize) -> io::Result<Bytes> {
    poll_fn(|context| {
        loop {
            ready!(end.poll_read_ready(context))?;
            let mut bytes = BytesMut::with_capacity(room);
            let mut is_all = false;
            let outcome = end.try_io(Interest::READABLE, || match end.try_read_buf(&mut bytes) {
                // There is no more: the next read would only find that out.
                Ok(count) if 0 < count && count < room => {
                    is_all = true;
                    Err(io::ErrorKind::WouldBlock.into())
                }
                other => other,
            });
            match outcome {
                Err(error) if !is_all && error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if !is_all => return Poll::Ready(Err(error)),
                _ => return Poll::Ready(Ok(bytes.freeze())),
            }
        }
    })
    .await
}

async fn write_all(end: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        end.writable().await?;
        match end.try_write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl State {
    fn add(&mut self, stream: u64) -> mpsc::UnboundedReceiver<Piece> {
        let (pieces, receiver) = mpsc::unbounded_channel();
        let new = Stream { credit: WINDOW, pieces, queued: 0, end: None, taken: 0 };
        self.streams.insert(stream, new);
        receiver
    }

    /// Sends a message that arrives, if not over this connection, then over the next one.
    fn send(&mut self, message: &Message) {
        if self.is_over {
            return;
        }
        let encoded = Arc::new(Encoded::new(message));
        if let Some(writer) = &self.carrier {
            // A connection that ended already is reported by its reader; one that is full is made again.
            if writer.send_at_once(&encoded).is_err() {
                writer.abort();
            }
        }
        self.link.keep(encoded, message.length());
    }

    /// Says what is of this connection only.
    fn say(&self, message: &Message) {
        if let Some(writer) = &self.carrier {
            let _ = writer.send(message);
        }
    }

    fn send_data(&mut self, stream: u64, bytes: Bytes) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.credit = known.credit.saturating_sub(bytes.len() as u64);
            self.send(&Data { stream, bytes }.into());
        }
    }

    /// Has bytes of the other side written to the end here: at once where that takes them.
    fn deliver(&mut self, stream: u64, mut bytes: Bytes) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if let Some(end) = known.end.as_ref().filter(|_| known.queued == 0)
            && let Ok(written) = end.try_write(&bytes)
        {
            let _ = bytes.split_to(written);
            self.on_taken(stream, written);
        }
        if !bytes.is_empty() {
            self.queue(stream, Piece::Bytes(bytes));
        }
    }

    fn queue(&mut self, stream: u64, piece: Piece) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.queued += 1;
            // Its end here is gone, and says so itself.
            let _ = known.pieces.send(piece);
        }
    }

    /// A piece of the queue was written.
    fn on_written(&mut self, stream: u64, size: usize) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.queued -= 1;
        }
        self.on_taken(stream, size);
    }

    /// The end here has taken so much more; now and then the other side hears of it.
    fn on_taken(&mut self, stream: u64, size: usize) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.taken += size as u64;
        if known.taken >= CREDIT_STEP {
            let bytes = std::mem::take(&mut known.taken);
            self.send(&Credit { stream, bytes }.into());
        }
    }

    fn confirm(&mut self) {
        if let Some(received) = self.link.take_ack() {
            self.say(&Ack { received }.into());
        }
    }

    fn ping(&mut self) {
        self.confirm();
        self.say(&Ping {}.into());
    }
}

//! An end of an encrypted connection: bytes of the socket in, bytes of the socket out, and what they say.

use std::fmt;
use std::sync::Arc;

use helio_proto::frame::{self, HELLO_MAX};
use helio_proto::hello::Welcome;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

use crate::Error;
use crate::reasons::sentence;

/// Bytes that are read from the socket at a time while little comes.
const ROOM_MIN: usize = 17 << 10;
/// Bytes that are read at a time while messages of tens of kilobytes come.
const ROOM: usize = 68 << 10;
/// Bytes that are read at a time while much comes.
const ROOM_MAX: usize = 272 << 10;

/// Number of reads in a row for which the least room would do, after which the buffer has no more
/// than that.
const SMALL_READS: u32 = 64;

/// A record has so many bytes of text at most, and its cipher adds this much at most.
const RECORD_TEXT: usize = 16 << 10;
const RECORD_MORE: usize = 32;

/// An end of an encrypted connection, without a socket of its own.
pub struct Session {
    side: Side,
    /// The bytes that came and are not read yet are `came.0..came.1`.
    incoming: Vec<u8>,
    came: (usize, usize),
    /// Number of reads in a row that brought little.
    small_reads: u32,
    outgoing: Outgoing,
    /// The text that came inside the session, and was not taken yet.
    plain: Vec<u8>,
    /// A connecting end that has heard nothing yet: the other one may refuse in the clear.
    is_unheard: bool,
    is_open: bool,
    has_ended: bool,
    /// The reason why the session is over: nothing of it is touched again.
    failed: Option<Error>,
}

/// The bytes that are to go out: `from..to` of its room, which is cleared once, not for each message.
#[derive(Default)]
struct Outgoing {
    room: Vec<u8>,
    from: usize,
    to: usize,
}

impl Outgoing {
    /// Room for so many bytes more; [`Outgoing::filled`] says how many there are.
    fn room(&mut self, count: usize) -> &mut [u8] {
        if self.room.len() < self.to + count {
            self.room.resize(self.to + count, 0);
        }
        &mut self.room[self.to..self.to + count]
    }

    fn filled(&mut self, count: usize) {
        self.to += count;
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.from..self.to]
    }

    fn sent(&mut self, count: usize) {
        self.from += count;
        assert!(self.from <= self.to, "more was sent than there was");
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            self.room.truncate(ROOM_MAX);
            self.room.shrink_to(ROOM_MAX);
        }
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "a session is large, and behind a pointer where that matters"
)]
enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// The progress of the session.
enum Step {
    /// The caller goes on: there may be more to do.
    More,
    /// The other end has to send more first.
    Blocked,
    Open,
    Ended,
}

impl Session {
    pub(crate) fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, Error> {
        let client = UnbufferedClientConnection::new(config, name);
        let mut session = Self::new(Side::Client(client.map_err(|error| Error(sentence(&error)))?));
        session.is_unheard = true;
        session.advance()?;
        Ok(session)
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        let server = UnbufferedServerConnection::new(config);
        Ok(Self::new(Side::Server(server.map_err(|error| Error(sentence(&error)))?)))
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            incoming: Vec::new(),
            came: (0, 0),
            small_reads: 0,
            outgoing: Outgoing::default(),
            plain: Vec::new(),
            is_unheard: false,
            is_open: false,
            has_ended: false,
            failed: None,
        }
    }

    /// Whether both ends know each other.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the other end has said that nothing more comes.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Room for bytes of the socket; [`Session::came`] says how many there are.
    pub fn room(&mut self) -> &mut [u8] {
        let (start, end) = self.came;
        if start > 0 {
            self.incoming.copy_within(start..end, 0);
            self.came = (0, end - start);
        }
        let (_, end) = self.came;
        if self.incoming.len() < end + ROOM_MIN {
            self.incoming.resize(end + ROOM_MIN, 0);
        }
        &mut self.incoming[end..]
    }

    /// Reads the bytes of the socket that have come into [`Session::room`].
    ///
    /// # Errors
    /// Why the session is over. What [`Session::outgoing`] has then tells the other end.
    pub fn came(&mut self, count: usize) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.came.1 += count;
        let was_full = self.came.1 == self.incoming.len();
        if let Err(error) = self.refused_in_the_clear().and_then(|()| self.advance()) {
            self.is_open = false;
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.follow(count, was_full);
        Ok(())
    }

    /// Much comes, or not: the buffer follows. It is not made small at the end of each message, only to grow with the next.
    fn follow(&mut self, count: usize, was_full: bool) {
        let (start, end) = self.came;
        self.small_reads = if count < ROOM_MIN { self.small_reads + 1 } else { 0 };
        if was_full && self.incoming.len() < ROOM_MAX {
            self.incoming.resize((self.incoming.len() * 4).min(ROOM_MAX), 0);
            return;
        }
        let enough = if self.small_reads < SMALL_READS { ROOM } else { ROOM_MIN };
        if start == end && count < ROOM_MIN && self.incoming.len() > enough {
            self.incoming = vec![0; enough];
            self.came = (0, 0);
        }
    }

    /// Reads bytes of the socket that came otherwise.
    ///
    /// # Errors
    /// See [`Session::came`].
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let room = self.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.came(count)?;
        }
        Ok(())
    }

    /// Returns the text that came inside the session; the caller empties it.
    pub fn plain(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Appends what was said inside the session.
    pub fn hand_over(&mut self, to: &mut Vec<u8>) {
        if to.is_empty() {
            // Without a copy; the session goes on with the room that the reader had.
            std::mem::swap(to, &mut self.plain);
            self.plain.shrink_to(ROOM_MAX);
        } else {
            to.append(&mut self.plain);
        }
    }

    /// Says something inside the session: see [`Session::outgoing`].
    ///
    /// # Errors
    /// When the session is not open, or over.
    pub fn say(&mut self, text: &[u8]) -> Result<(), Error> {
        if !self.is_open {
            return Err(Error("nothing can be said before both ends know each other".to_owned()));
        }
        // Messages of the session itself go first.
        self.advance()?;
        let mut room = text.len() + text.len().div_ceil(RECORD_TEXT) * RECORD_MORE;
        let said = loop {
            let (begin, end) = self.came;
            let (incoming, out) = (&mut self.incoming[begin..end], self.outgoing.room(room));
            let said = match &mut self.side {
                Side::Client(client) => encrypt(client.process_tls_records(incoming), text, out),
                Side::Server(server) => encrypt(server.process_tls_records(incoming), text, out),
            };
            match said {
                // The keys are changed, which is said here, too.
                Err(EncryptError::InsufficientSize(needs)) if needs.required_size > room => {
                    room = needs.required_size;
                }
                said => break said.map_err(|error| Error(format!("TLS failed ({error})"))),
            }
        };
        said.map(|count| self.outgoing.filled(count))
    }

    /// Returns the bytes that are to be written to the socket.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.outgoing.bytes()
    }

    /// Notes the number of bytes of the output that were written.
    pub fn sent(&mut self, count: usize) {
        self.outgoing.sent(count);
    }

    /// An acceptor that does not encrypt, or speaks another version, says so in the clear.
    fn refused_in_the_clear(&mut self) -> Result<(), Error> {
        let (start, end) = self.came;
        let came = &self.incoming[start..end];
        let [kind, major, ..] = came else { return Ok(()) };
        if !self.is_unheard || ((20..=23).contains(kind) && *major == 3) {
            self.is_unheard = false;
            return Ok(());
        }
        match frame::split(came, HELLO_MAX) {
            Ok(Some((start, end))) => {
                let welcome: Option<Welcome> = helio_proto::decode(&came[start..end]).ok();
                let refusal = welcome.and_then(|welcome| welcome.accepted().err());
                Err(Error(refusal.map_or_else(|| NO_TLS.to_owned(), String::from)))
            }
            Ok(None) => Ok(()),
            Err(_) => Err(Error(NO_TLS.to_owned())),
        }
    }

    fn advance(&mut self) -> Result<(), Error> {
        if self.is_unheard && self.came.1 > 0 {
            return Ok(());
        }
        loop {
            match self.step() {
                Ok(Step::More) => {}
                Ok(Step::Blocked) => return Ok(()),
                Ok(Step::Open) => {
                    self.is_open = true;
                    return Ok(());
                }
                Ok(Step::Ended) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Err(error) => {
                    // The rest is to tell the other end, which takes one step.
                    let _ = self.step();
                    return Err(Error(sentence(&error)));
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step, rustls::Error> {
        let (start, end) = self.came;
        let incoming = &mut self.incoming[start..end];
        let (outgoing, plain) = (&mut self.outgoing, &mut self.plain);
        let (discard, step) = match &mut self.side {
            Side::Client(client) => step(client.process_tls_records(incoming), outgoing, plain),
            Side::Server(server) => step(server.process_tls_records(incoming), outgoing, plain),
        };
        self.came.0 += discard;
        step
    }
}

const NO_TLS: &str = "what it sends is not TLS";

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

/// Does what one status asks for. Returns the number of bytes that it read, and the progress of the
/// session.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Outgoing,
    plain: &mut Vec<u8>,
) -> (usize, Result<Step, rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    plain.extend_from_slice(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(Step::More),
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            if let Err(EncodeError::InsufficientSize(needs)) = data.encode(&mut []) {
                // The buffer has the room that it asked for.
                let encoded = data.encode(outgoing.room(needs.required_size)).unwrap_or(0);
                outgoing.filled(encoded);
            }
            Ok(Step::More)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::More)
        }
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Open),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Step::Ended),
        // No early data is asked for.
        Ok(_) => Ok(Step::Blocked),
    };
    (discard, step)
}

/// Encrypts `text`. Returns the number of bytes of `out` that it takes. Nothing else was left to
/// do.
fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    text: &[u8],
    out: &mut [u8],
) -> Result<usize, EncryptError> {
    match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => traffic.encrypt(text, out),
        _ => Err(EncryptError::EncryptExhausted),
    }
}

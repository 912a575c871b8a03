//! The connection to a replica, which carries all of its requests.
//!
//! **LIMIT-1** What a request may have on its way is bounded by [`WINDOW`] in each direction.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use helio_proto::serve::{self, PIECE_MAX, WINDOW};
use helio_rpc::http::{Stream, encrypted};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

const RECONNECT: Duration = Duration::from_millis(50);
const READ_BYTES: usize = 256 << 10;
/// Bytes of an answer that are told to be taken together.
const TAKEN_TOGETHER: usize = WINDOW / 4;

/// An event that comes back for a request.
#[derive(Debug)]
pub(crate) enum Event {
    /// The body of a `HEAD` frame.
    Head(Bytes),
    Piece {
        is_last: bool,
        data: Bytes,
    },
    /// The body of a `TRAILERS` frame, with which the answer ends.
    Trailers(Bytes),
    /// The answer ends here, incomplete.
    Broken,
    /// The request was not begun, because the replica is ending.
    Refused,
    /// The replica is gone.
    Lost,
    /// The rest of the request's body does not come.
    Late,
    /// The rest of the request's body is no HTTP.
    Malformed,
}

/// A request's place on a connection.
#[derive(Debug)]
struct Slot {
    events: RefCell<VecDeque<Event>>,
    reader: RefCell<Option<Waker>>,
    /// Bytes of the request's body that may be sent.
    credit: Cell<usize>,
    writer: RefCell<Option<Waker>>,
}

impl Slot {
    fn add(&self, event: Event) {
        self.events.borrow_mut().push_back(event);
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    address: String,
    out: RefCell<BytesMut>,
    has_out: Notify,
    slots: RefCell<HashMap<u32, Rc<Slot>>>,
    next_id: Cell<u32>,
    is_up: Cell<bool>,
    is_wanted: Cell<bool>,
}

impl Link {
    /// Connects, and connects again, until [`Link::retire`]; `on_up` is called each time.
    pub(crate) fn open(address: &str, token: Rc<str>, on_up: impl Fn() + 'static) -> Rc<Self> {
        let link = Rc::new(Self {
            address: address.to_owned(),
            out: RefCell::default(),
            has_out: Notify::new(),
            slots: RefCell::default(),
            next_id: Cell::new(1),
            is_up: Cell::new(false),
            is_wanted: Cell::new(true),
        });
        tokio::task::spawn_local(keep(Rc::clone(&link), token, on_up));
        link
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.get()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// No request follows: the connection ends with the last one that it carries.
    pub(crate) fn retire(&self) {
        self.is_wanted.set(false);
        self.has_out.notify_one();
    }

    /// A place for a request; `write` appends its first frame.
    pub(crate) fn begin(
        self: &Rc<Self>,
        is_whole: bool,
        write: impl FnOnce(&mut BytesMut, u32),
    ) -> Exchange {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        let slot = Rc::new(Slot {
            events: RefCell::default(),
            reader: RefCell::default(),
            credit: Cell::new(WINDOW),
            writer: RefCell::default(),
        });
        if self.is_up() {
            self.slots.borrow_mut().insert(id, Rc::clone(&slot));
            self.send(|out| write(out, id));
        } else {
            // The caller hears of it as of a connection that broke, and asks another replica.
            slot.add(Event::Lost);
        }
        Exchange {
            link: Rc::clone(self),
            id,
            slot,
            is_sent: Cell::new(is_whole),
            is_answered: Cell::new(false),
            taken: Cell::new(0),
        }
    }

    fn send(&self, write: impl FnOnce(&mut BytesMut)) {
        write(&mut self.out.borrow_mut());
        self.has_out.notify_one();
    }

    fn on_frame(&self, kind: u8, id: u32, mut body: Bytes) {
        let Some(slot) = self.slots.borrow().get(&id).map(Rc::clone) else {
            return; // whoever asked has gone away meanwhile
        };
        match kind {
            serve::HEAD => slot.add(Event::Head(body)),
            serve::BODY if !body.is_empty() => {
                let is_last = body.split_to(1)[0] != 0;
                slot.add(Event::Piece { is_last, data: body });
            }
            serve::TAKEN => {
                if let Some(bytes) = body.first_chunk::<4>() {
                    slot.credit.set(slot.credit.get() + u32::from_le_bytes(*bytes) as usize);
                    if let Some(waker) = slot.writer.take() {
                        waker.wake();
                    }
                }
            }
            serve::TRAILERS => slot.add(Event::Trailers(body)),
            serve::REFUSED => slot.add(Event::Refused),
            _ => slot.add(Event::Broken),
        }
    }

    fn on_down(&self) {
        self.is_up.set(false);
        self.out.borrow_mut().clear();
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        for slot in slots.into_values() {
            slot.add(Event::Lost);
            if let Some(waker) = slot.writer.take() {
                waker.wake();
            }
        }
    }

    fn is_over(&self) -> bool {
        !self.is_wanted.get() && self.slots.borrow().is_empty() && self.out.borrow().is_empty()
    }

    async fn read(&self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        loop {
            buffer.reserve(READ_BYTES);
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            loop {
                match serve::take(&mut buffer) {
                    Ok(Some((kind, id, body))) => self.on_frame(kind, id, body),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }

    async fn write(&self, mut stream: impl AsyncWrite + Unpin) {
        while !self.is_over() {
            let out = self.out.borrow_mut().split();
            if out.is_empty() {
                self.has_out.notified().await;
            } else if stream.write_all(&out).await.is_err() {
                return;
            }
        }
    }

    async fn carry(&self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) {
        tokio::select! {
            () = self.read(reader) => {}
            () = self.write(writer) => {}
        }
    }
}

async fn keep(link: Rc<Link>, token: Rc<str>, on_up: impl Fn()) {
    let begin = || {
        link.out.borrow_mut().extend_from_slice(&serve::greeting(&token));
        link.is_up.set(true);
        on_up();
    };
    while !link.is_over() {
        if link.address.starts_with('/') {
            if let Ok(stream) = UnixStream::connect(&link.address).await {
                begin();
                let (reader, writer) = stream.into_split();
                link.carry(reader, writer).await;
            }
        } else if let Ok(stream) = TcpStream::connect(&link.address).await {
            // Frames are small and waited for.
            let _ = stream.set_nodelay(true);
            // The replica logs why it does not believe; what is not believed here is tried again.
            if let Ok(stream) = secured(stream, &link.address).await {
                begin();
                let (reader, writer) = tokio::io::split(stream);
                link.carry(reader, writer).await;
            }
        }
        link.on_down();
        if link.is_wanted.get() {
            tokio::time::sleep(RECONNECT).await;
        }
    }
}

/// The connection, encrypted where those between machines are.
async fn secured(stream: TcpStream, address: &str) -> io::Result<Stream> {
    match helio_tls::current().map_err(io::Error::other)? {
        None => Ok(Stream::Plain(stream)),
        Some(identity) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            encrypted(stream, &identity, host.trim_matches(['[', ']'])).await
        }
    }
}

/// A request that a replica has.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Rc<Link>,
    id: u32,
    slot: Rc<Slot>,
    is_sent: Cell<bool>,
    is_answered: Cell<bool>,
    taken: Cell<usize>,
}

impl Exchange {
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Event> {
        let Some(event) = self.slot.events.borrow_mut().pop_front() else {
            self.slot.reader.replace(Some(context.waker().clone()));
            return Poll::Pending;
        };
        if let Event::Piece { is_last: true, .. }
        | Event::Trailers(_)
        | Event::Broken
        | Event::Refused
        | Event::Lost = event
        {
            self.is_answered.set(true);
        }
        Poll::Ready(event)
    }

    pub(crate) async fn next(&self) -> Event {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The answer was whole in its first frame.
    pub(crate) fn answered(&self) {
        self.is_answered.set(true);
    }

    /// Notes the number of bytes of the answer that have gone on to the client.
    pub(crate) fn take(&self, bytes: usize) {
        let taken = self.taken.get() + bytes;
        self.taken.set(taken);
        if taken >= TAKEN_TOGETHER && !self.is_answered.get() {
            self.taken.set(0);
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            self.link.send(|out| serve::taken(out, self.id, taken));
        }
    }

    /// Sends a part of the request's body, as the replica takes it.
    pub(crate) async fn send_body(&self, mut data: Bytes) {
        while !data.is_empty() && !self.is_answered.get() && self.link.is_up() {
            let room = poll_fn(|context| {
                let credit = self.slot.credit.get();
                if credit == 0 && self.link.is_up() && !self.is_answered.get() {
                    self.slot.writer.replace(Some(context.waker().clone()));
                    return Poll::Pending;
                }
                Poll::Ready(credit)
            });
            let length = room.await.min(PIECE_MAX).min(data.len());
            let part = data.split_to(length);
            self.slot.credit.set(self.slot.credit.get() - length);
            self.link.send(|out| serve::piece(out, self.id, false, &part));
        }
    }

    /// Gives up the rest of the request's body, which is late or not understood.
    pub(crate) fn give_up(&self, why: Event) {
        self.slot.add(why);
    }

    /// The request's body is over.
    pub(crate) fn end_body(&self) {
        self.is_sent.set(true);
        self.link.send(|out| serve::piece(out, self.id, true, &[]));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let was_there = self.link.slots.borrow_mut().remove(&self.id).is_some();
        if was_there && !(self.is_sent.get() && self.is_answered.get()) {
            self.link.send(|out| serve::bare(out, serve::CANCEL, self.id));
        }
        if !self.link.is_wanted.get() {
            self.link.has_out.notify_one();
        }
    }
}

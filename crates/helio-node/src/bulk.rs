//! The bytes of large objects: they have connections and threads of their own, so that no transfer holds up the
//! core, and no message waits behind one (decision 38).
//!
//! ```text
//!   receiver ── TakeBytes ──────────▶ source        what it was told of by PullStart
//!            ◀─ BytesFollow, bytes ──
//!            ── BytesTaken ─────────▶
//!            ◀─ BytesStood ──────────               only now the source's pin may go
//! ```
//!
//! **SHM-1** What waits in a socket may be the memory of the store itself: it must not change before the receiver
//! has it. So a source that has to let go in the middle closes the connection, and never says `BytesStood`; the receiver believes
//! nothing without. A receiver writes only while its receipt is wanted, which is checked under a lock.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use helio_node_state::{Conn, Event};
use helio_proto::cluster::{BytesFollow, BytesStood, BytesTaken, TakeBytes};
use helio_proto::hello::{Destination, Hello};
use helio_rpc::service::{Arrival, Error, Gate, Memory, Reader, Target, Writer, connect_tcp};
use helio_store::Arena;
use helio_types::{NodeAddress, NodeId};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::input::Inputs;

/// Threads: one may send while another receives.
const THREADS: usize = 2;

/// Number of idle connections that are kept for the next object (**LIMIT-1**); the oldest is closed
/// for one more.
const IDLE_MAX: usize = 32;

/// Number of bytes after which the core hears of an object's progress, for those who ask.
const PROGRESS_STEP: u64 = 8 << 20;

/// Transfers in both directions.
#[derive(Debug)]
pub(crate) struct Bulk {
    hello: Hello,
    inputs: Inputs,
    arena: Arc<Arena>,
    threads: Threads,
    offers: Arc<Offers>,
    receipts: HashMap<u64, Arc<Receipt>>,
    idle: Arc<Idle>,
}

/// Started when they are needed first: a session of one machine never needs them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Arc<Started>);

#[derive(Debug, Default)]
pub(crate) struct Started(OnceLock<Runtime>);

impl Threads {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let runtime = match self.0.0.get() {
            Some(runtime) => runtime,
            None => {
                let mut builder = Builder::new_multi_thread();
                let runtime = builder.worker_threads(THREADS).thread_name("objects").enable_all();
                let runtime = runtime.build()?;
                self.0.0.get_or_init(|| runtime)
            }
        };
        runtime.spawn(task);
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Bulk {
    pub(crate) fn new(hello: &Hello, inputs: Inputs, arena: Arc<Arena>) -> Self {
        Self {
            hello: Hello { to: Destination::Objects as u32, ..hello.clone() },
            inputs,
            arena,
            threads: Threads::default(),
            offers: Arc::default(),
            receipts: HashMap::new(),
            idle: Arc::default(),
        }
    }

    /// The half that serves other daemons.
    pub(crate) fn server(&self, gate: Arc<Gate>) -> Server {
        Server {
            gate,
            inputs: self.inputs.clone(),
            arena: Arc::clone(&self.arena),
            threads: self.threads.clone(),
            offers: Arc::clone(&self.offers),
        }
    }

    /// The threads for bytes in bulk.
    pub(crate) fn threads(&self) -> Threads {
        self.threads.clone()
    }

    /// Keeps an object's bytes ready for the node; it is pinned until [`Event::Served`].
    pub(crate) fn offer(&self, node_id: NodeId, conn: Conn, request_id: u64, at: (u64, u64)) {
        let offer = Offer { conn, at, stop: Arc::default(), is_taken: false };
        let before = self.offers.lock().insert((node_id, request_id), offer);
        // A node in order never uses a number twice.
        if let Some(before) = before.filter(|before| !before.is_taken) {
            self.served(before.conn, request_id);
        }
    }

    /// Stops keeping the bytes of a request ready; [`Event::Served`] follows if they were.
    pub(crate) fn withdraw(&self, conn: Conn, request_id: u64) {
        let mut offers = self.offers.lock();
        let its = |(key, offer): (&(NodeId, u64), &Offer)| {
            (key.1 == request_id && offer.conn == conn).then_some(*key)
        };
        let Some(key) = offers.iter().find_map(its) else { return };
        if offers[&key].is_taken {
            offers[&key].stop.notify_one();
        } else {
            offers.remove(&key);
            self.served(conn, request_id);
        }
    }

    fn served(&self, conn: Conn, request_id: u64) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move { inputs.send(Event::Served { conn, request_id }.into()).await });
    }

    /// Takes an object's bytes from a node; [`Event::Received`] follows unless it is stopped.
    pub(crate) fn receive(&mut self, from: NodeAddress, request_id: u64, at: (u64, u64)) {
        let receipt =
            Arc::new(Receipt { is_wanted: Mutex::new(true), stop: Notify::new(), request_id, at });
        self.receipts.insert(request_id, Arc::clone(&receipt));
        let receiving = Receiving {
            from,
            receipt,
            hello: self.hello.clone(),
            inputs: self.inputs.clone(),
            arena: Arc::clone(&self.arena),
            idle: Arc::clone(&self.idle),
        };
        if let Err(error) = self.threads.spawn(receiving.run()) {
            // By a task: the core that would take the input is the one that runs this.
            let received = Event::Received { request_id, outcome: Err(error.to_string()) }.into();
            let inputs = self.inputs.clone();
            tokio::spawn(async move { inputs.send(received).await });
        }
    }

    /// Stops a pull: after this returns nothing is written for it any more.
    pub(crate) fn stop_receiving(&mut self, request_id: u64) {
        if let Some(receipt) = self.receipts.remove(&request_id) {
            *receipt.is_wanted.lock().unwrap_or_else(PoisonError::into_inner) = false;
            receipt.stop.notify_one();
        }
    }

    pub(crate) fn received(&mut self, request_id: u64) {
        self.receipts.remove(&request_id);
    }
}

/// An object that another daemon may take.
#[derive(Debug)]
struct Offer {
    conn: Conn,
    /// The offset and the length of the bytes.
    at: (u64, u64),
    stop: Arc<Notify>,
    is_taken: bool,
}

/// The offers, by the node that may take them, and the number of its pull.
#[derive(Debug, Default)]
struct Offers(Mutex<HashMap<(NodeId, u64), Offer>>);

impl Offers {
    fn lock(&self) -> MutexGuard<'_, HashMap<(NodeId, u64), Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: (NodeId, u64)) -> Option<(Conn, (u64, u64), Arc<Notify>)> {
        let mut offers = self.lock();
        let offer = offers.get_mut(&key).filter(|offer| !offer.is_taken)?;
        offer.is_taken = true;
        Some((offer.conn, offer.at, Arc::clone(&offer.stop)))
    }
}

/// Serves connections that other daemons made to take bytes.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    gate: Arc<Gate>,
    inputs: Inputs,
    arena: Arc<Arena>,
    threads: Threads,
    offers: Arc<Offers>,
}

impl Server {
    pub(crate) fn serve(&self, arrival: Arrival) {
        if let Err(error) = self.threads.spawn(self.clone().run(arrival)) {
            tracing::error!(%error, "no threads for objects");
        }
    }

    async fn run(self, arrival: Arrival) {
        let Ok(arrival) = arrival.into_this_runtime() else { return };
        let Some((mut reader, writer, hello)) = self.gate.let_in(arrival) else { return };
        while let Ok(Some(TakeBytes { request_id })) = reader.next().await {
            if let Err(error) = self.give(&mut reader, &writer, hello.node_id, request_id).await {
                tracing::debug!(node_id = %hello.node_id, %error, "an object was not sent");
                break;
            }
        }
        writer.abort();
    }

    async fn give(
        &self,
        reader: &mut Reader,
        writer: &Writer,
        node_id: NodeId,
        request_id: u64,
    ) -> Result<(), Error> {
        let key = (node_id, request_id);
        let Some((conn, at, stop)) = self.offers.take(key) else {
            let refused = "the object is not kept ready any more".to_owned();
            // A connection that has ended is reported by its reader.
            let _ = writer.send(&BytesFollow { refused, size: 0 });
            return Ok(());
        };
        let outcome = tokio::select! {
            biased;
            () = stop.notified() => Err(io::Error::from(io::ErrorKind::Interrupted).into()),
            given = self.give_bytes(reader, writer, at) => given,
        };
        if outcome.is_err() {
            writer.abort();
        }
        self.offers.lock().remove(&key);
        // The core has ended: nobody is interested.
        let _ = self.inputs.send(Event::Served { conn, request_id }.into()).await;
        outcome
    }

    async fn give_bytes(
        &self,
        reader: &mut Reader,
        writer: &Writer,
        (offset, size): (u64, u64),
    ) -> Result<(), Error> {
        let bytes = self.arena.slice(offset, size).map_err(io::Error::other)?;
        let _ = writer.send(&BytesFollow { refused: String::new(), size });
        if bytes.is_in_memory() {
            writer.send_memory(bytes.as_slice()).await?;
        } else {
            let (file, at) = self.arena.file_to_read(offset, size).map_err(io::Error::other)?;
            writer.send_file(file, at, size).await?;
        }
        // The object is pinned until this is answered: so the reader knows that no other's bytes came.
        let BytesTaken {} = reader.next().await?.ok_or(Error::Truncated)?;
        let _ = writer.send(&BytesStood {});
        Ok(())
    }
}

/// An object that is being taken from another node.
#[derive(Debug)]
struct Receipt {
    /// Whether its bytes may be written.
    is_wanted: Mutex<bool>,
    stop: Notify,
    request_id: u64,
    /// The offset and the length of the place for the bytes.
    at: (u64, u64),
}

type Connection = (Reader, Writer);

/// Connections over which the last object has come, oldest first.
#[derive(Debug, Default)]
struct Idle(Mutex<VecDeque<(NodeId, Connection)>>);

impl Idle {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(NodeId, Connection)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, node_id: NodeId) -> Option<Connection> {
        let mut idle = self.lock();
        let place = idle.iter().rposition(|(of, _)| *of == node_id)?;
        idle.remove(place).map(|(_, connection)| connection)
    }

    fn put(&self, node_id: NodeId, connection: Connection) {
        let mut idle = self.lock();
        if idle.len() == IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back((node_id, connection));
    }
}

/// The memory file, whose offsets are the store's.
#[derive(Debug)]
struct Store<'a>(&'a Arena);

impl Memory for Store<'_> {
    fn mapped_in(&self, offset: u64, length: u64) -> u64 {
        self.0.mapped_in(offset, length)
    }

    fn receive(&self, socket: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<usize> {
        self.0.receive(socket, offset, length)
    }

    fn copy_in(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.copy_in(offset, bytes).map_err(io::Error::other)
    }
}

struct Receiving {
    from: NodeAddress,
    receipt: Arc<Receipt>,
    hello: Hello,
    inputs: Inputs,
    arena: Arc<Arena>,
    idle: Arc<Idle>,
}

impl Receiving {
    async fn run(self) {
        let outcome = tokio::select! {
            biased;
            () = self.receipt.stop.notified() => return,
            outcome = self.take() => outcome.map_err(|error| error.to_string()),
        };
        let is_there = outcome.is_ok();
        let received = Event::Received { request_id: self.receipt.request_id, outcome }.into();
        // The core has ended: nobody is interested.
        let _ = self.inputs.send(received).await;
        if is_there {
            let (offset, length) = self.receipt.at;
            self.arena.map_in(offset, length);
        }
    }

    async fn take(&self) -> Result<(), Error> {
        let node_id = self.from.node_id;
        // One that lay idle may have ended meanwhile.
        while let Some((mut reader, writer)) = self.idle.take(node_id) {
            if self.ask(&mut reader, &writer).await.is_ok() {
                return self.take_over((reader, writer)).await;
            }
        }
        let port = u16::try_from(self.from.port).unwrap_or(0);
        let hello = Hello { to_node: node_id, ..self.hello.clone() };
        let (mut reader, writer, welcome) = connect_tcp(&self.from.host, port, hello).await?;
        if welcome.node_id != node_id {
            return Err(Error::Refused("another node has its port now".into()));
        }
        self.ask(&mut reader, &writer).await?;
        self.take_over((reader, writer)).await
    }

    async fn ask(&self, reader: &mut Reader, writer: &Writer) -> Result<(), Error> {
        // A connection that has ended is reported by its reader.
        let _ = writer.send(&TakeBytes { request_id: self.receipt.request_id });
        let follow: BytesFollow = reader.next().await?.ok_or(Error::Left)?;
        if !follow.refused.is_empty() {
            return Err(Error::Refused(follow.refused.into()));
        }
        if follow.size != self.receipt.at.1 {
            return Err(Error::Refused("its size is another one now".into()));
        }
        Ok(())
    }

    async fn take_over(&self, (mut reader, writer): Connection) -> Result<(), Error> {
        let (offset, length) = self.receipt.at;
        let is_in_memory = offset < self.arena.size();
        let (file, offset) = self.arena.file_to_write(offset, length).map_err(io::Error::other)?;
        let store = Store(&self.arena);
        let memory: Option<&dyn Memory> = if is_in_memory { Some(&store) } else { None };
        let target = Target { file, offset, length, is_wanted: &self.receipt.is_wanted, memory };
        let request_id = self.receipt.request_id;
        let mut told = 0;
        let tell = |received| {
            if received >= told + PROGRESS_STEP {
                told = received;
                // A core that is busy hears of the next step.
                let _ = self.inputs.try_send(Event::ReceivedSome { request_id, received }.into());
            }
        };
        reader.receive_file(&target, tell).await?;
        let _ = writer.send(&BytesTaken {});
        let BytesStood {} = reader.next().await?.ok_or(Error::Truncated)?;
        self.idle.put(self.from.node_id, (reader, writer));
        Ok(())
    }
}

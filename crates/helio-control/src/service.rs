//! The loop.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helio_control_state::held::{ChangeError, WantedChanges};
use helio_control_state::{Action, Control, Event, Note};
use helio_env::recount::Recount;
use helio_proto::cluster::HeadMoved;
use helio_proto::hello::Welcome;
use helio_rpc::service::{Gate, listen_unix};
use helio_storage::{Change, Standing, Storage};
use tokio::sync::mpsc;

use crate::calls::Calls;
use crate::connections::{Connections, accept};
use crate::input::Input;
use crate::{BATCH_MAX, Error, FLUSH_MAX, INPUTS_MAX, Options, Ready};

/// The least free room on the disk, in bytes, with which new things are made durable; the end of something is always.
const ROOM_MIN: u64 = 8 << 20;

/// Time between two looks at the link of this machine, at least: each reads two files of the
/// kernel's.
const LINK_EVERY: Duration = Duration::from_millis(250);

/// Time between two tries of a head that could not reach the store of the state, and answers nobody
/// meanwhile.
const REGAIN_LOOK: Duration = Duration::from_millis(50);

/// Ends the control service from another thread.
#[derive(Debug, Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Input>,
}

impl Handle {
    /// Ends the cluster: every node is told why. Does nothing when it has ended already.
    pub fn stop(&self, reason: &str) {
        // A full queue means that the loop is far behind; it is the end of the process that follows
        // then, and nodes notice the closed connections.
        let _ = self.inputs.try_send(Input::Stop { reason: reason.to_owned() });
    }
}

impl Handle {
    /// Ends the control service, and not the cluster: another head goes on with it.
    pub fn leave(&self) {
        let _ = self.inputs.try_send(Input::Leave);
    }
}

/// Runs the control service on this thread until the cluster ends. `on_ready` is called once nodes can
/// connect.
///
/// # Errors
/// When it cannot start, or durable state cannot be written any more.
pub fn run(options: Options, on_ready: impl FnOnce(Ready)) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| listen_failed(&options.socket, source))?;
    runtime.block_on(serve(options, on_ready))
}

async fn serve(options: Options, on_ready: impl FnOnce(Ready)) -> Result<(), Error> {
    let Options {
        socket,
        host,
        port,
        token,
        identity,
        session_name,
        health,
        mut storage,
        mut gone,
    } = options;
    let clock = Clock::start();
    let (inputs, mut queue) = mpsc::channel(INPUTS_MAX);
    let mut on_ready = Some(on_ready);
    loop {
        let entries = match storage.load() {
            Err(helio_storage::Error::Away { .. }) if on_ready.is_none() => {
                if !regained(&mut *storage, &mut queue).await? {
                    return Ok(());
                }
                continue;
            }
            loaded => loaded?,
        };
        let (mut control, actions) = Control::recover_under(
            storage.epoch(),
            &session_name,
            entries,
            &std::mem::take(&mut gone),
            clock.now_us(),
        );
        control.set_health(health);
        let listener = listen_unix(&socket).map_err(|source| listen_failed(&socket, source))?;
        let welcome = Welcome { pid: std::process::id(), ..Welcome::default() };
        let gate = Arc::new(Gate::new("control", &token, welcome).encrypting(identity.clone()));
        let news =
            HeadMoved { host: host.to_string(), port: u32::from(port), epoch: storage.epoch() };
        let calls = Calls::start(control.former_nodes(), &token, &news);
        let mut service = Service {
            control,
            storage,
            clock: clock.clone(),
            connections: Connections::default(),
            host,
            is_link_up: true,
            link_seen: None,
            recount: Recount::start(),
            held: WantedChanges::default(),
            is_full: false,
            doubt: None,
            ended: None,
        };
        service.execute_actions(vec![actions])?;
        let session_name = service.control.session_name().to_owned();
        let acceptor = tokio::spawn(accept(listener, gate, inputs.clone()));
        if let Some(on_ready) = on_ready.take() {
            on_ready(Ready { session_name, handle: Handle { inputs: inputs.clone() } });
        }
        let outcome = service.work(&mut queue).await;
        drop(calls);
        acceptor.abort();
        // Its listener goes with it: who comes now is told at once that nobody is there.
        let _ = acceptor.await;
        let Some(why) = service.doubt.take().filter(|_| outcome.is_ok()) else {
            // Nodes that do not read are left behind.
            let _ = tokio::time::timeout(FLUSH_MAX, service.connections.flushed()).await;
            return outcome;
        };
        service.connections.abort();
        tracing::error!(
            why,
            "the cluster's state is not reached, and another head may take it: silent until it is"
        );
        storage = service.storage;
        if !regained(&mut *storage, &mut queue).await? {
            return Ok(());
        }
        tracing::warn!("the cluster's state is reached again, and no other head has taken it");
    }
}

/// Waits until the store says again that this head owns the state, and drops all inputs that come meanwhile.
/// Returns `false` if the daemon ends first.
async fn regained(
    storage: &mut dyn Storage,
    queue: &mut mpsc::Receiver<Input>,
) -> Result<bool, Error> {
    loop {
        while let Ok(input) = queue.try_recv() {
            if matches!(input, Input::Stop { .. } | Input::Leave) {
                return Ok(false);
            }
        }
        if storage.regain()? {
            return Ok(true);
        }
        tokio::time::sleep(REGAIN_LOOK).await;
    }
}

fn listen_failed(socket: &Path, source: io::Error) -> Error {
    Error::Listen { socket: socket.to_owned(), source }
}

/// Waits until then; `None`: for ever.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

struct Service {
    control: Control,
    storage: Box<dyn Storage>,
    clock: Clock,
    connections: Connections,
    /// The address whose link is watched, whether it was up, and when that was looked at.
    host: IpAddr,
    is_link_up: bool,
    link_seen: Option<tokio::time::Instant>,
    recount: Recount,
    /// Events that wait for room on the disk.
    held: WantedChanges,
    /// The newest commit found the medium full.
    is_full: bool,
    /// The reason to suspect that another head has the state.
    doubt: Option<String>,
    ended: Option<String>,
}

impl Service {
    async fn work(&mut self, queue: &mut mpsc::Receiver<Input>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while self.ended.is_none() && self.doubt.is_none() {
            let tick = self.control.next_tick().map(|us| self.clock.at(us));
            tokio::select! {
                biased;
                // News go before time, so that no node is called silent whose words are waiting here.
                _ = queue.recv_many(&mut batch, BATCH_MAX) => {}
                () = sleep_until(tick) => {}
            }
            let is_tick = tick.is_some_and(|tick| Instant::now() >= tick);
            // Before requests are looked at, so that they are refused rather than left waiting.
            let mut events = vec![self.look_at_disk(is_tick)?];
            for input in batch.drain(..) {
                self.on_input(input, &mut events);
            }
            if is_tick {
                events.push(self.look_at_link());
                events.push(self.control.apply(Event::Tick, self.clock.now_us()));
            }
            self.execute_actions(events)?;
        }
        if !self.held.is_empty() {
            tracing::error!(
                events = self.held.len(),
                "the disk is full: the latest changes are not kept"
            );
        }
        Ok(())
    }

    /// News of the room on the disk; with room, what waited for it is done.
    fn look_at_disk(&mut self, is_tick: bool) -> Result<Vec<Action>, Error> {
        if !self.held.is_due(is_tick) {
            return Ok(Vec::new());
        }
        let has_room = self.storage.room().is_none_or(|room| room >= ROOM_MIN);
        if has_room && !self.held.is_empty() {
            let events = self.held.take();
            self.execute_actions(events)?;
        }
        let is_full = !has_room || (self.is_full && !self.held.is_empty());
        Ok(self.say_disk(is_full))
    }

    fn say_disk(&mut self, is_full: bool) -> Vec<Action> {
        if !self.held.is_news(is_full) {
            return Vec::new();
        }
        let full = is_full.then(|| self.storage.full());
        self.control.apply(Event::Disk { full }, self.clock.now_us())
    }

    /// News of the link of this machine. Nobody is called dead within [`LINK_EVERY`], and ticks come more often.
    fn look_at_link(&mut self) -> Vec<Action> {
        let now = tokio::time::Instant::now();
        let is_new = self.link_seen.is_some_and(|seen| now - seen < LINK_EVERY);
        if is_new || self.host.is_loopback() {
            return Vec::new();
        }
        self.link_seen = Some(now);
        let is_up = helio_env::link::is_up(self.host);
        if std::mem::replace(&mut self.is_link_up, is_up) == is_up {
            return Vec::new();
        }
        self.control.apply(Event::Link { is_up }, self.clock.now_us())
    }

    fn on_input(&mut self, input: Input, events: &mut Vec<Vec<Action>>) {
        let now_us = self.clock.now_us();
        let event = match input {
            Input::Connected { node_id, number, writer } => {
                self.connections.add(node_id, number, writer);
                return;
            }
            Input::Observer { writer } => {
                // The observer may have gone away; then nobody misses the answer.
                for message in self.control.introduction() {
                    let _ = writer.send(&message);
                }
                writer.close();
                return;
            }
            // The registration of a node overtakes the rest of its older connection.
            Input::Message { node_id, number, message }
                if self.connections.is_newest(node_id, number) =>
            {
                Event::Node { node_id, message }
            }
            Input::Closed { node_id, number } if self.connections.is_newest(node_id, number) => {
                self.connections.remove(node_id);
                Event::Disconnected { node_id }
            }
            Input::Message { .. } | Input::Closed { .. } => return,
            Input::Stop { reason } => Event::Stop { reason },
            Input::Leave => {
                self.ended = Some("the head has ended".to_owned());
                return;
            }
        };
        events.push(self.control.apply(event, now_us));
        self.recount.after_event("control", || self.control.check());
    }

    fn hold(&mut self, events: Vec<Vec<Action>>) -> Result<Vec<Vec<Action>>, Error> {
        self.held.hold(events).map_err(|ChangeError(most)| {
            let reason = format!("{most} changes wait for room on the disk");
            helio_storage::Error::Io { path: "the durable state".to_owned(), reason }.into()
        })
    }

    /// Commits all that a batch of events made durable at once, then sends: whoever reads an answer knows that what
    /// it says survives. Where the disk is full, the events that change durable state wait, in their order, with all
    /// that they send; the others go on.
    fn execute_actions(&mut self, mut events: Vec<Vec<Action>>) -> Result<(), Error> {
        if self.held.is_empty() {
            let changes = changes(events.iter().flatten());
            let outcome = if changes.is_empty() { Ok(()) } else { self.storage.commit(&changes) };
            match outcome {
                Ok(()) => self.is_full = false,
                Err(helio_storage::Error::Full { .. }) => {
                    self.is_full = true;
                    events = self.hold(events)?;
                }
                // The store comes back soon, or the lease runs out.
                Err(helio_storage::Error::Away { .. }) => events = self.hold(events)?,
                Err(error) => return Err(error.into()),
            }
        } else {
            events = self.hold(events)?;
        }
        match self.storage.standing() {
            Standing::Certain => {}
            // Nobody may hear what another head may know better.
            Standing::Doubtful(why) => {
                self.doubt = Some(why);
                return Ok(());
            }
            Standing::Lost(to) => {
                let reason = format!("another head leads the cluster now: {to}");
                return Err(helio_storage::Error::Lost {
                    place: "the cluster's state".to_owned(),
                    reason,
                }
                .into());
            }
        }
        for action in events.into_iter().flatten() {
            match action {
                Action::Send { node_id, message } => self.connections.send(node_id, &message),
                Action::SendToMany { to, message } => self.connections.send_to_many(&to, &message),
                Action::Disconnect { node_id } => self.connections.remove(node_id),
                Action::Log(note) => log(note),
                Action::End { reason } => self.ended = Some(reason),
                Action::Persist(_) => {}
            }
        }
        let news =
            if self.is_full && !self.held.is_empty() { self.say_disk(true) } else { Vec::new() };
        if news.is_empty() { Ok(()) } else { self.execute_actions(vec![news]) }
    }
}

/// Returns the changes that are to become durable.
fn changes<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Vec<Change> {
    let change = |action: &Action| match action {
        Action::Persist(change) => {
            Some(Change { key: change.key.clone(), value: change.value.clone() })
        }
        _ => None,
    };
    actions.into_iter().filter_map(change).collect()
}

fn log(note: Note) {
    match note {
        Note::NodeJoined { node_id, host, port } => {
            tracing::info!(%node_id, host, port, "node joined");
        }
        Note::NodeRefused { node_id, reason } => tracing::warn!(%node_id, reason, "node refused"),
        Note::NodeGone { node_id, host, reason } => {
            tracing::warn!(%node_id, host, reason, "node gone");
        }
        Note::HeadInDoubt(true) => tracing::warn!(
            "this machine has no link, or most other nodes are silent: no node is declared dead"
        ),
        Note::HeadInDoubt(false) => {
            tracing::info!("this machine has a link, and most other nodes are heard");
        }
        Note::JobStarted { job_id, node_id } => tracing::info!(%job_id, %node_id, "job started"),
        Note::JobEnded { job_id } => tracing::info!(%job_id, "job ended"),
        Note::ActorRestarted { actor_id, incarnation, reason } => {
            tracing::info!(%actor_id, incarnation, reason, "actor is made again");
        }
        Note::ActorEnded { actor_id, reason } => tracing::info!(%actor_id, reason, "actor ended"),
        Note::DiskFull { why: Some(why) } => tracing::error!(
            why,
            "the disk is full: actors, placement groups, jobs and keys are refused until there is room"
        ),
        Note::DiskFull { why: None } => tracing::info!("the disk has room again"),
        Note::EntrySkipped { key } => {
            tracing::error!(?key, "a durable entry cannot be read and is left out");
        }
    }
}

/// Microseconds that begin at the wall clock's, so that they go on rising over restarts, and then only
/// follow the monotonic clock, so that setting the time kills no node.
#[derive(Clone)]
struct Clock {
    began: Instant,
    began_us: u64,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), began_us: since.as_micros() as u64 }
    }

    fn now_us(&self) -> u64 {
        self.began_us + self.began.elapsed().as_micros() as u64
    }

    /// The moment of that reading.
    fn at(&self, us: u64) -> Instant {
        self.began + Duration::from_micros(us.saturating_sub(self.began_us))
    }
}

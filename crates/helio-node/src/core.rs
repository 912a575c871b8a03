//! The loop: inputs in, the state machine's actions out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_config::control::HEARTBEAT_MS;
use helio_config::session::{CODE_FOLDER, CONTROL_SOCKET};
use helio_env::clock::{Clock, unix_ms};
use helio_env::process;
use helio_env::recount::Recount;
use helio_node_state::{Action, Conn, DiskError, Event, Exit, Node, Setup, Spawn};
use helio_proto::cluster::{ControlToNode, HeadMoved, NodeLeaving, NodeToControl};
use helio_proto::hello::Hello;
use helio_proto::inspect;
use helio_proto::node::{ClientToNode, LogLine, NodeToClient};
use helio_rpc::service::{Gate, Writer};
use helio_store::Arena;
use helio_types::{NodeAddress, ObjectId, WorkerId};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::bulk::Bulk;
use crate::control::Link;
use crate::head::Head;
use crate::input::{Input, Inputs, ZygoteAnswer, ZygoteKind};
use crate::making;
use crate::memory::Monitor;
use crate::output_files::Bounds;
use crate::peers::Peers;
use crate::processes::{Processes, exit_of};
use crate::spill::Disk;
use crate::zygote::{Zygote, ZygoteOptions};
use crate::{Ended, Error};

/// Maximum number of inputs that wait for the core; senders of more wait (**LIMIT-1**).
pub(crate) const INPUTS_MAX: usize = 1024;

/// Bytes that may wait for a driver before log lines to it are dropped.
const LOG_QUEUE_MAX: usize = 8 << 20;

/// Number of messages for the control service that are kept while it cannot be reached; more are
/// dropped.
const CONTROL_QUEUE_MAX: usize = 100_000;

/// Time that a connection that is to end may take to send what is queued.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Time that the end may take: for the last message to the control service, and for killed
/// processes.
const END_WAIT: Duration = Duration::from_millis(100);
const KILL_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Client {
    writer: Writer,
    read_out: Arc<Notify>,
    /// Lines that were dropped because it does not read.
    dropped: u64,
}

pub(crate) struct Daemon {
    node: Node,
    recount: Recount,
    clock: Clock,
    arena: Arc<Arena>,
    zygote: Zygote,
    /// The options of a zygote, and the zygote that has modules loaded, once it is wanted.
    zygote_options: ZygoteOptions,
    loaded: Option<Zygote>,
    /// Workers to be started, while all of them are stopped.
    suspended: Option<Vec<Spawn>>,
    gate: Arc<Gate>,
    inputs: Inputs,
    receiver: mpsc::Receiver<Input>,
    session_dir: PathBuf,
    sockets: PathBuf,
    /// The folder of the views of code, one a job.
    views: PathBuf,
    clients: HashMap<Conn, Client>,
    peers: Peers,
    bulk: Bulk,
    processes: Processes,
    disk: Disk,
    link: Link,
    head: Arc<Head>,
    control: Option<Writer>,
    /// For the control service, while it cannot be reached.
    unsent: Vec<NodeToControl>,
    /// Milliseconds between two heartbeats to the control service.
    heartbeat_ms: u64,
    status_at: u64,
    memory: Monitor,
    /// The requests that wait for measurements, by number.
    scrapes: HashMap<u64, oneshot::Sender<Vec<inspect::Answer>>>,
    scrape_count: u64,
    /// The control service has taken the node in.
    is_accepted: bool,
    /// The reason why the daemon is to end; `None` while it runs.
    ending: Option<String>,
    /// The node that takes over the objects of this one, which leaves.
    heir: NodeAddress,
    /// Whether it starts anew as another node after its end.
    is_to_rejoin: bool,
    /// Milliseconds that the machine is still there after SIGTERM; 0: the signal ends the daemon at
    /// once.
    preemption_grace_ms: u64,
}

impl Daemon {
    #[allow(clippy::too_many_arguments, reason = "called once, by the one who made all of them")]
    pub(crate) fn new(
        setup: Setup,
        clock: Clock,
        arena: Arc<Arena>,
        disk: Disk,
        zygote: Zygote,
        zygote_options: ZygoteOptions,
        gate: Arc<Gate>,
        hello: Hello,
        bulk: Bulk,
        link: Link,
        head: Arc<Head>,
        preemption_grace_ms: u64,
        session_dir: &Path,
        output_bounds: Bounds,
        memory: Monitor,
        inputs: Inputs,
        receiver: mpsc::Receiver<Input>,
    ) -> Self {
        Self {
            node: Node::new(setup, clock.now_us()),
            recount: Recount::start(),
            disk,
            clock,
            arena,
            zygote,
            zygote_options,
            loaded: None,
            suspended: None,
            gate,
            receiver,
            session_dir: session_dir.to_owned(),
            sockets: session_dir.join("sockets"),
            views: session_dir.join(CODE_FOLDER),
            clients: HashMap::new(),
            peers: Peers::new(hello, inputs.clone()),
            bulk,
            processes: Processes::new(session_dir.join("logs"), output_bounds, inputs.clone()),
            link,
            head,
            control: None,
            unsent: Vec::new(),
            heartbeat_ms: HEARTBEAT_MS,
            status_at: HEARTBEAT_MS,
            memory,
            scrapes: HashMap::new(),
            scrape_count: 0,
            is_accepted: false,
            ending: None,
            heir: NodeAddress::default(),
            is_to_rejoin: false,
            preemption_grace_ms,
            inputs,
        }
    }

    /// Runs until the end; `on_accepted` is called when the control service has taken the node in.
    pub(crate) async fn run(mut self, on_accepted: impl FnOnce()) -> Result<Ended, Error> {
        let mut on_accepted = Some(on_accepted);
        while self.ending.is_none() {
            if self.is_accepted
                && let Some(on_accepted) = on_accepted.take()
            {
                on_accepted();
            }
            let own = self.own_tick();
            let wake = self.node.next_tick().map_or(own, |due| due.div_ceil(1_000).min(own));
            tokio::select! {
                biased;
                input = self.receiver.recv() => match input {
                    Some(input) => {
                        self.take(input);
                        // Without this a node that always has inputs would be silent, and count as dead.
                        if self.own_tick() <= self.clock.now_ms() {
                            self.tick();
                        }
                    }
                    None => break,
                },
                () = tokio::time::sleep_until(self.clock.at(wake).into()) => self.tick(),
            }
        }
        let reason = self.ending.clone().unwrap_or_default();
        let ended = if self.is_to_rejoin { Ended::Rejoin(reason.clone()) } else { Ended::Over };
        self.end().await;
        if on_accepted.is_some() { Err(Error::NotReady(reason)) } else { Ok(ended) }
    }

    /// Returns the time at which the daemon itself, not its state machine, has work to do.
    fn own_tick(&self) -> u64 {
        self.status_at.min(self.memory.at)
    }

    fn tick(&mut self) {
        let now = self.clock.now_ms();
        self.apply(Event::Tick);
        let idle_at = self.status_at.max(now + 1);
        if let Some(memory) = self.memory.look(self.node.has_work(), now, idle_at) {
            self.apply(Event::MemoryRead(memory));
        }
        if self.status_at <= now {
            self.status_at = now + self.heartbeat_ms;
            if let Some(control) = &self.control {
                // A service that does not read is found out by its silence.
                if control.send(&self.node.heartbeat(now * 1_000)).is_err() {
                    self.node.on_heartbeat_unsent();
                }
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::ClientOpened { conn, writer, role, node_id, is_local, read_out } => {
                tracing::debug!(conn = conn.0, ?role, %node_id, is_local, "client connected");
                self.clients.insert(conn, Client { writer, read_out, dropped: 0 });
                self.apply(Event::ClientOpened { conn, role, node_id, is_local });
            }
            Input::Event(event) => {
                self.before(&event);
                self.apply(event);
            }
            Input::ClientClosed { conn, why } => {
                tracing::debug!(conn = conn.0, "client disconnected");
                if let Some(why) = why {
                    self.gate.report("a registered client", &why);
                }
                self.clients.remove(&conn);
                self.apply(Event::ClientClosed { conn });
            }
            Input::PeerOpened { conn, node_id, writer, is_made_here } => {
                tracing::debug!(conn = conn.0, %node_id, is_made_here, "connected to another node");
                self.peers.opened(conn, node_id, writer, is_made_here);
            }
            Input::PeerClosed { conn, node_id } => {
                tracing::debug!(%node_id, "connection to another node closed");
                self.peers.closed(conn, node_id);
                self.apply(Event::PeerLost { conn, node_id });
            }
            Input::PeerUnreachable { to, why } => {
                self.peers.unreachable(&to, &why);
                self.peers.closed(None, to.node_id);
                self.apply(Event::PeerLost { conn: None, node_id: to.node_id });
            }
            Input::ControlConnected { writer } => self.control_connected(writer),
            Input::HeadMoved(moved) => self.head_moved(&moved),
            Input::Zygote(kind, answer) => self.zygote_answered(kind, answer),
            Input::ZygoteLost { kind, generation } => self.zygote_lost(kind, generation),
            Input::WorkerExited { worker_id, exit } => self.worker_exited(worker_id, exit),
            Input::Output { worker_id, is_stderr } => self.read_output(worker_id, is_stderr),
            Input::OutputRests { worker_id, is_stderr } => {
                let lines = self.processes.rest(worker_id, is_stderr);
                self.show(worker_id, lines);
            }
            Input::ChildEnded => {
                // All of them: several ends may come with one signal.
                for (pid, status) in process::reap() {
                    if let Some(worker_id) = self.processes.of_pid(pid) {
                        self.worker_exited(worker_id, exit_of(status));
                    }
                }
            }
            Input::Scrape { reply } => {
                self.scrape_count += 1;
                self.scrapes.insert(self.scrape_count, reply);
                self.apply(Event::Scrape { number: self.scrape_count });
            }
            // A client that has gone away meanwhile does not need the answer.
            Input::Probe { reply } => drop(reply.send(())),
            Input::ShutDown { reason } => {
                tracing::info!(reason, "the node ends");
                self.ending = Some(reason);
            }
            Input::Terminate => self.terminate(),
        }
    }

    /// Does what the shell itself has to do before the machine takes in the event.
    fn before(&mut self, event: &Event) {
        match event {
            // A worker may be faster than the zygote's word that it was forked.
            Event::ClientSaid { message: ClientToNode::Register(register), .. }
                if self.processes.is_starting(register.worker_id) =>
            {
                self.worker_started(register.worker_id, register.pid);
            }
            Event::Served { conn, request_id } => self.peers.served(*conn, *request_id),
            Event::Received { request_id, .. } => self.bulk.received(*request_id),
            Event::Spilled { object_id, outcome } => log_disk("spilled", *object_id, outcome),
            Event::Restored { object_id, outcome } => log_disk("restored", *object_id, outcome),
            Event::ControlSaid(message) => self.before_control_said(message),
            Event::ControlLost => {
                tracing::warn!("connection to the control service lost");
                self.control = None;
            }
            _ => {}
        }
    }

    fn before_control_said(&mut self, message: &ControlToNode) {
        if let ControlToNode::Accepted(accepted) = message {
            if accepted.refused.is_empty() {
                tracing::info!(
                    session = accepted.session_name,
                    "the cluster has taken this node in"
                );
            } else {
                tracing::error!(reason = accepted.refused, "the cluster has refused this node");
            }
            self.is_accepted |= accepted.refused.is_empty();
            if accepted.heartbeat_ms > 0 {
                self.heartbeat_ms = accepted.heartbeat_ms;
                // A shorter time counts at once: the service expects the first heartbeat by then.
                self.status_at = self.status_at.min(self.clock.now_ms() + self.heartbeat_ms);
            }
        }
        if let ControlToNode::JobFinished(finished) = message {
            let view = self.views.join(finished.job_id.hex());
            helio_env::views::remove_unused(view);
        }
    }

    /// On a machine that may be taken away the node has a while to drain, unless it is told a second time.
    fn terminate(&mut self) {
        // Taken: a second signal finds none, and ends the node at once.
        let grace_ms = std::mem::take(&mut self.preemption_grace_ms);
        if grace_ms == 0 || !self.is_accepted {
            let reason = "it was told to end (SIGTERM)".to_owned();
            tracing::info!(reason, "the node ends");
            self.ending = Some(reason);
            return;
        }
        let reason = format!(
            "its machine will be taken away in {} s (SIGTERM, HELIOSTAT_PREEMPTION_GRACE_S)",
            grace_ms as f64 / 1000.0
        );
        tracing::info!(reason, "the node is drained");
        self.apply(Event::Preempted { reason, grace_ms });
    }

    fn apply(&mut self, event: Event) {
        for action in self.node.apply(event, self.clock.now_us()) {
            self.execute_action(action);
        }
        self.recount.after_event("node", || self.node.check());
    }

    fn execute_action(&mut self, action: Action) {
        match action {
            Action::Send { conn, message } => self.send(conn, message),
            Action::Close { conn, why } => self.close(conn, &why),
            Action::ReadOut { conn } => {
                if let Some(client) = self.clients.get(&conn) {
                    client.read_out.notify_one();
                }
            }
            Action::Control(message) => self.tell_control(message),
            Action::Ask { to, message } => self.peers.ask(to, message),
            Action::Answer { conn, message } => self.peers.answer(conn, &message),
            Action::Serve { conn, request_id, offset, size, is_bulk } => {
                if let Some(node_id) = self.peers.node(conn).filter(|_| is_bulk) {
                    return self.bulk.offer(node_id, conn, request_id, (offset, size));
                }
                self.peers.serve(conn, request_id, Arc::clone(&self.arena), offset, size);
            }
            Action::StopServing { conn, request_id } => {
                self.peers.stop_serving(conn, request_id);
                self.bulk.withdraw(conn, request_id);
            }
            Action::Receive { from, request_id, offset, size } => {
                self.bulk.receive(from, request_id, (offset, size));
            }
            Action::StopReceiving { request_id } => self.bulk.stop_receiving(request_id),
            Action::Write { offset, bytes } => {
                let written = self.arena.copy_in(offset, &bytes);
                // Nor may a reader see what a disk that kept room for it did not take after all.
                assert!(written.is_ok(), "SHM-1: the store does not take its bytes: {written:?}");
            }
            Action::Spill { object_id, offset, size } => self.disk.write(object_id, offset, size),
            Action::Restore { object_id, offset, size } => self.disk.read(object_id, offset, size),
            Action::Reserve { offset, size } => self.disk.reserve(offset, size),
            Action::Punch { offset, size } => self.arena.punch(offset, size),
            Action::TellDamaged { object_id } => {
                tracing::error!(%object_id, "the object's file has other bytes than were written: it is lost");
            }
            Action::RemoveFile { object_id } => self.disk.remove(object_id),
            Action::Spawn(spawn) => match &mut self.suspended {
                Some(waiting) => waiting.push(spawn),
                None => self.spawn(&spawn),
            },
            Action::Load { modules } => {
                let start = || {
                    Zygote::start(
                        ZygoteKind::Loaded,
                        self.zygote_options.clone(),
                        self.inputs.clone(),
                    )
                };
                self.loaded.get_or_insert_with(start).load(modules);
            }
            Action::Unload => {
                // Its workers are gone: their jobs are over.
                if let Some(zygote) = self.loaded.take() {
                    zygote.kill();
                }
            }
            Action::Kill { worker_id } => {
                tracing::info!(%worker_id, "worker is killed");
                self.processes.kill(worker_id);
            }
            Action::Forget { worker_id } => {
                self.processes.forget(worker_id);
                // A worker that ended in good order has removed its socket already.
                let _ = std::fs::remove_file(self.sockets.join(worker_id.socket_name()));
            }
            Action::FlushLogs { workers, then } => {
                for worker_id in workers {
                    let lines = self.processes.flush(worker_id);
                    self.show(worker_id, lines);
                }
                self.execute_action(*then);
            }
            Action::StatusChanged => {
                let due = self.clock.now_ms() + self.node.status_gather_ms();
                self.status_at = self.status_at.min(due);
            }
            Action::TellMaking { conn, mut reply, pids } => {
                reply.why.push_str(&making::tell(&self.session_dir, &pids, unix_ms()));
                self.send(conn, reply.into());
            }
            Action::Scraped { number, answers } => {
                if let Some(reply) = self.scrapes.remove(&number) {
                    // A client that has gone away meanwhile does not need the answers.
                    let _ = reply.send(answers);
                }
            }
            Action::ReachControl => self.link.try_anew(),
            Action::Suspend => {
                tracing::warn!(
                    "cut off from the cluster: workers are stopped until the control service is reached"
                );
                self.suspended.get_or_insert_default();
                // Zygotes run no user's code, and end the workers, stopped or not, should this process be killed
                // meanwhile.
                let zygotes = [Some(&self.zygote), self.loaded.as_ref()];
                let spared: Vec<u32> =
                    zygotes.into_iter().flatten().filter_map(Zygote::pid).collect();
                process::stop_descendants(&spared);
            }
            Action::Resume => {
                tracing::info!("control service reached again: workers go on");
                process::continue_descendants();
                for spawn in self.suspended.take().into_iter().flatten() {
                    self.spawn(&spawn);
                }
            }
            Action::Leave { reason, heir } => {
                tracing::info!(reason, heir = heir.host, "the node leaves");
                self.heir = heir;
                self.ending = Some(reason);
            }
            Action::ShutDown { reason } => {
                tracing::info!(reason, "the node ends");
                self.ending = Some(reason);
            }
            Action::Rejoin { reason } => {
                tracing::warn!(reason, "the node ends its workers and joins as a new one");
                self.is_to_rejoin = true;
                self.ending = Some(reason);
            }
        }
    }

    fn send(&mut self, conn: Conn, message: NodeToClient) {
        let Some(client) = self.clients.get_mut(&conn) else { return };
        if let NodeToClient::LogLines(lines) = &message {
            // **LIMIT-1** Lines alone may be dropped: a driver that does not read them is to miss nothing else.
            if client.writer.queued() > LOG_QUEUE_MAX {
                client.dropped += lines.lines.len() as u64;
                return;
            }
            if client.dropped > 0 {
                let text =
                    format!("({} lines were dropped: the driver reads too slowly)", client.dropped);
                client.dropped = 0;
                let line = LogLine { is_stderr: true, text, ..LogLine::default() };
                let notice =
                    NodeToClient::LogLines(helio_proto::node::LogLines { lines: vec![line] });
                // If it fails, so does the next.
                let _ = client.writer.send(&notice);
            }
        }
        let sent = match &message {
            NodeToClient::Registered(registered) if registered.arena_size > 0 => {
                match self.arena.fd().try_clone_to_owned() {
                    Ok(fd) => client.writer.send_with_fd(&message, fd),
                    Err(error) => {
                        tracing::error!(%error, "no descriptor for a client");
                        client.writer.abort();
                        return;
                    }
                }
            }
            _ => client.writer.send(&message),
        };
        // **LIMIT-1** The messages cannot be left out, so the connection ends.
        if sent == Err(helio_rpc::service::SendError::Full) {
            self.gate.report("a client", "it does not read what it is sent");
            client.writer.abort();
        }
    }

    fn close(&mut self, conn: Conn, why: &str) {
        let Some(client) = self.clients.get(&conn) else { return };
        if !why.is_empty() {
            self.gate.report("a client", why);
        }
        client.writer.close();
        let writer = client.writer.clone();
        tokio::spawn(async move {
            tokio::time::sleep(CLOSE_WAIT).await;
            writer.abort();
        });
    }

    fn tell_control(&mut self, message: NodeToControl) {
        match &self.control {
            // A connection that breaks is made again, and what matters is asked again.
            Some(control) => {
                let _ = control.send(&message);
            }
            None if self.unsent.len() < CONTROL_QUEUE_MAX => self.unsent.push(message),
            None => {}
        }
    }

    fn head_moved(&mut self, moved: &HeadMoved) {
        let port = u16::try_from(moved.port).unwrap_or_default();
        if let Some(address) = self.head.on_moved(&moved.host, port, moved.epoch) {
            tracing::warn!(address, "another head has taken the cluster over");
            self.apply(Event::HeadMoved { address });
        }
    }

    fn control_connected(&mut self, writer: Writer) {
        let register = self.node.registration(self.clock.now_ms());
        // A connection that has ended already is reported by its reader.
        let _ = writer.send(&NodeToControl::Register(register));
        for message in std::mem::take(&mut self.unsent) {
            let _ = writer.send(&message);
        }
        self.control = Some(writer);
        self.apply(Event::ControlConnected);
    }

    fn spawn(&mut self, spawn: &Spawn) {
        match self.processes.prepare(spawn.worker_id) {
            Ok(streams) => {
                // Modules that cannot be loaded ahead are loaded by each worker, which shows why.
                let loaded =
                    self.loaded.as_mut().filter(|zygote| spawn.is_loaded && zygote.is_there());
                loaded.unwrap_or(&mut self.zygote).fork(spawn, streams);
            }
            Err(error) => {
                let inputs = self.inputs.clone();
                let answer = ZygoteAnswer::Failed {
                    worker_id: spawn.worker_id,
                    why: format!("no pipe: {error}"),
                };
                // By a task: the core that would take the input is the one that runs this.
                tokio::spawn(
                    async move { inputs.send(Input::Zygote(ZygoteKind::Bare, answer)).await },
                );
            }
        }
    }

    fn zygote(&mut self, kind: ZygoteKind) -> Option<&mut Zygote> {
        match kind {
            ZygoteKind::Bare => Some(&mut self.zygote),
            ZygoteKind::Loaded => self.loaded.as_mut(),
        }
    }

    fn zygote_lost(&mut self, kind: ZygoteKind, generation: u64) {
        let Some(zygote) = self.zygote(kind) else { return };
        let words = zygote.last_words();
        let lost = zygote.lost(generation);
        tracing::warn!(?kind, reason = words, workers = lost.len(), "the zygote has ended");
        if kind == ZygoteKind::Loaded {
            self.apply(Event::Loaded { is_ready: false });
        }
        for worker_id in lost {
            let why = format!("the process that forks workers has ended: {words}");
            self.apply(Event::WorkerNotStarted { worker_id, why });
        }
    }

    fn zygote_answered(&mut self, kind: ZygoteKind, answer: ZygoteAnswer) {
        match &answer {
            ZygoteAnswer::Started { worker_id, .. } | ZygoteAnswer::Failed { worker_id, .. } => {
                if let Some(zygote) = self.zygote(kind) {
                    zygote.answered(*worker_id);
                }
            }
            ZygoteAnswer::Exited { .. } | ZygoteAnswer::Loaded => {}
        }
        match answer {
            ZygoteAnswer::Loaded => {
                if let Some(zygote) = self.zygote(kind) {
                    zygote.has_loaded();
                }
                self.apply(Event::Loaded { is_ready: true });
            }
            ZygoteAnswer::Started { worker_id, pid } => self.worker_started(worker_id, pid),
            ZygoteAnswer::Failed { worker_id, why } => {
                tracing::error!(%worker_id, reason = why, "worker not started");
                self.apply(Event::WorkerNotStarted { worker_id, why });
            }
            ZygoteAnswer::Exited { pid, status } => {
                if let Some(worker_id) = self.processes.of_pid(pid) {
                    self.worker_exited(worker_id, exit_of(status));
                }
            }
        }
    }

    /// Notes that a worker's process has started. Either the zygote's answer or the worker's registration says so,
    /// whichever comes first: a zygote that is killed before it answers may leave a worker that runs.
    fn worker_started(&mut self, worker_id: WorkerId, pid: u32) {
        if !self.processes.started(worker_id, pid) {
            return;
        }
        tracing::info!(%worker_id, pid, "worker started");
        self.zygote.answered(worker_id);
        if let Some(zygote) = &mut self.loaded {
            zygote.answered(worker_id);
        }
        self.apply(Event::WorkerStarted { worker_id, pid });
        self.read_output(worker_id, false);
    }

    fn worker_exited(&mut self, worker_id: WorkerId, exit: Exit) {
        if let Some((lines, log_tail)) = self.processes.exited(worker_id) {
            tracing::info!(%worker_id, ?exit, "worker ended");
            self.show(worker_id, lines);
            self.apply(Event::WorkerExited { worker_id, exit, log_tail });
        }
    }

    fn read_output(&mut self, worker_id: WorkerId, is_stderr: bool) {
        let (lines, is_more) = self.processes.read(worker_id);
        self.show(worker_id, lines);
        if is_more {
            let inputs = self.inputs.clone();
            tokio::spawn(async move { inputs.send(Input::Output { worker_id, is_stderr }).await });
        }
    }

    fn show(&mut self, worker_id: WorkerId, lines: Vec<LogLine>) {
        if !lines.is_empty() {
            self.apply(Event::WorkerWrote { worker_id, lines });
        }
    }

    async fn end(mut self) {
        let reason = self.ending.take().unwrap_or_default();
        if let Some(control) = &self.control {
            let leaving = NodeToControl::Leaving(NodeLeaving { reason, heir: self.heir.clone() });
            if control.send(&leaving).is_ok() {
                let _ = tokio::time::timeout(END_WAIT, control.flushed()).await;
            }
        }
        self.processes.kill_all();
        self.zygote.kill();
        if let Some(zygote) = &self.loaded {
            zygote.kill();
        }
        // With the zygote gone its children are ours, and so are those of the workers: all are killed
        // and reaped until none is left.
        let until = Instant::now() + KILL_WAIT;
        loop {
            let children = process::children();
            for pid in &children {
                process::kill_child(*pid);
            }
            let _ = process::reap();
            if children.is_empty() || Instant::now() > until {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.disk.remove_all();
        remove_sockets(&self.sockets);
    }
}

/// Removes the sockets of a node from their folder; the control service's socket stays, for a node that joins anew.
fn remove_sockets(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let stays = Path::new(CONTROL_SOCKET).file_name();
    for entry in entries.flatten().filter(|entry| Some(&*entry.file_name()) != stays) {
        // A process that ends just now may have removed its own.
        let _ = std::fs::remove_file(entry.path());
    }
}

fn log_disk(what: &str, object_id: ObjectId, outcome: &Result<u32, DiskError>) {
    match outcome {
        Ok(_) => tracing::debug!(%object_id, "object {what}"),
        Err(error) => tracing::warn!(%object_id, error = error.text, "object not {what}"),
    }
}

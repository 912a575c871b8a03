//! A daemon in a process of its own, a control service of a few lines, and a client.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helio_node::Reach;
use helio_proto::cluster::{ControlToNode, FromClient, NodeAccepted, NodeToControl, ToClient};
use helio_proto::control::{ControlRequest, ControlResponse, JobInfo};
use helio_proto::hello::{Hello, Role, VERSION, Welcome};
use helio_proto::node::{
    ClientToNode, ControlReply, CreateObject, LeaseClass, NodeToClient, Register, Registered,
    RequestLease,
};
use helio_proto::{Wire, frame};
use helio_rpc::service::{Writer, accept};
use helio_store::Arena;
use helio_types::{JobId, NodeId, ObjectId, ResourceSet, WorkerId};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::net::TcpListener;

pub(crate) const TOKEN: &str = "test-token";
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// Runs the test binary as a daemon, if it was started as one.
pub(crate) fn daemon_process() {
    let Ok(session) = std::env::var("TEST_SESSION") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let options = helio_node::Options {
        num_cpus: Some(number("TEST_CPUS").unwrap_or(2.0)),
        num_gpus: Some(number("TEST_GPUS").unwrap_or(0.0)),
        object_store_memory: Some(number("TEST_STORE").unwrap_or(f64::from(64 << 20)) as u64),
        session_dir: PathBuf::from(&session),
        session_name: "session_test".into(),
        temp_dir: PathBuf::from(&session),
        python: PathBuf::from(
            std::env::var("HELIOSTAT_PYTHON").unwrap_or_else(|_| "python3".into()),
        ),
        package_path: Some(PathBuf::from(&session).join("package")),
        token: TOKEN.into(),
        listener: Some(listener.into()),
        control: Reach::Port("127.0.0.1".into(), number("TEST_CONTROL").unwrap_or(1.0) as u16),
        owner_driver: std::env::var("TEST_OWNER").is_ok(),
        spill_dir: PathBuf::from(&session).join("spill"),
        disk_threshold: 1.0,
        spills_max: 4,
        room_ms_max: 5_000,
        ..helio_node::Options::default()
    };
    helio_node::run(options, |ready| {
        println!("ready {} {} {}", ready.node_id.hex(), ready.port, ready.node_socket.display());
    })
    .unwrap();
}

pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) session: PathBuf,
    pub(crate) node_id: NodeId,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    pub(crate) ready_after: Duration,
}

impl Daemon {
    pub(crate) fn start(name: &str, control_port: u16, env: &[(&str, &str)]) -> Self {
        let session =
            std::env::temp_dir().join(format!("helio-node-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&session);
        let core = session.join("package/heliostat/core");
        let worker = core.join("worker");
        std::fs::create_dir_all(&worker).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(
            here.join("../../python/heliostat/core/worker/zygote.py"),
            worker.join("zygote.py"),
        )
        .unwrap();
        std::fs::copy(here.join("tests/harness/worker_main.py"), worker.join("main_loop.py"))
            .unwrap();
        std::fs::write(core.join("__init__.py"), "").unwrap();
        std::fs::write(worker.join("__init__.py"), "").unwrap();
        // The first module that the zygote loads has it load the worker's, before it misses the rest of the
        // package.
        let first = "import heliostat.core.worker.main_loop\n";
        std::fs::write(session.join("package/cloudpickle.py"), first).unwrap();
        std::fs::write(session.join("package/heliostat/__init__.py"), "").unwrap();
        let started = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "daemon_process", "--nocapture", "--quiet"])
            .env("TEST_SESSION", &session)
            .env("TEST_CONTROL", control_port.to_string())
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains("ready ")).unwrap();
        let ready_after = started.elapsed();
        std::thread::spawn(move || lines.for_each(drop));
        let words: Vec<&str> = line.split("ready ").nth(1).unwrap().split(' ').collect();
        let node_id = NodeId::from_hex(words[0]).unwrap();
        Self {
            child,
            session,
            node_id,
            port: words[1].parse().unwrap(),
            socket: words[2].into(),
            ready_after,
        }
    }

    /// The processes below the daemon.
    pub(crate) fn descendants(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    pub(crate) fn wait_for_end(&mut self) {
        let until = Instant::now() + WAIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in list.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            all.push(child);
            all.extend(descendants(child));
        }
    }
    all
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.session);
    }
}

/// A control service that numbers jobs and remembers what it hears.
pub(crate) struct Control {
    pub(crate) port: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    nodes: Vec<(NodeId, Writer)>,
    heard: Vec<NodeToControl>,
    jobs: u32,
}

impl Control {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (tell, port) = std::sync::mpsc::channel();
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(
                async {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    tell.send(listener.local_addr().unwrap().port()).unwrap();
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        let welcome = Welcome { version: VERSION, ..Welcome::default() };
                        let (mut reader, writer, hello) =
                            accept(stream, TOKEN, welcome).await.unwrap();
                        for_thread.lock().unwrap().nodes.push((hello.node_id, writer.clone()));
                        let shared = Arc::clone(&for_thread);
                        tokio::spawn(async move {
                            while let Ok(Some(message)) = reader.next::<NodeToControl>().await {
                                Self::hear(&shared, &writer, message);
                            }
                        });
                    }
                },
            );
        });
        Self { port: port.recv().unwrap(), shared }
    }

    fn hear(shared: &Mutex<Shared>, writer: &Writer, message: NodeToControl) {
        let mut shared = shared.lock().unwrap();
        if let NodeToControl::Register(register) = &message {
            let accepted = NodeAccepted { sent_ms: register.sent_ms, ..NodeAccepted::default() };
            writer.send(&ControlToNode::from(accepted)).unwrap();
        }
        if let NodeToControl::FromClient(FromClient { worker_id, call }) = &message
            && let ControlRequest::StartJob(job) = &call.request
        {
            shared.jobs += 1;
            let job_id = JobId(shared.jobs.to_be_bytes());
            let info = JobInfo {
                job_id,
                driver: job.driver,
                namespace: job.namespace.clone(),
                ..JobInfo::default()
            };
            let reply =
                ControlReply { request_id: call.request_id, response: ControlResponse::Job(info) };
            let to = ToClient { worker_id: *worker_id, message: reply.into() };
            writer.send(&ControlToNode::from(to)).unwrap();
        }
        if !matches!(message, NodeToControl::Status(_)) {
            shared.heard.push(message);
        }
    }

    pub(crate) fn tell(&self, node_id: NodeId, message: impl Into<ControlToNode>) {
        let message = message.into();
        wait_until(|| {
            let shared = self.shared.lock().unwrap();
            let writer = shared
                .nodes
                .iter()
                .rev()
                .find(|(id, _)| *id == node_id)
                .map(|(_, writer)| writer.clone())?;
            writer.send(&message).unwrap();
            Some(())
        });
    }

    /// Waits for a message that `pick` likes.
    pub(crate) fn heard<T>(&self, pick: impl Fn(&NodeToControl) -> Option<T>) -> T {
        wait_until(|| self.shared.lock().unwrap().heard.iter().find_map(&pick))
    }
}

pub(crate) fn wait_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WAIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client that blocks.
pub(crate) struct Client {
    pub(crate) socket: UnixStream,
    pub(crate) fd: Option<OwnedFd>,
    /// Messages that came while another one was waited for.
    pub(crate) kept: Vec<NodeToClient>,
    pub(crate) registered: Registered,
    pub(crate) requests: u64,
}

impl Client {
    pub(crate) fn connect(daemon: &Daemon, role: Role, token: &str) -> Self {
        let socket = UnixStream::connect(&daemon.socket).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let mut client = Self {
            socket,
            fd: None,
            kept: Vec::new(),
            registered: Registered::default(),
            requests: 0,
        };
        client.send(&Hello { version: VERSION, token: token.into(), role, ..Hello::default() });
        client
    }

    pub(crate) fn driver(daemon: &Daemon, worker_id: WorkerId) -> Self {
        let mut client = Self::connect(daemon, Role::Driver, TOKEN);
        let welcome: Welcome = client.receive();
        assert_eq!(welcome.refused, "");
        let register = Register {
            worker_id,
            pid: std::process::id(),
            is_driver: true,
            log_to_driver: true,
            owns_cluster: true,
            ..Register::default()
        };
        client.say(register);
        client.registered = client.expect(|message| match message {
            NodeToClient::Registered(registered) => Some(registered.clone()),
            _ => None,
        });
        assert!(!client.registered.failed, "{:?}", client.registered.failure);
        client
    }

    pub(crate) fn say(&mut self, message: impl Into<ClientToNode>) {
        self.send(&message.into());
    }

    pub(crate) fn send<M: Wire>(&mut self, message: &M) {
        let mut out = Vec::new();
        frame::put(&mut out, |out| out.extend(helio_proto::encode(message)));
        self.socket.write_all(&out).unwrap();
    }

    /// The next message; panics when the connection has ended.
    pub(crate) fn receive<M: Wire>(&mut self) -> M {
        let header = self.read(4).expect("the connection has ended");
        let length = u32::from_le_bytes(header.try_into().unwrap()) as usize;
        helio_proto::decode(&self.read(length).unwrap()).unwrap()
    }

    fn read(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut bytes[done..])];
            let got = recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
                .ok()?
                .bytes;
            if got == 0 {
                return None;
            }
            done += got;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                    self.fd = fds.next();
                }
            }
        }
        Some(bytes)
    }

    /// Whether the daemon ends the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        loop {
            let Some(header) = self.read(4) else { return true };
            let length = u32::from_le_bytes(header.try_into().unwrap()) as usize;
            if self.read(length).is_none() {
                return true;
            }
        }
    }

    /// Waits for a message that `pick` likes; others are kept.
    pub(crate) fn expect<T>(&mut self, pick: impl Fn(&NodeToClient) -> Option<T>) -> T {
        if let Some(index) = self.kept.iter().position(|message| pick(message).is_some()) {
            return pick(&self.kept.remove(index)).unwrap();
        }
        loop {
            let message: NodeToClient = self.receive();
            if let Some(found) = pick(&message) {
                return found;
            }
            self.kept.push(message);
        }
    }

    pub(crate) fn class(&self, resources: &[(&str, f64)]) -> LeaseClass {
        LeaseClass {
            job_id: self.registered.job_id,
            resources: ResourceSet::from_units(resources.iter().copied()),
            name: "f".into(),
            ..LeaseClass::default()
        }
    }

    /// The store's memory, from the descriptor that came with the registration.
    pub(crate) fn arena(&mut self) -> Arc<Arena> {
        Arc::new(Arena::map(self.fd.take().unwrap(), self.registered.arena_size).unwrap())
    }

    pub(crate) fn create(&mut self, object_id: ObjectId, size: u64) -> u64 {
        self.say(CreateObject { request_id: 1, object_id, size, ..CreateObject::default() });
        self.expect(|message| match message {
            NodeToClient::ObjectCreated(created) => Some(created.offset),
            _ => None,
        })
    }

    pub(crate) fn fetched(&mut self) -> (u64, u64) {
        self.expect(|message| match message {
            NodeToClient::ObjectFetched(fetched) => Some((fetched.offset, fetched.size)),
            _ => None,
        })
    }

    pub(crate) fn request(&mut self, class: LeaseClass) -> u64 {
        self.requests += 1;
        let request_id = self.requests;
        self.say(RequestLease { request_id, class, backlog: 1, ..RequestLease::default() });
        request_id
    }
}

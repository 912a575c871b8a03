//! The service over its real socket, with pretended nodes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use helio_control::{Error, Options, Ready, run};
use helio_proto::cluster::{
    ActorStarted, ControlToNode, FromClient, NodeStatus, NodeToControl, RegisterNode,
};
use helio_proto::control::{
    ActorSpec, ControlRequest, ControlResponse, GetNamedActor, KvGet, KvPut, NodeInfo, StartJob,
    StopCluster,
};
use helio_proto::hello::{Hello, Role};
use helio_proto::node::{ControlCall, NodeToClient};
use helio_rpc::service::{Reader, Writer, connect_unix};
use helio_storage::{Change, Embedded, Entry, Memory, Storage};
use helio_types::{ActorId, JobId, NodeAddress, NodeId, ResourceSet, WorkerAddress, WorkerId};

const TOKEN: &str = "secret";
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts what it makes durable.
struct Counting(Embedded, Arc<AtomicUsize>);

impl Storage for Counting {
    fn load(&mut self) -> Result<Vec<Entry>, helio_storage::Error> {
        self.0.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), helio_storage::Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.commit(changes)
    }
}

/// A socket in a folder of its own, which goes with it.
struct Socket(PathBuf);

impl std::ops::Deref for Socket {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

struct Running {
    socket: Socket,
    ready: Ready,
    thread: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn start(storage: Box<dyn Storage>) -> Self {
        let (ready, is_ready) = mpsc::channel();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "helio-control-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let socket = std::env::temp_dir().join(name).join("control.sock");
        let options = Options {
            socket: socket.clone(),
            host: [127, 0, 0, 1].into(),
            port: 0,
            token: TOKEN.into(),
            identity: None,
            session_name: "session_x".into(),
            health: Default::default(),
            storage,
            gone: Vec::new(),
        };
        let thread = std::thread::spawn(move || run(options, |it| ready.send(it).unwrap()));
        Self { socket: Socket(socket), ready: is_ready.recv_timeout(PATIENCE).unwrap(), thread }
    }

    fn stop(self) {
        self.ready.handle.stop("the test is over");
        self.thread.join().unwrap().unwrap();
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&*self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

struct FakeNode {
    node_id: NodeId,
    reader: Reader,
    writer: Writer,
}

fn hello(number: u8, token: &str) -> Hello {
    Hello {
        token: token.into(),
        role: Role::Node,
        node_id: NodeId([number; 28]),
        ..Hello::default()
    }
}

fn info(number: u8, cpus: f64) -> NodeInfo {
    let total = ResourceSet::from_units([("CPU", cpus)]);
    NodeInfo {
        address: NodeAddress { node_id: NodeId([number; 28]), host: "127.0.0.1".into(), port: 1 },
        available: total.clone(),
        total,
        ..NodeInfo::default()
    }
}

impl FakeNode {
    async fn join(at: &Path, number: u8, cpus: f64) -> Self {
        let (reader, writer, _) = connect_unix(at, hello(number, TOKEN)).await.unwrap();
        let mut node = Self { node_id: NodeId([number; 28]), reader, writer };
        node.say(RegisterNode { info: info(number, cpus), ..RegisterNode::default() });
        match node.hear().await {
            ControlToNode::Accepted(accepted) => assert_eq!(accepted.refused, ""),
            other => panic!("not accepted: {other:?}"),
        }
        node
    }

    fn say(&self, message: impl Into<NodeToControl>) {
        self.writer.send::<NodeToControl>(&message.into()).unwrap();
    }

    async fn hear(&mut self) -> ControlToNode {
        let next = tokio::time::timeout(PATIENCE, self.reader.next::<ControlToNode>());
        next.await.unwrap().unwrap().expect("the connection is open")
    }

    /// Hears on until something that `pick` finds.
    async fn until<T>(&mut self, pick: impl Fn(&ControlToNode) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(&self.hear().await) {
                return found;
            }
        }
    }

    async fn ask(&mut self, request: impl Into<ControlRequest>) -> ControlResponse {
        let call = ControlCall { request_id: 5, request: request.into() };
        self.say(FromClient { worker_id: WorkerId([1; 28]), call });
        self.until(|message| match message {
            ControlToNode::ToClient(to) => match &to.message {
                NodeToClient::ControlReply(reply) => Some(reply.response.clone()),
                _ => None,
            },
            _ => None,
        })
        .await
    }

    async fn start_job(&mut self) -> JobId {
        let driver = WorkerId([1; 28]);
        match self.ask(StartJob { driver, ..StartJob::default() }).await {
            ControlResponse::Job(job) => job.job_id,
            other => panic!("no job: {other:?}"),
        }
    }

    fn spec(&self, number: u8, name: &str) -> ActorSpec {
        let job_id = JobId([1, 0, 0, 0]);
        ActorSpec {
            actor_id: ActorId::new([number; 12], job_id),
            job_id,
            name: name.into(),
            detached: true,
            placement_resources: ResourceSet::from_units([("CPU", 1.0)]),
            owner: WorkerAddress {
                worker_id: WorkerId([1; 28]),
                node_id: self.node_id,
                ..WorkerAddress::default()
            },
            ..ActorSpec::default()
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn an_actor_is_made_on_another_node() {
    let running = Running::start(Box::new(Memory::forgetful()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 0.0).await;
        let mut two = FakeNode::join(&running.socket, 2, 2.0).await;
        assert_eq!(one.start_job().await, JobId([1, 0, 0, 0]));
        assert!(matches!(one.ask(one.spec(3, "a")).await, ControlResponse::Actor(_)));
        let launch = two
            .until(|message| match message {
                ControlToNode::LaunchActor(launch) => Some(launch.clone()),
                _ => None,
            })
            .await;
        let actor_id = launch.spec.actor_id;
        one.ask(helio_proto::control::SubscribeActor { actor_id }).await;
        let address = WorkerAddress { node_id: two.node_id, port: 9, ..WorkerAddress::default() };
        two.say(ActorStarted {
            actor_id,
            incarnation: launch.incarnation,
            address: address.clone(),
            pid: 4,
        });
        let info = one
            .until(|message| match message {
                ControlToNode::ToClient(to) => match &to.message {
                    NodeToClient::ActorUpdate(info) => Some(info.clone()),
                    _ => None,
                },
                _ => None,
            })
            .await;
        assert_eq!((info.address, info.pid), (address, 4));
        // A node that vanishes is missed at once, not only when its heartbeat is.
        drop(two);
        let gone = |message: &ControlToNode| match message {
            ControlToNode::View(view) => view.nodes.iter().find(|info| !info.alive).cloned(),
            _ => None,
        };
        let gone = one.until(gone).await;
        assert_eq!(gone.address.node_id, NodeId([2; 28]));
        assert!(!gone.cause.contains("silent"), "{}", gone.cause);
    });
    running.stop();
}

#[test]
fn a_node_that_comes_back_in_time_was_never_gone() {
    let running = Running::start(Box::new(Memory::forgetful()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 1.0).await;
        let two = FakeNode::join(&running.socket, 2, 1.0).await;
        drop(two);
        // The newer connection counts, even when the older one's end is noticed later.
        let two = FakeNode::join(&running.socket, 2, 1.0).await;
        let two = {
            let newer = FakeNode::join(&running.socket, 2, 1.0).await;
            drop(two);
            newer
        };
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            one.say(NodeStatus { info: info(1, 1.0), sent_ms: 0 });
            two.say(NodeStatus { info: info(2, 1.0), sent_ms: 0 });
        }
        let ControlResponse::Nodes(nodes) = one.ask(helio_proto::control::ListNodes {}).await
        else {
            panic!("no nodes")
        };
        assert_eq!(nodes.nodes.iter().filter(|info| info.alive).count(), 2);
    });
    running.stop();
}

/// AUTH-1: garbage, half a frame, a frame of 4 GiB, a wrong token or role: the connection is closed and
/// nobody else notices.
#[test]
fn strangers_are_turned_away() {
    use std::io::Read as _;
    let running = Running::start(Box::new(Memory::forgetful()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 1.0).await;
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 1, 0], &[3, 0, 0, 0, 9, 9, 9]]
        {
            let mut stream = running.raw();
            stream.write_all(bytes).unwrap();
            let mut answer = Vec::new();
            // A reset is an end as well.
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"", "a stranger learns nothing");
        }
        let mut half = running.raw();
        half.write_all(&[200, 0, 0, 0, 1, 2]).unwrap();
        let wrong = connect_unix(&running.socket, hello(7, "wrong")).await;
        assert!(wrong.is_err_and(|error| error.to_string().contains("token")));
        let driver = Hello { role: Role::Driver, ..hello(7, TOKEN) };
        let (mut reader, _writer, _) = connect_unix(&running.socket, driver).await.unwrap();
        assert!(matches!(reader.next::<ControlToNode>().await, Ok(None) | Err(_)));
        // A process that only looks learns which cluster this is, and its nodes.
        let observer = Hello { role: Role::Observer, ..hello(7, TOKEN) };
        let (mut reader, _writer, _) = connect_unix(&running.socket, observer).await.unwrap();
        let said = reader.next::<ControlToNode>().await.unwrap();
        assert!(
            matches!(said, Some(ControlToNode::Accepted(said)) if said.session_name == "session_x")
        );
        let said = reader.next::<ControlToNode>().await.unwrap();
        assert!(matches!(said, Some(ControlToNode::View(view)) if view.nodes.len() == 1));
        // One that was let in and then speaks garbage loses its connection only.
        let (mut reader, writer, _) = connect_unix(&running.socket, hello(8, TOKEN)).await.unwrap();
        writer.send(&Hello { version: 7, ..Hello::default() }).unwrap();
        assert!(matches!(reader.next::<ControlToNode>().await, Ok(None) | Err(_)));
        assert!(matches!(
            one.ask(helio_proto::control::ListNodes {}).await,
            ControlResponse::Nodes(_)
        ));
    });
    running.stop();
}

/// STATE-2: over a restart of the service on the same file.
#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let path = std::env::temp_dir().join(format!("helio-control-{}.redb", std::process::id()));
    let get = || GetNamedActor { name: "a".into(), ..GetNamedActor::default() };
    let running = Running::start(Box::new(Embedded::open(&path).unwrap()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 1.0).await;
        one.start_job().await;
        one.ask(one.spec(3, "a")).await;
        one.ask(KvPut { key: b"k".to_vec(), value: b"v".to_vec(), ..KvPut::default() }).await;
    });
    running.stop();
    let running = Running::start(Box::new(Embedded::open(&path).unwrap()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 1.0).await;
        assert!(matches!(one.ask(get()).await, ControlResponse::NamedActor(_)));
        let value = one.ask(KvGet { key: b"k".to_vec(), ..KvGet::default() }).await;
        assert!(matches!(value, ControlResponse::KvValue(value) if value.value == b"v"));
        let driver = WorkerId([2; 28]);
        let job = one.ask(StartJob { driver, ..StartJob::default() }).await;
        assert!(matches!(job, ControlResponse::Job(job) if job.job_id == JobId([2, 0, 0, 0])));
    });
    running.stop();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_burst_of_creations_shares_its_syncs() {
    let path =
        std::env::temp_dir().join(format!("helio-control-burst-{}.redb", std::process::id()));
    let commits = Arc::new(AtomicUsize::new(0));
    let storage = Counting(Embedded::open(&path).unwrap(), Arc::clone(&commits));
    let running = Running::start(Box::new(storage));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 0.0).await;
        one.start_job().await;
        let before = commits.load(Ordering::Relaxed);
        for number in 0..200u8 {
            let request = ControlRequest::CreateActor(one.spec(number, &format!("a{number}")));
            let call = ControlCall { request_id: u64::from(number), request };
            one.say(FromClient { worker_id: WorkerId([1; 28]), call });
        }
        for _ in 0..200 {
            one.until(|message| match message {
                ControlToNode::ToClient(to) => {
                    matches!(to.message, NodeToClient::ControlReply(_)).then_some(())
                }
                _ => None,
            })
            .await;
        }
        let n = commits.load(Ordering::Relaxed) - before;
        assert!(n <= 100, "200 creations were made durable in {n} commits");
    });
    running.stop();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_client_can_end_the_cluster() {
    let running = Running::start(Box::new(Memory::forgetful()));
    block_on(async {
        let mut one = FakeNode::join(&running.socket, 1, 1.0).await;
        let call =
            ControlCall { request_id: 1, request: StopCluster { reason: "enough".into() }.into() };
        one.say(FromClient { worker_id: WorkerId([1; 28]), call });
        let reason = one
            .until(|message| match message {
                ControlToNode::ShutDown(shut_down) => Some(shut_down.reason.clone()),
                _ => None,
            })
            .await;
        assert_eq!(reason, "enough");
    });
    running.thread.join().unwrap().unwrap();
}

//! The daemon on real sockets, with a control service and workers of a few lines.
#![allow(clippy::unwrap_used, reason = "tests")]

mod harness;

use std::time::Instant;

use harness::{Client, Control, Daemon, TOKEN, wait_until};
use helio_proto::cluster::NodeToControl;
use helio_proto::control::{ActorLaunch, ActorSpec};
use helio_proto::environment::RuntimeEnv;
use helio_proto::hello::Role;
use helio_proto::node::{
    FetchObject, FlushLogs, LeaseGranted, NodeToClient, ReturnLease, SealObject,
};
use helio_types::{
    ActorId, DeathCause, DeathKind, NodeAddress, NodeId, ResourceSet, TaskId, WorkerId,
};

/// Not a test: what the test binary becomes when it is started as a daemon.
#[test]
fn daemon_process() {
    harness::daemon_process();
}

fn granted(message: &NodeToClient) -> Option<LeaseGranted> {
    match message {
        NodeToClient::LeaseGranted(granted) => Some(granted.clone()),
        _ => None,
    }
}

fn lost(message: &NodeToClient) -> Option<DeathCause> {
    match message {
        NodeToClient::LeaseLost(lost) => Some(lost.cause.clone()),
        _ => None,
    }
}

#[test]
fn a_driver_gets_a_worker_and_keeps_it_warm() {
    let control = Control::start();
    let daemon = Daemon::start("lease", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    assert_eq!(driver.registered.node_id, daemon.node_id);
    assert!(driver.fd.is_some() && driver.registered.arena_size > 0);
    let start = Instant::now();
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class.clone());
    let first = driver.expect(granted);
    let cold = start.elapsed();
    assert_eq!(first.worker.port, u32::from(daemon.port), "a worker is behind its node's port");
    driver.say(ReturnLease { lease_id: first.lease_id, discard: false });
    let start = Instant::now();
    driver.request(class);
    let second = driver.expect(granted);
    let warm = start.elapsed();
    assert_eq!(second.worker.worker_id, first.worker.worker_id);
    eprintln!("ready {:?}, cold lease {cold:?}, warm lease {warm:?}", daemon.ready_after);
    driver.say(ReturnLease { lease_id: second.lease_id, discard: true });
    control.heard(|message| match message {
        NodeToControl::ClientGone(gone) if gone.worker_id == first.worker.worker_id => Some(()),
        _ => None,
    });
}

#[test]
fn a_killed_worker_is_reported_with_signal_and_log() {
    let control = Control::start();
    let daemon = Daemon::start("kill", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
    let worker = *daemon.descendants().last().unwrap();
    kill(worker, rustix::process::Signal::SEGV);
    let cause = driver.expect(lost);
    assert_eq!((cause.kind, cause.code, cause.pid), (DeathKind::Signaled, 11, worker));
    assert!(cause.message.contains("SIGSEGV"), "{}", cause.message);
}

fn launch(driver: &Client, class_name: &str, runtime_env: RuntimeEnv) -> ActorLaunch {
    let spec = ActorSpec {
        actor_id: ActorId::new([class_name.as_bytes()[0]; 12], driver.registered.job_id),
        job_id: driver.registered.job_id,
        class_name: class_name.to_owned(),
        resources: ResourceSet::from_units([("CPU", 1.0)]),
        placement_resources: ResourceSet::from_units([("CPU", 1.0)]),
        runtime_env,
        ..ActorSpec::default()
    };
    ActorLaunch { spec, incarnation: 1, ..ActorLaunch::default() }
}

fn ended(control: &Control, actor_id: ActorId) -> DeathCause {
    control.heard(|message| match message {
        NodeToControl::ActorEnded(ended) if ended.actor_id == actor_id => Some(ended.cause.clone()),
        _ => None,
    })
}

#[test]
fn actors_live_and_die_and_what_they_write_is_shown() {
    let control = Control::start();
    let daemon = Daemon::start("actors", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let env = RuntimeEnv {
        working_dir: "/".into(),
        ..RuntimeEnv::with_variables(&[("TEST_VARIABLE", "sun")])
    };
    let lives = launch(&driver, "Lives", env);
    control.tell(daemon.node_id, lives.clone());
    control.heard(|message| match message {
        NodeToControl::ActorStarted(started) if started.actor_id == lives.spec.actor_id => Some(()),
        _ => None,
    });
    driver.say(FlushLogs { request_id: 5 });
    driver.expect(|message| {
        matches!(message, NodeToClient::LogsFlushed(flushed) if flushed.request_id == 5)
            .then_some(())
    });
    let lines: Vec<_> = driver
        .kept
        .iter()
        .filter_map(|message| match message {
            NodeToClient::LogLines(lines) => Some(lines.lines.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    let shown = |text: &str| {
        lines.iter().find(|line| line.text == text).unwrap_or_else(|| panic!("{lines:?}"))
    };
    assert_eq!((shown("out sun /").is_stderr, shown("out sun /").name.as_str()), (false, "Lives"));
    assert!(shown("err").is_stderr);

    for (class_name, kind, code) in [
        ("Exits", DeathKind::Exited, 7),
        ("Killed", DeathKind::Signaled, 9),
        ("Raises", DeathKind::InitFailed, 0),
    ] {
        let launch = launch(&driver, class_name, RuntimeEnv::default());
        let actor_id = launch.spec.actor_id;
        control.tell(daemon.node_id, launch);
        let cause = ended(&control, actor_id);
        assert_eq!((cause.kind, cause.code), (kind, code), "{cause:?}");
        match class_name {
            "Exits" => assert!(cause.log_tail.contains("no end of line"), "{cause:?}"),
            "Raises" => assert_eq!(cause.error, b"pickled"),
            _ => {}
        }
    }
}

#[test]
fn an_object_is_written_sealed_and_read() {
    let control = Control::start();
    let daemon = Daemon::start("objects", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let arena = driver.arena();
    let object_id = TaskId::new(1, ActorId::new([0; 12], driver.registered.job_id)).object(1);
    let offset = driver.create(object_id, 5);
    arena.copy_in(offset, b"light").unwrap();
    driver.say(SealObject { object_id });
    driver.say(FetchObject {
        request_id: 2,
        object_id,
        locations: Vec::new(),
        ..FetchObject::default()
    });
    let (offset, size) = driver.fetched();
    assert_eq!(arena.slice(offset, size).unwrap().as_slice(), b"light");
}

#[test]
fn garbage_harms_nobody_else() {
    use std::io::Write;
    let control = Control::start();
    let daemon = Daemon::start("garbage", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    for garbage in [vec![0xff; 4096], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![9, 0, 0, 0, 1]] {
        let mut socket = std::os::unix::net::UnixStream::connect(&daemon.socket).unwrap();
        socket.write_all(&garbage).unwrap();
        let mut tcp = std::net::TcpStream::connect(("127.0.0.1", daemon.port)).unwrap();
        tcp.write_all(&garbage).unwrap();
    }
    assert!(Client::connect(&daemon, Role::Driver, "wrong").is_closed(), "AUTH-1");
    let mut unruly = Client::connect(&daemon, Role::Worker, TOKEN);
    unruly.say(SealObject::default());
    assert!(unruly.is_closed(), "a message before the registration ends the connection");
    let mut twice = Client::driver(&daemon, WorkerId([2; 28]));
    twice.say(SealObject::default());
    assert!(twice.is_closed(), "so does sealing what was not created");
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
}

#[test]
fn nothing_is_left_when_the_driver_ends() {
    let control = Control::start();
    let mut daemon = Daemon::start("owner", control.port, &[("TEST_OWNER", "1")]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
    let processes = daemon.descendants();
    assert!(processes.len() >= 2, "a zygote and a worker: {processes:?}");
    drop(driver);
    daemon.wait_for_end();
    for pid in processes {
        wait_until(|| (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    }
    assert!(!daemon.socket.exists());
}

#[test]
fn a_killed_zygote_is_replaced() {
    let control = Control::start();
    let daemon = Daemon::start("zygote", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let zygote = wait_until(|| daemon.descendants().first().copied());
    kill(zygote, rustix::process::Signal::KILL);
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
}

#[test]
fn a_python_that_cannot_run_is_reported_and_not_run_again_and_again() {
    let control = Control::start();
    let daemon = Daemon::start("python", control.port, &[("HELIOSTAT_PYTHON", "false")]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    std::fs::write(daemon.session.join("logs/zygote.err"), "no such module\n").unwrap();
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    let failure = driver.expect(|message| match message {
        NodeToClient::LeaseRefused(refused) => Some(refused.failure.clone()),
        _ => None,
    });
    assert!(failure.message.contains("forks workers"), "{failure:?}");
    wait_until(|| daemon.descendants().is_empty().then_some(()));
}

#[test]
fn workers_that_cannot_start_are_reported() {
    let control = Control::start();
    let daemon = Daemon::start("early", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let mut class = driver.class(&[("CPU", 1.0)]);
    class.runtime_env = RuntimeEnv::with_variables(&[("TEST_DIE_EARLY", "1")]);
    driver.request(class);
    let failure = driver.expect(|message| match message {
        NodeToClient::LeaseRefused(refused) => Some(refused.failure.clone()),
        _ => None,
    });
    assert!(
        failure.message.contains("exited with code 3") && failure.message.contains("cannot live"),
        "{failure:?}"
    );
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// A worker whose zygote is killed ends by a signal, and is reported so.
#[track_caller]
fn outlives_its_zygote(name: &str, env: &[(&str, &str)]) {
    let control = Control::start();
    let daemon = Daemon::start(name, control.port, env);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
    let [zygote, worker] = daemon.descendants()[..] else { panic!("{:?}", daemon.descendants()) };
    kill(zygote, rustix::process::Signal::KILL);
    wait_until(|| (!is_there(zygote)).then_some(()));
    kill(worker, rustix::process::Signal::TERM);
    let cause = driver.expect(lost);
    assert_eq!((cause.kind, cause.code), (DeathKind::Signaled, 15), "{cause:?}");
}

#[test]
fn a_worker_that_outlived_its_zygote_is_still_watched() {
    outlives_its_zygote("orphan", &[]);
}

/// The daemon learns of the worker's process from the worker, which registers.
#[test]
fn a_zygote_that_dies_before_its_answer_leaves_a_worker_that_is_watched() {
    outlives_its_zygote("unanswered", &[("TEST_NO_ANSWER", "1")]);
}

#[test]
fn nothing_is_left_when_the_daemon_is_killed() {
    let control = Control::start();
    let mut daemon = Daemon::start("killed", control.port, &[]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
    let processes = daemon.descendants();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    for pid in processes {
        wait_until(|| (!is_there(pid)).then_some(()));
    }
    wait_until(|| (!daemon.socket.exists()).then_some(()));
}

#[test]
fn a_zygote_with_threads_starts_workers_afresh() {
    let control = Control::start();
    let daemon = Daemon::start("threads", control.port, &[("TEST_THREAD", "1")]);
    let mut driver = Client::driver(&daemon, WorkerId([1; 28]));
    let class = driver.class(&[("CPU", 1.0)]);
    driver.request(class);
    driver.expect(granted);
}

#[test]
fn an_object_is_brought_from_another_node() {
    let control = Control::start();
    let (here, there) =
        (Daemon::start("here", control.port, &[]), Daemon::start("there", control.port, &[]));
    let (mut reader, mut writer) =
        (Client::driver(&here, WorkerId([1; 28])), Client::driver(&there, WorkerId([2; 28])));
    let (ours, theirs) = (reader.arena(), writer.arena());
    let object_id = TaskId::new(1, ActorId::new([0; 12], writer.registered.job_id)).object(1);
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i * 31 % 251) as u8).collect();
    let offset = writer.create(object_id, bytes.len() as u64);
    theirs.copy_in(offset, &bytes).unwrap();
    writer.say(SealObject { object_id });
    let location = NodeAddress {
        node_id: there.node_id,
        host: "127.0.0.1".into(),
        port: u32::from(there.port),
    };
    let nowhere = NodeAddress { node_id: NodeId([7; 28]), host: "127.0.0.1".into(), port: 1 };
    let start = Instant::now();
    let locations = vec![nowhere, location];
    reader.say(FetchObject { request_id: 2, object_id, locations, ..FetchObject::default() });
    let (offset, size) = reader.fetched();
    eprintln!("5 MB in {:?}", start.elapsed());
    assert!(ours.slice(offset, size).unwrap().as_slice() == bytes);
    let missing = TaskId::new(2, ActorId::new([0; 12], writer.registered.job_id)).object(1);
    let location = NodeAddress {
        node_id: there.node_id,
        host: "127.0.0.1".into(),
        port: u32::from(there.port),
    };
    reader.say(FetchObject {
        request_id: 3,
        object_id: missing,
        locations: vec![location],
        ..FetchObject::default()
    });
    let gone = reader.expect(|message| match message {
        NodeToClient::ObjectMissing(missing) => Some(missing.gone.clone()),
        _ => None,
    });
    assert_eq!(gone, [there.node_id]);
}

//! Room for the arguments of tasks, and who waits for room while they run.

use helio_proto::control::FailureKind;
use helio_proto::node::{
    AdmitArguments, Blocked, CreateObject, FetchObject, LeaseGranted, NodeToClient,
    ReleaseArguments, ReleaseObject, SealObject, StoredArgument, Unblocked, Why,
};
use helio_types::ObjectId;

use super::{STORE, World, address, object, resources};
use crate::limits::READ_ROOM_MS_MAX;
use crate::{Conn, DiskError, Setup};

const MAX: u64 = STORE / 10 * 7;

/// Four workers of a node whose running tasks may have [`MAX`] bytes of arguments.
fn world(overflow_size: u64) -> (World, Conn, Vec<(Conn, LeaseGranted)>) {
    let mut world = World::with(Setup {
        address: address(1),
        seed: [9; 28],
        total: resources(&[("CPU", 4.0)]),
        store_size: STORE,
        overflow_size,
        arguments_max: MAX,
        starts_max: 4,
        idle_max: 4,
        ..Setup::default()
    });
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    let workers = (1..=4).map(|request| {
        world.request(driver, request, class.clone());
        let granted = world.granted(driver).unwrap();
        (world.conn_of(&granted), granted)
    });
    let workers = workers.collect();
    (world, driver, workers)
}

impl World {
    /// A task asks for room for arguments: number and size.
    fn asks(&mut self, conn: Conn, request_id: u64, arguments: &[(u64, u64)]) -> bool {
        let one = |&(n, size): &(u64, u64)| StoredArgument { object_id: object(1, n, 1), size };
        let arguments = arguments.iter().map(one).collect();
        self.say(conn, AdmitArguments { request_id, arguments });
        self.is_admitted(conn, request_id)
    }

    fn is_admitted(&mut self, conn: Conn, request_id: u64) -> bool {
        let is_it = |m: &NodeToClient| matches!(m, NodeToClient::ArgumentsAdmitted(m) if m.request_id == request_id);
        self.node.check().unwrap();
        self.took(conn, is_it)
    }

    fn ends(&mut self, conn: Conn, request_id: u64) {
        self.say(conn, ReleaseArguments { request_id });
    }

    fn all_end(mut self, driver: Conn, workers: &[(Conn, LeaseGranted)]) {
        for (_, granted) in workers {
            self.give_back(driver, granted);
        }
        self.close(driver);
        assert_eq!(self.node.census().arguments, 0);
        self.assert_nothing_leaked();
    }
}

#[test]
fn only_as_many_tasks_get_their_arguments_as_leave_room() {
    let (mut world, driver, workers) = world(0);
    let [a, b, c, d] = [0, 1, 2, 3].map(|n: usize| workers[n].0);
    assert!(world.asks(a, 1, &[(1, STORE / 10 * 3)]));
    assert!(world.asks(b, 1, &[(2, STORE / 10 * 3)]));
    assert!(!world.asks(c, 1, &[(3, STORE / 10 * 3)]));
    // A small one does not overtake it, or it would wait for ever.
    assert!(!world.asks(d, 1, &[(4, 100)]));
    world.say(c, Why { request_id: 9, arguments_request_id: 1, ..Why::default() });
    let why = world.take(c, |m| match m {
        NodeToClient::WhyReply(reply) => Some(reply.why.clone()),
        _ => None,
    });
    let why = why.unwrap();
    for part in ["waits for room for its arguments: they have 314571 bytes", "733999", "629142"] {
        assert!(why.contains(part), "{why}");
    }
    world.ends(a, 1);
    assert!(world.is_admitted(c, 1) && world.is_admitted(d, 1));
    for conn in [b, c, d] {
        world.ends(conn, 1);
    }
    world.all_end(driver, &workers);
}

#[test]
fn an_object_that_several_tasks_read_counts_once() {
    let (mut world, driver, workers) = world(0);
    for (conn, _) in &workers {
        assert!(world.asks(*conn, 1, &[(1, MAX / 2), (1, MAX / 2)]));
    }
    world.ends(workers[0].0, 1);
    assert!(!world.asks(workers[0].0, 2, &[(2, MAX / 2 + 2)]), "the others read it still");
    world.all_end(driver, &workers);
}

#[test]
fn one_is_always_admitted_whatever_its_size() {
    let (mut world, driver, workers) = world(0);
    let [a, b] = [0, 1].map(|n: usize| workers[n].0);
    assert!(world.asks(a, 1, &[(1, 5 * STORE)]));
    assert!(!world.asks(b, 1, &[(2, 9 * STORE)]));
    world.ends(a, 1);
    assert!(world.is_admitted(b, 1));
    world.all_end(driver, &workers);
}

#[test]
fn a_worker_that_waits_for_other_work_leaves_room_for_it() {
    let (mut world, driver, workers) = world(4 * STORE);
    let [a, b] = [0, 1].map(|n: usize| workers[n].0);
    assert!(world.asks(a, 1, &[(1, MAX)]));
    assert!(!world.asks(b, 1, &[(2, MAX)]));
    world.say(a, Blocked {});
    assert!(world.is_admitted(b, 1));
    world.ends(b, 1);
    world.say(a, Unblocked {});
    assert!(!world.asks(b, 2, &[(2, MAX)]), "it runs again");
    // A worker that waits for room to write is not about to leave any.
    for n in 0..4 {
        let object_id = object(1, 20 + n, 1);
        world.say(
            driver,
            CreateObject { request_id: n, object_id, size: STORE / 4, ..CreateObject::default() },
        );
    }
    world.say(
        a,
        CreateObject {
            request_id: 7,
            object_id: object(1, 7, 1),
            size: 100,
            ..CreateObject::default()
        },
    );
    world.say(a, Blocked {});
    assert!(!world.is_admitted(b, 2));
    world.say(a, Unblocked {});
    world.ends(a, 1);
    assert!(world.is_admitted(b, 2));
    world.all_end(driver, &workers);
}

#[test]
fn what_is_brought_ahead_takes_half_of_the_room_and_makes_nobody_wait() {
    let (mut world, driver, workers) = world(0);
    let [a, b, c] = [0, 1, 2].map(|n: usize| workers[n].0);
    assert!(world.asks(a, 1, &[(1, MAX / 4)]));
    assert!(world.asks(a, 2, &[(2, MAX / 4)]));
    assert!(!world.asks(a, 3, &[(3, 100)]));
    assert!(world.asks(b, 1, &[(4, MAX / 4)]), "its first one comes before those ahead");
    assert!(world.asks(c, 1, &[(5, MAX / 4)]));
    world.ends(c, 1);
    world.ends(b, 1);
    assert!(!world.is_admitted(a, 3));
    world.ends(a, 1);
    assert!(world.is_admitted(a, 3));
    world.all_end(driver, &workers);
}

#[test]
fn a_worker_that_dies_leaves_its_room_to_others() {
    let (mut world, driver, workers) = world(0);
    let [a, b, c] = [0, 1, 2].map(|n: usize| workers[n].0);
    assert!(world.asks(a, 1, &[(1, MAX)]));
    assert!(!world.asks(b, 1, &[(2, MAX)]) && !world.asks(c, 1, &[(2, 100)]));
    world.close(b);
    assert!(!world.is_admitted(c, 1));
    world.close(a);
    assert!(world.is_admitted(c, 1));
    world.close(c);
    assert_eq!(world.node.census().arguments, 0);
    world.close(driver);
}

/// A task reads an object that fills the memory, and the disk takes nothing.
fn full(overflow_size: u64) -> (World, Conn, Vec<(Conn, LeaseGranted)>, ObjectId) {
    let (mut world, driver, workers) = world(overflow_size);
    world.disk = Some(DiskError { is_full: true, text: "the disk is full".into() });
    let (reader, read) = (workers[0].0, object(1, 1, 1));
    world.say(
        driver,
        CreateObject { request_id: 1, object_id: read, size: STORE, ..CreateObject::default() },
    );
    world.say(driver, SealObject { object_id: read });
    assert!(world.asks(reader, 1, &[(1, STORE)]));
    world.say(
        reader,
        FetchObject {
            request_id: 2,
            object_id: read,
            locations: Vec::new(),
            ..FetchObject::default()
        },
    );
    assert!(world.took(reader, |m| matches!(m, NodeToClient::ObjectFetched(_))));
    (world, driver, workers, read)
}

fn refused(world: &mut World, conn: Conn) -> Option<FailureKind> {
    world.take(conn, |message| match message {
        NodeToClient::ObjectRefused(refused) => Some(refused.failure.kind),
        _ => None,
    })
}

#[test]
fn who_writes_waits_while_a_task_reads_that_will_end() {
    for overflow_size in [0, 4 * STORE] {
        let (mut world, driver, workers, read) = full(overflow_size);
        let (reader, writer) = (workers[0].0, workers[1].0);
        let create = CreateObject {
            request_id: 3,
            object_id: object(1, 2, 1),
            size: 100,
            ..CreateObject::default()
        };
        world.say(writer, create);
        world.pass(100 * READ_ROOM_MS_MAX);
        assert_eq!(refused(&mut world, writer), None);
        world.disk = None;
        world.say(reader, ReleaseObject { object_id: read, pins: 1 });
        world.ends(reader, 1);
        world.pass(100 * READ_ROOM_MS_MAX);
        assert!(world.took(writer, |m| matches!(m, NodeToClient::ObjectCreated(_))));
        world.all_end(driver, &workers);
    }
}

#[test]
fn nobody_waits_for_those_that_wait_themselves() {
    let says: [fn(&mut World, Conn); 2] = [
        // The reader waits for other work; or it has ended and only keeps what it has read.
        |world, reader| world.say(reader, Blocked {}),
        |world, reader| world.ends(reader, 1),
    ];
    for (overflow_size, kind) in [(0, FailureKind::StoreFull), (4 * STORE, FailureKind::OutOfDisk)]
    {
        for say in says {
            let (mut world, driver, workers, _) = full(overflow_size);
            let (reader, writer) = (workers[0].0, workers[1].0);
            say(&mut world, reader);
            let object_id = object(1, 2, 1);
            world.say(
                writer,
                CreateObject { request_id: 3, object_id, size: 100, ..CreateObject::default() },
            );
            world.pass(100 * READ_ROOM_MS_MAX);
            assert_eq!(refused(&mut world, writer), Some(kind));
            world.all_end(driver, &workers);
        }
    }
}

#[test]
fn of_two_that_wait_for_each_other_one_is_refused() {
    for (overflow_size, kind) in [(0, FailureKind::StoreFull), (4 * STORE, FailureKind::OutOfDisk)]
    {
        let (mut world, driver, workers, read) = full(overflow_size);
        let conns = [workers[0].0, workers[1].0];
        world.say(
            conns[1],
            FetchObject {
                request_id: 2,
                object_id: read,
                locations: Vec::new(),
                ..FetchObject::default()
            },
        );
        assert!(world.asks(conns[1], 1, &[(1, STORE)]));
        for (conn, n) in conns.into_iter().zip(2..) {
            let object_id = object(1, n, 1);
            world.say(
                conn,
                CreateObject { request_id: 3, object_id, size: 100, ..CreateObject::default() },
            );
        }
        world.pass(100 * READ_ROOM_MS_MAX);
        let found = conns.map(|conn| refused(&mut world, conn));
        assert!(found.contains(&Some(kind)), "{found:?}");
        world.all_end(driver, &workers);
    }
}

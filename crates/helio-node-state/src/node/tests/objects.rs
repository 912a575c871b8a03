//! The store's book and the transfers.

use helio_proto::cluster::{KeepCopy, NodeToNode, PullChunk, PullFailed, PullObject, PullStart};
use helio_proto::control::FailureKind;
use helio_proto::node::{
    AbortObject, CancelFetch, CreateObject, FetchObject, FreeObject, KeepObject, NodeToClient,
    ObjectFetched, ReleaseObject, SealObject, overflow_start,
};
use helio_types::{NodeId, ObjectId};

use super::{ROOM_MS_MAX, STORE, World, address, node_id, object, resources};
use crate::limits::{PINS_ASK_MS, PULL_RETRY_MS, READ_ROOM_MS_MAX, WORKER_DRAIN_MS_MAX};
use crate::{Conn, DiskError, Event, Exit, Node, Setup};

mod orphans;

impl World {
    fn create(&mut self, conn: Conn, object_id: ObjectId, size: u64) -> Option<u64> {
        self.say(conn, CreateObject { request_id: 1, object_id, size, ..CreateObject::default() });
        self.created(conn)
    }

    fn created(&mut self, conn: Conn) -> Option<u64> {
        self.take(conn, |message| match message {
            NodeToClient::ObjectCreated(created) => Some(created.offset),
            _ => None,
        })
    }

    fn put(&mut self, conn: Conn, object_id: ObjectId, size: u64) {
        self.create(conn, object_id, size).unwrap();
        self.say(conn, SealObject { object_id });
    }

    /// Puts an object as [`Self::put`] does, for the other client as its owner.
    fn put_for(&mut self, owner: Conn, conn: Conn, object_id: ObjectId) {
        self.make_for(owner, conn, object_id);
        self.created(conn).unwrap();
    }

    fn fetch(
        &mut self,
        conn: Conn,
        request_id: u64,
        object_id: ObjectId,
        from: &[u8],
    ) -> Option<ObjectFetched> {
        let locations = from.iter().map(|n| address(*n)).collect();
        self.say(conn, FetchObject { request_id, object_id, locations, ..FetchObject::default() });
        self.fetched(conn)
    }

    fn fetched(&mut self, conn: Conn) -> Option<ObjectFetched> {
        self.take(conn, |message| match message {
            NodeToClient::ObjectFetched(fetched) => Some(fetched.clone()),
            _ => None,
        })
    }

    fn refused(&mut self, conn: Conn) -> Option<(FailureKind, String)> {
        self.take(conn, |message| match message {
            NodeToClient::ObjectRefused(refused) => {
                Some((refused.failure.kind, refused.failure.message.clone()))
            }
            _ => None,
        })
    }

    fn missing(&mut self, conn: Conn) -> Option<Vec<NodeId>> {
        self.take(conn, |message| match message {
            NodeToClient::ObjectMissing(missing) => Some(missing.gone.clone()),
            _ => None,
        })
    }

    fn used(&self) -> u64 {
        self.node.info().object_store_used
    }

    /// The number of the pull that was asked of that node last.
    fn pull(&mut self, n: u8) -> u64 {
        match self.asked.pop() {
            Some((to, NodeToNode::Pull(pull))) if to == node_id(n) => pull.request_id,
            other => panic!("{other:?}"),
        }
    }

    fn peer(&mut self, n: u8, message: impl Into<NodeToNode>) {
        self.feed(Event::PeerSaid {
            conn: Conn(900 + u64::from(n)),
            node_id: node_id(n),
            message: message.into(),
        });
    }

    fn bring(&mut self, conn: Conn, object_id: ObjectId, size: u64) {
        assert_eq!(self.fetch(conn, 50, object_id, &[2]), None);
        let request_id = self.pull(2);
        self.peer(2, PullStart { request_id, size, is_bulk: false });
        self.peer(2, PullChunk { request_id, offset: 0, bytes: vec![0; size as usize] });
        assert!(self.fetched(conn).is_some());
    }
}

#[test]
fn an_object_is_read_only_when_sealed_and_stays_until_freed_and_unpinned() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (writer, reader) = (world.driver(), world.driver());
    let id = object(1, 1, 1);
    let offset = world.create(writer, id, 1000).unwrap();
    assert_eq!(world.fetch(reader, 7, id, &[1]), None, "SHM-1: it is being written");
    world.say(writer, SealObject { object_id: id });
    let fetched = world.fetched(reader).unwrap();
    assert_eq!((fetched.request_id, fetched.offset, fetched.size), (7, offset, 1000));
    world.say(
        writer,
        FreeObject {
            object_id: id,
            locations: vec![address(1), address(2)],
            ..FreeObject::default()
        },
    );
    assert!(matches!(world.asked.pop(), Some((to, NodeToNode::Drop(_))) if to == node_id(2)));
    assert!(world.used() >= 1000, "SHM-1: a reader has it pinned");
    world.say(reader, ReleaseObject { object_id: id, pins: 1 });
    assert_eq!(world.used(), 0);
    world.say(reader, ReleaseObject { object_id: id, pins: 1 });
    assert!(
        world.closed.iter().any(|(conn, _)| *conn == reader),
        "released more often than fetched"
    );
}

#[test]
fn what_a_generator_made_goes_from_one_item_on() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (owner, runner) = (world.driver(), world.driver());
    for index in 2..6 {
        world.put_for(owner, runner, object(1, 1, index));
    }
    world.put_for(owner, runner, object(1, 2, 4));
    world.put(runner, object(1, 1, 7), 100);
    let rest_of = world.node.clients.get(owner).unwrap().worker_id();
    let locations = vec![address(2)];
    world.say(owner, FreeObject { object_id: object(1, 1, 4), locations, rest_of });
    let mut left: Vec<ObjectId> = world.node.objects().into_iter().map(|(id, _)| id).collect();
    left.sort_unstable();
    assert_eq!(left, [object(1, 1, 2), object(1, 1, 3), object(1, 1, 7), object(1, 2, 4)]);
    world.put_for(owner, runner, object(1, 1, 8));
    assert_eq!(world.node.objects().len(), left.len(), "it came too late");
    let told = world.asked.pop();
    assert!(matches!(told, Some((to, NodeToNode::Drop(drop))) if to == node_id(2)
        && (drop.object_id, drop.rest_of) == (object(1, 1, 4), rest_of)));
}

#[test]
fn what_a_process_sent_before_its_end_counts_however_late_it_is_read() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let worker_id = world.granted(driver).unwrap().worker.worker_id;
    let conn = world.workers.insert(worker_id, None).unwrap().unwrap();
    let id = object(1, 1, 1);
    world.create(conn, id, 1000).unwrap();
    let seal = Event::ClientSaid { conn, message: SealObject { object_id: id }.into() };
    world.unread.insert(conn, vec![seal]);
    world.worker_ends(worker_id, Exit::Code(0));
    assert_eq!(world.fetch(driver, 7, id, &[1]), None, "SHM-1: it is being written");
    world.pass(WORKER_DRAIN_MS_MAX);
    assert!(world.fetched(driver).is_some(), "it was sealed");
    assert!(world.forgotten.contains(&worker_id));
}

#[test]
fn a_second_attempt_never_touches_the_first_ones_bytes() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (one, two) = (world.driver(), world.driver());
    let id = object(1, 1, 1);
    let first = world.create(one, id, 100).unwrap();
    let second = world.create(two, id, 100).unwrap();
    assert_ne!(first, second, "SHM-1");
    world.say(two, SealObject { object_id: id });
    world.say(one, SealObject { object_id: id });
    assert_eq!(world.fetch(one, 2, id, &[]).unwrap().offset, second, "the first seal counts");
    world.say(
        one,
        CreateObject { request_id: 5, object_id: id, size: 100, ..CreateObject::default() },
    );
    assert_eq!(world.refused(one).unwrap().0, FailureKind::AlreadyExists);
}

/// Seed 3015522 of the simulator: a worker that lost the connection to its caller runs the call again while
/// the first attempt still writes what it returns, or waits for room to.
#[test]
fn two_attempts_in_one_process_write_once() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let writer = world.driver();
    let id = object(1, 1, 1);
    world.create(writer, id, 100).unwrap();
    let used = world.used();
    world.say(
        writer,
        CreateObject { request_id: 5, object_id: id, size: 100, ..CreateObject::default() },
    );
    assert_eq!(world.refused(writer).unwrap().0, FailureKind::AlreadyExists);
    assert_eq!(world.used(), used);
    world.say(writer, SealObject { object_id: id });
    assert!(world.closed.is_empty());

    let (mut world, client, ..) = pinned_world();
    let id = object(1, 9, 1);
    for request_id in [11, 12] {
        world.say(
            client,
            CreateObject { request_id, object_id: id, size: 1 << 20, ..CreateObject::default() },
        );
    }
    assert_eq!(world.refused(client).unwrap().0, FailureKind::AlreadyExists);
    assert!(world.closed.is_empty());
}

#[test]
fn a_dead_clients_extents_and_pins_come_back() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (owner, client) = (world.driver(), world.driver());
    let (kept, begun) = (object(1, 1, 1), object(1, 2, 1));
    world.put(owner, kept, 1000);
    world.fetch(client, 1, kept, &[]).unwrap();
    world.create(client, begun, 5000).unwrap();
    assert_eq!(world.fetch(owner, 9, begun, &[1]), None);
    world.close(client);
    assert_eq!(world.missing(owner), Some(vec![node_id(1)]), "its writer died");
    assert_eq!(world.used(), 1024, "SHM-1");
    world
        .say(owner, FreeObject { object_id: kept, locations: Vec::new(), ..FreeObject::default() });
    assert_eq!(world.used(), 0);
    world.assert_nothing_leaked();
}

#[test]
fn a_full_store_waits_for_room_and_then_says_what_fills_it() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let (a, b, c) = (object(1, 1, 1), object(1, 2, 1), object(1, 3, 1));
    for id in [a, b] {
        world.put(client, id, STORE / 2);
        world.fetch(client, 4, id, &[]).unwrap();
    }
    assert_eq!(world.create(client, c, STORE / 4), None);
    world.say(client, FreeObject { object_id: a, locations: Vec::new(), ..FreeObject::default() });
    assert_eq!(world.created(client), None, "it is pinned");
    world.say(client, ReleaseObject { object_id: a, pins: 1 });
    assert!(world.created(client).is_some(), "room came in time");
    assert_eq!(world.create(client, object(1, 4, 1), STORE / 2), None);
    world.pass(ROOM_MS_MAX);
    let (kind, message) = world.refused(client).unwrap();
    assert_eq!(kind, FailureKind::StoreFull);
    assert!(
        message.contains(&format!("needs {} bytes", STORE / 2))
            && message.contains("524288 are pinned"),
        "{message}"
    );
    world.say(
        client,
        CreateObject {
            request_id: 9,
            object_id: object(1, 5, 1),
            size: STORE + 1,
            ..CreateObject::default()
        },
    );
    assert_eq!(world.refused(client).unwrap().0, FailureKind::StoreFull, "at once: it never fits");
    world.say(client, AbortObject { object_id: c });
    world.close(client);
    world.assert_nothing_leaked();
}

/// A driver that pins the whole store, and an object that is on disk only.
fn pinned_world() -> (World, Conn, [ObjectId; 2], ObjectId) {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.node = Node::new(Setup { overflow_size: 4 * STORE, ..world.node.ctx.setup().clone() }, 0);
    world.feed(Event::ControlConnected);
    world.view(&[(2, true, 1.0)]);
    let client = world.driver();
    let ids = [object(1, 1, 1), object(1, 2, 1), object(1, 3, 1)];
    for id in ids {
        world.put(client, id, STORE / 2);
    }
    let (there, kept): (Vec<ObjectId>, Vec<ObjectId>) =
        ids.into_iter().partition(|id| world.node.store.is_on_disk_only(*id));
    for (n, id) in kept.iter().enumerate() {
        world.fetch(client, n as u64, *id, &[]).unwrap();
    }
    (world, client, [kept[0], kept[1]], there[0])
}

#[test]
fn what_is_read_while_others_keep_the_memory_is_laid_on_disk_until_its_readers_are_gone() {
    let (mut world, client, _, spilled) = pinned_world();
    assert_eq!(world.fetch(client, 7, spilled, &[]), None);
    let why = world.node.why_object(spilled, &[]);
    assert!(why.contains("to which it was spilled; the object store is full"), "{why}");
    world.pass(READ_ROOM_MS_MAX);
    let fetched = world.fetched(client).unwrap();
    assert!(fetched.offset >= overflow_start(STORE) && fetched.size == STORE / 2);
    let again = world.fetch(client, 8, spilled, &[]).unwrap();
    assert_eq!(again.offset, fetched.offset, "it is there for all");
    assert_eq!(world.used(), STORE, "and takes no memory");
    world.say(client, ReleaseObject { object_id: spilled, pins: 2 });
    assert_eq!(world.punched, [fetched.offset]);
    assert!(world.node.store.is_on_disk_only(spilled) && world.files.contains(&spilled));
    world.say(
        client,
        FreeObject { object_id: spilled, locations: Vec::new(), ..FreeObject::default() },
    );
    assert!(!world.files.contains(&spilled));
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn what_another_node_has_is_laid_on_disk_too_even_if_it_is_larger_than_the_memory() {
    let (mut world, client, _, _) = pinned_world();
    for (n, size) in [(1, 100), (2, 2 * STORE)] {
        let id = object(9, n, 1);
        assert_eq!(world.fetch(client, n, id, &[2]), None);
        let first = world.pull(2);
        world.peer(2, PullStart { request_id: first, size, is_bulk: false });
        world.asked.retain(|(_, message)| !matches!(message, NodeToNode::CancelPull(_)));
        world.pass(READ_ROOM_MS_MAX);
        let second = world.pull(2);
        world.peer(2, PullStart { request_id: second, size, is_bulk: false });
        world.peer(2, PullChunk { request_id: second, offset: 0, bytes: vec![0; size as usize] });
        let fetched = world.fetched(client).unwrap();
        assert!(fetched.offset >= overflow_start(STORE) && fetched.size == size);
        world.say(client, ReleaseObject { object_id: id, pins: 1 });
        assert_eq!(world.punched.pop(), Some(fetched.offset));
    }
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn without_room_in_memory_and_on_disk_the_reader_is_told() {
    let (mut world, client, kept, spilled) = pinned_world();
    world.disk = Some(DiskError { is_full: true, text: "the disk is full".into() });
    assert_eq!(world.fetch(client, 7, spilled, &[]), None);
    world.pass(ROOM_MS_MAX);
    let (kind, text) = world.refused(client).unwrap();
    assert_eq!(kind, FailureKind::OutOfDisk);
    for part in ["1048576 by pid 50 (a driver)", "the disk is full", "delete them"] {
        assert!(text.contains(part), "{text}");
    }
    // The object is not lost: later there is room.
    world.disk = None;
    world.say(client, ReleaseObject { object_id: kept[0], pins: 1 });
    if world.fetch(client, 8, spilled, &[]).is_none() {
        world.fetched(client).unwrap();
    }
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn a_reader_that_gives_up_leaves_nothing_on_disk() {
    let (mut world, client, _, spilled) = pinned_world();
    let away = object(9, 1, 1);
    assert_eq!(world.fetch(client, 6, spilled, &[]), None);
    assert_eq!(world.fetch(client, 7, away, &[2]), None);
    let request_id = world.pull(2);
    world.peer(2, PullStart { request_id, size: 100, is_bulk: false });
    world.say(client, CancelFetch { request_id: 6 });
    world.say(client, CancelFetch { request_id: 7 });
    world.pass(READ_ROOM_MS_MAX);
    assert_eq!(world.fetched(client), None);
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn more_than_the_memory_holds_goes_to_disk_and_comes_back() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let ids: Vec<ObjectId> = (0..10).map(|n| object(1, n, 1)).collect();
    for id in &ids {
        world.put(client, *id, STORE / 4);
    }
    assert!(world.files.len() >= 6 && world.used() <= STORE, "{:?}", world.files);
    for (n, id) in ids.iter().enumerate() {
        if world.fetch(client, n as u64, *id, &[1]).is_none() {
            world.fetched(client).unwrap();
        }
        world.say(client, ReleaseObject { object_id: *id, pins: 1 });
    }
    // A pinned one is no candidate, and another daemon's read waits for the disk, too.
    world.fetch(client, 90, ids[9], &[]).unwrap();
    let spilled = *ids.iter().find(|id| world.node.store.is_on_disk_only(**id)).unwrap();
    world.peer(2, PullObject { request_id: 4, object_id: spilled });
    assert_eq!(world.served, [(Conn(902), 4)]);
    for id in &ids {
        world.say(
            client,
            FreeObject { object_id: *id, locations: Vec::new(), ..FreeObject::default() },
        );
    }
    world.feed(Event::Served { conn: Conn(902), request_id: 4 });
    assert_eq!(world.files.len(), 0);
    world.close(client);
    assert_eq!(world.used(), 0);
    world.assert_nothing_leaked();
}

/// SHM-1: what a disk gives that is not what was written is not read.
#[test]
fn an_object_whose_file_is_damaged_is_lost_and_the_log_says_so() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let ids: Vec<ObjectId> = (0..10).map(|n| object(1, n, 1)).collect();
    for id in &ids {
        world.put(client, *id, STORE / 4);
    }
    let mut on_disk = ids.iter().filter(|id| world.node.store.is_on_disk_only(**id)).copied();
    let (damaged, whole) = (on_disk.next().unwrap(), on_disk.next().unwrap());
    drop(on_disk);
    world.damaged.insert(damaged);
    assert!(world.fetch(client, 1, whole, &[1]).is_some() || world.fetched(client).is_some());
    assert_eq!(world.fetch(client, 2, damaged, &[1]), None);
    assert_eq!(world.fetched(client), None);
    assert_eq!(world.told_damaged, [damaged]);
    assert!(!world.files.contains(&damaged), "its file goes");
}

#[test]
fn pins_that_are_in_the_way_are_asked_for() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let asked = |message: &NodeToClient| matches!(message, NodeToClient::RoomWanted(_));
    world.put(client, object(1, 1, 1), STORE);
    world.fetch(client, 1, object(1, 1, 1), &[]).unwrap();
    world.pass(PINS_ASK_MS);
    assert_eq!(world.create(client, object(1, 2, 1), 100), None);
    assert!(world.took(client, asked) && !world.took(client, asked));
    world.pass(PINS_ASK_MS);
    assert!(world.took(client, asked), "for as long as somebody waits");
    world.say(client, ReleaseObject { object_id: object(1, 1, 1), pins: 1 });
    assert!(world.created(client).is_some() && world.files.len() == 1);
    world.pass(PINS_ASK_MS);
    assert!(!world.took(client, asked));
}

#[test]
fn writing_to_disk_begins_before_the_memory_is_full() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    for n in 0..7 {
        world.put(client, object(1, n, 1), STORE / 10);
    }
    assert_eq!(world.files.len(), 0);
    for n in 7..9 {
        world.put(client, object(1, n, 1), STORE / 10);
    }
    assert!(world.files.contains(&object(1, 0, 1)), "the least recently used first");
    assert!(!world.node.store.is_on_disk_only(object(1, 0, 1)), "its memory is still there");
}

#[test]
fn a_full_disk_is_said_to_be_full_and_nothing_is_lost() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.disk = Some(DiskError { is_full: true, text: "/spill: 99 % in use".into() });
    let (a, b) = (object(1, 1, 1), object(1, 2, 1));
    world.put(client, a, STORE / 2);
    world.put(client, b, STORE / 2);
    assert_eq!(world.create(client, object(1, 3, 1), 100), None);
    world.pass(ROOM_MS_MAX);
    let (kind, message) = world.refused(client).unwrap();
    assert_eq!(kind, FailureKind::OutOfDisk);
    assert!(message.contains("99 % in use"), "{message}");
    assert!(world.fetch(client, 1, a, &[]).is_some() && world.fetch(client, 2, b, &[]).is_some());
}

/// A driver whose object fills the store, while the disk takes nothing.
fn full_world(overflow_size: u64) -> (World, Conn, ObjectId) {
    let mut world = World::with(Setup {
        address: address(1),
        total: resources(&[("CPU", 1.0)]),
        store_size: STORE,
        overflow_size,
        starts_max: 1,
        ..Setup::default()
    });
    let client = world.driver();
    let kept = object(1, 1, 1);
    world.disk = Some(DiskError { is_full: true, text: "the disk is full".into() });
    world.put(client, kept, STORE);
    (world, client, kept)
}

#[test]
fn a_writer_has_the_room_that_comes_while_store_and_disk_are_full() {
    for overflow_size in [0, 4 * STORE] {
        let (mut world, client, kept) = full_world(overflow_size);
        assert_eq!(world.create(client, object(1, 2, 1), 100), None);
        world.pass(ROOM_MS_MAX - 1);
        assert_eq!((world.created(client), world.refused(client)), (None, None));
        world.say(
            client,
            FreeObject { object_id: kept, locations: Vec::new(), ..FreeObject::default() },
        );
        assert!(world.created(client).is_some());
        assert_eq!(world.refused(client), None);
    }
}

#[test]
fn a_writer_waits_for_a_task_whose_worker_is_only_starting() {
    for overflow_size in [0, 4 * STORE] {
        let (mut world, client, _) = full_world(overflow_size);
        world.starts_at_once = false;
        world.request(client, 1, world.class(1, &[("CPU", 1.0)]));
        assert_eq!(world.create(client, object(1, 2, 1), 100), None);
        world.pass(2 * ROOM_MS_MAX);
        assert_eq!((world.created(client), world.refused(client)), (None, None));
        for spawned in std::mem::take(&mut world.spawned) {
            world.register_worker(spawned.worker_id);
        }
        world.pass(1);
        assert!(world.granted(client).is_some());
        world.pass(ROOM_MS_MAX - 2 * READ_ROOM_MS_MAX);
        assert_eq!(world.refused(client), None);
        world.pass(3 * READ_ROOM_MS_MAX);
        let refused = world.refused(client).map(|(kind, _)| kind);
        assert_eq!(refused, Some(FailureKind::OutOfDisk), "its task never came");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_lost_copy() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let (a, b) = (object(1, 1, 1), object(1, 2, 1));
    world.put(client, a, STORE / 2);
    world.put(client, b, STORE);
    assert!(world.node.store.is_on_disk_only(a));
    world.disk = Some(DiskError { is_full: false, text: "input/output error".into() });
    world.say(client, FreeObject { object_id: b, locations: Vec::new(), ..FreeObject::default() });
    assert_eq!(world.fetch(client, 1, a, &[1]), None);
    assert_eq!(world.missing(client), Some(vec![node_id(1)]));
    assert_eq!((world.files.len(), world.used()), (0, 0));
}

#[test]
fn what_is_brought_here_waits_for_room() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0)]);
    let (a, b) = (object(1, 1, 1), object(9, 2, 1));
    world.put(client, a, STORE);
    world.fetch(client, 1, a, &[]).unwrap();
    assert_eq!(world.fetch(client, 2, b, &[2]), None);
    let first = world.pull(2);
    world.peer(2, PullStart { request_id: first, size: 100, is_bulk: false });
    assert!(matches!(world.asked.pop(), Some((_, NodeToNode::CancelPull(_)))), "not now");
    world.pass(ROOM_MS_MAX / 2);
    assert_eq!((world.missing(client), world.refused(client)), (None, None), "it waits");
    world.say(client, ReleaseObject { object_id: a, pins: 1 });
    let second = world.pull(2);
    world.peer(2, PullStart { request_id: second, size: 100, is_bulk: false });
    world.peer(2, PullChunk { request_id: second, offset: 0, bytes: vec![0; 100] });
    assert_eq!(world.fetched(client).unwrap().request_id, 2);
}

#[test]
fn copies_brought_here_give_way_the_least_recently_used_first() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0)]);
    let (a, b, c) = (object(9, 1, 1), object(9, 2, 1), object(9, 3, 1));
    for id in [a, b, c] {
        world.bring(client, id, STORE / 4);
    }
    world.say(client, ReleaseObject { object_id: a, pins: 1 });
    world.say(client, ReleaseObject { object_id: b, pins: 1 });
    world.fetch(client, 60, a, &[]).unwrap();
    world.say(client, ReleaseObject { object_id: a, pins: 1 });
    for n in 1..=2 {
        assert!(world.create(client, object(1, n, 1), STORE / 4).is_some());
    }
    assert!(world.fetch(client, 61, a, &[]).is_some(), "b was used less recently");
    assert!(world.fetch(client, 62, c, &[]).is_some(), "c is pinned");
    assert_eq!(world.fetch(client, 63, b, &[]), None);
    assert_eq!(world.missing(client), Some(Vec::new()));
}

#[test]
fn fetches_share_a_pull_and_try_every_location() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let (one, two) = (world.driver(), world.driver());
    world.view(&[(2, true, 1.0), (3, true, 1.0), (4, true, 1.0)]);
    let id = object(1, 1, 1);
    assert_eq!(world.fetch(one, 1, id, &[2, 3]), None);
    let first = world.pull(2);
    assert_eq!(world.fetch(two, 1, id, &[2, 3, 4]), None);
    assert!(world.asked.is_empty(), "one pull for both");
    world.peer(2, PullFailed { request_id: first, reason: "not here".into() });
    let second = world.pull(3);
    world.peer(3, PullStart { request_id: second, size: 10, is_bulk: false });
    world.peer(3, PullChunk { request_id: second, offset: 0, bytes: vec![0; 4] });
    world.feed(Event::PeerLost { conn: None, node_id: node_id(3) });
    assert!(world.asked.is_empty(), "after a lost connection it waits a moment");
    world.pass(PULL_RETRY_MS);
    let third = world.pull(4);
    world.peer(4, PullStart { request_id: third, size: 10, is_bulk: false });
    world.peer(2, PullChunk { request_id: third, offset: 0, bytes: vec![0; 10] });
    assert_eq!(world.fetched(one), None, "only who was asked is heard");
    world.peer(4, PullFailed { request_id: third, reason: "not any more".into() });
    let again = world.pull(3);
    world.peer(3, PullStart { request_id: again, size: 10, is_bulk: false });
    world.peer(3, PullChunk { request_id: again, offset: 0, bytes: vec![0; 10] });
    assert!(world.fetched(one).is_some() && world.fetched(two).is_some());
    assert_eq!(world.written, 14);

    let other = object(1, 2, 1);
    assert_eq!(world.fetch(one, 2, other, &[2]), None);
    let request_id = world.pull(2);
    world.peer(2, PullStart { request_id, size: 10, is_bulk: false });
    world.peer(2, PullChunk { request_id, offset: 5, bytes: vec![0; 5] });
    assert_eq!(world.missing(one), Some(vec![node_id(2)]), "bytes out of order are not believed");
    world.close(one);
    world.close(two);
    world.assert_nothing_leaked();
}

/// F3.04: a reader's copy gives way when room is needed, unless its owner has no other.
#[test]
fn a_copy_that_is_to_be_kept_does_not_give_way() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0)]);
    let (kept, other) = (object(9, 1, 1), object(9, 2, 1));
    for id in [kept, other] {
        world.bring(client, id, STORE / 4);
        world.say(client, ReleaseObject { object_id: id, pins: 1 });
    }
    world.peer(2, NodeToNode::Keep(KeepCopy { object_id: kept }));
    world.peer(2, NodeToNode::Keep(KeepCopy { object_id: object(9, 3, 1) }));
    for n in 1..=3 {
        assert!(world.create(client, object(1, n, 1), STORE / 4).is_some(), "the other gives way");
    }
    assert!(world.fetch(client, 61, kept, &[]).is_some());
    assert_eq!(world.fetch(client, 62, other, &[]), None);
    world.say(client, KeepObject { object_id: kept, at: address(2) });
    assert!(matches!(world.asked.pop(), Some((to, NodeToNode::Keep(_))) if to == node_id(2)));
    world.say(
        client,
        FreeObject { object_id: kept, locations: Vec::new(), ..FreeObject::default() },
    );
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn a_fetch_nobody_waits_for_stops_its_pull() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0)]);
    let id = object(1, 1, 1);
    world.fetch(client, 1, id, &[2]);
    let request_id = world.pull(2);
    world.peer(2, PullStart { request_id, size: 10, is_bulk: false });
    world.say(client, CancelFetch { request_id: 1 });
    assert!(matches!(world.asked.pop(), Some((_, NodeToNode::CancelPull(_)))));
    assert_eq!(world.used(), 0);
}

#[test]
fn a_large_object_comes_over_a_connection_of_its_own() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0), (3, true, 1.0)]);
    let id = object(1, 1, 1);
    assert_eq!(world.fetch(client, 1, id, &[2, 3]), None);
    let first = world.pull(2);
    world.peer(2, PullStart { request_id: first, size: 100, is_bulk: true });
    let (_, size) = world.receiving[&first];
    assert_eq!(size, 100);
    world.feed(Event::ReceivedSome { request_id: first, received: 60 });
    world.receiving.clear();
    world.feed(Event::Received { request_id: first, outcome: Err("lost".into()) });
    assert_eq!(world.used(), 0, "what was half there is not kept");
    world.pass(PULL_RETRY_MS);
    let second = world.pull(3);
    world.peer(3, PullStart { request_id: second, size: 100, is_bulk: true });
    world.feed(Event::Received { request_id: first, outcome: Ok(()) });
    assert_eq!(world.fetched(client), None, "that pull is over");
    world.receiving.clear();
    world.feed(Event::Received { request_id: second, outcome: Ok(()) });
    assert_eq!(world.fetched(client).unwrap().size, 100);
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn nothing_is_received_any_more_before_its_room_is_given_away() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    world.view(&[(2, true, 1.0), (3, true, 1.0)]);
    let id = object(1, 1, 1);
    world.fetch(client, 1, id, &[2, 3]);
    let first = world.pull(2);
    world.peer(2, PullStart { request_id: first, size: STORE, is_bulk: true });
    // The next place's bytes go where those of the dead node went: the world checks that these stopped (SHM-1).
    world.view(&[(2, false, 1.0), (3, true, 1.0)]);
    let second = world.pull(3);
    world.peer(3, PullStart { request_id: second, size: STORE, is_bulk: true });
    assert_eq!(world.receiving.keys().collect::<Vec<_>>(), [&second]);
    world.peer(3, PullChunk { request_id: second, offset: 0, bytes: vec![0; 10] });
    assert!(world.receiving.is_empty(), "bytes that nobody asked for are not believed");
    assert_eq!(world.missing(client), Some(vec![node_id(2), node_id(3)]));
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn an_object_that_is_being_sent_stays() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let client = world.driver();
    let id = object(1, 1, 1);
    world.put(client, id, 100);
    world.peer(2, PullObject { request_id: 4, object_id: id });
    assert!(
        matches!(world.answered.pop(), Some((_, NodeToNode::PullStart(start))) if start.size == 100)
    );
    assert_eq!(world.served, [(Conn(902), 4)]);
    world.say(client, FreeObject { object_id: id, locations: Vec::new(), ..FreeObject::default() });
    assert!(world.used() > 0, "SHM-1");
    world.feed(Event::Served { conn: Conn(902), request_id: 4 });
    assert_eq!(world.used(), 0);
    world.peer(2, PullObject { request_id: 5, object_id: id });
    assert!(matches!(world.answered.pop(), Some((_, NodeToNode::PullFailed(_)))));
}

/// F3.05: the memory is full of what a reader keeps, or the object is larger than all of it.
#[test]
fn what_finds_no_room_in_memory_is_written_on_disk_and_stays_there() {
    let (mut world, client, kept, _) = pinned_world();
    let (beside, large) = (object(1, 7, 1), object(1, 8, 1));
    assert_eq!(world.create(client, beside, STORE / 4), None);
    world.pass(READ_ROOM_MS_MAX);
    let first = world.created(client).expect("laid on disk");
    let second = world.create(client, large, 2 * STORE).expect("at once: it never fits");
    assert!(first >= overflow_start(STORE) && second > first);
    for id in [beside, large] {
        world.say(client, SealObject { object_id: id });
    }
    // The objects stay, read or not, although there is room in memory now, and they are not spilled again.
    for id in kept {
        world.say(client, ReleaseObject { object_id: id, pins: 1 });
        world.say(
            client,
            FreeObject { object_id: id, locations: Vec::new(), ..FreeObject::default() },
        );
    }
    let files = world.files.clone();
    for (n, (id, offset)) in [(beside, first), (large, second)].into_iter().enumerate() {
        let fetched = world.fetch(client, 20 + n as u64, id, &[]).expect("it is there");
        assert_eq!(fetched.offset, offset);
        world.say(client, ReleaseObject { object_id: id, pins: 1 });
    }
    assert_eq!(world.files, files);
    assert!(world.punched.is_empty(), "{:?}", world.punched);
    for id in [beside, large] {
        world.say(
            client,
            FreeObject { object_id: id, locations: Vec::new(), ..FreeObject::default() },
        );
    }
    assert_eq!(world.punched, [first, second]);
    world.close(client);
    world.assert_nothing_leaked();
}

#[test]
fn a_writer_that_is_gone_before_the_disk_answers_leaves_nothing() {
    let (mut world, client, _, _) = pinned_world();
    world.disk = Some(DiskError { is_full: true, text: "the disk is full".into() });
    assert_eq!(world.create(client, object(1, 8, 1), 2 * STORE), None);
    world.pass(ROOM_MS_MAX);
    let (kind, text) = world.refused(client).unwrap();
    assert_eq!(kind, FailureKind::OutOfDisk, "{text}");
    world.disk = None;
    // The client aborts one creation while that waits, and closes while another waits.
    assert_eq!(world.create(client, object(1, 9, 1), STORE / 4), None);
    world.say(client, AbortObject { object_id: object(1, 9, 1) });
    assert_eq!(world.create(client, object(1, 10, 1), STORE / 4), None);
    world.close(client);
    world.pass(READ_ROOM_MS_MAX);
    world.assert_nothing_leaked();
}

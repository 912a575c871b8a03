//! Objects whose job, owner or readers have ended.

use helio_proto::cluster::TellLiveness;
use helio_proto::hello::Role;
use helio_proto::node::Register;
use helio_types::WorkerId;

use super::*;
use crate::limits::OWNERS_ASK_MS;

#[test]
fn a_jobs_objects_go_with_it_and_puts_with_their_owner() {
    let mut world = World::new(&[("CPU", 1.0)]);
    let driver = world.driver();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class);
    let lease = world.granted(driver).unwrap();
    let worker = world.conn_of(&lease);
    let put = helio_types::id::PUT_INDEX_BASE;
    world.put_for(driver, worker, object(1, 1, 1));
    world.put(worker, object(1, 1, put), 100);
    assert_eq!(world.used(), 256);
    world.worker_ends(lease.worker.worker_id, Exit::Signal(9));
    world.pass(0);
    assert_eq!(world.used(), 128, "what it returned belongs to the driver");
    world.close(driver);
    assert_eq!(world.used(), 0);
}

/// LIMIT-1: what tasks returned to a process of another node goes with that process, or its node, and not with a line
/// that is broken.
#[test]
fn what_tasks_returned_to_a_dead_process_elsewhere_goes() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 0.0), (3, true, 0.0)]);
    let returned_to_one_at = |world: &mut World, node: u8| {
        let lessee = world.open(Role::Driver, node_id(node), false);
        let worker_id = WorkerId([node; 28]);
        world.say(lessee, Register { worker_id, remote: true, ..Register::default() });
        let class = world.class(1, &[("CPU", 1.0)]);
        world.request(lessee, 1, class);
        let lease = world.granted(lessee).unwrap();
        world.put_for(lessee, world.conn_of(&lease), object(1, node.into(), 1));
        world.give_back(lessee, &lease);
        world.close(lessee);
    };
    let asked_after = |world: &mut World, node: u8| {
        let asked = world.asked.pop();
        let Some((to, NodeToNode::AskLiveness(ask))) = asked else { panic!("{asked:?}") };
        assert_eq!((to, ask.worker_id), (node_id(node), WorkerId([node; 28])));
        TellLiveness { request_id: ask.request_id, ..TellLiveness::default() }
    };
    returned_to_one_at(&mut world, 2);
    let lives = asked_after(&mut world, 2);
    world.peer(2, lives);
    world.pass(OWNERS_ASK_MS);
    assert_eq!(world.used(), 128, "it lives");
    let dead = TellLiveness { dead: true, ..asked_after(&mut world, 2) };
    world.peer(2, dead);
    assert_eq!(world.used(), 0);
    returned_to_one_at(&mut world, 3);
    asked_after(&mut world, 3);
    assert_eq!(world.used(), 128);
    world.view(&[(3, false, 0.0)]);
    assert_eq!(world.used(), 0);
}

/// LIMIT-1: a copy goes with the owner of the object, and with the last reader who has not let go of it: that one may
/// have had no time to tell the owner.
#[test]
fn copies_go_with_dead_owners_and_dead_readers() {
    let mut world = World::new(&[("CPU", 1.0)]);
    world.view(&[(2, true, 0.0)]);
    let owner = WorkerId([7; 28]);
    let copied = |world: &mut World, reader: Conn, n: u64| {
        let (object_id, locations) = (object(1, n, 1), vec![address(2)]);
        let (request_id, owner_node) = (n, node_id(2));
        world.say(reader, FetchObject { request_id, object_id, locations, owner, owner_node });
        let is_pull = |(_, message): &(NodeId, NodeToNode)| matches!(message, NodeToNode::Pull(_));
        let place = world.asked.iter().position(is_pull).unwrap();
        let (_, NodeToNode::Pull(pull)) = world.asked.remove(place) else { unreachable!() };
        let request_id = pull.request_id;
        world.peer(2, PullStart { request_id, size: 100, is_bulk: false });
        world.peer(2, PullChunk { request_id, offset: 0, bytes: vec![1; 100] });
        assert!(world.fetched(reader).is_some());
        object_id
    };
    let (one, other) = (world.driver(), world.driver());
    let read = copied(&mut world, one, 1);
    world.say(one, ReleaseObject { object_id: read, pins: 1 });
    copied(&mut world, one, 2);
    assert_eq!((world.used(), world.asked.len()), (256, 1), "its owner was asked after once");
    world.close(one);
    assert_eq!(world.used(), 128, "what nobody read stays as a copy");
    copied(&mut world, other, 3);
    let asked = world.asked.pop();
    let Some((_, NodeToNode::AskLiveness(ask))) = asked else { panic!("{asked:?}") };
    assert_eq!(ask.worker_id, owner);
    let request_id = ask.request_id;
    world.peer(2, TellLiveness { request_id, dead: true, ..TellLiveness::default() });
    assert_eq!(world.used(), 128, "SHM-1: it is read");
    world.say(other, ReleaseObject { object_id: object(1, 3, 1), pins: 1 });
    assert_eq!(world.used(), 0);
}

/// OWN-1: a detached actor works on when its driver has ended. What tasks have returned to it is its own: it stays when
/// their workers end, and goes with the actor.
#[test]
fn what_was_returned_to_a_detached_actor_outlives_the_tasks_worker() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let actor_id = world.launch(1, 1, &[("CPU", 1.0)], true);
    let actor = world.actor_conn(actor_id).unwrap();
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(actor, 1, class);
    let lease = world.granted(actor).unwrap();
    let worker = world.conn_of(&lease);
    world.put_for(actor, worker, object(1, 1, 1));
    world.step(Event::ClientClosed { conn: driver });
    assert_eq!(world.used(), 128, "returned before the job's end");
    world.put_for(actor, worker, object(1, 2, 1));
    world.put(worker, object(1, 2, helio_types::id::PUT_INDEX_BASE), 100);
    world.worker_ends(lease.worker.worker_id, Exit::Signal(9));
    world.pass(0);
    assert_eq!(world.used(), 256, "its own puts go with the worker, and nothing else");
    world.step(Event::ClientClosed { conn: actor });
    assert_eq!(world.used(), 0);
}

/// LIMIT-1: the actor's connection is gone, its process not yet, and its job ends: nobody comes back for
/// what it made for others (simulated seed 317466).
#[test]
fn what_an_ending_detached_actor_made_goes_with_its_job() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    let actor_id = world.launch(1, 1, &[("CPU", 1.0)], true);
    let conn = world.actor_conn(actor_id).unwrap();
    world.put_for(driver, conn, object(1, 1, 1));
    world.step(Event::ClientClosed { conn });
    assert_eq!(world.node.store.len(), 1, "its reader may still want it");
    world.step(Event::ClientClosed { conn: driver });
    assert_eq!(world.node.store.len(), 0);
    world.feed(Event::Tick);
    world.assert_nothing_leaked();
}

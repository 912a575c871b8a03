//! A head whose disk is full: what must be kept is refused before anything changes, the rest goes on.

use helio_control_state::Event;
use helio_proto::control::{
    ActorPhase, ControlResponse, KillActor, KvDel, KvGet, KvPut, ListActors, StartJob,
};
use helio_proto::group::{AwaitGroup, Bundle, GroupSpec};
use helio_types::{DeathKind, PlacementGroupId, ResourceSet};

use crate::harness::{Harness, actor, job, spec, worker};

fn put(key: &str) -> KvPut {
    KvPut { namespace: "n".into(), key: key.into(), value: b"1".to_vec(), overwrite: true }
}

fn is_refused(response: &ControlResponse) -> bool {
    matches!(response, ControlResponse::Failed(failure) if failure.message.contains("no room left for"))
}

/// The machine hears of it; what it makes durable is done at once, as on a disk with a little room left.
fn full(harness: &mut Harness, is_full: bool) {
    harness.apply(Event::Disk {
        full: is_full.then(|| "the disk has no room left for /control.redb".to_owned()),
    });
}

fn group() -> GroupSpec {
    GroupSpec {
        group_id: PlacementGroupId([3; PlacementGroupId::LEN]),
        job_id: job(1),
        bundles: vec![Bundle {
            resources: ResourceSet::from_units([("CPU", 1.0)]),
            ..Bundle::default()
        }],
        ..GroupSpec::default()
    }
}

#[test]
fn what_must_be_kept_is_refused_and_leaves_nothing() {
    let mut harness = Harness::with_driver(4.0);
    harness.create(spec(1, 1));
    assert_eq!(harness.launches(), [(1, 1, 0)]);
    harness.started(1, 1, 0);
    harness.ask(1, 1, put("before"));
    let (kept, census) = (harness.disk.clone(), harness.control.census());
    full(&mut harness, true);

    assert!(is_refused(&harness.create(spec(2, 1))));
    assert!(is_refused(&harness.ask(1, 1, put("late"))));
    assert!(is_refused(&harness.ask(1, 1, group())));
    assert!(is_refused(&harness.ask(1, 1, AwaitGroup { group_id: group().group_id })));
    let start = StartJob { driver: worker(9), ..StartJob::default() };
    assert!(is_refused(&harness.ask(1, 9, start)));
    assert_eq!((&harness.disk, &harness.control.census()), (&kept, &census), "nothing has begun");
    assert!(harness.launches().is_empty());

    // A thing that is there is answered, also for a client that asks once more because a connection broke.
    assert!(matches!(harness.create(spec(1, 1)), ControlResponse::Actor(_)));
    let get = KvGet { namespace: "n".into(), key: b"before".to_vec() };
    assert!(matches!(harness.ask(1, 1, get), ControlResponse::KvValue(value) if value.found));
    assert!(matches!(harness.ask(1, 1, ListActors {}), ControlResponse::Actors(_)));

    full(&mut harness, false);
    assert!(matches!(harness.create(spec(2, 1)), ControlResponse::Actor(_)));
    assert_eq!(harness.launches(), [(1, 2, 0)]);
    assert!(!is_refused(&harness.ask(1, 1, put("late"))));
    assert!(!is_refused(&harness.ask(1, 1, group())));
}

#[test]
fn what_ends_something_goes_on() {
    let mut harness = Harness::with_driver(4.0);
    for number in 1..=2 {
        let restarts = spec(number, 1);
        harness.create(helio_proto::control::ActorSpec { max_restarts: 1, ..restarts });
        harness.started(1, number, 0);
    }
    harness.ask(1, 1, put("key"));
    harness.launches();
    full(&mut harness, true);

    let kill = KillActor { actor_id: actor(1), no_restart: true, ..KillActor::default() };
    assert!(!is_refused(&harness.ask(1, 1, kill)));
    assert_eq!(harness.stops().len(), 1);
    harness.ended(1, 1, 0, DeathKind::Intended);
    assert_eq!(harness.info(1).phase, ActorPhase::Dead);
    // A restart is the shell's to hold back until it is durable.
    harness.ended(1, 2, 0, DeathKind::Signaled);
    assert_eq!(harness.launches(), [(1, 2, 1)]);
    let del = KvDel { namespace: "n".into(), key: b"key".to_vec() };
    assert!(matches!(harness.ask(1, 1, del), ControlResponse::KvValue(value) if value.found));
    harness.client_gone(1, 1, true);
    assert_eq!(harness.control.census().jobs, 0);
}

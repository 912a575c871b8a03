//! The pool alone.

use std::sync::Arc;

use helio_proto::environment::EnvStep;
use helio_proto::node::Leaving;

use super::*;
use crate::event::Exit;
use crate::limits::WORKER_EXIT_MS_MAX;
use crate::setup::Setup;

const LEASE: Demand = Demand::Lease(LeaseId(1));

fn key() -> PoolKey {
    (JobId([0, 0, 0, 1]), Arc::default())
}

fn actor() -> Demand {
    Demand::Actor((helio_types::ActorId::NIL, 0))
}

fn context() -> Context {
    Context::new(Setup { idle_max: 1, ..Setup::default() }, 0)
}

/// A worker that has registered.
fn started(pool: &mut Pool, ctx: &mut Context, is_preloaded: bool) -> WorkerId {
    pool.start(&key(), is_preloaded, false, ctx).unwrap();
    let worker_id = match ctx.finish().pop() {
        Some(Action::Spawn(spawn)) => spawn.worker_id,
        other => panic!("{other:?}"),
    };
    assert!(pool.on_registered(worker_id, Conn(pool.len() as u64), 7, 0));
    worker_id
}

fn idle(pool: &mut Pool, ctx: &mut Context, worker_id: WorkerId) {
    let freed = pool.on_free(worker_id).unwrap();
    pool.set_idle(worker_id, &freed, ctx);
}

#[test]
fn the_worker_used_last_serves_the_next_lease_and_actors_get_fresh_ones() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    let (first, second) =
        (started(&mut pool, &mut ctx, false), started(&mut pool, &mut ctx, false));
    idle(&mut pool, &mut ctx, first);
    ctx.begin(1);
    idle(&mut pool, &mut ctx, second);
    assert_eq!(pool.find(key(), LEASE, false), Some(second));
    pool.assign(second, LEASE);
    pool.on_assigned(second);
    ctx.begin(2);
    idle(&mut pool, &mut ctx, second);
    assert_eq!(pool.find(key(), actor(), false), Some(first), "the other has run something");
    let other: PoolKey = (JobId([0, 0, 0, 2]), Arc::default());
    assert_eq!(pool.find(other, LEASE, false), None, "a worker serves one job");
}

#[test]
fn a_demand_waits_for_the_worker_that_suits_it() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    assert_eq!(pool.find(key(), actor(), true), None);
    assert_eq!(pool.find(key(), LEASE, false), None);
    assert_eq!(pool.missing(4), [(key(), false, 1), (key(), true, 1)]);
    assert_eq!(pool.missing(1).iter().map(|one| one.2).sum::<usize>(), 1, "one at a time");
    let worker_id = started(&mut pool, &mut ctx, false);
    let freed = pool.on_free(worker_id).unwrap();
    assert_eq!(pool.take_demand(&freed), Some(LEASE), "the actor wants loaded modules");
    assert_eq!(pool.take_demand(&freed), None);
    pool.drop_demand(actor());
    assert!(pool.missing(4).is_empty());
}

#[test]
fn a_worker_that_does_not_end_when_asked_is_killed() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    let worker_id = started(&mut pool, &mut ctx, false);
    pool.end(worker_id, "It was idle.", &mut ctx);
    assert!(matches!(ctx.finish()[..], [Action::Send { .. }]));
    pool.on_exit_timer(worker_id, &mut ctx);
    assert!(ctx.finish().is_empty(), "it has time");
    ctx.begin(WORKER_EXIT_MS_MAX);
    pool.on_exit_timer(worker_id, &mut ctx);
    assert_eq!(ctx.finish(), [Action::Kill { worker_id }]);
    let cause = pool.on_exited(worker_id, Exit::Signal(9), String::new(), &mut ctx);
    assert_eq!(cause, None, "its connection is being read out");
    let cause = pool.on_disconnected(worker_id, &mut ctx).unwrap();
    assert_eq!((cause.kind, &*cause.message), (DeathKind::Intended, "It was idle."));
}

#[test]
fn only_so_many_idle_workers_are_kept() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    let (first, second) =
        (started(&mut pool, &mut ctx, false), started(&mut pool, &mut ctx, false));
    idle(&mut pool, &mut ctx, first);
    idle(&mut pool, &mut ctx, second);
    ctx.begin(WORKER_IDLE_MS_MAX);
    pool.on_idle_timer(&mut ctx);
    let ending = [first, second].map(|id| pool.usage(id) == Some(Use::Ending));
    assert_eq!(ending.iter().filter(|ends| **ends).count(), 1);
    assert_eq!(pool.on_stays(if ending[0] { first } else { second }), Stay::Stays(None));
}

#[test]
fn repeated_failures_to_start_are_told_to_those_that_wait() {
    let (mut pool, cause) = (Pool::default(), DeathCause::default());
    pool.find(key(), LEASE, false);
    for _ in 1..WORKER_START_FAILURES_MAX {
        assert!(pool.on_start_failed(&key(), &cause).is_none());
    }
    assert!(pool.on_start_failed(&key(), &cause).is_some());
    assert_eq!(pool.take_demands(&key()), [LEASE]);
    assert!(pool.on_start_failed(&key(), &cause).is_none(), "the count begins anew");
}

#[test]
fn an_environment_that_cannot_be_made_is_not_tried_again() {
    for code in [SETUP_TIMED_OUT, SETUP_FAILED] {
        let mut pool = Pool::default();
        let env = RuntimeEnv { steps: vec![EnvStep::WorkingDir], ..RuntimeEnv::default() };
        let key = (key().0, Arc::new(env));
        let cause = DeathCause { code, ..DeathCause::default() };
        pool.find(key.clone(), LEASE, false);
        let failure = pool.on_start_failed(&key, &cause).expect("it is told at once");
        assert_eq!(failure.kind, FailureKind::RuntimeEnv);
    }
}

#[test]
fn an_environment_that_no_process_can_have_starts_nothing() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    let broken = (key().0, Arc::new(RuntimeEnv::with_variables(&[("A=B", "1")])));
    assert!(pool.start(&broken, false, false, &mut ctx).is_err());
    assert_eq!((pool.len(), ctx.finish().len()), (0, 0));
}

#[test]
fn a_worker_whose_lessee_is_gone_ends_unless_it_lingers() {
    let (mut pool, mut ctx) = (Pool::default(), context());
    let worker_id = started(&mut pool, &mut ctx, false);
    pool.assign(worker_id, LEASE);
    assert!(!pool.on_lessee_gone(worker_id, LeaseId(1), WorkerId::NIL, false, &mut ctx));
    assert_eq!(pool.on_stays(worker_id), Stay::Stays(Some(LeaseId(1))), "nothing of it runs there");
    pool.keep(worker_id);
    assert_eq!(pool.on_stays(worker_id), Stay::Ignored);
    let leaving = Leaving { is_needed: true, ..Leaving::default() };
    assert_eq!(pool.on_leaving(worker_id, leaving), Some(LeaseId(1)));
    assert!(pool.on_lessee_gone(worker_id, LeaseId(1), WorkerId::NIL, true, &mut ctx));
}

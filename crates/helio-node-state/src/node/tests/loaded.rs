//! Processes that are made ready ahead: workers, and the one that has modules loaded.

use helio_proto::control::{ActorLaunch, ActorSpec};
use helio_proto::environment::RuntimeEnv;
use helio_proto::node::{Expect, NodeToClient};
use helio_types::{ActorId, JobId, WorkerId};

use super::World;
use crate::limits::{
    LOADED_IDLE_MS_MAX, WORKER_AHEAD_MS_MAX, WORKER_FORK_MS_MAX, WORKER_START_MS_MAX,
};
use crate::{Conn, Event, Exit};

fn expect(workers: u32) -> Expect {
    Expect { workers, request_id: 7, ..Expect::default() }
}

fn is_answered(world: &mut World, conn: Conn) -> bool {
    world.took(conn, |message| matches!(message, NodeToClient::Expected(e) if e.request_id == 7))
}

fn launch_detached_with_modules(world: &mut World) {
    launch(world, 9, "", true);
}

fn launch_with_modules(world: &mut World, n: u8, variable: &str) {
    launch(world, n, variable, false);
}

/// An environment that sets the variable; empty: none.
fn setting(variable: &str) -> RuntimeEnv {
    match variable {
        "" => RuntimeEnv::default(),
        name => RuntimeEnv::with_variables(&[(name, "3")]),
    }
}

fn launch(world: &mut World, n: u8, variable: &str, detached: bool) {
    let job_id = JobId(1_u32.to_be_bytes());
    let spec = ActorSpec {
        actor_id: ActorId::new([n; 12], job_id),
        job_id,
        detached,
        modules: vec!["torch".into()],
        runtime_env: setting(variable),
        ..ActorSpec::default()
    };
    let launch = ActorLaunch { spec, incarnation: 1, ..ActorLaunch::default() };
    world.feed(Event::ControlSaid(launch.into()));
}

#[test]
fn a_worker_is_started_ahead_and_ends_when_nothing_comes() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    world.say(driver, expect(1));
    assert_eq!(world.spawned.len(), 1);
    assert!(!is_answered(&mut world, driver));
    world.register_worker(world.spawned[0].worker_id);
    world.feed(Event::Tick);
    assert!(is_answered(&mut world, driver));
    world.pass(WORKER_AHEAD_MS_MAX - 1);
    assert_eq!(world.workers.len(), 1);
    world.pass(1);
    assert_eq!(world.workers.len(), 0);
}

#[test]
fn who_waits_is_told_of_each_worker_and_answered_with_the_last() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    world.say(driver, expect(2));
    let workers: Vec<_> = world.spawned.iter().map(|spawn| spawn.worker_id).collect();
    assert_eq!(workers.len(), 2);
    for (worker, request) in workers.into_iter().zip([0, 7]) {
        world.register_worker(worker);
        world.feed(Event::Tick);
        assert!(world.took(driver, |message| matches!(
            message,
            NodeToClient::Expected(e) if e.request_id == request && e.worker.worker_id == worker
        )));
    }
}

#[test]
fn the_first_call_takes_the_worker_that_was_started_ahead() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, expect(1));
    assert!(is_answered(&mut world, driver));
    world.request(driver, 1, world.class(1, &[("CPU", 1.0)]));
    let lease = world.granted(driver).unwrap();
    assert_eq!(world.spawned.len(), 1);
    world.give_back(driver, &lease);
    world.pass(WORKER_AHEAD_MS_MAX * 2);
    assert_eq!(world.workers.len(), 1, "it was of use, and is kept as any other");
}

#[test]
fn who_waits_for_a_worker_that_cannot_be_started_is_told() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.starts_at_once = false;
    let driver = world.driver();
    world.say(driver, expect(1));
    world.worker_ends(world.spawned[0].worker_id, Exit::Code(1));
    world.feed(Event::Tick);
    assert!(is_answered(&mut world, driver));
}

#[test]
fn an_actor_is_forked_from_the_process_that_has_its_modules() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, expect(1));
    launch_with_modules(&mut world, 1, "");
    assert_eq!(world.loads, ["torch"]);
    let from: Vec<bool> = world.spawned.iter().map(|spawn| spawn.is_loaded).collect();
    assert_eq!(from, [false, true], "the one that was there does not have them");
    // A library reads such variables while it is loaded.
    launch_with_modules(&mut world, 2, "OMP_NUM_THREADS");
    assert!(!world.spawned[2].is_loaded);
}

#[test]
fn a_worker_that_waits_for_its_modules_is_not_late() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.starts_at_once = false;
    launch_with_modules(&mut world, 1, "");
    world.pass(WORKER_FORK_MS_MAX - 1);
    assert_eq!(world.spawned.len(), 1, "it waits for its fork");
    let worker_id = world.spawned[0].worker_id;
    world.feed(Event::WorkerStarted { worker_id, pid: 8 });
    world.pass(WORKER_START_MS_MAX - 1);
    assert_eq!(world.spawned.len(), 1, "its time begins with the fork");
    world.pass(1);
    assert_eq!(world.spawned.len(), 2, "another is started in place of one that does not register");
    world.pass(WORKER_FORK_MS_MAX);
    assert_eq!(world.spawned.len(), 3, "or that is not forked");
}

#[test]
fn tasks_use_the_process_with_modules_once_it_is_ready() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    launch_with_modules(&mut world, 1, "");
    let class = world.class(1, &[("CPU", 1.0)]);
    world.request(driver, 1, class.clone());
    world.feed(Event::Loaded { is_ready: true });
    world.request(driver, 2, class.clone());
    world.feed(Event::Loaded { is_ready: false });
    world.request(driver, 3, class);
    let from: Vec<bool> = world.spawned.iter().map(|spawn| spawn.is_loaded).collect();
    assert_eq!(from, [true, false, true, false], "the first is the actor's");
}

#[test]
fn modules_are_let_go_of_when_no_job_has_wanted_them_for_long() {
    let mut world = World::new(&[("CPU", 4.0)]);
    let driver = world.driver();
    launch_with_modules(&mut world, 1, "");
    assert_eq!(world.loads, ["torch"]);
    world.close(driver);
    world.pass(LOADED_IDLE_MS_MAX - 1);
    assert_eq!(world.loads, ["torch"]);
    world.pass(1);
    assert!(world.loads.is_empty(), "LIMIT-1");
}

#[test]
fn a_worker_that_suits_nobody_ends_with_its_job() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.request(driver, 1, world.class(1, &[("CPU", 1.0)]));
    let lease = world.granted(driver).unwrap();
    world.give_back(driver, &lease);
    world.starts_at_once = false;
    launch_detached_with_modules(&mut world);
    let driver_id = WorkerId([101; 28]);
    world.job_finished(1, driver_id);
    assert!(!world.workers.contains_key(&lease.worker.worker_id), "the actor cannot use it");
}

#[test]
fn who_finds_nothing_starting_does_not_answer_for_others() {
    let mut world = World::new(&[("CPU", 2.0)]);
    world.starts_at_once = false;
    let first = world.driver();
    world.say(first, expect(1));
    let second = world.driver();
    world.say(second, expect(0));
    assert!(is_answered(&mut world, second), "nothing is started for it");
    assert!(!is_answered(&mut world, first), "its worker is not there yet");
}

fn may_use(modules: &[&str], variable: &str) -> Expect {
    let modules = modules.iter().map(|&name| name.into()).collect();
    Expect { modules, runtime_env: setting(variable), ..Expect::default() }
}

#[test]
fn a_driver_that_may_use_modules_has_them_loaded_at_once() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, may_use(&["torch"], ""));
    assert_eq!(world.loads, ["torch"]);
    world.feed(Event::Loaded { is_ready: true });
    world.request(driver, 1, world.class(1, &[("CPU", 1.0)]));
    assert!(world.spawned[0].is_loaded, "its tasks find them");
}

#[test]
fn a_driver_whose_workers_load_for_themselves_has_nothing_loaded() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, may_use(&["torch"], "MKL_NUM_THREADS"));
    world.say(driver, may_use(&[], ""));
    assert!(world.loads.is_empty());
}

#[test]
fn modules_that_were_expected_and_not_used_are_let_go_of() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, may_use(&["torch"], ""));
    world.pass(LOADED_IDLE_MS_MAX - 1);
    assert_eq!(world.loads, ["torch"]);
    world.pass(1);
    assert!(world.loads.is_empty(), "LIMIT-1, though the driver is there");
    launch_with_modules(&mut world, 1, "");
    assert_eq!(world.loads, ["torch"], "who wants them after all gets them");
}

#[test]
fn modules_that_were_expected_and_used_stay_with_the_job() {
    let mut world = World::new(&[("CPU", 2.0)]);
    let driver = world.driver();
    world.say(driver, may_use(&["torch"], ""));
    launch_with_modules(&mut world, 1, "");
    world.pass(LOADED_IDLE_MS_MAX * 2);
    assert_eq!(world.loads, ["torch"]);
}

//! The table of actors that live here, from their placement to their process's end.
//!
//! ```text
//!   Queued ── room ─▶ Assigned ── worker ─▶ In ── its process ends ─▶ (remembered with the cause)
//!     └─ no room after all, or stopped ────────────────────────────▶ (the control service is told)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use helio_proto::cluster::{ActorEnded, ActorStarted};
use helio_proto::control::{ActorLaunch, ActorSpec, Strategy};
use helio_proto::environment::RuntimeEnv;
use helio_proto::node::{ActorReady, Exit};
use helio_scheduler::{GroupBundle, taken};
use helio_types::{
    ActorId, Assigned, DeathCause, DeathKind, JobId, PlacementGroupId, ResourceSet, WorkerAddress,
    WorkerId, mutant,
};

use crate::context::{Context, Violation};
use crate::event::Conn;
use crate::keys::{ActorKey, PoolKey};
use crate::ledger::Ledger;
use crate::limits::{ACTOR_PLACEMENT_MS_MAX, ACTORS_ENDED_MAX};
use crate::timers::Timer;

/// The rest of the work for an actor that is to end.
#[derive(Debug)]
pub(crate) enum Stop {
    Done,
    /// The actor waits for a worker, and is to wait no more.
    Unstarted(DeathCause),
    /// The actor's worker is to be killed.
    Kill(WorkerId, DeathCause),
}

/// The resources and the news that an ended actor leaves.
#[derive(Debug)]
pub(crate) struct Gone {
    /// The resources that it held.
    pub(crate) held: Option<(Assigned, Strategy)>,
    /// The cause, if the control service does not know it yet.
    pub(crate) cause: Option<DeathCause>,
}

/// The stage of an actor's creation.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// The actor waits for these resources.
    Queued(ResourceSet),
    Assigned {
        runtime_env: &'a RuntimeEnv,
    },
    Constructing {
        worker_id: WorkerId,
        since: u64,
    },
    Alive,
}

#[derive(Debug)]
struct Actor {
    launch: ActorLaunch,
    place: Place,
    /// The time at which the constructor was sent to the actor's process, in milliseconds; 0: not
    /// yet.
    sent: u64,
    /// The constructor has returned.
    is_alive: bool,
    /// The control service knows that it ended.
    is_reported: bool,
    /// The cause that the actor's end will have, once it is known.
    cause: Option<DeathCause>,
}

#[derive(Debug)]
struct End {
    cause: DeathCause,
    /// The launch that found no room, if the actor was never begun. A later one may find it.
    given_back: Option<u32>,
}

#[derive(Debug)]
enum Place {
    /// The actor waits for room.
    Queued,
    /// The actor has its resources and waits for a worker.
    Assigned,
    /// The actor lives in this worker.
    In(WorkerId, Conn),
}

impl Actor {
    /// Returns the resources that must be free for the actor to be placed.
    fn takes(&self) -> ResourceSet {
        let spec = &self.launch.spec;
        taken(&spec.placement_resources, &spec.strategy).into_owned()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Actors {
    all: BTreeMap<ActorKey, Actor>,
    queued: VecDeque<ActorKey>,
    /// The latest that ended here or were given back: the news may be lost with a connection, and what has
    /// ended is not begun once more.
    ended: BTreeMap<ActorKey, End>,
    ended_order: VecDeque<ActorKey>,
}

impl Actors {
    pub(crate) fn assigned(&self, key: ActorKey) -> Option<(&Assigned, &Strategy)> {
        self.all.get(&key).map(|actor| (&actor.launch.assigned, &actor.launch.spec.strategy))
    }

    /// Returns the actor's creator, and whether the actor may be restarted.
    pub(crate) fn owner_and_retriable(&self, key: ActorKey) -> Option<(WorkerId, bool)> {
        let spec = &self.all.get(&key)?.launch.spec;
        let left = spec.max_restarts < 0 || i64::from(key.1) < spec.max_restarts;
        Some((spec.owner.worker_id, left))
    }

    pub(crate) fn of_job(&self, job_id: JobId) -> Vec<ActorKey> {
        self.all
            .iter()
            .filter(|(_, actor)| actor.launch.spec.job_id == job_id)
            .map(|(key, _)| *key)
            .collect()
    }

    /// Returns the modules that the actor's code imports.
    pub(crate) fn modules(&self, key: ActorKey) -> &[String] {
        self.all.get(&key).map_or(&[], |actor| &actor.launch.spec.modules)
    }

    pub(crate) fn is_detached(&self, key: ActorKey) -> bool {
        self.all.get(&key).is_some_and(|actor| actor.launch.spec.detached)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the actors that hold some of the resource: name, class, process.
    pub(crate) fn holders<'a>(
        &'a self,
        resource: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, Option<WorkerId>)> {
        let holds = move |actor: &&Actor| {
            let takes = taken(&actor.launch.assigned.resources, &actor.launch.spec.strategy);
            !matches!(actor.place, Place::Queued) && takes.get(resource).0 > 0
        };
        self.all.values().filter(holds).map(|actor| {
            let worker = match actor.place {
                Place::In(worker_id, _) => Some(worker_id),
                Place::Queued | Place::Assigned => None,
            };
            (&*actor.launch.spec.name, &*actor.launch.spec.class_name, worker)
        })
    }

    /// Returns the actors that hold resources.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Assigned, &Strategy, ActorKey)> {
        let placed = self.all.iter().filter(|(_, actor)| !matches!(actor.place, Place::Queued));
        placed.map(|(key, actor)| (&actor.launch.assigned, &actor.launch.spec.strategy, *key))
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.queued.len()
    }

    /// The resources that actors need which wait for room.
    pub(crate) fn needs(&self) -> impl Iterator<Item = ResourceSet> {
        self.queued.iter().filter_map(|key| self.all.get(key)).map(Actor::takes)
    }

    /// Shapes that wait.
    pub(crate) fn demand(&self) -> impl Iterator<Item = &ActorSpec> {
        self.queued.iter().filter_map(|key| self.all.get(key)).map(|actor| &actor.launch.spec)
    }

    /// Whether an actor has some of the placement group.
    pub(crate) fn uses_group(&self, group_id: PlacementGroupId) -> bool {
        let uses = |strategy: &Strategy| {
            GroupBundle::of(strategy).is_some_and(|place| place.group_id == group_id)
        };
        self.placed().any(|(_, strategy, _)| uses(strategy))
    }

    /// The actors in bundles of a placement group.
    pub(crate) fn of_bundles(&self, group_id: PlacementGroupId, bundles: &[u32]) -> Vec<ActorKey> {
        let inside = |actor: &Actor| {
            GroupBundle::of(&actor.launch.spec.strategy).is_some_and(|place| {
                place.group_id == group_id
                    && place.bundle.is_none_or(|bundle| bundles.contains(&bundle))
            })
        };
        self.all.iter().filter(|(_, actor)| inside(actor)).map(|(key, _)| *key).collect()
    }

    /// The control service sends an actor. `total` are the resources of the node.
    pub(crate) fn on_launch(
        &mut self,
        launch: ActorLaunch,
        total: &ResourceSet,
        ctx: &mut Context,
    ) {
        let key = (launch.spec.actor_id, launch.incarnation);
        if let Some(actor) = self.all.get(&key) {
            // Its constructor raised, its process is still ending, and the news were lost with a connection.
            if let Some(cause) = actor.cause.clone().filter(|_| actor.is_reported) {
                tell_ended(key, cause, ctx);
            }
            return;
        }
        // The control service sends a launch again after a lost connection: it must not begin a second process.
        if let Some(End { cause, given_back }) = self.ended.get(&key) {
            match given_back {
                None => return tell_ended(key, cause.clone(), ctx),
                // This launch was answered already, and the answer got lost; only a later one is another try.
                Some(attempt) if *attempt >= launch.attempt => {
                    return tell_given_back(key, cause.clone(), *attempt, ctx);
                }
                Some(_) => {}
            }
        }
        let (need, strategy) = (&launch.spec.placement_resources, &launch.spec.strategy);
        if !total.covers(&taken(need, strategy))
            || !total.covers(&taken(&launch.spec.resources, strategy))
        {
            let message = format!("node {} does not have {need}", ctx.setup().address.host);
            let cause = DeathCause::new(DeathKind::StartFailed, message);
            return tell_given_back(key, cause, launch.attempt, ctx);
        }
        let actor = Actor {
            launch,
            place: Place::Queued,
            sent: 0,
            is_alive: false,
            is_reported: false,
            cause: None,
        };
        let before = self.all.insert(key, actor);
        assert!(before.is_none(), "a process would run that nobody ends");
        self.queued.push_back(key);
        ctx.set_timer(ctx.now() + ACTOR_PLACEMENT_MS_MAX, Timer::Actor(key));
        ctx.capacity_changed();
    }

    /// Takes the actors that wait for room, to look at each once.
    pub(crate) fn take_queue(&mut self) -> VecDeque<ActorKey> {
        std::mem::take(&mut self.queued)
    }

    /// Gives the actor its resources, if they are free; else it waits on. Returns the kind of worker that it
    /// needs.
    pub(crate) fn place(&mut self, key: ActorKey, ledger: &mut Ledger) -> Option<PoolKey> {
        let actor = self.all.get_mut(&key)?;
        assert!(matches!(actor.place, Place::Queued), "an actor would take its resources twice");
        let spec = &actor.launch.spec;
        let takes = taken(&spec.placement_resources, &spec.strategy);
        // More must be free than it holds: an actor without CPUs is placed where one is free.
        let has_room = ledger.available().covers(&takes);
        let none = ResourceSet::default();
        let holds = if mutant!("actors-hold-nothing") { &none } else { &spec.resources };
        let Some(assigned) = has_room.then(|| ledger.take(holds, &spec.strategy)).flatten() else {
            // The control service chose this node by a view that may be old: room may come soon.
            self.queued.push_back(key);
            return None;
        };
        let pool_key = (spec.job_id, Arc::new(spec.runtime_env.clone()));
        actor.launch.assigned = assigned;
        actor.place = Place::Assigned;
        Some(pool_key)
    }

    /// The actor should have found room: gives its placement back.
    pub(crate) fn on_timer(&mut self, key: ActorKey, ctx: &mut Context) {
        let Some(actor) = self.all.get(&key) else { return };
        if !matches!(actor.place, Place::Queued) {
            return;
        }
        let attempt = actor.launch.attempt;
        let host = &ctx.setup().address.host;
        let message = format!("node {host} had no room for it after all");
        let cause = DeathCause::new(DeathKind::StartFailed, message);
        // The control service may send this launch again before it reads the answer.
        self.remember(key, &cause, Some(attempt));
        tell_given_back(key, cause, attempt, ctx);
        self.leave_queue(key, ctx);
    }

    fn leave_queue(&mut self, key: ActorKey, ctx: &mut Context) {
        self.all.remove(&key);
        self.queued.retain(|other| *other != key);
        ctx.capacity_changed();
    }

    /// The actor has got its process.
    pub(crate) fn on_worker(
        &mut self,
        key: ActorKey,
        worker_id: WorkerId,
        conn: Conn,
        ctx: &mut Context,
    ) {
        let Some(actor) = self.all.get_mut(&key) else { return };
        actor.place = Place::In(worker_id, conn);
        actor.sent = ctx.now();
        ctx.send(conn, actor.launch.clone());
    }

    /// The process of an actor says how its constructor ended. Returns whether the actor lives; else its
    /// worker is to end.
    pub(crate) fn on_ready(
        &mut self,
        key: ActorKey,
        worker: (WorkerAddress, u32),
        ready: ActorReady,
        ctx: &mut Context,
    ) -> Result<bool, Violation> {
        let (address, pid) = worker;
        let actor = self.all.get_mut(&key);
        let Some(actor) = actor.filter(|one| key.0 == ready.actor_id && !one.is_alive) else {
            return Err(Violation("readiness of an actor that does not start there"));
        };
        if ready.error.is_empty() {
            actor.is_alive = true;
            ctx.tell_control(ActorStarted { actor_id: key.0, incarnation: key.1, address, pid });
            return Ok(true);
        }
        let mut cause = DeathCause::new(DeathKind::InitFailed, ready.message);
        cause.error = ready.error;
        cause.pid = pid;
        // The cause is told now: the end of the process that follows has nothing to add.
        actor.is_reported = true;
        actor.cause = Some(cause.clone());
        tell_ended(key, cause, ctx);
        Ok(false)
    }

    /// The actor is to end, with its running calls done if `drain`.
    pub(crate) fn on_stop(
        &mut self,
        key: ActorKey,
        cause: DeathCause,
        drain: bool,
        ctx: &mut Context,
    ) -> Stop {
        let Some(actor) = self.all.get_mut(&key) else { return Stop::Done };
        match actor.place {
            Place::Queued => {
                tell_ended(key, cause, ctx);
                self.leave_queue(key, ctx);
            }
            // No worker has been given to it: the caller drops its demand for one.
            Place::Assigned => return Stop::Unstarted(cause),
            Place::In(_, conn) if drain => {
                let reason = cause.message.clone();
                actor.cause.get_or_insert(cause);
                // The actor may have much to finish, so nothing limits how long that takes.
                ctx.send(conn, Exit { reason, drain: true, unless_needed: false });
            }
            Place::In(worker_id, _) => {
                return Stop::Kill(worker_id, actor.cause.get_or_insert(cause).clone());
            }
        }
        Stop::Done
    }

    /// Returns the reason why the actor was told to end; `None` if it was not.
    pub(crate) fn told_to_end(&self, key: ActorKey) -> Option<&DeathCause> {
        self.all.get(&key)?.cause.as_ref()
    }

    /// The actor's process has ended, or it will get none. Returns the resources that it held, and the
    /// strategy by which it had them.
    pub(crate) fn on_gone(&mut self, key: ActorKey, cause: DeathCause) -> Option<Gone> {
        let actor = self.all.remove(&key)?;
        self.queued.retain(|other| *other != key);
        let mut known = actor.cause.unwrap_or_else(|| cause.clone());
        known.pid = cause.pid;
        self.remember(key, &known, None);
        let is_placed = !matches!(actor.place, Place::Queued);
        let ActorLaunch { assigned, spec, .. } = actor.launch;
        Some(Gone {
            held: is_placed.then_some((assigned, spec.strategy)),
            cause: (!actor.is_reported).then_some(known),
        })
    }

    /// **WHY-1** Returns the stage of the latest life of an actor that was sent here.
    pub(crate) fn progress(&self, actor_id: ActorId) -> Option<Progress<'_>> {
        let (_, actor) = self.all.range((actor_id, 0)..=(actor_id, u32::MAX)).last()?;
        Some(match actor.place {
            Place::Queued => Progress::Queued(actor.takes()),
            Place::Assigned => Progress::Assigned { runtime_env: &actor.launch.spec.runtime_env },
            Place::In(..) if actor.is_alive => Progress::Alive,
            Place::In(worker_id, _) => Progress::Constructing { worker_id, since: actor.sent },
        })
    }

    /// The actors that live here, with their connections.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (ActorKey, Conn)> {
        self.all.iter().filter_map(|(key, actor)| match actor.place {
            Place::In(_, conn) if actor.is_alive && !actor.is_reported => Some((*key, conn)),
            _ => None,
        })
    }

    fn remember(&mut self, key: ActorKey, cause: &DeathCause, given_back: Option<u32>) {
        // Without what may be large.
        let cause = DeathCause { error: Vec::new(), log_tail: String::new(), ..cause.clone() };
        if self.ended.insert(key, End { cause, given_back }).is_none() {
            self.ended_order.push_back(key);
        }
        if self.ended_order.len() > ACTORS_ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.queued.is_empty()
    }
}

/// Tells the control service that an actor has ended.
pub(crate) fn tell_ended(key: ActorKey, cause: DeathCause, ctx: &mut Context) {
    let (actor_id, incarnation) = key;
    ctx.tell_control(ActorEnded { actor_id, incarnation, cause, ..ActorEnded::default() });
}

/// Asks the control service to place the actor once more, there being no room for it here.
fn tell_given_back(key: ActorKey, cause: DeathCause, attempt: u32, ctx: &mut Context) {
    let (actor_id, incarnation) = key;
    ctx.tell_control(ActorEnded { actor_id, incarnation, cause, retry: true, attempt });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::setup::Setup;
    use helio_proto::cluster::NodeToControl;
    use helio_types::Devices;

    const WORKER: WorkerId = WorkerId([1; 28]);

    fn cpus(n: f64) -> ResourceSet {
        ResourceSet::from_units([("CPU", n)])
    }

    fn launch(n: u32, need: f64) -> ActorLaunch {
        let actor_id = ActorId::new([n as u8; 12], JobId([0, 0, 0, 1]));
        let (resources, placement_resources) = (cpus(need), cpus(need));
        let spec = ActorSpec { actor_id, resources, placement_resources, ..ActorSpec::default() };
        ActorLaunch { spec, ..ActorLaunch::default() }
    }

    fn key(launch: &ActorLaunch) -> ActorKey {
        (launch.spec.actor_id, launch.incarnation)
    }

    /// (actor, whether to try elsewhere) of the ends that were told.
    fn ended(ctx: &mut Context) -> Vec<(ActorId, bool)> {
        let one = |action| match action {
            Action::Control(NodeToControl::ActorEnded(ended)) => {
                Some((ended.actor_id, ended.retry))
            }
            _ => None,
        };
        ctx.finish().into_iter().filter_map(one).collect()
    }

    #[test]
    fn a_small_actor_overtakes_a_large_one_that_has_no_room() {
        let (mut actors, mut ctx) = (Actors::default(), Context::new(Setup::default(), 0));
        let mut ledger = Ledger::new(cpus(2.0), &Devices::new());
        ledger.take(&cpus(1.0), &Strategy::default()).unwrap();
        let (large, small) = (launch(1, 2.0), launch(2, 1.0));
        actors.on_launch(large.clone(), &cpus(2.0), &mut ctx);
        actors.on_launch(small.clone(), &cpus(2.0), &mut ctx);
        let placed = actors.take_queue().into_iter().map(|key| actors.place(key, &mut ledger));
        assert_eq!(placed.map(|one| one.is_some()).collect::<Vec<_>>(), [false, true]);
        assert_eq!(actors.waiting_count(), 1);
        actors.on_timer(key(&small), &mut ctx);
        assert!(ended(&mut ctx).is_empty(), "it has its room");
        actors.on_timer(key(&large), &mut ctx);
        assert_eq!(ended(&mut ctx), [(large.spec.actor_id, true)]);
        assert_eq!(actors.len(), 1);
    }

    #[test]
    fn a_node_that_is_too_small_says_so_at_once() {
        let (mut actors, mut ctx) = (Actors::default(), Context::new(Setup::default(), 0));
        let large = launch(1, 3.0);
        actors.on_launch(large.clone(), &cpus(2.0), &mut ctx);
        assert_eq!((ended(&mut ctx), actors.len()), (vec![(large.spec.actor_id, true)], 0));
    }

    #[test]
    fn a_launch_that_was_given_back_is_not_taken_when_it_comes_again() {
        let (mut actors, mut ctx) = (Actors::default(), Context::new(Setup::default(), 0));
        let first = ActorLaunch { attempt: 1, ..launch(1, 2.0) };
        actors.on_launch(first.clone(), &cpus(2.0), &mut ctx);
        actors.on_timer(key(&first), &mut ctx);
        let given_back = [(first.spec.actor_id, true)];
        assert_eq!((ended(&mut ctx), actors.len()), (given_back.to_vec(), 0));
        // The news of it are on their way while the control service sends the launch again.
        actors.on_launch(first.clone(), &cpus(2.0), &mut ctx);
        assert_eq!((ended(&mut ctx), actors.len()), (given_back.to_vec(), 0));
        let second = ActorLaunch { attempt: 2, ..first };
        actors.on_launch(second, &cpus(2.0), &mut ctx);
        assert_eq!((ended(&mut ctx), actors.len()), (vec![], 1), "it was placed here anew");
    }

    #[test]
    fn a_life_that_has_ended_does_not_begin_again() {
        let (mut actors, mut ctx) = (Actors::default(), Context::new(Setup::default(), 0));
        let mut ledger = Ledger::new(cpus(2.0), &Devices::new());
        let one = launch(1, 1.0);
        actors.on_launch(one.clone(), &cpus(2.0), &mut ctx);
        actors.on_launch(one.clone(), &cpus(2.0), &mut ctx);
        let queue = actors.take_queue();
        assert_eq!(queue.len(), 1, "the order was heard twice");
        actors.place(queue[0], &mut ledger).unwrap();
        actors.on_worker(key(&one), WORKER, Conn(1), &mut ctx);
        let gone = actors.on_gone(key(&one), DeathCause::default()).unwrap();
        assert!(gone.held.is_some() && gone.cause.is_some());
        actors.on_launch(one.clone(), &cpus(2.0), &mut ctx);
        assert_eq!((ended(&mut ctx), actors.len()), (vec![(one.spec.actor_id, false)], 0));
    }

    #[test]
    fn a_constructor_that_raised_is_reported_once_and_to_whoever_starts_it_again() {
        let (mut actors, mut ctx) = (Actors::default(), Context::new(Setup::default(), 0));
        let mut ledger = Ledger::new(cpus(2.0), &Devices::new());
        let one = launch(1, 1.0);
        actors.on_launch(one.clone(), &cpus(2.0), &mut ctx);
        actors.take_queue();
        actors.place(key(&one), &mut ledger).unwrap();
        actors.on_worker(key(&one), WORKER, Conn(1), &mut ctx);
        let actor_id = one.spec.actor_id;
        let ready = ActorReady { actor_id, error: vec![1], ..ActorReady::default() };
        let worker = || (WorkerAddress::default(), 7);
        assert_eq!(actors.on_ready(key(&one), worker(), ready.clone(), &mut ctx), Ok(false));
        assert_eq!(ended(&mut ctx), [(actor_id, false)]);
        actors.on_launch(one.clone(), &cpus(2.0), &mut ctx);
        assert_eq!(ended(&mut ctx), [(actor_id, false)], "the control service has not heard it");
        let gone = actors.on_gone(key(&one), DeathCause::default()).unwrap();
        assert!(gone.cause.is_none());
        assert!(actors.on_ready(key(&one), worker(), ready, &mut ctx).is_err());
    }
}

//! Actors that live here, from their placement to their process's end.

use std::collections::{BTreeMap, VecDeque};

use helio_proto::cluster::{ActorEnded, ActorStarted, RunningActor, StopActor};
use helio_proto::control::{ActorLaunch, ActorSpec, Strategy};
use helio_proto::node::ActorReady;
use helio_scheduler::{InGroup, taken};
use helio_types::{
    ActorId, Assigned, DeathCause, DeathKind, JobId, PlacementGroupId, ResourceSet, WorkerId,
};

use crate::holders::with_env;
use crate::keys::{ActorKey, ClassKey, Demand};
use crate::limits::{ACTOR_PLACEMENT_MS_MAX, ACTORS_ENDED_MAX};
use crate::pool::Use;
use crate::timers::Timer;
use crate::{Conn, Node};

#[derive(Debug)]
struct Actor {
    launch: ActorLaunch,
    place: Place,
    /// When its constructor was sent to its process; 0: not yet.
    sent: u64,
    /// Its constructor has returned.
    is_alive: bool,
    /// The control service knows that it ended.
    is_reported: bool,
    /// Why it will have ended.
    cause: Option<DeathCause>,
}

#[derive(Debug)]
enum Place {
    /// Waits for room.
    Queued,
    /// Has its resources and waits for a worker.
    Assigned,
    /// In this worker.
    In(WorkerId, Conn),
}

impl Actor {
    /// What must be free for it to be placed.
    fn takes(&self) -> ResourceSet {
        let spec = &self.launch.spec;
        taken(&spec.placement_resources, &spec.strategy).into_owned()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Actors {
    all: BTreeMap<ActorKey, Actor>,
    queued: VecDeque<ActorKey>,
    /// The latest that ended here, and why: the news may be lost with a connection, and what has ended is
    /// not begun once more.
    ended: BTreeMap<ActorKey, DeathCause>,
    ended_order: VecDeque<ActorKey>,
}

impl Actors {
    pub(crate) fn assigned(&self, key: ActorKey) -> Option<(&Assigned, &Strategy)> {
        self.all.get(&key).map(|actor| (&actor.launch.assigned, &actor.launch.spec.strategy))
    }

    /// Who created it, and whether it may be restarted.
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

    /// What its code imports.
    pub(crate) fn modules(&self, key: ActorKey) -> &[String] {
        self.all.get(&key).map_or(&[], |actor| &actor.launch.spec.modules)
    }

    pub(crate) fn is_detached(&self, key: ActorKey) -> bool {
        self.all.get(&key).is_some_and(|actor| actor.launch.spec.detached)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Those that hold some of the resource: name, class, process.
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

    /// Those that hold resources.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Assigned, &Strategy, ActorKey)> {
        let placed = self.all.iter().filter(|(_, actor)| !matches!(actor.place, Place::Queued));
        placed.map(|(key, actor)| (&actor.launch.assigned, &actor.launch.spec.strategy, *key))
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.queued.len()
    }

    /// What those need that wait for room, in the form in which leases are asked back for it.
    pub(crate) fn waiting_for(&self) -> Vec<(Option<ClassKey>, ResourceSet, Option<Conn>)> {
        let needs = self.queued.iter().filter_map(|key| self.all.get(key));
        needs.map(|actor| (None, actor.takes(), None)).collect()
    }

    /// Shapes that wait.
    pub(crate) fn demand(&self) -> impl Iterator<Item = &ActorSpec> {
        self.queued.iter().filter_map(|key| self.all.get(key)).map(|actor| &actor.launch.spec)
    }

    fn remember(&mut self, key: ActorKey, cause: &DeathCause) {
        // Without what may be large.
        let cause = DeathCause { error: Vec::new(), log_tail: String::new(), ..cause.clone() };
        if self.ended.insert(key, cause).is_none() {
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

impl Node {
    pub(crate) fn on_launch_actor(&mut self, launch: ActorLaunch) {
        let key = (launch.spec.actor_id, launch.incarnation);
        if self.actors.all.contains_key(&key) {
            return;
        }
        if let Some(cause) = self.actors.ended.get(&key).cloned() {
            let ended = ActorEnded { actor_id: key.0, incarnation: key.1, cause, retry: false };
            return self.ctx.tell_control(ended);
        }
        let (need, strategy) = (&launch.spec.placement_resources, &launch.spec.strategy);
        let total = self.ledger.total();
        if !total.covers(&taken(need, strategy))
            || !total.covers(&taken(&launch.spec.resources, strategy))
        {
            let message = format!("node {} does not have {need}", self.ctx.setup().address.host);
            let cause = DeathCause::new(DeathKind::StartFailed, message);
            let ended = ActorEnded { actor_id: key.0, incarnation: key.1, cause, retry: true };
            return self.ctx.tell_control(ended);
        }
        let actor = Actor {
            launch,
            place: Place::Queued,
            sent: 0,
            is_alive: false,
            is_reported: false,
            cause: None,
        };
        self.actors.all.insert(key, actor);
        self.actors.queued.push_back(key);
        self.ctx.set_timer(self.ctx.now() + ACTOR_PLACEMENT_MS_MAX, Timer::Actor(key));
        self.ctx.capacity_changed();
    }

    /// Gives room to the actors that wait for it, in their order; a large one does not hold up the
    /// small ones behind it.
    pub(crate) fn place_actors(&mut self) {
        for key in std::mem::take(&mut self.actors.queued) {
            let Some(actor) = self.actors.all.get_mut(&key) else { continue };
            let spec = &actor.launch.spec;
            let takes = taken(&spec.placement_resources, &spec.strategy);
            let has_room = self.ledger.available().covers(&takes);
            match has_room.then(|| self.ledger.take(&spec.resources, &spec.strategy)).flatten() {
                Some(assigned) => {
                    let pool_key = (spec.job_id, spec.runtime_env.clone());
                    actor.launch.assigned = assigned;
                    actor.place = Place::Assigned;
                    self.need_worker(pool_key, Demand::Actor(key));
                }
                None => self.actors.queued.push_back(key),
            }
        }
    }

    pub(crate) fn actor_placement_is_late(&mut self, key: ActorKey) {
        if self.actors.all.get(&key).is_some_and(|actor| matches!(actor.place, Place::Queued)) {
            let host = &self.ctx.setup().address.host;
            let message = format!("node {host} had no room for it after all");
            self.end_unplaced_actor(key, DeathCause::new(DeathKind::StartFailed, message), true);
        }
    }

    fn end_unplaced_actor(&mut self, key: ActorKey, cause: DeathCause, retry: bool) {
        self.actors.all.remove(&key);
        self.actors.queued.retain(|other| *other != key);
        self.ctx.tell_control(ActorEnded { actor_id: key.0, incarnation: key.1, cause, retry });
        self.ctx.capacity_changed();
    }

    /// The actor has got its process.
    pub(crate) fn start_actor(&mut self, key: ActorKey, worker_id: WorkerId, conn: Conn) {
        let Some(actor) = self.actors.all.get_mut(&key) else { return };
        actor.place = Place::In(worker_id, conn);
        actor.sent = self.ctx.now();
        let launch = actor.launch.clone();
        self.ctx.send(conn, launch);
    }

    /// **WHY-1** How far an actor is that was sent here.
    pub(crate) fn why_actor(&self, actor_id: ActorId) -> String {
        let of_it = self.actors.all.range((actor_id, 0)..=(actor_id, u32::MAX));
        let Some((_, actor)) = of_it.last() else { return String::new() };
        match actor.place {
            Place::Queued => {
                let need = actor.takes();
                let text = self.cluster.why_here(&need);
                format!("{text}{}", self.holders(&need))
            }
            Place::Assigned => {
                format!("its process is being started{}", with_env(&actor.launch.spec.runtime_env))
            }
            Place::In(..) if actor.is_alive => String::new(),
            Place::In(worker_id, _) => {
                let worker = self.pool.workers.get(&worker_id);
                let pid = worker.map_or(0, crate::pool::Worker::pid);
                let s = self.ctx.now().saturating_sub(actor.sent) as f64 / 1000.0;
                format!("its constructor was begun {s:.1} s ago and has not returned (pid {pid})")
            }
        }
    }

    pub(crate) fn on_actor_ready(&mut self, conn: Conn, ready: ActorReady) {
        let Some(client) = self.clients.get(conn) else { return };
        let worker_id = client.worker_id();
        let usage = self.pool.workers.get(&worker_id).map(|worker| worker.usage);
        let Some(Use::Actor(key)) = usage else {
            return self.violation(conn, "an actor's readiness from a process that is none");
        };
        let address = self.address_of(conn);
        let pid = self.pid_of(conn);
        let Some(actor) = self.actors.all.get_mut(&key) else { return };
        if key.0 != ready.actor_id || actor.is_alive {
            return self.violation(conn, "readiness of an actor that does not start there");
        }
        if ready.error.is_empty() {
            actor.is_alive = true;
            self.ctx.tell_control(ActorStarted {
                actor_id: key.0,
                incarnation: key.1,
                address,
                pid,
            });
            return;
        }
        let mut cause = DeathCause::new(DeathKind::InitFailed, ready.message);
        cause.error = ready.error;
        cause.pid = pid;
        actor.is_reported = true;
        actor.cause = Some(cause.clone());
        self.ctx.tell_control(ActorEnded {
            actor_id: key.0,
            incarnation: key.1,
            cause,
            retry: false,
        });
        self.ask_to_exit(worker_id, "Its constructor raised.");
    }

    /// The users of bundles that end.
    pub(crate) fn end_actors_of_group(
        &mut self,
        group_id: PlacementGroupId,
        bundles: &[u32],
        cause: &DeathCause,
    ) {
        let inside = |actor: &Actor| {
            InGroup::of(&actor.launch.spec.strategy).is_some_and(|place| {
                place.group_id == group_id
                    && place.bundle.is_none_or(|bundle| bundles.contains(&bundle))
            })
        };
        let users = self.actors.all.iter().filter(|(_, actor)| inside(actor));
        let users: Vec<ActorKey> = users.map(|(key, _)| *key).collect();
        for key in users {
            self.stop_actor(key, cause.clone(), false);
        }
    }

    pub(crate) fn on_stop_actor(&mut self, stop: StopActor) {
        let cause = DeathCause::new(DeathKind::Intended, stop.reason);
        self.stop_actor((stop.actor_id, stop.incarnation), cause, stop.drain);
    }

    pub(crate) fn stop_actor(&mut self, key: ActorKey, cause: DeathCause, drain: bool) {
        let Some(actor) = self.actors.all.get_mut(&key) else { return };
        match actor.place {
            Place::Queued => self.end_unplaced_actor(key, cause, false),
            Place::Assigned => {
                self.pool.drop_demand(Demand::Actor(key));
                self.on_actor_gone(key, cause, false);
            }
            Place::In(_, conn) if drain => {
                let reason = cause.message.clone();
                actor.cause.get_or_insert(cause);
                // It may have much to finish, so nothing limits how long that takes.
                self.ctx.send(
                    conn,
                    helio_proto::node::Exit { reason, drain: true, unless_needed: false },
                );
            }
            Place::In(worker_id, _) => {
                let cause = actor.cause.get_or_insert(cause).clone();
                self.kill_worker(worker_id, Some(cause));
            }
        }
    }

    /// The actor's process has ended, or it will get none.
    pub(crate) fn on_actor_gone(&mut self, key: ActorKey, cause: DeathCause, cpu_was_lent: bool) {
        let Some(actor) = self.actors.all.remove(&key) else { return };
        self.actors.queued.retain(|other| *other != key);
        let mut known = actor.cause.unwrap_or_else(|| cause.clone());
        known.pid = cause.pid;
        self.actors.remember(key, &known);
        if !matches!(actor.place, Place::Queued) {
            let strategy = &actor.launch.spec.strategy;
            self.ledger.give_back(&actor.launch.assigned, strategy, cpu_was_lent);
            self.end_bundles();
        }
        if !actor.is_reported {
            self.ctx.tell_control(ActorEnded {
                actor_id: key.0,
                incarnation: key.1,
                cause: known,
                retry: false,
            });
        }
        self.ctx.capacity_changed();
    }

    /// The actors that live here, for a control service that has to learn of them again.
    #[must_use]
    pub fn running_actors(&self) -> Vec<RunningActor> {
        let running = |(key, actor): (&ActorKey, &Actor)| match actor.place {
            Place::In(_, conn) if actor.is_alive && !actor.is_reported => Some(RunningActor {
                actor_id: key.0,
                incarnation: key.1,
                address: self.address_of(conn),
                pid: self.pid_of(conn),
            }),
            _ => None,
        };
        self.actors.all.iter().filter_map(running).collect()
    }
}

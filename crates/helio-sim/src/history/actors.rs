//! The history of actors and placement groups.

use std::collections::BTreeSet;

use helio_types::{ActorId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};

use super::{Actor, History};
use crate::ops::{Needs, Target};

impl History {
    /// Notes that a process made an actor, which takes so many hundredths of a placement group's bundles or, without
    /// a group, of slots.
    pub fn actor_made(
        &mut self,
        actor: ActorId,
        creator: WorkerId,
        (max_restarts, is_detached): (i64, bool),
        (group, takes): (PlacementGroupId, u32),
    ) {
        let made = Actor { creator, max_restarts, is_detached, group, takes, ..Actor::default() };
        self.actors.insert(actor, made);
    }

    /// The placement group of an actor, or none, and how many hundredths it takes there.
    pub(crate) fn actor_takes(&self, actor: ActorId) -> (PlacementGroupId, u32) {
        self.actors.get(&actor).map(|known| (known.group, known.takes)).unwrap_or_default()
    }

    /// An actor is to live there; on which node, where it is one.
    pub fn actor_targeted(&mut self, actor: ActorId, target: Target, node: NodeId) {
        self.actors.entry(actor).or_default().target = (target, node);
    }

    /// Returns the target of an actor, and its node where it is one.
    #[must_use]
    pub fn actor_target(&self, actor: ActorId) -> (Target, NodeId) {
        self.actors.get(&actor).map(|known| known.target).unwrap_or_default()
    }

    /// Whether the only node on which an actor may live was lost, or takes no work any more.
    #[must_use]
    pub fn lost_actor_target(&self, actor: ActorId) -> bool {
        self.is_target_lost(self.actor_target(actor))
    }

    /// Notes the needs of an actor besides a CPU.
    pub(crate) fn actor_needs(&mut self, actor: ActorId, needs: Needs) {
        self.actors.entry(actor).or_default().needs = needs;
    }

    /// Returns the needs of an actor besides a CPU.
    pub(crate) fn actor_needs_of(&self, actor: ActorId) -> Needs {
        self.actors.get(&actor).map(|known| known.needs).unwrap_or_default()
    }

    /// Whether a node was to make that life of an actor before.
    #[must_use]
    pub fn was_placed(&self, actor: ActorId, node: NodeId, incarnation: u32) -> bool {
        self.actors.get(&actor).is_some_and(|made| made.places.contains(&(incarnation, node)))
    }

    /// A node is to make an actor.
    ///
    /// # Errors
    /// When it has been made as often as it may.
    pub fn actor_placed(
        &mut self,
        actor: ActorId,
        node: NodeId,
        incarnation: u32,
    ) -> Result<(), String> {
        let Some(made) = self.actors.get_mut(&actor) else { return Ok(()) };
        made.places.insert((incarnation, node));
        // That it leaves a node which is drained costs it nothing.
        let moves = made.places.iter().filter(|(_, node)| self.drained.contains(node)).count();
        let restarts = i64::from(incarnation) - moves as i64;
        let most = made.max_restarts;
        match most >= 0 && restarts > most {
            true => {
                Err(format!("{actor} has max_restarts={most} and is restarted {restarts} times"))
            }
            false => Ok(()),
        }
    }

    /// A process became an actor, or was to.
    pub fn actor_lives(&mut self, actor: ActorId, process: WorkerId) {
        self.actors.entry(actor).or_default().lives.insert(process);
    }

    /// Whether a process has made an actor that may live.
    #[must_use]
    pub fn has_actors(&self, process: WorkerId) -> bool {
        let is_its = |actor: &Actor| actor.creator == process && !actor.constructed.is_empty();
        self.actors.values().any(|actor| is_its(actor) && !actor.is_unheld && !actor.is_over)
    }

    /// Whether the process that has made an actor is gone.
    #[must_use]
    pub fn lost_maker(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_some_and(|known| self.gone.contains(&known.creator))
    }

    /// A process begins an actor's constructor.
    pub fn actor_constructs(&mut self, actor: ActorId, process: WorkerId) {
        self.actors.entry(actor).or_default().constructed.push(process);
    }

    /// Whether another process has begun to be the actor since this one did, although this one's daemon, which is to
    /// end or to stop it before, could do so.
    #[must_use]
    pub fn is_outlived(&self, actor: ActorId, process: WorkerId) -> bool {
        let is_latest = self
            .actors
            .get(&actor)
            .is_none_or(|known| known.constructed.last().is_none_or(|last| *last == process));
        let can_act = self.homes.get(&process).is_some_and(|node| !self.hung.contains(node));
        !is_latest && can_act
    }

    /// An actor may be over for good from now on.
    pub fn actor_over(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().is_over = true;
    }

    /// A program kills an actor for good.
    pub fn actor_killed(&mut self, actor: ActorId) {
        let known = self.actors.entry(actor).or_default();
        (known.is_over, known.was_killed) = (true, true);
    }

    /// Whether a program killed the actor for good.
    #[must_use]
    pub fn was_killed(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_some_and(|known| known.was_killed)
    }

    /// A program ends a process of an actor, which may be restarted.
    pub fn actor_hit(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().was_hit = true;
    }

    /// The last handle of an actor is gone.
    pub fn actor_unheld(&mut self, actor: ActorId) {
        self.actors.entry(actor).or_default().is_unheld = true;
    }

    /// The actors that the process became, or was to.
    pub fn actors_in(&self, process: WorkerId) -> impl Iterator<Item = ActorId> {
        let here = self.actors.iter().filter(move |(_, actor)| actor.lives.contains(&process));
        here.map(|(actor, _)| *actor)
    }

    /// Whether an actor may be over for good although it lived: it was killed for good, its constructor raised, it
    /// ended with its handles, its group, its creator or its only node, or a node on which it was to live could make no
    /// process.
    #[must_use]
    pub fn actor_may_be_over(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_none_or(|known| {
            let creator_lost = !known.is_detached && self.is_lost(&known.creator);
            let has_no_process = known.places.iter().any(|(_, node)| self.may_refuse(*node));
            known.is_over
                || known.is_unheld
                || creator_lost
                || has_no_process
                || self.actor_lost_group(actor)
                || self.is_target_lost(known.target)
        })
    }

    /// Returns the number of lives that an actor was to begin, and the number that it may have;
    /// `None`: no limit.
    #[must_use]
    pub fn lives(&self, actor: ActorId) -> (i64, Option<i64>) {
        let Some(known) = self.actors.get(&actor) else { return (0, None) };
        let begun: BTreeSet<u32> = known.places.iter().map(|(number, _)| *number).collect();
        let most = (known.max_restarts >= 0).then_some(known.max_restarts + 1);
        (begun.len() as i64, most)
    }

    /// Whether a process or node of this actor ended or was cut off from that process (`None`: from anybody), or a
    /// program ended it.
    #[must_use]
    pub fn actor_lost_process(&self, actor: ActorId, caller: Option<WorkerId>) -> bool {
        let Some(known) = self.actors.get(&actor) else { return true };
        let is_caller = |other: &WorkerId| caller.is_none_or(|caller| caller == *other);
        let is_apart =
            |life: &WorkerId| self.apart.iter().any(|(one, other)| one == life && is_caller(other));
        known.was_hit
            || known.lives.iter().any(|life| self.is_lost(life) || is_apart(life))
            || known.places.iter().any(|(_, node)| self.nodes_lost.contains(node))
    }

    /// A process made a placement group.
    pub fn group_made(&mut self, group: PlacementGroupId, by: WorkerId, is_detached: bool) {
        self.group_makers.insert(group, (!is_detached).then_some(by));
    }

    /// A program removed a placement group.
    pub fn group_removed(&mut self, group: PlacementGroupId) {
        self.removed.insert(group);
    }

    /// Whether a program removed the placement group, or it may have been refused.
    #[must_use]
    pub fn was_group_removed(&self, group: PlacementGroupId) -> bool {
        self.removed.contains(&group)
    }

    /// The control service may refuse a placement group: the head's disk has no room for it.
    pub fn group_may_be_refused(&mut self, group: PlacementGroupId) {
        self.groups_refused.insert(group);
        self.removed.insert(group);
    }

    /// An object becomes ready when a placement group is placed.
    pub fn ready_with(&mut self, object: ObjectId, group: PlacementGroupId) {
        self.ready_with.insert(object, group);
    }

    /// The placement group that an object becomes ready with.
    #[must_use]
    pub fn group_ready_with(&self, object: ObjectId) -> Option<PlacementGroupId> {
        self.ready_with.get(&object).copied()
    }

    /// Whether the object was to become ready with a placement group that may have been refused.
    #[must_use]
    pub fn was_group_refused(&self, object: ObjectId) -> bool {
        self.ready_with.get(&object).is_some_and(|group| self.groups_refused.contains(group))
    }

    fn is_group_over(&self, group: PlacementGroupId) -> bool {
        let is_maker_lost = |by: &Option<WorkerId>| by.is_some_and(|by| self.is_lost(&by));
        !group.is_nil()
            && (self.removed.contains(&group)
                || self.group_makers.get(&group).is_none_or(is_maker_lost))
    }

    /// Whether the actor ended with its placement group. A control service that died meanwhile does not
    /// know the actor any more, and cannot say so.
    #[must_use]
    pub fn actor_lost_group(&self, actor: ActorId) -> bool {
        self.actors.get(&actor).is_some_and(|known| self.is_group_over(known.group))
    }

    /// Whether the call's placement group was removed, or ended with its maker.
    #[must_use]
    pub fn call_lost_group(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|call| self.is_group_over(call.group))
    }
}

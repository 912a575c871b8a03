//! The decisions of the control service, held against the messages that it got: which nodes it declares dead, where it
//! puts the bundles of placement groups, and which actors it restarts.
//!
//! | a node is declared dead | the evidence |
//! |---|---|
//! | it left | it said so |
//! | its connection broke | so long ago that it could have come back |
//! | it did not come back after a restart | that was so long ago |
//! | it was silent | for as long as heartbeats may be missed; and another node did not reach it, or there is none to ask and it was silent for twice as long, or nothing could speak for it for all the patience there is |

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{
    HEADLESS_MARGIN_MS, HEADLESS_MS_MAX, HEARTBEAT_MS, HEARTBEATS_MISSED_MAX, RECONNECT_MS_MAX,
    RECOVERY_MS_MAX, alone_ms,
};
use helio_proto::cluster::{ControlToNode, FromClient, NodeToControl, RunningActor};
use helio_proto::control::{ActorPhase, ControlRequest, ControlResponse};
use helio_proto::encode;
use helio_proto::group::{GroupStrategy, HeldBundle};
use helio_proto::node::NodeToClient;
use helio_types::{ActorId, NodeId, PlacementGroupId, ResourceSet};

/// Clocks tell whole milliseconds.
const TICK_US: u64 = 1_000;

/// The reason for which the control service takes a node for dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The node said that it leaves.
    Left,
    /// The node's connection broke, or it did not come back.
    Lost,
    /// The node said nothing for longer than the rules allow.
    Silent,
}

/// The request of a program for a placement group.
#[derive(Clone, Debug)]
pub struct GroupPromise {
    /// The strategy by which the group's bundles are to lie.
    pub strategy: GroupStrategy,
    /// The size of each bundle.
    pub bundles: Vec<u32>,
    /// The resource of the bundles is one that every node has.
    pub is_everywhere: bool,
}

/// The resources of an actor, and its strategy, encoded.
type Shape = (ResourceSet, Vec<u8>);

/// The messages to one life of the control service, and its decisions; times in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    began: u64,
    /// Millionths by which clocks may be wrong.
    drift_ppm_max: u64,
    /// The nodes that have registered, and when each was heard last.
    heard: BTreeMap<NodeId, u64>,
    /// Nodes whose connection broke, and when.
    lost: BTreeMap<NodeId, u64>,
    leaving: BTreeSet<NodeId>,
    /// Nodes that take no new work.
    drained: BTreeSet<NodeId>,
    /// Nodes that were declared dead.
    dead: BTreeSet<NodeId>,
    /// The last that a node said of another one: it does not reach it.
    unreached: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// The life of each actor that was ordered last, and its node.
    lives: BTreeMap<ActorId, (u32, NodeId)>,
    /// Lives that are over: their node said so, is dead, or does not know them; or somebody ended them.
    over: BTreeSet<(ActorId, u32)>,
    /// The nodes on which the bundles of each group are to be.
    places: BTreeMap<PlacementGroupId, BTreeMap<u32, NodeId>>,
    /// The attempt in which each bundle was asked for last: an answer to an earlier one says nothing of it.
    attempts: BTreeMap<(PlacementGroupId, u32), u32>,
    /// Bundles whose node has said that it holds them.
    held: BTreeSet<(PlacementGroupId, u32)>,
    /// Nodes that were asked for bundles.
    asked: BTreeSet<NodeId>,
    /// Actors that wait for their first node, in the order in which they were asked for, and what each needs. Whenever one
    /// may have ended unseen, all of them are forgotten.
    waiting: Vec<(ActorId, Shape)>,
    /// Actors that were ever placed: a head that is new is asked for them again.
    placed: BTreeSet<ActorId>,
    /// Bundles for which a node was asked since the last judgement.
    fresh: BTreeMap<PlacementGroupId, BTreeMap<u32, NodeId>>,
}

/// Whether a client is told that something will not be, or is over.
fn is_refusal(message: &NodeToClient) -> bool {
    match message {
        NodeToClient::ControlReply(reply) => matches!(reply.response, ControlResponse::Failed(_)),
        NodeToClient::ActorUpdate(info) => info.phase == ActorPhase::Dead,
        _ => false,
    }
}

impl Evidence {
    /// The control service begins; clocks may be wrong by that much, in millionths.
    pub(crate) fn new(now: u64, drift_ppm_max: u64) -> Self {
        Self { began: now, drift_ppm_max, ..Self::default() }
    }

    /// A node's message arrived.
    pub(crate) fn heard(&mut self, node: NodeId, message: &NodeToControl, now: u64) {
        match message {
            NodeToControl::Register(register) => {
                if register.info.is_draining {
                    self.drained.insert(node);
                }
                self.heard.insert(node, now);
                self.lost.remove(&node);
                // What the node does not name is not there any more, whatever it said before.
                let mut held = std::mem::take(&mut self.held);
                held.retain(|(group, bundle)| {
                    let is_it = |one: &HeldBundle| (one.group_id, one.bundle) == (*group, *bundle);
                    self.place_of((*group, *bundle)) != Some(node)
                        || register.bundles.iter().any(is_it)
                });
                self.held = held;
                self.lives_over(|actor, life, at| {
                    let is_this =
                        |one: &RunningActor| (one.actor_id, one.incarnation) == (actor, life);
                    at == node && !register.actors.iter().any(is_this)
                });
            }
            NodeToControl::BundlesHeld(said) if said.refused.is_empty() => {
                let places = self.places.get(&said.group_id).into_iter().flatten();
                let here = places.filter(|(_, at)| **at == node);
                let keys = here.map(|(bundle, _)| (said.group_id, *bundle));
                self.held.extend(keys.filter(|key| self.attempts.get(key) == Some(&said.attempt)));
            }
            NodeToControl::ActorEnded(ended) => {
                self.over.insert((ended.actor_id, ended.incarnation));
            }
            NodeToControl::FromClient(FromClient { call, .. }) => match &call.request {
                ControlRequest::KillActor(kill) => {
                    self.lives_over(|actor, _, _| actor == kill.actor_id);
                    self.waiting.retain(|(actor, _)| *actor != kill.actor_id);
                }
                ControlRequest::CreateActor(spec)
                    if spec.name.is_empty() && !self.placed.contains(&spec.actor_id) =>
                {
                    let shape = (spec.placement_resources.clone(), encode(&spec.strategy));
                    if !self.waiting.iter().any(|(actor, _)| *actor == spec.actor_id) {
                        self.waiting.push((spec.actor_id, shape));
                    }
                }
                _ => {}
            },
            NodeToControl::ClientGone(_) => self.waiting.clear(),
            NodeToControl::ActorStarted(started) => {
                self.placed.insert(started.actor_id);
            }
            NodeToControl::Leaving(_) => drop(self.leaving.insert(node)),
            NodeToControl::Probed(probed) if probed.is_reached => {
                self.unreached.remove(&probed.node_id);
            }
            NodeToControl::Probed(probed) => {
                self.unreached.entry(probed.node_id).or_default().insert(node);
            }
            _ => {}
        }
        if let Some(heard) = self.heard.get_mut(&node) {
            *heard = now;
            self.unreached.remove(&node);
        }
    }

    /// Notes that these lives are over.
    fn lives_over(&mut self, is_over: impl Fn(ActorId, u32, NodeId) -> bool) {
        let over = self.lives.iter().filter(|(actor, (life, at))| is_over(**actor, *life, *at));
        self.over.extend(over.map(|(actor, (life, _))| (*actor, *life)));
    }

    /// A node's connection broke.
    pub(crate) fn disconnected(&mut self, node: NodeId, now: u64) {
        self.lost.insert(node, now);
        self.waiting.clear();
    }

    /// The control service declares a node dead.
    ///
    /// # Errors
    /// Without the evidence that it needs.
    pub(crate) fn declared_dead(
        &mut self,
        node: NodeId,
        head: NodeId,
        now: u64,
    ) -> Result<Verdict, String> {
        let drift = self.drift_ppm_max;
        // By the fastest clock that the service may have: what that one has seen as silence is proof enough.
        let since = |at: u64| (now - at) + (now - at) / 1_000 * drift / 1_000 + TICK_US;
        self.lives_over(|_, _, at| at == node);
        self.waiting.clear();
        self.dead.insert(node);
        let heard = self.heard.remove(&node);
        let (lost, is_leaving) = (self.lost.remove(&node), self.leaving.remove(&node));
        for places in self.places.values_mut() {
            places.retain(|_, at| *at != node);
        }
        let is_over = |at: u64, ms: u64| since(at) >= ms * 1_000;
        let is_absent = heard.is_none() && is_over(self.began, RECOVERY_MS_MAX);
        // A node that said so needs no silence to be believed.
        if is_leaving {
            return Ok(Verdict::Left);
        }
        if is_absent || lost.is_some_and(|at| is_over(at, RECONNECT_MS_MAX)) {
            return Ok(Verdict::Lost);
        }
        let Some(heard) = heard else { return Err("it never registered".to_owned()) };
        let silence_ms_max = HEARTBEATS_MISSED_MAX * HEARTBEAT_MS;
        let others = self.heard.keys().filter(|other| **other != head).count();
        let is_confirmed = node == head || self.unreached.contains_key(&node);
        let needed_ms = match is_confirmed {
            true => silence_ms_max,
            false if others == 0 => alone_ms(silence_ms_max),
            false => HEADLESS_MS_MAX + HEADLESS_MARGIN_MS,
        };
        if is_over(heard, needed_ms) {
            return Ok(Verdict::Silent);
        }
        let witnesses = self.unreached.get(&node).map_or(0, BTreeSet::len);
        Err(format!(
            "it was silent for {} ms, {witnesses} nodes did not reach it either, and that takes {needed_ms} ms",
            now.saturating_sub(heard) / 1_000
        ))
    }

    /// Whether a node that has registered and said that it leaves is not dead yet.
    pub(crate) fn awaits_the_gone(&self, node: NodeId) -> bool {
        self.leaving.contains(&node) && self.heard.contains_key(&node)
    }

    /// Returns the node on which a bundle is to be.
    fn place_of(&self, (group, bundle): (PlacementGroupId, u32)) -> Option<NodeId> {
        self.places.get(&group)?.get(&bundle).copied()
    }

    /// Whether nothing speaks against the node: it has registered, and its connection is not broken.
    fn is_sound(&self, node: NodeId) -> bool {
        self.heard.contains_key(&node)
            && !self.lost.contains_key(&node)
            && !self.leaving.contains(&node)
            && !self.dead.contains(&node)
    }

    /// Whether the node has registered.
    pub(crate) fn knows(&self, node: NodeId) -> bool {
        self.heard.contains_key(&node)
    }

    /// The control service has sent a message; `is_new`: not even an earlier life of it asked for the same.
    ///
    /// # Errors
    /// When it asks a node for something new that takes no new work, or restarts what lives.
    pub(crate) fn sent(
        &mut self,
        node: NodeId,
        message: &ControlToNode,
        is_new: bool,
    ) -> Result<(), String> {
        match message {
            ControlToNode::Accepted(accepted)
                if accepted.refused.is_empty() && self.dead.contains(&node) =>
            {
                return Err(format!("node {node} is taken in again, and was declared dead"));
            }
            ControlToNode::Drain(order) if order.is_cancelled => drop(self.drained.remove(&node)),
            ControlToNode::Drain(_) => drop(self.drained.insert(node)),
            // One of them may have been refused, or cannot be placed.
            ControlToNode::ToClient(to) if is_refusal(&to.message) => self.waiting.clear(),
            ControlToNode::LaunchActor(launch) => {
                let actor = launch.spec.actor_id;
                if is_new && self.drained.contains(&node) {
                    return Err(format!("{actor} is sent to node {node}, which is drained"));
                }
                if let Some(place) = self.waiting.iter().position(|(one, _)| *one == actor) {
                    let (_, shape) = self.waiting.remove(place);
                    let mut earlier = self.waiting[..place].iter();
                    if let Some((other, _)) = earlier.find(|(_, other)| *other == shape) {
                        return Err(format!(
                            "{actor} is placed before {other}, which waits longer"
                        ));
                    }
                }
                self.placed.insert(actor);
                let before = self.lives.insert(actor, (launch.incarnation, node));
                let before = before.filter(|(life, _)| *life < launch.incarnation);
                if let Some((life, at)) = before
                    && !self.over.contains(&(actor, life))
                    && !self.drained.contains(&at)
                {
                    return Err(format!(
                        "{actor} is restarted, and nobody said that its life {life} on node {at} is over"
                    ));
                }
            }
            ControlToNode::ReserveBundles(order) => {
                self.asked.insert(node);
                for one in &order.bundles {
                    let key = (order.group_id, one.bundle);
                    let at = self.place_of(key).filter(|at| *at != node && self.is_sound(*at));
                    if let Some(at) = at.filter(|_| self.held.contains(&key)) {
                        return Err(format!(
                            "bundle {} of group {} is to be on node {node}, and node {at}, which has it, lives",
                            one.bundle, order.group_id
                        ));
                    }
                    self.held.remove(&key);
                    self.attempts.insert(key, order.attempt);
                    self.places.entry(order.group_id).or_default().insert(one.bundle, node);
                    self.fresh.entry(order.group_id).or_default().insert(one.bundle, node);
                }
            }
            ControlToNode::ReturnBundles(order) => {
                self.held.retain(|(group, number)| {
                    *group != order.group_id || !order.bundles.contains(number)
                });
                if let Some(places) = self.places.get_mut(&order.group_id) {
                    places.retain(|number, at| *at != node || !order.bundles.contains(number));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether nodes were asked for bundles since the last judgement.
    pub(crate) fn is_asking(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// The nodes that were asked for bundles since the last call.
    pub(crate) fn take_asked(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.asked)
    }

    /// All that follows from an event is done: what is wrong with the places of the groups for which nodes were
    /// asked. `unused`: the nodes that never had a bundle, and how much each has of what bundles are made of.
    pub(crate) fn judge_places(
        &mut self,
        promises: &BTreeMap<PlacementGroupId, GroupPromise>,
        unused: &BTreeMap<NodeId, f64>,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for (group, fresh) in std::mem::take(&mut self.fresh) {
            let (Some(promise), Some(places)) = (promises.get(&group), self.places.get(&group))
            else {
                continue;
            };
            let nodes: BTreeSet<&NodeId> = places.values().collect();
            let amount = |number: &u32| f64::from(promise.bundles[*number as usize]);
            let unused = || {
                let open = unused.iter().filter(|(node, _)| {
                    promise.is_everywhere && self.heard.contains_key(*node) && !nodes.contains(node)
                });
                open.map(|(_, room)| *room)
            };
            let is_whole = places.len() == fresh.len();
            let text = match promise.strategy {
                GroupStrategy::StrictSpread if nodes.len() < places.len() => {
                    "STRICT_SPREAD puts two bundles onto one node"
                }
                GroupStrategy::StrictPack if nodes.len() > 1 => {
                    "STRICT_PACK puts bundles onto several nodes"
                }
                GroupStrategy::Spread
                    if is_whole
                        && nodes.len() < places.len()
                        && unused()
                            .any(|room| fresh.keys().all(|number| amount(number) <= room)) =>
                {
                    "SPREAD puts two bundles onto one node while another one is empty"
                }
                GroupStrategy::Pack
                    if is_whole
                        && nodes.len() > 1
                        && unused().any(|room| fresh.keys().map(amount).sum::<f64>() <= room) =>
                {
                    "PACK puts bundles onto several nodes while an empty one could hold them all"
                }
                _ => continue,
            };
            wrong.push(format!("{text}: group {group} of {:?} is at {places:?}", promise.bundles));
        }
        wrong
    }
}

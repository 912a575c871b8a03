//! The table of nodes: which are in, which are gone, and what placement sees of them.
//!
//! ```text
//!            Register                 silence, Leaving, or no new connection in time
//!   (none) ───────────▶ alive ───────────────────────────────────────────────────▶ dead
//!                        │  ▲
//!          Disconnected  ▼  │  Register
//!                       alive, lost
//! ```
//! A dead node never comes back under its id: its actors have been given to others.
//!
//! The resources of a launched actor, or of a bundle that is being reserved, are *reserved* in the node's view,
//! so that a burst is spread. A reservation ends with the node's next status, which knows better, and at
//! the latest after [`RESERVATION_MS_MAX`]: a node may lend an actor's resources on while its constructor
//! waits, and another actor may be what it waits for.
//!
//! Nothing here costs more per event when there are more nodes, except what is sent to all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_config::control::{
    DEAD_NODES_MAX, LIST_ROWS_MAX, LOOK_AGAIN_MS, NODE_WAITERS_MAX, NODES_MAX, RECONNECT_MS_MAX,
    VIEW_INTERVAL_MS_MIN, WATCHED_MAX,
};
use helio_proto::cluster::{ClusterView, Drain};
use helio_proto::control::{NodeInfo, Strategy};
use helio_proto::{decode, encode};
use helio_scheduler::{Choice, NodeIndex, NodeView, Placement, Wanted};
use helio_types::{ActorId, IdMap, NodeAddress, NodeId, PlacementGroupId, ResourceSet, mutant};

mod news;

use crate::event::Requester;
use crate::heartbeats::Heartbeats;
use crate::verdict::Sight;
use crate::watches::Watches;

/// Milliseconds that a reservation lasts.
pub(crate) const RESERVATION_MS_MAX: u64 = 200;

/// The purpose of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ReservedFor {
    /// An actor that was sent to the node.
    Actor(ActorId),
    /// Bundles of a placement group that the node was asked to hold.
    Group(PlacementGroupId),
}

#[derive(Debug, Default)]
struct Node {
    /// The node's newest status; its `version` is the published one.
    info: NodeInfo,
    /// The newest status in the wire form, as the node sent it: it holds when the node says that
    /// nothing has changed.
    reported: Box<[u8]>,
    /// `info` was changed here since the newest status.
    is_adjusted: bool,
    /// The version that the node gave its newest status.
    reported_version: u64,
    /// The order to leave that it was given: it may be lost with a connection.
    drain: Option<Drain>,
    /// The order was taken back, and the node has not said yet that it stays.
    is_staying: bool,
    /// The time since which it has no connection.
    lost_ms: Option<u64>,
    /// Resources that are reserved and not subtracted from `info.available` yet, and since when.
    reservations: BTreeMap<ReservedFor, (ResourceSet, u64)>,
    /// The next heartbeat may have effects although it has no news.
    is_unsettled: bool,
}

impl Node {
    /// Returns the node as placement sees it: the newest status, less the reservations since.
    fn view(&self) -> NodeView {
        let mut view = NodeView::from(&self.info);
        for (resources, _) in self.reservations.values() {
            view.available.subtract(resources);
        }
        view
    }
}

/// The table of nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: IdMap<NodeId, Node>,
    heartbeats: Heartbeats,
    /// Dead nodes, the newest last.
    dead: VecDeque<NodeId>,
    /// Derived from `nodes`: what placement sees of those that are alive, in the order in which they
    /// registered.
    index: NodeIndex,
    /// Derived from `nodes`: those that are alive and have no connection.
    lost: BTreeSet<NodeId>,
    /// Reservations in the order in which they were made; some are over already.
    reserved: VecDeque<(u64, NodeId, ReservedFor)>,
    /// Nodes whose newest resources their watchers have not been told.
    changed: BTreeSet<NodeId>,
    /// Nodes that joined or died, of which the others have not been told.
    members: BTreeSet<NodeId>,
    /// Nodes that registered and have not been told of the others.
    uninformed: BTreeSet<NodeId>,
    /// The time at which joins and deaths were last published.
    members_published_ms: u64,
    watches: Watches,
    /// Nodes with requests that wait for room elsewhere, and were not told of candidates since they
    /// reported that.
    wanting: BTreeSet<NodeId>,
    /// The wanting node that was answered last: the next one comes behind it.
    answered: NodeId,
    /// Candidates that are equally good take turns by this number.
    n_candidates: u64,
    /// The number of the newest view that was published.
    version: u64,
    /// The time at which changed resources were last published.
    published_ms: u64,
    /// A number that changes when a node has joined, is gone, is to leave, or stays after all.
    membership: u64,
    /// The requests that wait for the next such change.
    waiters: BTreeSet<Requester>,
    /// The change up to which all were told.
    told: u64,
    /// No node can be suspected before this time.
    silence_due_ms: u64,
}

impl Nodes {
    pub(crate) fn is_alive(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| node.info.alive)
    }

    pub(crate) fn n_alive(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn alive_ids(&self) -> Vec<NodeId> {
        self.index.alive().map(|view| view.address.node_id).collect()
    }

    /// Every node that is remembered, also dead ones, in the order of ids.
    pub(crate) fn infos(&self) -> Vec<NodeInfo> {
        self.in_order().map(|node| node.info.clone()).collect()
    }

    fn in_order(&self) -> impl Iterator<Item = &Node> {
        let mut nodes: Vec<(&NodeId, &Node)> = self.nodes.iter().collect();
        nodes.sort_unstable_by_key(|(node_id, _)| **node_id);
        nodes.into_iter().map(|(_, node)| node)
    }

    /// Returns the address of a node.
    pub(crate) fn address(&self, node_id: NodeId) -> Option<NodeAddress> {
        self.nodes.get(&node_id).map(|node| node.info.address.clone())
    }

    /// The host of a node, for people.
    pub(crate) fn host(&self, node_id: NodeId) -> &str {
        self.nodes.get(&node_id).map_or("", |node| node.info.address.host.as_str())
    }

    /// The nodes of a listing: living ones first. Drivers' machines outside the cluster are none of it.
    pub(crate) fn rows(&self) -> Vec<NodeInfo> {
        let own = || self.in_order().filter(|node| !node.info.is_guest);
        let alive = own().filter(|node| node.info.alive);
        let dead = own().filter(|node| !node.info.alive);
        let rows = alive.chain(dead).map(|node| node.info.clone());
        // Behind the living ones, the dead are what is left out of a list that is too long.
        rows.take(LIST_ROWS_MAX).collect()
    }

    /// Returns the nodes as placement sees them, for explanations: nodes that are not alive may be among them.
    pub(crate) fn views(&self) -> &[NodeView] {
        self.index.views()
    }

    /// A node for a request that arose on `origin`, as [`helio_scheduler::place`] picks it.
    pub(crate) fn choose(
        &mut self,
        origin: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
        cursor: u64,
    ) -> Choice {
        self.index.choose(origin, need, strategy, cursor, &[])
    }

    /// Whether no node could ever hold such a request. It looks at every node.
    pub(crate) fn is_infeasible(&self, need: &ResourceSet, strategy: &Strategy) -> bool {
        let placement = helio_scheduler::place(self.index.views(), None, need, strategy, 0, &[]);
        matches!(placement, Placement::Infeasible(_))
    }

    /// A node for a request, with a sentence if no node could ever hold it.
    pub(crate) fn place(
        &mut self,
        origin: Option<NodeId>,
        need: &ResourceSet,
        strategy: &Strategy,
        cursor: u64,
    ) -> Placement {
        self.index.place(origin, need, strategy, cursor, &[])
    }

    /// Nodes for the bundles of a group, as [`helio_scheduler::plan_group`] picks them.
    pub(crate) fn plan_group(&mut self, wanted: Wanted<'_>) -> Option<Vec<(u32, NodeId)>> {
        self.index.plan_group(wanted)
    }

    /// Returns the number of nodes that placement has looked at: the measure of its cost.
    pub(crate) fn n_visited(&self) -> u64 {
        self.index.visited()
    }

    pub(crate) fn n_reservations(&self) -> usize {
        self.nodes.values().map(|node| node.reservations.len()).sum()
    }

    /// Returns the reason why a node may not register; empty when it may.
    pub(crate) fn refusal(&self, node_id: NodeId, info: &NodeInfo) -> String {
        match self.nodes.get(&node_id) {
            // What it ran was given to others: it may come back only as a node of another id.
            Some(node) if !node.info.alive && !mutant!("dead-node-registers-again") => {
                self.sentence(node_id)
            }
            None if self.index.len() >= NODES_MAX => {
                format!("the cluster has {NODES_MAX} nodes, the most it can have")
            }
            _ if node_id.is_nil() || info.address.node_id != node_id => {
                "the node's id does not match its greeting".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Whether the node was declared dead: it may join again under a new id.
    pub(crate) fn was_declared_dead(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| !node.info.alive)
    }

    /// Returns the sentence for a node that sends a message and is not alive.
    pub(crate) fn sentence(&self, node_id: NodeId) -> String {
        let known = self.nodes.get(&node_id);
        let cause = known.map_or("it was not known any more", |node| node.info.cause.as_str());
        format!("this node was declared dead ({cause}), and what it ran was given to others")
    }

    /// Takes in a node that was not refused. A new one may be silent for `first_silence_ms` longer.
    /// Answers whether it is new.
    pub(crate) fn register(
        &mut self,
        node_id: NodeId,
        info: NodeInfo,
        now_ms: u64,
        first_silence_ms: u64,
    ) -> bool {
        let is_new = !self.nodes.contains_key(&node_id);
        let version = self.next_version(now_ms);
        let node = self.nodes.entry(node_id).or_default();
        node.reported_version = info.version;
        node.reported = encode(&info).into_boxed_slice();
        node.is_adjusted = false;
        // The node may not have heard of the order, or of its end: this service knows what was asked last.
        let is_draining = (info.is_draining && !node.is_staying) || node.drain.is_some();
        let drain_deadline_ms = node.info.drain_deadline_ms;
        let drain_reason = std::mem::take(&mut node.info.drain_reason);
        node.info = NodeInfo {
            alive: true,
            version,
            cause: String::new(),
            is_draining,
            drain_deadline_ms,
            drain_reason,
            ..info
        };
        // Where it has just begun, its machine may still be busy with that.
        self.heartbeats.begin(node_id, now_ms + if is_new { first_silence_ms } else { 0 });
        node.lost_ms = None;
        // What a node says on registering counts all that was sent to it.
        node.reservations.clear();
        node.is_unsettled = true;
        self.lost.remove(&node_id);
        self.changed.remove(&node_id);
        self.members.insert(node_id);
        self.uninformed.insert(node_id);
        self.refresh_view(node_id);
        if is_new {
            self.watch_some(node_id);
            self.membership = version;
        }
        self.note_wanting(node_id);
        is_new
    }

    /// A new node watches others, and others watch it, as far as these have not enough to watch.
    fn watch_some(&mut self, node_id: NodeId) {
        let others = self.index.alive().map(|view| view.address.node_id).rev();
        let others: Vec<NodeId> =
            others.filter(|other| *other != node_id).take(WATCHED_MAX).collect();
        for other in others.into_iter().rev() {
            self.watches.add(node_id, other);
            if self.watches.n_watched(other) < WATCHED_MAX {
                self.watches.add(other, node_id);
            }
        }
    }

    /// A message of the node arrived; whether the node is alive.
    pub(crate) fn is_heard(&mut self, node_id: NodeId, now_ms: u64) -> bool {
        self.heartbeats.heard(node_id, now_ms)
    }

    /// Whether it is time to tell the node that it is heard, which counts as done.
    pub(crate) fn is_answer_due(&mut self, node_id: NodeId, now_ms: u64, every_ms: u64) -> bool {
        self.heartbeats.is_answer_due(node_id, now_ms, every_ms)
    }

    pub(crate) fn on_disconnected(&mut self, node_id: NodeId, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) {
            node.lost_ms = Some(now_ms);
            self.lost.insert(node_id);
        }
    }

    /// The node takes no new work from now on; its address, unless it is not alive.
    pub(crate) fn drain(
        &mut self,
        node_id: NodeId,
        order: Drain,
        now_ms: u64,
    ) -> Option<NodeAddress> {
        let version = self.next_version(now_ms);
        let node = self.nodes.get_mut(&node_id).filter(|node| node.info.alive)?;
        (node.info.is_draining, node.info.version) = (true, version);
        if order.grace_ms > 0 {
            node.info.drain_deadline_ms = now_ms + order.grace_ms;
        }
        node.info.drain_reason.clone_from(&order.reason);
        node.drain = Some(order);
        node.is_staying = false;
        let address = node.info.address.clone();
        self.membership_changed(node_id, version);
        Some(address)
    }

    /// The node takes new work again; whether it was to leave.
    pub(crate) fn cancel_drain(&mut self, node_id: NodeId, now_ms: u64) -> bool {
        let version = self.next_version(now_ms);
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.is_draining) else {
            return false;
        };
        (node.info.is_draining, node.info.version) = (false, version);
        node.info.drain_deadline_ms = 0;
        node.info.drain_reason.clear();
        node.drain = None;
        // Until the node has said so itself: its statuses that are under way still say that it leaves.
        node.is_staying = true;
        self.membership_changed(node_id, version);
        true
    }

    fn membership_changed(&mut self, node_id: NodeId, version: u64) {
        if let Some(node) = self.nodes.get_mut(&node_id) {
            (node.is_adjusted, node.is_unsettled) = (true, true);
        }
        self.membership = version;
        self.members.insert(node_id);
        self.refresh_view(node_id);
    }

    pub(crate) fn membership(&self) -> u64 {
        self.membership
    }

    /// Has the requester wait for the next change; whether there is room for it.
    pub(crate) fn add_waiter(&mut self, requester: Requester) -> bool {
        self.waiters.len() < NODE_WAITERS_MAX && {
            self.waiters.insert(requester);
            true
        }
    }

    pub(crate) fn drop_waiters(&mut self, is_gone: impl Fn(&Requester) -> bool) {
        self.waiters.retain(|waiter| !is_gone(waiter));
    }

    /// Takes the requests that wait for a change which came since the last call.
    pub(crate) fn take_waiters(&mut self) -> BTreeSet<Requester> {
        if self.told == self.membership {
            return BTreeSet::new();
        }
        self.told = self.membership;
        std::mem::take(&mut self.waiters)
    }

    /// The order to leave that the node was given.
    pub(crate) fn drain_order(&self, node_id: NodeId) -> Option<&Drain> {
        self.nodes.get(&node_id)?.drain.as_ref()
    }

    /// Whether the node was told to stay after all, and has not said yet that it does.
    pub(crate) fn is_staying(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| node.is_staying)
    }

    pub(crate) fn is_draining(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| node.info.is_draining)
    }

    pub(crate) fn is_head(&self, node_id: NodeId) -> bool {
        self.nodes.get(&node_id).is_some_and(|node| node.info.is_head)
    }

    /// A node that leaves has given its objects to another one.
    pub(crate) fn set_heir(&mut self, node_id: NodeId, heir: NodeAddress) {
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.info.heir = heir;
        }
    }

    /// Takes in a status; whether what placement sees has changed.
    pub(crate) fn report(&mut self, node_id: NodeId, info: NodeInfo) -> bool {
        self.take_report(node_id, info, None)
    }

    /// Takes a node's report; `encoded` is the status in its wire form, where it is at hand.
    fn take_report(&mut self, node_id: NodeId, info: NodeInfo, encoded: Option<Box<[u8]>>) -> bool {
        let Some(node) = self.nodes.get_mut(&node_id) else { return false };
        let reported = encoded.unwrap_or_else(|| encode(&info).into_boxed_slice());
        if node.reservations.is_empty() && !node.is_adjusted && *node.reported == *reported {
            // Requests that wait are told again of nodes with room: others may have taken it.
            self.note_wanting(node_id);
            return false;
        }
        node.reported = reported;
        node.is_adjusted = false;
        // A status from before the order says nothing against it, nor one from before it was taken back.
        let was_draining = node.info.is_draining;
        let is_draining = was_draining || (info.is_draining && !node.is_staying);
        node.is_staying &= info.is_draining;
        let same = node.info.total == info.total
            && is_draining == was_draining
            && node.info.available == info.available
            && node.info.labels == info.labels;
        // The node may have lent something and got it back between two statuses: others that sent work
        // there and count it as taken must hear that it is free again.
        let is_news = !same || node.reported_version != info.version;
        node.reported_version = info.version;
        // Identity and health are not the node's to change.
        let NodeInfo { address, version, session_dir, drain_deadline_ms, drain_reason, .. } =
            std::mem::take(&mut node.info);
        node.info = NodeInfo {
            address,
            alive: true,
            version,
            session_dir,
            cause: String::new(),
            is_draining,
            drain_deadline_ms,
            drain_reason,
            ..info
        };
        // Reservations are not part of the view that others get.
        let is_as_seen = same && node.reservations.is_empty();
        node.reservations.clear();
        if is_news {
            self.changed.insert(node_id);
        }
        if !is_as_seen {
            self.refresh_view(node_id);
        }
        self.note_wanting(node_id);
        !is_as_seen
    }

    /// The node says that its newest status still holds; whether what placement sees has changed.
    pub(crate) fn report_unchanged(&mut self, node_id: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.is_unsettled) else {
            return false;
        };
        if !node.is_adjusted {
            // The same as ever, but for what was reserved since: nothing is to be read again.
            let reserved = std::mem::take(&mut node.reservations);
            if !reserved.is_empty() {
                self.index.change_available(node_id, |available| {
                    reserved.values().for_each(|(resources, _)| available.add(resources));
                });
            }
            self.note_wanting(node_id);
            return !reserved.is_empty();
        }
        let encoded = std::mem::take(&mut node.reported);
        let reported = decode(&encoded).expect("it was encoded here");
        self.take_report(node_id, reported, Some(encoded))
    }

    /// Notes whether requests wait on the node that could go to nodes that it does not watch.
    fn note_wanting(&mut self, node_id: NodeId) {
        // A node that watches all others sees itself where there is room.
        let watches_all = self.watches.n_watched(node_id) + 1 >= self.index.len();
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let wants = node.info.pending.iter().any(|one| one.may_spill);
        node.is_unsettled = wants;
        if wants && !watches_all {
            self.wanting.insert(node_id);
        } else {
            self.wanting.remove(&node_id);
        }
    }

    /// The control service did not run for a while: every node has as long again to be heard.
    pub(crate) fn reset_heartbeats(&mut self, now_ms: u64) {
        self.heartbeats.reset(now_ms);
        self.await_lost_again(now_ms);
    }

    /// Nodes without a connection have as long again to come back.
    pub(crate) fn await_lost_again(&mut self, now_ms: u64) {
        for node_id in &self.lost {
            if let Some(node) = self.nodes.get_mut(node_id) {
                node.lost_ms = Some(now_ms);
            }
        }
    }

    /// Nodes that were without a connection for too long.
    pub(crate) fn disconnected_for_long(&self, now_ms: u64) -> Vec<NodeId> {
        let is_long = |node_id: &&NodeId| {
            let lost_ms = self.nodes[*node_id].lost_ms;
            lost_ms.is_some_and(|at| now_ms.saturating_sub(at) >= RECONNECT_MS_MAX)
        };
        self.lost.iter().filter(is_long).copied().collect()
    }

    /// Returns the milliseconds that each living node has been silent, in the order of ids, when one of them may
    /// have been silent for `suspect_ms`. While the verdict is calm, only when one has: with thousands of nodes
    /// their descriptions, which are in no cache, are not read for nothing.
    pub(crate) fn sights(
        &mut self,
        now_ms: u64,
        suspect_ms: u64,
        is_calm: bool,
    ) -> Option<Vec<Sight>> {
        if now_ms < self.silence_due_ms {
            return None;
        }
        let longest_ms =
            self.heartbeats.silences_ms(now_ms).map(|(_, silence_ms)| silence_ms).max();
        let longest_ms = longest_ms.unwrap_or(0);
        // Nobody can have been silent for so long before that: until then a look costs one comparison.
        self.silence_due_ms = now_ms + suspect_ms.saturating_sub(longest_ms);
        if is_calm && longest_ms < suspect_ms {
            return None;
        }
        let alive = || self.nodes.values().filter(|node| node.info.alive);
        let head = alive().find(|node| node.info.is_head);
        let head = head.map(|node| node.info.address.host.as_str());
        // Of a driver's machine outside the cluster silence says nothing: its gateway ends its connection when it is to be
        // given up.
        let silences = self.heartbeats.silences_ms(now_ms);
        let silences = silences.filter(|(node_id, _)| !self.nodes[node_id].info.is_guest);
        let sights = silences.map(|(node_id, silence_ms)| Sight {
            node_id,
            silence_ms,
            is_here: head == Some(self.nodes[&node_id].info.address.host.as_str()),
        });
        let mut sights: Vec<Sight> = sights.collect();
        sights.sort_unstable_by_key(|sight| sight.node_id);
        Some(sights)
    }

    /// The limit for silence is another one now.
    pub(crate) fn check_silence_soon(&mut self) {
        self.silence_due_ms = 0;
    }

    /// Declares a node dead; answers what was known of it, unless it is dead already.
    pub(crate) fn mark_dead(
        &mut self,
        node_id: NodeId,
        cause: &str,
        now_ms: u64,
    ) -> Option<NodeInfo> {
        let version = self.next_version(now_ms);
        let node = self.nodes.get_mut(&node_id).filter(|node| node.info.alive)?;
        node.info.alive = false;
        node.info.ended_ms = now_ms;
        node.info.version = version;
        cause.clone_into(&mut node.info.cause);
        // Listings show what it had in total, and that nothing of that can be had.
        node.info.available = ResourceSet::default();
        node.reservations.clear();
        node.is_unsettled = false;
        let info = node.info.clone();
        self.lost.remove(&node_id);
        self.changed.remove(&node_id);
        self.wanting.remove(&node_id);
        self.uninformed.remove(&node_id);
        self.heartbeats.end(node_id);
        self.membership = version;
        self.members.insert(node_id);
        self.watches.remove(node_id);
        self.refresh_view(node_id);
        assert!(self.index.get(node_id).is_none(), "work would go to a dead node for ever");
        Some(info)
    }

    /// A node of before a restart of this service counts as dead.
    pub(crate) fn record_earlier_death(&mut self, node_id: NodeId, cause: &str, now_ms: u64) {
        if self.nodes.contains_key(&node_id) {
            return;
        }
        // Its place was not kept: what matters is that its id is refused.
        let address = NodeAddress { node_id, ..NodeAddress::default() };
        let info = NodeInfo { address, alive: true, ..NodeInfo::default() };
        self.nodes.insert(node_id, Node { info, ..Node::default() });
        self.mark_dead(node_id, cause, now_ms);
        self.bound_dead(node_id);
    }

    /// Remembers a dead node, and forgets the oldest one when there are too many.
    pub(crate) fn bound_dead(&mut self, node_id: NodeId) {
        self.dead.push_back(node_id);
        if self.dead.len() > DEAD_NODES_MAX
            && let Some(oldest) = self.dead.pop_front()
        {
            self.nodes.remove(&oldest);
            self.members.remove(&oldest);
        }
    }

    pub(crate) fn reserve(
        &mut self,
        node_id: NodeId,
        reserved_for: ReservedFor,
        resources: ResourceSet,
        now_ms: u64,
    ) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        assert!(node.info.alive, "what goes to a dead node never starts");
        let before = node.reservations.remove(&reserved_for).map(|(before, _)| before);
        adjust_view(&mut self.index, node_id, before, &resources);
        node.reservations.insert(reserved_for, (resources, now_ms));
        node.is_unsettled = true;
        // In the order of time: those that are too old are found at the front.
        self.reserved.push_back((now_ms, node_id, reserved_for));
    }

    /// The actor or group has started and holds this much, or has ended and holds nothing. If the node
    /// has not reported since the reservation, this replaces what was reserved; else the node counts it.
    pub(crate) fn settle(
        &mut self,
        node_id: NodeId,
        reserved_for: ReservedFor,
        holds: ResourceSet,
    ) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        if let Some(reserved) = node.reservations.get_mut(&reserved_for) {
            let before = std::mem::take(&mut reserved.0);
            adjust_view(&mut self.index, node_id, Some(before), &holds);
            // It stays as long as it would have: the next status of the node ends it, or its time.
            reserved.0 = holds;
        }
    }

    /// Ends reservations that are too old; whether there were any.
    pub(crate) fn expire_reservations(&mut self, now_ms: u64) -> bool {
        let mut has_freed = false;
        while let Some((since_ms, node_id, reserved_for)) = self.reserved.front().copied() {
            if now_ms.saturating_sub(since_ms) < RESERVATION_MS_MAX {
                break;
            }
            self.reserved.pop_front();
            let Some(node) = self.nodes.get_mut(&node_id) else { continue };
            // The node may have reported since, and more may have been reserved for the same.
            let is_it = node.reservations.get(&reserved_for).is_some_and(|(_, at)| *at == since_ms);
            if is_it && let Some((resources, _)) = node.reservations.remove(&reserved_for) {
                self.index.change_available(node_id, |available| available.add(&resources));
                has_freed = true;
            }
        }
        has_freed
    }

    /// The node lends what its new bundles have. Its next status will say so too; until then this is
    /// what is known of it.
    pub(crate) fn add_lent(&mut self, node_id: NodeId, lent: &ResourceSet) {
        let Some(node) = self.nodes.get_mut(&node_id).filter(|node| node.info.alive) else {
            return;
        };
        // A repeated answer may follow a status that has it.
        if !node.info.total.covers(lent) {
            (node.is_adjusted, node.is_unsettled) = (true, true);
            node.info.total.add(lent);
            node.info.available.add(lent);
            self.index.add(node_id, lent);
        }
    }

    /// The node is told of these others, and watches as many of them as it may.
    pub(crate) fn show(&mut self, node_id: NodeId, others: &BTreeSet<NodeId>) -> ClusterView {
        let alive = others.iter().filter(|other| self.is_alive(**other));
        let alive: Vec<NodeId> = alive.copied().collect();
        let mut told: BTreeSet<NodeId> = alive.iter().copied().collect();
        if self.is_alive(node_id) {
            for other in alive.iter().take(WATCHED_MAX) {
                told.extend(self.watches.add(node_id, *other));
            }
        }
        let seen = told.iter().map(|other| self.as_seen_by(node_id, &self.nodes[other].info));
        ClusterView { nodes: seen.collect() }
    }

    /// Returns the milliseconds until the next look at the nodes; `None` if nothing is due.
    pub(crate) fn next_look_ms(&self) -> Option<u64> {
        let is_passing = !self.lost.is_empty() || !self.reserved.is_empty();
        let passing = is_passing.then_some(LOOK_AGAIN_MS);
        let publishing = (!self.changed.is_empty()).then(|| self.view_interval_ms());
        let members = (!self.members.is_empty()).then(|| self.members_interval_ms());
        let informing = (!self.uninformed.is_empty()).then_some(VIEW_INTERVAL_MS_MIN);
        let answering = (!self.wanting.is_empty()).then_some(VIEW_INTERVAL_MS_MIN);
        [passing, publishing, members, informing, answering].into_iter().flatten().min()
    }

    /// Derives the placement view of a node from what is known of it.
    fn refresh_view(&mut self, node_id: NodeId) {
        match self.nodes.get(&node_id).filter(|node| node.info.alive) {
            Some(node) => self.index.set(node.view()),
            None => self.index.remove(node_id),
        }
    }

    /// Versions follow the clock, so that they go on rising when this service starts anew.
    fn next_version(&mut self, now_ms: u64) -> u64 {
        self.version = (self.version + 1).max(now_ms);
        self.version
    }

    /// Whether the derived tables agree with the nodes.
    pub(crate) fn check(&self) -> Result<(), String> {
        let alive = || self.nodes.iter().filter(|(_, node)| node.info.alive);
        // The index is changed by differences in many places; here each view is derived anew.
        let seen = |(id, node): (&NodeId, &Node)| self.index.get(*id) == Some(&node.view());
        if !alive().all(seen) || alive().count() != self.index.len() {
            return Err(
                "the placement views are not what the nodes reported, less what is reserved"
                    .to_owned(),
            );
        }
        let lost = alive().filter(|(_, node)| node.lost_ms.is_some()).map(|(id, _)| *id);
        let reserved: BTreeSet<_> =
            self.reserved.iter().map(|(at, node_id, of)| (*node_id, *of, *at)).collect();
        let has_end = |(id, node): (&NodeId, &Node)| {
            node.reservations.iter().all(|(of, (_, at))| reserved.contains(&(*id, *of, *at)))
        };
        let of: Vec<NodeId> = alive().map(|(id, _)| *id).collect();
        if !self.heartbeats.is_of(&of) {
            return Err("heartbeats are noted of other nodes than the living ones".to_owned());
        }
        let settled = |(_, node): (&NodeId, &Node)| {
            node.reservations.is_empty() && !node.is_adjusted || node.is_unsettled
        };
        let is_awaited =
            |node_id: &NodeId| self.nodes.get(node_id).is_some_and(|node| node.is_unsettled);
        if !alive().all(settled) || !self.wanting.iter().all(is_awaited) {
            return Err("a heartbeat without news would be taken for one".to_owned());
        }
        if lost.collect::<BTreeSet<NodeId>>() != self.lost {
            return Err("the index of lost nodes is not that of the nodes".to_owned());
        }
        if !self.nodes.iter().all(has_end) {
            return Err("what is reserved would stay reserved for ever".to_owned());
        }
        if !self.changed.iter().all(|node_id| self.is_alive(*node_id)) {
            return Err("the resources of a dead node are to be published".to_owned());
        }
        if !self.uninformed.iter().all(|node_id| self.is_alive(*node_id)) {
            return Err("a dead node is to be told of the others".to_owned());
        }
        if !self.wanting.iter().all(|node_id| self.is_alive(*node_id)) {
            return Err("a dead node is to be told of candidates".to_owned());
        }
        self.watches.check(|node_id| self.is_alive(node_id))
    }
}

/// Derives the view of a node anew from a changed reservation: quick also when the node has thousands.
fn adjust_view(
    index: &mut NodeIndex,
    node_id: NodeId,
    before: Option<ResourceSet>,
    now: &ResourceSet,
) {
    index.change_available(node_id, |available| {
        if let Some(before) = before {
            available.add(&before);
        }
        available.subtract(now);
    });
}

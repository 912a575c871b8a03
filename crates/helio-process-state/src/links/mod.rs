//! Links to other processes and daemons: who is at the other end, what is to be written there, and what
//! both ends have defined by number.
//!
//! A link is a number that the shell gives a connection. The shell hands in the frames that arrive and
//! writes out what [`Output`] holds; nothing here knows a socket. One link carries everything that this
//! process has for a peer, so that it arrives in order.
//!
//! **Epochs.** When a link to a process breaks, each end learns of it at a moment of its own, and frames of both
//! directions may be lost. So the links between two processes have an *epoch*: it ends as a whole when either
//! end learns that one of its links is over, and the next links belong to the next one. A connector says in its
//! greeting to which epoch its link belongs. From a later epoch than its own the acceptor learns that its links
//! are over; a link of an earlier epoch is refused, and its connector learns the same. So an answer never goes
//! out on a link that its receiver has given up.

mod definitions;
mod output;

use std::collections::BTreeSet;
use std::sync::Arc;

use helio_owner_state::TaskSpec;
use helio_proto::frame;
use helio_proto::node::ClientToNode;
use helio_proto::peer::{CallFlags, Frame};
use helio_proto::template::Template;
use helio_types::{IdMap, LeaseId, NodeAddress, NodeId, WorkerAddress, WorkerId};

use crate::executor::Lease;
use definitions::{Known, Received, Sent};
pub use output::Output;

/// Output of this size is written at once, in bytes.
const OUTPUT_AT_ONCE: usize = 16 << 10;
/// The number of unanswered calls with which the receiver counts as busy: further calls may be written together.
const UNANSWERED_AT_ONCE: usize = 1;

/// The other end of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The daemon of this node.
    Node,
    /// The daemon of another node, which lends workers to this process.
    RemoteNode(NodeAddress),
    /// A driver or worker.
    Process(Arc<WorkerAddress>),
}

/// The time by which output is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// As soon as the calling thread waits: somebody may wait for the output.
    Now,
    /// Within a fraction of a millisecond: more output may join it.
    Soon,
}

#[derive(Debug)]
struct Link {
    peer: Peer,
    output: Output,
    /// The other end has greeted, so it is there and reads what is sent.
    is_greeted: bool,
    /// Calls sent that were not answered.
    unanswered: usize,
    /// The other end has sent frames on this link.
    speaks: bool,
    sent: Sent,
    received: Received,
    /// Leases under which the other end sends tasks.
    leases: IdMap<LeaseId, Arc<Lease>>,
}

/// The links of this process, by number, with the peer and the outgoing frames of each.
#[derive(Debug)]
pub struct Links {
    own_node: NodeId,
    by_number: IdMap<u64, Link>,
    /// The link on which each process is sent to.
    processes: IdMap<WorkerId, u64>,
    /// The link on which each process sends: the same, unless both ends connected at once. A process sends
    /// on one link at a time, so the link broke when the process sends on another.
    heard: IdMap<WorkerId, u64>,
    nodes: IdMap<NodeId, u64>,
    /// The epoch of the links to each process; without an entry, the first. Kept while the process lives.
    epochs: IdMap<WorkerId, u32>,
    newest: u64,
    /// Links with output.
    dirty: Vec<u64>,
    /// Links whose output is to be written before anything else happens.
    due: Vec<u64>,
    urgency: Urgency,
    known: Known,
    /// Leases that ended with their lessee, before all that it had sent was here.
    over: BTreeSet<LeaseId>,
}

/// The link to this node's daemon: the first.
const OWN_NODE: u64 = 1;

/// **LIMIT-1** Number of leases that are remembered after they ended with their lessee; what such a
/// lessee had sent arrives within moments, so the oldest is forgotten.
const OVER_MAX: usize = 256;

impl Links {
    pub(crate) fn new(own_node: NodeId) -> Self {
        let mut links = Self {
            own_node,
            by_number: IdMap::default(),
            processes: IdMap::default(),
            heard: IdMap::default(),
            nodes: IdMap::default(),
            epochs: IdMap::default(),
            newest: OWN_NODE,
            dirty: Vec::new(),
            due: Vec::new(),
            urgency: Urgency::Soon,
            known: Known::default(),
            over: BTreeSet::new(),
        };
        links.by_number.insert(OWN_NODE, Link::new(Peer::Node));
        links
    }

    /// The link to this node's daemon.
    #[must_use]
    pub fn own_node(&self) -> u64 {
        OWN_NODE
    }

    /// A number for a connection that somebody opened to this process.
    pub fn mint(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Returns the other end of the link.
    #[must_use]
    pub fn peer(&self, link: u64) -> Option<&Peer> {
        self.by_number.get(&link).map(|link| &link.peer)
    }

    /// The link on which this process sends to a process, if there is one.
    #[must_use]
    pub fn to_process(&self, worker: WorkerId) -> Option<u64> {
        self.processes.get(&worker).copied()
    }

    /// The link to a node's daemon, if there is one.
    #[must_use]
    pub fn to_node(&self, node: NodeId) -> Option<u64> {
        if node == self.own_node { Some(OWN_NODE) } else { self.nodes.get(&node).copied() }
    }

    /// The links to and from processes of a node, in their order.
    pub(crate) fn of_node(&self, node: NodeId) -> Vec<u64> {
        let is_there =
            |link: &Link| matches!(&link.peer, Peer::Process(peer) if peer.node_id == node);
        let there = self.by_number.iter().filter(|(_, link)| is_there(link));
        let mut there: Vec<u64> = there.map(|(number, _)| *number).collect();
        there.sort_unstable();
        there
    }

    /// The link to the process and whether it is new: then a connection has to be opened.
    pub(crate) fn open_process(&mut self, address: &Arc<WorkerAddress>) -> (u64, bool) {
        if let Some(link) = self.to_process(address.worker_id) {
            return (link, false);
        }
        let link = self.add(Peer::Process(address.clone()));
        // At once, before there is a connection: whatever is sent meanwhile waits in its output.
        self.processes.insert(address.worker_id, link);
        (link, true)
    }

    /// The link to the daemon and whether it is new: then a connection has to be opened.
    pub(crate) fn open_node(&mut self, address: &NodeAddress) -> (u64, bool) {
        if let Some(link) = self.to_node(address.node_id) {
            return (link, false);
        }
        let link = self.add(Peer::RemoteNode(address.clone()));
        self.nodes.insert(address.node_id, link);
        (link, true)
    }

    fn add(&mut self, peer: Peer) -> u64 {
        let link = self.mint();
        let before = self.by_number.insert(link, Link::new(peer));
        assert!(before.is_none(), "frames for one peer would go to another");
        link
    }

    /// The link on which the process sends.
    #[must_use]
    pub fn from_process(&self, worker: WorkerId) -> Option<u64> {
        self.heard.get(&worker).copied()
    }

    /// The epoch to which a link that is opened to the process now belongs; for the greeting.
    #[must_use]
    pub fn epoch(&self, worker: WorkerId) -> u32 {
        self.epochs.get(&worker).copied().unwrap_or_default()
    }

    /// The process has opened a link of this epoch, which is not earlier than the one known here.
    pub(crate) fn enter_epoch(&mut self, worker: WorkerId, epoch: u32) {
        if epoch > 0 {
            self.epochs.insert(worker, epoch);
        }
    }

    /// The process is dead: it opens no link any more.
    pub(crate) fn forget_epoch(&mut self, worker: WorkerId) {
        self.epochs.remove(&worker);
    }

    /// Links to the process of earlier epochs, which are read to their end in case that the process is dead.
    fn outdated(&self, worker: WorkerId) -> Vec<u64> {
        // The links of a process that never broke are all of one epoch.
        if !self.epochs.contains_key(&worker) {
            return Vec::new();
        }
        let of_worker =
            |link: &Link| matches!(&link.peer, Peer::Process(at) if at.worker_id == worker);
        let links = self
            .by_number
            .iter()
            .filter(|(number, link)| of_worker(link) && !self.is_current(worker, **number));
        let mut outdated: Vec<u64> = links.map(|(number, _)| *number).collect();
        // The table has no order of its own, and equal histories are to give equal actions (STATE-1).
        outdated.sort_unstable();
        outdated
    }

    /// Whether the link belongs to the epoch of the links to the process.
    pub(crate) fn is_current(&self, worker: WorkerId, link: u64) -> bool {
        self.from_process(worker) == Some(link) || self.to_process(worker) == Some(link)
    }

    /// A process opened a connection and said who it is: it sends on this link from now on.
    pub(crate) fn accepted(&mut self, link: u64, from: Arc<WorkerAddress>) {
        self.heard.insert(from.worker_id, link);
        let accepted = Link { speaks: true, is_greeted: true, ..Link::new(Peer::Process(from)) };
        let before = self.by_number.insert(link, accepted);
        assert!(before.is_none(), "the frames of one peer would count as another's");
    }

    /// Sends to the process go over this link, unless there is another. When both ends connect at once,
    /// each goes on sending on the link that it has: order is kept for each sender, which is all that
    /// is promised.
    pub(crate) fn prefer(&mut self, worker: WorkerId, link: u64) {
        self.processes.entry(worker).or_insert(link);
    }

    /// The connection is over, and with it the epoch of the links to its process. Returns who was at its end,
    /// and the link that ends with it, unless nothing is lost.
    ///
    /// Where both ends had connected, frames go one way on each of the two links. When the one ends on which
    /// the process sends, answers to what it was sent on the other one may be lost: that one ends, too, so
    /// that both processes begin anew. When the one ends on which it is sent to, the process is returned, and
    /// what it still says on the other is read until the end of that, for which it is returned once more:
    /// that may have come after its death was learned.
    pub(crate) fn closed(&mut self, link: u64) -> Option<(Peer, Option<u64>)> {
        let peer = self.remove(link)?;
        let mut ends_too = None;
        match &peer {
            Peer::Node => {}
            Peer::RemoteNode(address) => {
                self.nodes.remove(&address.node_id);
            }
            Peer::Process(address) => {
                let worker = address.worker_id;
                // Before the tables change: who was heard on this link says what is lost with it.
                let was_heard = self.heard.get(&worker) == Some(&link);
                // An address without its node leads nowhere, and is only used while there is no link.
                if self.is_current(worker, link) && !address.node_id.is_nil() {
                    *self.epochs.entry(worker).or_default() += 1;
                }
                match self.to_process(worker) {
                    Some(serving) if serving != link && !was_heard => return None,
                    Some(serving) if serving != link => {
                        self.remove(serving);
                        ends_too = Some(serving);
                    }
                    Some(_) | None => {}
                }
                self.processes.remove(&worker);
                self.heard.remove(&worker);
            }
        }
        Some((peer, ends_too))
    }

    fn remove(&mut self, link: u64) -> Option<Peer> {
        let removed = self.by_number.remove(&link)?;
        self.dirty.retain(|dirty| *dirty != link);
        self.due.retain(|due| *due != link);
        Some(removed.peer)
    }

    pub(crate) fn greeted(&mut self, link: u64) {
        if let Some(link) = self.by_number.get_mut(&link) {
            link.is_greeted = true;
        }
    }

    pub(crate) fn is_greeted(&self, link: u64) -> bool {
        self.by_number.get(&link).is_some_and(|link| link.is_greeted)
    }

    /// A frame arrived on the link. Returns links that are over because of it: a process that speaks in an
    /// epoch lives, and nothing counts any more that it sent in an earlier one.
    pub(crate) fn has_spoken(&mut self, number: u64) -> Vec<u64> {
        let Some(link) = self.by_number.get_mut(&number).filter(|link| !link.speaks) else {
            return Vec::new();
        };
        link.speaks = true;
        let Peer::Process(address) = &link.peer else { return Vec::new() };
        let worker = address.worker_id;
        self.heard.insert(worker, number);
        self.drop_outdated(worker)
    }

    /// Drops the links of earlier epochs to the process; they are to be closed.
    pub(crate) fn drop_outdated(&mut self, worker: WorkerId) -> Vec<u64> {
        let outdated = self.outdated(worker);
        for link in &outdated {
            self.remove(*link);
        }
        outdated
    }

    pub(crate) fn was_answered(&mut self, link: u64) {
        if let Some(link) = self.by_number.get_mut(&link) {
            // Where both ends had connected, replies come over the other link than the calls went.
            link.unanswered = link.unanswered.saturating_sub(1);
        }
    }
}

/// Output.
impl Links {
    pub(crate) fn send_frame(&mut self, number: u64, message: &Frame<'_>) {
        let Some(link) = self.by_number.get_mut(&number) else { return };
        frame::put(link.output.buffer(), |bytes| message.put(bytes));
        self.touch(number);
        // Nobody waits for that one: it goes out with whatever comes next.
        if !matches!(message, Frame::RemoveBorrow { .. }) {
            self.urgency = Urgency::Now;
        }
    }

    pub(crate) fn send_node(&mut self, number: u64, message: &ClientToNode) {
        let Some(link) = self.by_number.get_mut(&number) else { return };
        let bytes = helio_proto::encode(message);
        frame::put(link.output.buffer(), |body| body.extend_from_slice(&bytes));
        // A process that asks a daemon waits for the answer, now or soon.
        self.touch(number);
        self.urgency = Urgency::Now;
    }

    /// A message for this node's daemon.
    pub(crate) fn tell_node(&mut self, message: impl Into<ClientToNode>) {
        self.send_node(OWN_NODE, &message.into());
    }

    /// A call, after the definition of its template if the other end lacks that.
    pub(crate) fn send_call(
        &mut self,
        number: u64,
        spec: &TaskSpec,
        args: &[u8],
        lease: LeaseId,
        sequence: u64,
        flags: CallFlags,
    ) {
        let Some(link) = self.by_number.get_mut(&number) else { return };
        let output = link.output.buffer();
        let template = link.sent.template(&spec.template, output);
        let call = Frame::Call {
            task: spec.id,
            template,
            lease,
            sequence,
            returns: spec.returns,
            flags,
            args,
        };
        frame::put(output, |bytes| call.put(bytes));
        link.unanswered += 1;
        // A receiver that is idle begins at once; one that is busy gets several calls in one write.
        if link.unanswered <= UNANSWERED_AT_ONCE || link.output.unwritten() >= OUTPUT_AT_ONCE {
            if !self.due.contains(&number) {
                self.due.push(number);
            }
        } else {
            self.touch(number);
        }
    }

    /// The link's output is to be written.
    pub fn touch(&mut self, link: u64) {
        if !self.dirty.contains(&link) {
            self.dirty.push(link);
        }
    }

    /// Whether some link has output that is to be written at once.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Links whose output is to be written at once.
    pub fn take_due(&mut self) -> Vec<u64> {
        if self.due.is_empty() {
            return Vec::new();
        }
        let due = std::mem::take(&mut self.due);
        self.dirty.retain(|dirty| !due.contains(dirty));
        due
    }

    /// Links with output, all of which the shell writes now.
    pub fn take_dirty(&mut self) -> Vec<u64> {
        self.urgency = Urgency::Soon;
        std::mem::take(&mut self.dirty)
    }

    /// Whether some link has output.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the urgency of the output, and resets it.
    pub fn take_urgency(&mut self) -> Urgency {
        std::mem::replace(&mut self.urgency, Urgency::Soon)
    }

    /// Returns the output of a link.
    pub fn output(&mut self, link: u64) -> Option<&mut Output> {
        self.by_number.get_mut(&link).map(|link| &mut link.output)
    }
}

/// Definitions of the other end, by number.
impl Links {
    pub(crate) fn define_function(
        &mut self,
        number: u64,
        function: u32,
        body: &[u8],
    ) -> Result<(), String> {
        let Some(link) = self.by_number.get_mut(&number) else { return Ok(()) };
        link.received.define_function(function, body)
    }

    pub(crate) fn define_template(
        &mut self,
        number: u64,
        template: u32,
        function: u32,
        body: &[u8],
    ) -> Result<(), String> {
        let Some(link) = self.by_number.get_mut(&number) else { return Ok(()) };
        link.received.define_template(&mut self.known, template, function, body)
    }

    pub(crate) fn template(&self, number: u64, template: u32) -> Result<Arc<Template>, String> {
        let link = self.by_number.get(&number);
        let template = link.and_then(|link| link.received.template(template));
        template.ok_or_else(|| "it names a template that it did not send".to_owned())
    }

    /// A worker serves one lease at a time: the new one replaces what the link had.
    pub(crate) fn begin_lease(&mut self, number: u64, id: LeaseId, lease: Lease) {
        let Some(link) = self.by_number.get_mut(&number) else { return };
        link.leases.clear();
        link.leases.insert(id, Arc::new(lease));
    }

    /// The lease has ended with its lessee: nothing is taken under it any more.
    pub(crate) fn end_lease(&mut self, id: LeaseId) {
        self.over.insert(id);
        if self.over.len() > OVER_MAX {
            self.over.pop_first();
        }
    }

    pub(crate) fn is_over(&self, id: LeaseId) -> bool {
        self.over.contains(&id)
    }

    /// The lease of a task; `None` for methods, which run under none.
    pub(crate) fn lease(&self, number: u64, id: LeaseId) -> Result<Option<Arc<Lease>>, String> {
        if id.0 == 0 {
            return Ok(None);
        }
        let lease = self.by_number.get(&number).and_then(|link| link.leases.get(&id));
        lease.cloned().map(Some).ok_or_else(|| "it names a lease that it did not begin".to_owned())
    }
}

impl Link {
    fn new(peer: Peer) -> Self {
        Self {
            peer,
            output: Output::default(),
            is_greeted: false,
            unanswered: 0,
            speaks: false,
            sent: Sent::default(),
            received: Received::default(),
            leases: IdMap::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process to which a link is made from here while one comes from there: both are used.
    fn two_links() -> (Links, Arc<WorkerAddress>, u64, u64) {
        let mut links = Links::new(NodeId([1; NodeId::LEN]));
        let address = Arc::new(WorkerAddress {
            worker_id: WorkerId([2; WorkerId::LEN]),
            node_id: NodeId([3; NodeId::LEN]),
            ..WorkerAddress::default()
        });
        let (ours, is_new) = links.open_process(&address);
        assert!(is_new);
        let theirs = links.mint();
        assert_eq!(links.from_process(address.worker_id), None);
        links.accepted(theirs, address.clone());
        links.prefer(address.worker_id, theirs);
        assert_eq!(links.to_process(address.worker_id), Some(ours));
        assert_eq!(links.from_process(address.worker_id), Some(theirs));
        (links, address, ours, theirs)
    }

    /// A process is told of as lost with each of two connections, made from both ends: what came over the
    /// second one after the first had ended is of a process that may be known to be dead.
    #[test]
    fn a_process_is_lost_with_each_of_two_links() {
        let (mut links, _, ours, theirs) = two_links();
        assert!(matches!(links.closed(ours), Some((Peer::Process(_), None))));
        links.has_spoken(theirs);
        assert!(matches!(links.closed(theirs), Some((Peer::Process(_), None))));
        assert!(links.closed(theirs).is_none(), "it was told");
    }

    /// Answers of the process on its link may be lost, also those to calls that went over ours.
    #[test]
    fn the_link_to_a_process_ends_with_the_link_on_which_it_sends() {
        let (mut links, address, ours, theirs) = two_links();
        let (_, ends_too) = links.closed(theirs).expect("the process is lost");
        assert_eq!(ends_too, Some(ours));
        assert!(links.closed(ours).is_none(), "it was told");
        let (again, is_new) = links.open_process(&address);
        assert!(is_new && again != ours);
    }

    /// The old link ended here when ours broke, and ends there because the process was connected to again.
    #[test]
    fn a_link_from_which_nothing_is_awaited_any_more_may_end() {
        let (mut links, address, ours, theirs) = two_links();
        links.closed(ours);
        links.has_spoken(theirs);
        let (again, _) = links.open_process(&address);
        assert!(links.closed(theirs).is_none());
        assert_eq!(links.to_process(address.worker_id), Some(again));
    }

    /// An epoch ends once, with the first of its links, and what is known of a dead process is forgotten.
    #[test]
    fn an_epoch_ends_with_the_first_of_its_links() {
        let (mut links, address, ours, theirs) = two_links();
        let worker = address.worker_id;
        assert_eq!(links.epoch(worker), 0);
        links.closed(ours);
        links.closed(theirs);
        assert_eq!(links.epoch(worker), 1);
        links.forget_epoch(worker);
        assert_eq!(links.epoch(worker), 0);
        let nowhere = WorkerAddress { worker_id: worker, ..WorkerAddress::default() };
        let (lost, _) = links.open_process(&Arc::new(nowhere));
        links.closed(lost);
        assert_eq!(links.epoch(worker), 0, "an answer to a process that has been given up");
    }

    /// A process that is answered on the link that it opened has one.
    #[test]
    fn one_link_goes_both_ways() {
        let (mut links, address, ours, _) = two_links();
        links.closed(ours);
        let (again, _) = links.open_process(&address);
        links.has_spoken(again);
        assert_eq!(links.from_process(address.worker_id), Some(again));
        assert!(matches!(links.closed(again), Some((Peer::Process(_), None))));
    }
}

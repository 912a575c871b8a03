//! Objects on their way: brought here for readers, and read out by other daemons.
//!
//! Fetches of an object share one pull. Locations are tried in turn; when none is left the readers
//! learn which of them did not have it.

use std::collections::{BTreeMap, VecDeque};

use helio_proto::cluster::{CancelPull, NodeToNode, PullChunk, PullFailed, PullObject, PullStart};
use helio_proto::control::{Failure, FailureKind};
use helio_proto::node::{FetchObject, ObjectMissing, ObjectRefused};
use helio_types::{NodeAddress, NodeId, ObjectId};

use crate::extents::{Extent, Extents};
use crate::limits::{FETCHES_MAX, PULL_RETRIES_MAX, PULL_RETRY_MS, PULLS_MAX, SERVES_MAX};
use crate::spill::Wants;
use crate::timers::Timer;
use crate::{Action, Conn, Node};

/// An object that someone here waits for.
#[derive(Debug, Default)]
struct Fetch {
    readers: Vec<(Conn, u64)>,
    /// Where it may be, the next to be asked first.
    locations: VecDeque<NodeAddress>,
    /// Who did not have it.
    gone: Vec<NodeId>,
    /// What the last of them said.
    reason: String,
    /// How often a connection was lost over which it came.
    retries: u32,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// It comes without being asked for: a process of this node is writing it, or it is read from disk.
    Local,
    /// Its turn has not come.
    #[default]
    Queued,
    /// This node has it; there is no room for it here yet.
    WaitsForRoom(NodeAddress),
    /// A node was asked for it.
    Pulling(Pull),
}

#[derive(Debug)]
struct Pull {
    number: u64,
    from: NodeAddress,
    /// Known when the first answer has come.
    extent: Option<Extent>,
    size: u64,
    received: u64,
    /// The bytes are coming.
    has_begun: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pulls {
    fetches: BTreeMap<ObjectId, Fetch>,
    by_request: BTreeMap<(Conn, u64), ObjectId>,
    by_number: BTreeMap<u64, ObjectId>,
    queued: VecDeque<ObjectId>,
    count: u64,
    /// What other daemons read from here.
    serves: BTreeMap<(Conn, u64), ObjectId>,
    /// What they asked for while it was being written: the writer's word that it is sealed can be
    /// slower than the one who has read of it in the call's reply.
    awaited: BTreeMap<(Conn, u64), ObjectId>,
}

impl Pulls {
    /// Reads that wait, and reads by other daemons.
    pub(crate) fn len(&self) -> usize {
        let tables =
            [self.fetches.len(), self.by_request.len(), self.by_number.len(), self.queued.len()];
        tables.iter().sum::<usize>() + self.serves.len() + self.awaited.len()
    }

    /// The clients here that wait for the object.
    pub(crate) fn readers(&self, object_id: ObjectId) -> Vec<Conn> {
        let fetch = self.fetches.get(&object_id);
        fetch.map_or_else(Vec::new, |fetch| fetch.readers.iter().map(|(conn, _)| *conn).collect())
    }

    /// The connection to another daemon is lost: what it waited for is forgotten. Returns what it was
    /// reading.
    pub(crate) fn on_reader_lost(&mut self, conn: Conn) -> Vec<u64> {
        self.awaited.retain(|(asker, _), _| *asker != conn);
        let of_it = self.serves.range((conn, 0)..=(conn, u64::MAX));
        of_it.map(|((_, request_id), _)| *request_id).collect()
    }

    /// Reads by other daemons.
    pub(crate) fn served(&self) -> usize {
        self.serves.len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
            && self.by_request.is_empty()
            && self.by_number.is_empty()
            && self.serves.is_empty()
            && self.awaited.is_empty()
    }
}

impl Node {
    pub(crate) fn on_fetch_object(&mut self, conn: Conn, fetch: FetchObject) {
        let FetchObject { request_id, object_id, locations } = fetch;
        if self.pulls.by_request.contains_key(&(conn, request_id)) {
            return self.violation(conn, "a request number that is in use");
        }
        if self.hand_out(conn, request_id, object_id) {
            return;
        }
        if self.pulls.by_request.len() >= FETCHES_MAX {
            let failure = Failure::new(
                FailureKind::System,
                format!("{FETCHES_MAX} reads wait for their object already"),
            );
            return self.ctx.send(conn, ObjectRefused { request_id, failure });
        }
        self.pulls.by_request.insert((conn, request_id), object_id);
        let is_new = !self.pulls.fetches.contains_key(&object_id);
        let entry = self.pulls.fetches.entry(object_id).or_default();
        entry.readers.push((conn, request_id));
        for location in locations {
            let is_pulled = matches!(&entry.state, State::Pulling(pull) if pull.from.node_id == location.node_id);
            if !is_pulled && !entry.locations.contains(&location) {
                entry.locations.push_back(location);
            }
        }
        if is_new {
            if self.objects.must_await(object_id) {
                entry.state = State::Local;
                self.restore(object_id);
            } else {
                self.pulls.queued.push_back(object_id);
                self.start_pulls();
            }
        }
    }

    /// **WHY-1** What an object that is to be read here waits for.
    pub(crate) fn why_fetch(&self, object_id: ObjectId, nodes: &[NodeId]) -> String {
        let Some(fetch) = self.pulls.fetches.get(&object_id) else {
            return match self.objects.sealed.get(&object_id) {
                Some(object) if object.extent.is_some() => "it is in this node's store".to_owned(),
                Some(_) => "it is on this node's disk until somebody reads it".to_owned(),
                None if let Some(size) = self.objects.room.wanted_to_write(object_id) => {
                    self.full(size)
                }
                None if !nodes.is_empty() && nodes.iter().all(|node| self.cluster.is_gone(*node)) => {
                    "that node is gone: who reads the value has it made again, or gets ObjectLostError"
                        .to_owned()
                }
                None => "it is brought to this node when somebody here reads it".to_owned(),
            };
        };
        match &fetch.state {
            State::Local if self.objects.is_being_written(object_id) => {
                "a process of this node is writing it".to_owned()
            }
            State::Local if let Some(why) = self.why_no_room(object_id) => {
                format!("it is on this node's disk, to which it was spilled; {why}")
            }
            State::Local => {
                "it is being read back from this node's disk, to which it was spilled".to_owned()
            }
            State::Queued => {
                let place = self.pulls.queued.iter().position(|other| *other == object_id);
                format!(
                    "{} other objects are brought here before it",
                    place.unwrap_or_default() + self.pulls.by_number.len()
                )
            }
            State::WaitsForRoom(from) => {
                let why = self.why_no_room(object_id).unwrap_or_else(|| {
                    "it is to be laid on this node's disk: readers keep the memory full".to_owned()
                });
                format!("node {} has it; {why}", from.host)
            }
            State::Pulling(pull) => format!(
                "it is being brought here from node {}: {} of {} bytes have come",
                pull.from.host, pull.received, pull.size
            ),
        }
    }

    pub(crate) fn on_cancel_fetch(&mut self, conn: Conn, request_id: u64) {
        let Some(object_id) = self.pulls.by_request.remove(&(conn, request_id)) else { return };
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        fetch.readers.retain(|reader| *reader != (conn, request_id));
        if fetch.readers.is_empty() {
            self.stop_pull(object_id);
            self.pulls.fetches.remove(&object_id);
            self.pulls.queued.retain(|other| *other != object_id);
            self.objects.forget_pull(object_id);
            self.start_pulls();
        }
    }

    pub(crate) fn forget_fetches(&mut self, conn: Conn) {
        let requests: Vec<u64> = self
            .pulls
            .by_request
            .range((conn, 0)..=(conn, u64::MAX))
            .map(|((_, request_id), _)| *request_id)
            .collect();
        for request_id in requests {
            self.on_cancel_fetch(conn, request_id);
        }
    }

    fn start_pulls(&mut self) {
        while self.pulls.by_number.len() < PULLS_MAX {
            let Some(object_id) = self.pulls.queued.pop_front() else { return };
            self.ask_next(object_id);
        }
    }

    /// Asks the next location for the object, or tells its readers that there is none.
    fn ask_next(&mut self, object_id: ObjectId) {
        let own = self.ctx.setup().address.node_id;
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        while let Some(from) = fetch.locations.pop_front() {
            let is_dead = self.cluster.is_dead(from.node_id);
            if from.node_id == own || is_dead {
                if !fetch.gone.contains(&from.node_id) {
                    fetch.gone.push(from.node_id);
                }
                continue;
            }
            return self.ask(object_id, from, None, 0);
        }
        let Some(fetch) = self.pulls.fetches.remove(&object_id) else { return };
        let mut reason = fetch.reason;
        if reason.is_empty() {
            reason = "no node that had it is alive".to_owned();
        }
        for (conn, request_id) in fetch.readers {
            self.pulls.by_request.remove(&(conn, request_id));
            self.ctx.send(
                conn,
                ObjectMissing { request_id, gone: fetch.gone.clone(), reason: reason.clone() },
            );
        }
    }

    /// Asks for the object; with the room for it, where it is known how much that takes.
    fn ask(&mut self, object_id: ObjectId, from: NodeAddress, extent: Option<Extent>, size: u64) {
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        self.pulls.count += 1;
        let number = self.pulls.count;
        self.pulls.by_number.insert(number, object_id);
        let to = from.clone();
        fetch.state =
            State::Pulling(Pull { number, from, extent, size, received: 0, has_begun: false });
        let message = NodeToNode::Pull(PullObject { request_id: number, object_id });
        self.ctx.push(Action::Ask { to, message });
    }

    /// Ends the pull of an object, if there is one, and tells the one that was asked.
    fn stop_pull(&mut self, object_id: ObjectId) {
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        if let State::Pulling(pull) = std::mem::take(&mut fetch.state) {
            self.pulls.by_number.remove(&pull.number);
            let message = NodeToNode::CancelPull(CancelPull { request_id: pull.number });
            self.ctx.push(Action::Ask { to: pull.from, message });
            if let Some(extent) = pull.extent {
                self.objects.give_back(extent);
            }
        }
    }

    /// The one that was asked does not have it, or is gone: ask the next.
    fn pull_failed(&mut self, object_id: ObjectId, reason: String) {
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        let State::Pulling(pull) = std::mem::take(&mut fetch.state) else { return };
        self.pulls.by_number.remove(&pull.number);
        fetch.gone.push(pull.from.node_id);
        fetch.reason = reason;
        if let Some(extent) = pull.extent {
            self.objects.give_back(extent);
        }
        self.ask_next(object_id);
        self.start_pulls();
    }

    /// Someone here has sealed the object.
    pub(crate) fn serve_waiting_fetches(&mut self, object_id: ObjectId) {
        self.stop_pull(object_id);
        self.pulls.queued.retain(|other| *other != object_id);
        self.objects.forget_pull(object_id);
        self.serve_awaited(object_id);
        let Some(fetch) = self.pulls.fetches.remove(&object_id) else { return };
        for (conn, request_id) in fetch.readers {
            self.pulls.by_request.remove(&(conn, request_id));
            self.hand_out(conn, request_id, object_id);
        }
        self.start_pulls();
    }

    /// There is no place for the object here: its readers are told.
    pub(crate) fn refuse_readers(&mut self, object_id: ObjectId, failure: &Failure) {
        let Some(fetch) = self.pulls.fetches.remove(&object_id) else { return };
        self.pulls.queued.retain(|other| *other != object_id);
        for (conn, request_id) in fetch.readers {
            self.pulls.by_request.remove(&(conn, request_id));
            self.ctx.send(conn, ObjectRefused { request_id, failure: failure.clone() });
        }
        self.start_pulls();
    }

    /// Whether other nodes wait for an object that this one is to have in memory.
    pub(crate) fn is_awaited(&self, object_id: ObjectId) -> bool {
        self.pulls.awaited.values().any(|awaited| *awaited == object_id)
    }

    /// The object is written, or will not be: answers the daemons that asked for it meanwhile.
    fn serve_awaited(&mut self, object_id: ObjectId) {
        let asked = self.pulls.awaited.iter().filter(|(_, awaited)| **awaited == object_id);
        let asked: Vec<(Conn, u64)> = asked.map(|(key, _)| *key).collect();
        for (conn, request_id) in asked {
            self.pulls.awaited.remove(&(conn, request_id));
            self.serve(conn, &PullObject { request_id, object_id });
        }
    }

    /// Its writer died or changed its mind: it may still be elsewhere.
    pub(crate) fn writing_was_given_up(&mut self, object_id: ObjectId) {
        if self.objects.is_being_written(object_id) {
            return;
        }
        self.serve_awaited(object_id);
        if let Some(fetch) = self.pulls.fetches.get_mut(&object_id)
            && matches!(fetch.state, State::Local)
        {
            fetch.state = State::Queued;
            self.pulls.queued.push_back(object_id);
            self.start_pulls();
        }
    }

    pub(crate) fn on_cancel_pull(&mut self, conn: Conn, cancel: &CancelPull) {
        self.pulls.awaited.remove(&(conn, cancel.request_id));
        if self.pulls.serves.contains_key(&(conn, cancel.request_id)) {
            self.ctx.push(Action::StopServing { conn, request_id: cancel.request_id });
        }
    }

    pub(crate) fn on_pull_failed(&mut self, node_id: NodeId, failed: PullFailed) {
        if let Some(object_id) = self.pulled_from(node_id, failed.request_id) {
            self.pull_failed(object_id, failed.reason);
        }
    }

    /// The object of a pull that this node was asked for.
    fn pulled_from(&self, node_id: NodeId, number: u64) -> Option<ObjectId> {
        let object_id = self.pulls.by_number.get(&number)?;
        match &self.pulls.fetches.get(object_id)?.state {
            State::Pulling(pull) if pull.from.node_id == node_id => Some(*object_id),
            _ => None,
        }
    }

    pub(crate) fn on_pull_start(&mut self, node_id: NodeId, start: PullStart) {
        let Some(object_id) = self.pulled_from(node_id, start.request_id) else { return };
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        let State::Pulling(pull) = &mut fetch.state else { return };
        if pull.has_begun || (pull.extent.is_some() && pull.size != start.size) {
            return self.pull_failed(object_id, "it changed its mind".to_owned());
        }
        if pull.extent.is_none() {
            if Extents::footprint(start.size) > self.ctx.setup().store_size {
                let from = pull.from.clone();
                if self.objects.overflow.is_there() {
                    self.stop_pull(object_id);
                    if let Some(fetch) = self.pulls.fetches.get_mut(&object_id) {
                        fetch.state = State::WaitsForRoom(from);
                    }
                    self.lay_on_disk(object_id, start.size, Wants::Pull);
                    return self.start_pulls();
                }
                let text =
                    format!("its {} bytes are more than the store of this node holds", start.size);
                self.stop_pull(object_id);
                return self.ask_next_after(object_id, text);
            }
            match self.objects.allocate(start.size) {
                Some(extent) => pull.extent = Some(extent),
                None => {
                    // The bytes would come at once: they are asked for again when there is room.
                    let from = pull.from.clone();
                    self.stop_pull(object_id);
                    if let Some(fetch) = self.pulls.fetches.get_mut(&object_id) {
                        fetch.state = State::WaitsForRoom(from);
                    }
                    self.want_room(object_id, start.size, Wants::Pull);
                    return self.start_pulls();
                }
            }
        }
        pull.size = start.size;
        pull.has_begun = true;
        self.finish_pull(object_id);
    }

    /// A location turned out to be of no use; tells why if it was the last.
    fn ask_next_after(&mut self, object_id: ObjectId, reason: String) {
        if let Some(fetch) = self.pulls.fetches.get_mut(&object_id) {
            fetch.reason = reason;
        }
        self.ask_next(object_id);
        self.start_pulls();
    }

    /// There is room for an object that another node has.
    pub(crate) fn may_pull(&mut self, object_id: ObjectId, extent: Extent, size: u64) {
        let state =
            self.pulls.fetches.get_mut(&object_id).map(|fetch| std::mem::take(&mut fetch.state));
        match state {
            Some(State::WaitsForRoom(from)) => self.ask(object_id, from, Some(extent), size),
            _ => self.objects.give_back(extent),
        }
    }

    pub(crate) fn on_pull_chunk(&mut self, node_id: NodeId, chunk: PullChunk) {
        let Some(object_id) = self.pulled_from(node_id, chunk.request_id) else { return };
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        let State::Pulling(pull) = &mut fetch.state else { return };
        let length = chunk.bytes.len() as u64;
        let Some(extent) = pull.extent.filter(|_| {
            pull.has_begun && chunk.offset == pull.received && length <= pull.size - pull.received
        }) else {
            return self.pull_failed(object_id, "the bytes came out of order".to_owned());
        };
        pull.received += length;
        self.ctx.push(Action::Write { offset: extent.offset + chunk.offset, bytes: chunk.bytes });
        self.finish_pull(object_id);
    }

    fn finish_pull(&mut self, object_id: ObjectId) {
        let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { return };
        let State::Pulling(pull) = &fetch.state else { return };
        let (Some(extent), true) = (pull.extent, pull.received == pull.size) else { return };
        let (number, size) = (pull.number, pull.size);
        fetch.state = State::Queued;
        self.pulls.by_number.remove(&number);
        self.objects.add_secondary(object_id, extent, size);
        self.serve_waiting_fetches(object_id);
        self.objects.settle(object_id);
        self.ctx.status_changed();
    }

    pub(crate) fn serve(&mut self, conn: Conn, pull: &PullObject) {
        let key = (conn, pull.request_id);
        let of_peer = (conn, 0)..=(conn, u64::MAX);
        let reading = self.pulls.serves.range(of_peer.clone()).count()
            + self.pulls.awaited.range(of_peer).count();
        let reason = if reading >= SERVES_MAX {
            "it is reading too many objects already"
        } else if self.pulls.serves.contains_key(&key) {
            "the request number is in use"
        } else {
            "the object is not in its store"
        };
        let may_serve = reading < SERVES_MAX && !self.pulls.serves.contains_key(&key);
        if may_serve && self.objects.must_await(pull.object_id) {
            self.pulls.awaited.insert(key, pull.object_id);
            return self.restore(pull.object_id);
        }
        match may_serve.then(|| self.objects.pin(pull.object_id)).flatten() {
            Some((offset, size)) => {
                self.pulls.serves.insert(key, pull.object_id);
                let message =
                    NodeToNode::PullStart(PullStart { request_id: pull.request_id, size });
                self.ctx.push(Action::Answer { conn, message });
                self.ctx.push(Action::Serve { conn, request_id: pull.request_id, offset, size });
            }
            None => {
                let reason = format!("node {}: {reason}", self.ctx.setup().address.host);
                let message =
                    NodeToNode::PullFailed(PullFailed { request_id: pull.request_id, reason });
                self.ctx.push(Action::Answer { conn, message });
            }
        }
    }

    pub(crate) fn on_served(&mut self, conn: Conn, request_id: u64) {
        if let Some(object_id) = self.pulls.serves.remove(&(conn, request_id)) {
            self.unpin(object_id, 1);
        }
    }

    /// A node has died: what is being pulled from it is pulled from another one.
    pub(crate) fn give_up_on(&mut self, node_id: NodeId) {
        for object_id in self.pulled_from_node(node_id) {
            self.pull_failed(object_id, format!("node {node_id}: it has died"));
        }
    }

    fn pulled_from_node(&self, node_id: NodeId) -> Vec<ObjectId> {
        let from_it = |fetch: &Fetch| matches!(&fetch.state, State::Pulling(pull) if pull.from.node_id == node_id);
        let fetches = self.pulls.fetches.iter().filter(|(_, fetch)| from_it(fetch));
        fetches.map(|(id, _)| *id).collect()
    }

    /// The connection to a node is lost. That says nothing of its objects, of which it may have the only
    /// copies; so it is asked again after the others, until the news come that it is dead.
    pub(crate) fn try_again_from(&mut self, node_id: NodeId) {
        for object_id in self.pulled_from_node(node_id) {
            let Some(fetch) = self.pulls.fetches.get_mut(&object_id) else { continue };
            if fetch.retries == PULL_RETRIES_MAX {
                self.pull_failed(object_id, format!("node {node_id}: it cannot be reached"));
                continue;
            }
            fetch.retries += 1;
            if let State::Pulling(pull) = std::mem::take(&mut fetch.state) {
                fetch.locations.push_back(pull.from);
                self.pulls.by_number.remove(&pull.number);
                if let Some(extent) = pull.extent {
                    self.objects.give_back(extent);
                }
            }
            self.ctx.set_timer(self.ctx.now() + PULL_RETRY_MS, Timer::Pull(object_id));
        }
        self.start_pulls();
    }

    /// A while has passed since the connection over which an object came was lost.
    pub(crate) fn pull_again(&mut self, object_id: ObjectId) {
        let waits = |fetch: &Fetch| matches!(fetch.state, State::Queued);
        if self.pulls.fetches.get(&object_id).is_some_and(waits)
            && !self.pulls.queued.contains(&object_id)
        {
            self.pulls.queued.push_back(object_id);
            self.start_pulls();
        }
    }
}

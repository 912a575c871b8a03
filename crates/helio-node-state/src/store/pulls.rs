//! The reads of this node's clients that wait: one entry for an object, whoever waits for it.
//!
//! Reads of an object share one pull. Locations are tried in turn; when none is left the readers learn
//! which of them did not have the object.
//!
//! ```text
//!   Local ── its writer is gone ─▶ Queued ─▶ Pulling ─▶ (served)
//!                                    ▲         │  ▲
//!                     the next place └─────────┤  └──── room
//!                                              ▼
//!                                        WaitsForRoom
//! ```

use std::collections::{BTreeMap, VecDeque};

use helio_types::{NodeAddress, NodeId, ObjectId, mutant};

use super::allocator::Extent;
use super::objects::Owner;
use crate::event::Conn;
use crate::limits::{PULL_RETRIES_MAX, PULLS_MAX};

/// An object that clients here wait for.
#[derive(Debug, Default)]
struct Fetch {
    readers: Vec<(Conn, u64)>,
    /// The nodes that may have it, the next to be asked first.
    locations: VecDeque<NodeAddress>,
    /// The nodes that did not have it.
    gone: Vec<NodeId>,
    /// The reason that the last of them gave.
    reason: String,
    /// Number of connections that were lost while the object came over them.
    retries: u32,
    /// The owner of the object: the copy goes with it.
    owner: Owner,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// The object comes without being asked for: a process of this node is writing it, or it is read from disk.
    Local,
    /// The pull waits for its turn.
    #[default]
    Queued,
    /// The node named here has the object, and there is no room for it here yet.
    WaitsForRoom(NodeAddress),
    /// A node was asked for it.
    Pulling(Pull),
}

/// A pull of an object from another node.
#[derive(Debug)]
pub(super) struct Pull {
    pub(super) number: u64,
    pub(super) from: NodeAddress,
    /// Known when the first answer has come.
    pub(super) extent: Option<Extent>,
    pub(super) size: u64,
    pub(super) received: u64,
    /// The bytes are coming.
    pub(super) has_begun: bool,
    /// Whether the bytes travel over a connection of their own: the shell writes them.
    pub(super) is_bulk: bool,
}

/// The stage of an object's fetch, for explanations of what it waits for.
#[derive(Debug)]
pub(super) enum Progress<'a> {
    Local,
    /// The object waits for its turn, behind that number of others.
    Queued(usize),
    WaitsForRoom(&'a NodeAddress),
    Pulling(&'a Pull),
}

/// The readers of an object that no node has, and what they are told.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) readers: Vec<(Conn, u64)>,
    pub(super) gone: Vec<NodeId>,
    pub(super) reason: String,
}

/// The pulls under way and those that wait for room, by object.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    fetches: BTreeMap<ObjectId, Fetch>,
    by_request: BTreeMap<(Conn, u64), ObjectId>,
    by_number: BTreeMap<u64, ObjectId>,
    queued: VecDeque<ObjectId>,
    count: u64,
}

impl Pulls {
    /// The entries of all tables.
    pub(super) fn len(&self) -> usize {
        let (requests, numbers) = (self.by_request.len(), self.by_number.len());
        self.fetches.len() + requests + numbers + self.queued.len()
    }

    /// Returns the number of waiting reads.
    pub(super) fn requests_len(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn is_number_used(&self, conn: Conn, request_id: u64) -> bool {
        self.by_request.contains_key(&(conn, request_id))
    }

    /// The clients that wait for the object.
    pub(super) fn readers(&self, object_id: ObjectId) -> Vec<Conn> {
        let fetch = self.fetches.get(&object_id);
        fetch.map_or_else(Vec::new, |fetch| fetch.readers.iter().map(|(conn, _)| *conn).collect())
    }

    /// The reads that a client waits for.
    pub(super) fn of_client(&self, conn: Conn) -> Vec<u64> {
        let its = self.by_request.range((conn, 0)..=(conn, u64::MAX));
        its.map(|((_, request_id), _)| *request_id).collect()
    }

    pub(super) fn progress(&self, object_id: ObjectId) -> Option<Progress<'_>> {
        Some(match &self.fetches.get(&object_id)?.state {
            State::Local => Progress::Local,
            State::Queued => {
                let place = self.queued.iter().position(|other| *other == object_id);
                Progress::Queued(place.unwrap_or_default() + self.by_number.len())
            }
            State::WaitsForRoom(from) => Progress::WaitsForRoom(from),
            State::Pulling(pull) => Progress::Pulling(pull),
        })
    }

    /// A client reads the object, which may be at these locations. Returns whether it is the first.
    pub(super) fn add_reader(
        &mut self,
        reader: (Conn, u64),
        object_id: ObjectId,
        locations: Vec<NodeAddress>,
        owner: Owner,
    ) -> bool {
        self.by_request.insert(reader, object_id);
        let fetch = self.fetches.entry(object_id).or_default();
        let is_first = fetch.readers.is_empty();
        fetch.readers.push(reader);
        // Not every reader knows the owner, under whose name the copy is kept.
        if fetch.owner == Owner::default() {
            fetch.owner = owner;
        }
        for location in locations {
            let is_pulled = matches!(&fetch.state, State::Pulling(pull) if pull.from.node_id == location.node_id);
            if !is_pulled && !fetch.locations.contains(&location) {
                fetch.locations.push_back(location);
            }
        }
        is_first
    }

    /// The object comes without being asked for.
    pub(super) fn set_local(&mut self, object_id: ObjectId) {
        if let Some(fetch) = self.fetches.get_mut(&object_id) {
            fetch.state = State::Local;
        }
    }

    /// An object that was to come by itself does not.
    pub(super) fn requeue_local(&mut self, object_id: ObjectId) -> bool {
        match self.fetches.get_mut(&object_id) {
            Some(fetch) if matches!(fetch.state, State::Local) => {
                fetch.state = State::Queued;
                self.queued.push_back(object_id);
                true
            }
            _ => false,
        }
    }

    /// The object is to be asked for when its turn comes.
    pub(super) fn enqueue(&mut self, object_id: ObjectId) {
        self.queued.push_back(object_id);
    }

    /// The object has waited for its connection to come back: it is to be asked for again.
    pub(super) fn enqueue_again(&mut self, object_id: ObjectId) -> bool {
        let waits = |fetch: &Fetch| matches!(fetch.state, State::Queued);
        let is_due =
            self.fetches.get(&object_id).is_some_and(waits) && !self.queued.contains(&object_id);
        if is_due {
            self.queued.push_back(object_id);
        }
        is_due
    }

    /// Takes the next object whose turn has come. **LIMIT-1** [`PULLS_MAX`] come at a time.
    pub(super) fn next_turn(&mut self) -> Option<ObjectId> {
        if self.by_number.len() >= PULLS_MAX {
            return None;
        }
        self.queued.pop_front()
    }

    /// Takes the next location to ask that is not known to be of no use.
    pub(super) fn next_location(
        &mut self,
        object_id: ObjectId,
        is_useless: impl Fn(NodeId) -> bool,
        heir: impl Fn(NodeId) -> Option<NodeAddress>,
    ) -> Option<NodeAddress> {
        let fetch = self.fetches.get_mut(&object_id)?;
        while let Some(from) = fetch.locations.pop_front() {
            if !is_useless(from.node_id) {
                return Some(from);
            }
            if let Some(heir) = heir(from.node_id).filter(|heir| !is_useless(heir.node_id)) {
                return Some(heir);
            }
            // Its owner hears that the node is of no use, and names others or makes the object again.
            if !fetch.gone.contains(&from.node_id) {
                fetch.gone.push(from.node_id);
            }
        }
        None
    }

    /// Adds a node that has the object: it is asked before the others.
    pub(super) fn add_next_location(&mut self, object_id: ObjectId, location: NodeAddress) {
        if let Some(fetch) = self.fetches.get_mut(&object_id) {
            fetch.locations.push_front(location);
        }
    }

    /// A node is asked for the object; returns the number of the pull.
    pub(super) fn begin(
        &mut self,
        object_id: ObjectId,
        from: NodeAddress,
        extent: Option<Extent>,
        size: u64,
    ) -> Option<u64> {
        let fetch = self.fetches.get_mut(&object_id)?;
        let is_pulled = matches!(fetch.state, State::Pulling(_));
        assert!(
            !is_pulled,
            "the bytes of one object would come twice, and one of them into room given back"
        );
        self.count += 1;
        let number = self.count;
        let before = self.by_number.insert(number, object_id);
        assert!(before.is_none(), "the bytes of one object would be written into another");
        let (received, has_begun, is_bulk) = (0, false, false);
        fetch.state =
            State::Pulling(Pull { number, from, extent, size, received, has_begun, is_bulk });
        Some(number)
    }

    /// The object of a pull of that number.
    pub(super) fn object(&self, number: u64) -> Option<ObjectId> {
        self.by_number.get(&number).copied()
    }

    /// The object of a pull that this node was asked for.
    pub(super) fn object_from(&self, node_id: NodeId, number: u64) -> Option<ObjectId> {
        let object_id = self.by_number.get(&number)?;
        match &self.fetches.get(object_id)?.state {
            State::Pulling(pull) if pull.from.node_id == node_id => Some(*object_id),
            _ => None,
        }
    }

    /// The objects that are being pulled from the node.
    pub(super) fn pulled_from(&self, node_id: NodeId) -> Vec<ObjectId> {
        let from_it = |fetch: &Fetch| matches!(&fetch.state, State::Pulling(pull) if pull.from.node_id == node_id);
        let fetches = self.fetches.iter().filter(|(_, fetch)| from_it(fetch));
        fetches.map(|(id, _)| *id).collect()
    }

    pub(super) fn pull_mut(&mut self, object_id: ObjectId) -> Option<&mut Pull> {
        match &mut self.fetches.get_mut(&object_id)?.state {
            State::Pulling(pull) => Some(pull),
            _ => None,
        }
    }

    /// Returns the owner of an object that clients here wait for.
    pub(super) fn owner(&self, object_id: ObjectId) -> Owner {
        self.fetches.get(&object_id).map(|fetch| fetch.owner).unwrap_or_default()
    }

    /// Ends the pull of an object, whose fetch goes back into the state of waiting.
    pub(super) fn end(&mut self, object_id: ObjectId) -> Option<Pull> {
        let fetch = self.fetches.get_mut(&object_id)?;
        let State::Pulling(pull) = std::mem::take(&mut fetch.state) else { return None };
        self.by_number.remove(&pull.number);
        Some(pull)
    }

    /// The object waits for room here; `from` has it.
    pub(super) fn set_waits_for_room(&mut self, object_id: ObjectId, from: NodeAddress) {
        if let Some(fetch) = self.fetches.get_mut(&object_id) {
            fetch.state = State::WaitsForRoom(from);
        }
    }

    /// Takes the node that has the object for which there is room, if the object waits for room still.
    pub(super) fn take_waits_for_room(&mut self, object_id: ObjectId) -> Option<NodeAddress> {
        match std::mem::take(&mut self.fetches.get_mut(&object_id)?.state) {
            State::WaitsForRoom(from) => Some(from),
            _ => None,
        }
    }

    /// The node that was asked does not have the object.
    pub(super) fn set_gone(&mut self, object_id: ObjectId, node_id: NodeId) {
        if let Some(fetch) = self.fetches.get_mut(&object_id) {
            fetch.gone.push(node_id);
        }
    }

    /// Sets the reason why the last location was of no use.
    pub(super) fn set_reason(&mut self, object_id: ObjectId, reason: String) {
        if let Some(fetch) = self.fetches.get_mut(&object_id) {
            fetch.reason = reason;
        }
    }

    /// The connection over which the object comes is lost: the node is asked again, after the others.
    /// Returns the pull that is over with it, or nothing when that happened too often.
    pub(super) fn retry(&mut self, object_id: ObjectId) -> Option<Pull> {
        let fetch = self.fetches.get_mut(&object_id)?;
        if fetch.retries == PULL_RETRIES_MAX {
            return None;
        }
        let State::Pulling(pull) = std::mem::take(&mut fetch.state) else { return None };
        fetch.retries += 1;
        fetch.locations.push_back(pull.from.clone());
        self.by_number.remove(&pull.number);
        Some(pull)
    }

    /// A client does not wait for the object any more. Returns the object if nobody does.
    pub(super) fn remove_reader(&mut self, conn: Conn, request_id: u64) -> Option<ObjectId> {
        let object_id = self.by_request.remove(&(conn, request_id))?;
        let fetch = self.fetches.get_mut(&object_id)?;
        fetch.readers.retain(|reader| *reader != (conn, request_id));
        fetch.readers.is_empty().then_some(object_id)
    }

    /// Takes the object out of the queue of those whose turn has not come.
    pub(super) fn dequeue(&mut self, object_id: ObjectId) {
        self.queued.retain(|other| *other != object_id);
    }

    /// Forgets the fetch of the object and takes its readers.
    pub(super) fn take_readers(&mut self, object_id: ObjectId) -> Option<Missing> {
        let Fetch { readers, gone, reason, .. } = self.fetches.remove(&object_id)?;
        for reader in &readers {
            self.by_request.remove(reader);
        }
        let mut readers = readers;
        if mutant!("second-reader-forgotten") {
            readers.truncate(1);
        }
        Some(Missing { readers, gone, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId([n; 28])
    }

    fn node(n: u8) -> NodeAddress {
        NodeAddress { node_id: NodeId([n; 28]), ..NodeAddress::default() }
    }

    #[test]
    fn reads_of_an_object_share_one_pull() {
        let mut pulls = Pulls::default();
        assert!(pulls.add_reader((Conn(1), 1), id(1), vec![node(2)], Owner::default()));
        assert!(!pulls.add_reader((Conn(2), 1), id(1), vec![node(2), node(3)], Owner::default()));
        pulls.enqueue(id(1));
        assert_eq!(pulls.next_turn(), Some(id(1)));
        let from = pulls.next_location(id(1), |_| false, |_| None).unwrap();
        let number = pulls.begin(id(1), from, None, 0).unwrap();
        assert_eq!(pulls.object_from(node(2).node_id, number), Some(id(1)));
        assert_eq!(pulls.object_from(node(3).node_id, number), None, "another node was asked");
        assert_eq!(pulls.remove_reader(Conn(1), 1), None, "somebody waits still");
        assert_eq!(pulls.remove_reader(Conn(2), 1), Some(id(1)));
        assert_eq!(pulls.end(id(1)).map(|pull| pull.number), Some(number));
        pulls.take_readers(id(1));
        assert_eq!(pulls.len(), 0);
    }

    #[test]
    fn locations_of_no_use_are_passed_over_and_told() {
        let mut pulls = Pulls::default();
        pulls.add_reader((Conn(1), 1), id(1), vec![node(2), node(3)], Owner::default());
        assert_eq!(pulls.next_location(id(1), |_| true, |_| None), None);
        let missing = pulls.take_readers(id(1)).unwrap();
        assert_eq!(missing.gone, [node(2).node_id, node(3).node_id]);
        assert_eq!(missing.readers, [(Conn(1), 1)]);
        assert_eq!(pulls.len(), 0);
    }

    #[test]
    fn so_many_objects_come_at_a_time() {
        let mut pulls = Pulls::default();
        for n in 0..=PULLS_MAX as u8 {
            pulls.add_reader((Conn(1), u64::from(n)), id(n), vec![node(2)], Owner::default());
            pulls.enqueue(id(n));
        }
        for _ in 0..PULLS_MAX {
            let object_id = pulls.next_turn().unwrap();
            pulls.begin(object_id, node(2), None, 0);
        }
        assert_eq!(pulls.next_turn(), None);
        pulls.end(id(0));
        assert_eq!(pulls.next_turn(), Some(id(PULLS_MAX as u8)));
    }

    #[test]
    fn a_lost_connection_is_tried_again_so_often() {
        let mut pulls = Pulls::default();
        pulls.add_reader((Conn(1), 1), id(1), vec![], Owner::default());
        for _ in 0..PULL_RETRIES_MAX {
            pulls.begin(id(1), node(2), None, 0);
            assert!(pulls.retry(id(1)).is_some());
            assert!(pulls.enqueue_again(id(1)) && !pulls.enqueue_again(id(1)));
            pulls.next_turn();
            assert_eq!(pulls.next_location(id(1), |_| false, |_| None), Some(node(2)));
        }
        pulls.begin(id(1), node(2), None, 0);
        assert!(pulls.retry(id(1)).is_none());
    }
}

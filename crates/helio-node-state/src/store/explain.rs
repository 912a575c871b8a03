//! **WHY-1** What an object waits for, in words: who keeps a full store full, and what can be done.

use helio_types::{NodeId, ObjectId};

use super::Store;
use super::env::Surroundings;
use super::pulls::Progress;

/// Number of the processes that pin most which an explanation names.
const NAMED_MAX: usize = 4;

/// The advice for the user of a process that waits.
pub(super) const ADVICE: &str = "Numpy arrays and other buffers that get() returned, or that came as arguments, are views of the store and keep \
     their object there: delete them or keep copies, or give the store more room (object_store_memory)";

impl Store {
    /// Returns the reason why there is no room for `size` bytes, as a sentence.
    pub(super) fn explain_full(&self, size: u64, node: &dyn Surroundings) -> String {
        let (free, total) = (self.objects.memory_free(), self.objects.memory_size());
        let pinned = self.objects.pinned();
        let by = self.explain_pins(node);
        format!(
            "the object store is full: the object needs {size} bytes, {free} of {total} are free, {pinned} are pinned by \
             readers{}{by}",
            if by.is_empty() { "" } else { ": " }
        )
    }

    /// The processes that pin objects, those that pin the most bytes first.
    fn explain_pins(&self, node: &dyn Surroundings) -> String {
        let bytes = |id: &ObjectId| self.objects.get(*id).map_or(0, super::objects::Object::memory);
        let holders = self.pins.holders();
        let holders =
            holders.map(|(conn, pins)| (pins.map(bytes).sum::<u64>(), node.process(conn)));
        let mut holders: Vec<_> = holders.filter(|(bytes, _)| *bytes > 0).collect();
        holders.sort_by_key(|(bytes, (pid, _))| (u64::MAX - bytes, *pid));
        let said = holders.iter().take(NAMED_MAX).map(|(bytes, (pid, is_driver))| {
            let driver = if *is_driver { " (a driver)" } else { "" };
            format!("{bytes} by pid {pid}{driver}")
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Returns the reason why an object that is to be read here has no room.
    fn explain_no_room(&self, object_id: ObjectId, node: &dyn Surroundings) -> Option<String> {
        Some(self.explain_full(self.room.wanted_to_read(object_id)?, node))
    }

    /// Returns the reason why an object that is to be read here is not; `nodes` are said to have it.
    pub(crate) fn why(
        &self,
        object_id: ObjectId,
        nodes: &[NodeId],
        node: &dyn Surroundings,
    ) -> String {
        let Some(progress) = self.pulls.progress(object_id) else {
            return self.why_unread(object_id, nodes, node);
        };
        match progress {
            Progress::Local if self.objects.is_being_written(object_id) => {
                "a process of this node is writing it".to_owned()
            }
            Progress::Local if let Some(why) = self.explain_no_room(object_id, node) => {
                format!("it is on this node's disk, to which it was spilled; {why}")
            }
            Progress::Local => {
                "it is being read back from this node's disk, to which it was spilled".to_owned()
            }
            Progress::Queued(before) => {
                format!("{before} other objects are brought here before it")
            }
            Progress::WaitsForRoom(from) => {
                let why = self.explain_no_room(object_id, node).unwrap_or_else(|| {
                    "it is to be laid on this node's disk: readers keep the memory full".to_owned()
                });
                format!("node {} has it; {why}", from.host)
            }
            Progress::Pulling(pull) => format!(
                "it is being brought here from node {}: {} of {} bytes have come",
                pull.from.host, pull.received, pull.size
            ),
        }
    }

    /// Explains why an object is not here that nobody on this node has asked for yet.
    fn why_unread(&self, object_id: ObjectId, nodes: &[NodeId], node: &dyn Surroundings) -> String {
        match self.objects.get(object_id) {
            Some(object) if object.is_in_memory() => "it is in this node's store".to_owned(),
            Some(_) => "it is on this node's disk until somebody reads it".to_owned(),
            None if let Some(size) = self.room.wanted_to_write(object_id) => {
                self.explain_full(size, node)
            }
            None if !nodes.is_empty() && nodes.iter().all(|id| node.is_gone(*id)) => {
                "that node is gone: who reads the value has it made again, or gets ObjectLostError"
                    .to_owned()
            }
            None => "it is brought to this node when somebody here reads it".to_owned(),
        }
    }
}

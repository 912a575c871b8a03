//! **WHY-1** A full object store, in words: who keeps it full, and what can be done.

use helio_types::ObjectId;

use crate::Node;
use crate::clients::{Client, Kind};

/// How many of the processes that pin most are named.
const NAMED_MAX: usize = 4;

/// What the one who waits can do.
pub(crate) const ADVICE: &str = "Numpy arrays and other buffers that get() returned, or that came as arguments, are views of the store and keep \
     their object there: delete them or keep copies, or give the store more room (object_store_memory)";

impl Node {
    /// Why there is no room for `size` bytes, in a sentence.
    pub(crate) fn full(&self, size: u64) -> String {
        let (free, total) = (self.objects.extents.free_bytes(), self.objects.extents.size());
        let pinned = self.objects.pinned();
        let by = self.pinned_by();
        format!(
            "the object store is full: the object needs {size} bytes, {free} of {total} are free, {pinned} are pinned by \
             readers{}{by}",
            if by.is_empty() { "" } else { ": " }
        )
    }

    /// Who pins how many bytes, the most first.
    fn pinned_by(&self) -> String {
        let bytes = |client: &Client| {
            let of = |id| self.objects.sealed.get(id).map_or(0, crate::objects::Object::in_memory);
            client.pins.keys().map(of).sum::<u64>()
        };
        let clients =
            self.clients.iter().map(|(_, client)| client).map(|client| (bytes(client), client));
        let mut clients: Vec<_> = clients.filter(|(bytes, _)| *bytes > 0).collect();
        clients.sort_by_key(|(bytes, client)| (u64::MAX - bytes, client.pid()));
        let said = clients.iter().take(NAMED_MAX).map(|(bytes, client)| {
            let driver = if client.kind() == Kind::Driver { " (a driver)" } else { "" };
            format!("{bytes} by pid {}{driver}", client.pid())
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// What an object waits for that is to be read here, when that is room.
    pub(crate) fn why_no_room(&self, object_id: ObjectId) -> Option<String> {
        Some(self.full(self.objects.room.wanted(object_id)?))
    }
}

//! **WHY-1** A full object store, in words: who keeps it full, and what can be done.

use std::collections::BTreeMap;

use helio_proto::node::Notice;
use helio_types::ObjectId;

use crate::clients::{Client, Kind};
use crate::spill::Wants;
use crate::{Conn, Node};

/// How many of the processes that pin most are named.
const NAMED_MAX: usize = 4;

/// What the one who waits can do.
const ADVICE: &str = "Numpy arrays and other buffers that get() returned, or that came as arguments, are views of the store and keep \
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
        let clients = self.clients.all.values().map(|client| (bytes(client), client));
        let mut clients: Vec<_> = clients.filter(|(bytes, _)| *bytes > 0).collect();
        clients.sort_by_key(|(bytes, client)| (u64::MAX - bytes, client.pid()));
        let said = clients.iter().take(NAMED_MAX).map(|(bytes, client)| {
            let driver = if client.kind == Kind::Driver { " (a driver)" } else { "" };
            format!("{bytes} by pid {}{driver}", client.pid())
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// What an object waits for that is to be read here, when that is room.
    pub(crate) fn why_no_room(&self, object_id: ObjectId) -> Option<String> {
        Some(self.full(self.objects.room.wanted(object_id)?))
    }

    /// Readers have waited long enough for room that somebody should look at it: tells them, or where
    /// they are on other nodes the drivers here.
    pub(crate) fn warn_of_no_room(&mut self, late: &BTreeMap<ObjectId, (u64, Wants)>) {
        let is_driver = |client: &Client| client.kind == Kind::Driver;
        for (object_id, (size, wants)) in late {
            let where_from = if *wants == Wants::Pull { "another node" } else { "disk" };
            let text = format!(
                "ObjectRef({object_id}) waits to be brought here from {where_from}: {}. {ADVICE}.",
                self.full(*size)
            );
            let mut to: Vec<Conn> = self.readers_of(*object_id);
            if to.is_empty() {
                let drivers = self.clients.all.iter().filter(|(_, client)| is_driver(client));
                to = drivers.map(|(conn, _)| *conn).collect();
            }
            for conn in to {
                self.send(conn, Notice { is_warning: true, text: text.clone() });
            }
        }
    }
}

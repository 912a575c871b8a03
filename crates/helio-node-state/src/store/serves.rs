//! The reads by other daemons: objects that are being streamed to them, and objects that they wait for.

use std::collections::BTreeMap;

use helio_types::ObjectId;

use crate::event::Conn;
use crate::limits::SERVES_MAX;

/// The objects being sent to other daemons, and the reads that wait for an object to be sealed.
#[derive(Debug, Default)]
pub(super) struct Serves {
    /// The objects that other daemons read from here.
    streaming: BTreeMap<(Conn, u64), ObjectId>,
    /// The objects that other daemons asked for while they were being written or read from disk: the writer's word that
    /// an object is sealed can be slower than the daemon that has read of it in the call's reply.
    awaited: BTreeMap<(Conn, u64), ObjectId>,
}

impl Serves {
    /// Returns the number of objects that are being streamed.
    pub(super) fn streaming_len(&self) -> usize {
        self.streaming.len()
    }

    pub(super) fn len(&self) -> usize {
        self.streaming.len() + self.awaited.len()
    }

    /// Returns the reason why the daemon may not read one more object under this number; `None` if it
    /// may.
    pub(super) fn refusal(&self, conn: Conn, request_id: u64) -> Option<&'static str> {
        let of_daemon = || (conn, 0)..=(conn, u64::MAX);
        let reading =
            self.streaming.range(of_daemon()).count() + self.awaited.range(of_daemon()).count();
        if reading >= SERVES_MAX {
            Some("it is reading too many objects already")
        } else if self.is_used(conn, request_id) {
            Some("the request number is in use")
        } else {
            None
        }
    }

    fn is_used(&self, conn: Conn, request_id: u64) -> bool {
        let key = (conn, request_id);
        self.streaming.contains_key(&key) || self.awaited.contains_key(&key)
    }

    pub(super) fn begin(&mut self, conn: Conn, request_id: u64, object_id: ObjectId) {
        let before = self.streaming.insert((conn, request_id), object_id);
        assert!(before.is_none(), "an object that is sent would stay pinned for ever");
    }

    /// The object was read out, or its reader is gone.
    pub(super) fn end(&mut self, conn: Conn, request_id: u64) -> Option<ObjectId> {
        self.streaming.remove(&(conn, request_id))
    }

    pub(super) fn wait(&mut self, conn: Conn, request_id: u64, object_id: ObjectId) {
        assert!(!self.is_used(conn, request_id), "a daemon that waits would never get its answer");
        self.awaited.insert((conn, request_id), object_id);
    }

    /// Whether daemons wait for the object.
    pub(super) fn is_awaited(&self, object_id: ObjectId) -> bool {
        self.awaited.values().any(|awaited| *awaited == object_id)
    }

    /// The requests of the daemons that wait for the object.
    pub(super) fn waiting_for(&self, object_id: ObjectId) -> Vec<(Conn, u64)> {
        let asked = self.awaited.iter().filter(|(_, awaited)| **awaited == object_id);
        asked.map(|(key, _)| *key).collect()
    }

    /// The object is there, or will not be: the daemon's request is answered now.
    pub(super) fn stop_waiting(&mut self, conn: Conn, request_id: u64) {
        self.awaited.remove(&(conn, request_id));
    }

    /// A daemon does not want an object any more. Returns whether it is being streamed.
    pub(super) fn cancel(&mut self, conn: Conn, request_id: u64) -> bool {
        self.awaited.remove(&(conn, request_id));
        self.streaming.contains_key(&(conn, request_id))
    }

    /// A daemon's connection is lost: its waiting requests are forgotten. Returns the numbers of the objects
    /// that are being streamed to it.
    pub(super) fn on_reader_lost(&mut self, conn: Conn) -> Vec<u64> {
        self.awaited.retain(|(asker, _), _| *asker != conn);
        let of_it = self.streaming.range((conn, 0)..=(conn, u64::MAX));
        of_it.map(|((_, request_id), _)| *request_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAEMON: Conn = Conn(1);

    #[test]
    fn a_daemon_reads_so_many_objects_at_a_time() {
        let mut serves = Serves::default();
        for number in 0..SERVES_MAX as u64 {
            assert_eq!(serves.refusal(DAEMON, number), None);
            match number % 2 {
                0 => serves.begin(DAEMON, number, ObjectId([1; 28])),
                _ => serves.wait(DAEMON, number, ObjectId([2; 28])),
            }
        }
        assert!(serves.refusal(DAEMON, u64::MAX).is_some());
        assert_eq!(serves.refusal(Conn(2), 0), None, "other daemons are not held up");
        assert_eq!(serves.on_reader_lost(DAEMON).len(), SERVES_MAX / 2);
        assert!(!serves.is_awaited(ObjectId([2; 28])));
    }

    #[test]
    fn a_number_is_in_use_until_its_object_was_read_out() {
        let (mut serves, object_id) = (Serves::default(), ObjectId([1; 28]));
        serves.begin(DAEMON, 7, object_id);
        assert!(serves.refusal(DAEMON, 7).is_some());
        assert!(serves.cancel(DAEMON, 7));
        assert_eq!(serves.end(DAEMON, 7), Some(object_id));
        assert_eq!((serves.refusal(DAEMON, 7), serves.cancel(DAEMON, 7)), (None, false));
    }
}

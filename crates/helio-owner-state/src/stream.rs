//! Streams: the items of a generator call, in order, as they come.
//!
//! Item *i* is the object with return index *i* + 2 of the call (index 1 is the generator itself).
//! An item that nobody has read is held by the stream.

use std::sync::Arc;

use helio_proto::peer::{Frame, Returned, Value};
use helio_types::{ObjectId, TaskId, WorkerAddress};

use crate::Owner;
use crate::event::Action;
use crate::object::Stored;
use crate::task::Outgoing;

/// The index of item 0 among a call's returns.
pub const FIRST_ITEM: u32 = 2;

/// A stream as its reader sees it.
#[derive(Debug, Default)]
pub struct Stream {
    /// Items that have come; they come in order.
    pub arrived: u32,
    /// Items that were read.
    pub read: u32,
    /// How many there are, once the call is over.
    pub total: Option<u32>,
}

impl Owner {
    /// The stream of a generator call.
    #[must_use]
    pub fn stream(&self, task: &TaskId) -> Option<&Stream> {
        self.streams.get(task)
    }

    pub(crate) fn stream_opened(&mut self, task: TaskId) {
        self.streams.insert(task, Stream::default());
    }

    pub(crate) fn item_came(
        &mut self,
        task: TaskId,
        index: u32,
        returned: Returned,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        let expected = self.streams.get(&task).map(|stream| stream.arrived);
        let id = task.object(FIRST_ITEM + index);
        let Some(stream) = self.streams.get_mut(&task).filter(|_| expected == Some(index)) else {
            return self.item_repeated(task, id, returned, now, out);
        };
        stream.arrived += 1;
        self.expect(id, 0).uses += 1;
        self.set_value(id, returned.value.into(), &returned.contained, now, out);
        out.push(Action::StreamChanged(task));
    }

    /// Nobody reads any more, or a retried generator repeats what its first attempt had yielded.
    fn item_repeated(
        &mut self,
        task: TaskId,
        id: ObjectId,
        returned: Returned,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        match (self.objects.get(&id).map(|object| &object.value), returned.value) {
            // The first attempt's copy was lost, and this one was made for it.
            (Some(Stored::Pending), value) => {
                self.set_value(id, value.into(), &returned.contained, now, out);
            }
            (Some(_), Value::Stored { locations, .. }) => {
                for location in locations {
                    self.location_added(id, location);
                }
            }
            (None, Value::Stored { locations, .. }) => out.push(Action::Free { id, locations }),
            _ => {}
        }
        // This attempt does not know how far the reader has come, and would wait for it.
        if let Some(read) = self.streams.get(&task).map(|stream| stream.read) {
            self.tell_read(task, read, out);
        }
    }

    /// Tells a generator that is bound by its reader how many items that has taken.
    fn tell_read(&self, task: TaskId, read: u32, out: &mut Vec<Action>) {
        if let Some((to, spec)) = self.running_at(&task)
            && spec.template.backpressure > 0
        {
            out.push(Action::Send { to, frame: Frame::Consumed { task, count: read } });
        }
    }

    /// Whether a generator that has come to its end yielded more than arrived here: the rest was on a
    /// connection that broke, and the end came over the next one.
    pub(crate) fn has_lost_items(&self, task: TaskId, items: u32) -> bool {
        self.streams.get(&task).is_some_and(|stream| stream.arrived < items)
    }

    pub(crate) fn stream_ended(&mut self, task: TaskId, items: u32, out: &mut Vec<Action>) {
        if let Some(stream) = self.streams.get_mut(&task) {
            stream.total = Some(items.max(stream.arrived));
            out.push(Action::StreamChanged(task));
        }
    }

    pub(crate) fn stream_read(&mut self, task: TaskId, index: u32, out: &mut Vec<Action>) {
        let Some(stream) = self.streams.get_mut(&task) else { return };
        if index != stream.read || index >= stream.arrived {
            return;
        }
        stream.read += 1;
        let read = stream.read;
        let id = task.object(FIRST_ITEM + index);
        self.add_ref(id);
        self.unhold(id, out);
        self.tell_read(task, read, out);
    }

    /// The reader is gone. A generator that it had begun to read is not wanted any more, as in Python; one
    /// that was never read was called for what it does, and runs to its end unless it waits for a reader.
    pub(crate) fn stream_dropped(&mut self, task: TaskId, now: u64, out: &mut Vec<Action>) {
        let Some(stream) = self.streams.remove(&task) else { return };
        for index in stream.read..stream.arrived {
            self.unhold(task.object(FIRST_ITEM + index), out);
        }
        let waits_for_readers =
            self.tasks.get(&task).is_some_and(|call| call.spec.template.backpressure > 0);
        if stream.total.is_none() && (stream.read > 0 || waits_for_readers) {
            self.cancel(task, false, true, now, out);
        }
    }

    /// An item of a generator that we run, on its way to the caller.
    pub(crate) fn item_made(
        &mut self,
        task: TaskId,
        caller: &Arc<WorkerAddress>,
        index: u32,
        item: Outgoing,
        out: &mut Vec<Action>,
    ) {
        let returned = self.outgoing(task, caller, item);
        self.borrows.send(caller, Frame::Item { task, index, returned }, out);
    }

    /// Objects whose value a stream's item is.
    #[must_use]
    pub fn stream_item(task: TaskId, index: u32) -> ObjectId {
        task.object(FIRST_ITEM + index)
    }
}

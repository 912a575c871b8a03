//! Streams: the items of a generator call, in order, as they come.
//!
//! Item *i* is the object with return index *i* + 2 of the call (index 1 is the generator itself).
//! An item that nobody has read is held by the stream.

use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_proto::peer::{Frame, Returned, Value};
use helio_types::{ObjectId, TaskId, WorkerAddress, mutant};

use crate::Owner;
use crate::event::Action;
use crate::object::{Stored, error};
use crate::task::{Outgoing, Task};

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

    pub(crate) fn item_came(&mut self, task: TaskId, index: u32, returned: Returned) {
        let id = task.object(FIRST_ITEM + index);
        if let Some(call) = self.tasks.get_mut(&task) {
            call.yielded = call.yielded.max(index + 1);
            // Nobody holds what comes when the reader has left.
            if matches!(returned.value, Value::Stored { .. }) && !call.past.earlier.is_left {
                call.past.earlier.items = call.past.earlier.items.max(index + 1);
            }
        }
        // A generator that runs once more for items that were lost may yield more than it did.
        let is_next = |stream: &&mut Stream| stream.arrived == index && stream.total.is_none();
        let Some(stream) = self.streams.get_mut(&task).filter(is_next) else {
            self.item_repeated(task, index, returned);
            return self.end_if_left(task, index);
        };
        stream.arrived += 1;
        self.expect(id, 0).uses += 1;
        self.set_value(id, returned.value.into(), &returned.contained);
        self.ctx.push(Action::StreamChanged(task));
    }

    /// Nobody reads any more, or a retried generator repeats what its first attempt had yielded.
    fn item_repeated(&mut self, task: TaskId, index: u32, returned: Returned) {
        let id = task.object(FIRST_ITEM + index);
        match (self.objects.get(&id).map(|object| &object.value), returned.value) {
            // The first attempt's copy was lost, and this one was made for it.
            (Some(Stored::Pending), value) => {
                self.set_value(id, value.into(), &returned.contained);
            }
            (Some(_), Value::Stored { locations, .. }) => {
                for location in locations {
                    self.location_added(id, location);
                }
            }
            (None, Value::Stored { locations, .. }) => {
                self.ctx.push(Action::Free { id, locations })
            }
            _ => {}
        }
        // This attempt does not know how far the reader has come, and would wait for it.
        match self.streams.get(&task) {
            Some(stream) if stream.total.is_none() => self.tell_read(task, stream.read),
            // Items that the call makes again are wanted whether or not the reader has come to them.
            _ if self.tasks.get(&task).is_some_and(|call| !call.cancelled) => {
                self.tell_read(task, index + 1);
            }
            _ => {}
        }
    }

    /// A generator that its reader has left runs once more only for items that were lost.
    fn end_if_left(&mut self, task: TaskId, index: u32) {
        let has_made_all = self.tasks.get(&task).is_some_and(|call| {
            call.past.earlier.is_left && !call.cancelled && index + 1 >= call.past.earlier.items
        });
        if has_made_all {
            self.leave(task);
        }
    }

    /// Tells a generator that is bound by its reader how many items that has taken.
    pub(crate) fn tell_read(&mut self, task: TaskId, read: u32) {
        if let Some((to, spec)) = self.running_at(&task)
            && spec.template.backpressure > 0
            && !mutant!("generator-not-told-of-its-reader")
        {
            self.ctx.send(to, Frame::Consumed { task, count: read });
        }
    }

    /// Whether a generator that has come to its end yielded more than arrived here: the rest was on a
    /// connection that broke, and the end came over the next one.
    pub(crate) fn has_lost_items(&self, task: TaskId, items: u32) -> bool {
        let is_short = |stream: &Stream| stream.total.is_none() && stream.arrived < items;
        self.streams.get(&task).is_some_and(is_short)
            && !mutant!("items-lost-with-a-link-forgotten")
    }

    pub(crate) fn stream_ended(&mut self, task: TaskId, items: u32) {
        if let Some(stream) = self.streams.get_mut(&task) {
            assert!(stream.read <= stream.arrived, "a reader has what never came");
            stream.total = Some(items.max(stream.arrived));
            self.ctx.push(Action::StreamChanged(task));
        }
    }

    /// The generator's own value, and the end of its stream.
    pub(crate) fn stream_finished(
        &mut self,
        id: TaskId,
        failed: bool,
        items: u32,
        returns: Vec<Returned>,
    ) {
        if self.objects.get(&id.object(1)).is_none_or(crate::Object::is_ready) {
            // The call ran once more for items that were lost, and its readers know how it ended.
            return;
        }
        let mut total = items;
        let mut returns = returns.into_iter();
        let end = returns.next();
        if failed
            && let Some(error) = &end
            && !mutant!("failed-generator-just-ends")
        {
            let index = self.stream(&id).map_or(0, |stream| stream.arrived);
            self.item_came(id, index, error.clone());
            total = index + 1;
        }
        self.stream_ended(id, total);
        // The generator's own value says only that it has ended, or how; its error is an item, too, and that
        // is the one to be looked at.
        if let Some(object) = self.objects.get_mut(&id.object(1)) {
            object.seen = true;
        }
        let value = end
            .map_or_else(|| Stored::Inline(Arc::new(Vec::new())), |returned| returned.value.into());
        self.set_value(id.object(1), value, &[]);
    }

    /// A generator has ended: those of its items that were lost and that this attempt did not bring again.
    /// With each the error that takes its place, or `None` where the generator has to run once more.
    pub(crate) fn items_wanted(
        &mut self,
        task: &Task,
        failed: bool,
        items: u32,
        returns: &[Returned],
    ) -> Vec<(ObjectId, Option<Stored>)> {
        let of_items =
            task.spec.made(task.past.earlier.items).skip(task.spec.return_count() as usize);
        let mut wanted = Vec::new();
        for (index, id) in (0..).zip(of_items) {
            let Some(object) = self.objects.get_mut(&id).filter(|object| !object.is_ready()) else {
                continue;
            };
            // A generator that its reader has left is cancelled when all has come: the error is nobody's.
            let is_left = task.cancelled && task.past.earlier.is_left;
            let value = match returns.first() {
                Some(returned) if failed && !is_left => Some(returned.value.clone().into()),
                // The item came, and was lost before the end.
                _ if (index < items || is_left) && task.may_run_again() => {
                    object.value = Stored::Stores { size: 0, locations: Vec::new() };
                    None
                }
                _ => {
                    let text = "its last copy was lost, and it cannot be made again: the generator that \
                                yielded it has ended";
                    Some(error(ErrorKind::ReconstructionFailed, text, id))
                }
            };
            wanted.push((id, value));
        }
        wanted
    }

    pub(crate) fn stream_read(&mut self, task: TaskId, index: u32) {
        let Some(stream) = self.streams.get_mut(&task) else { return };
        if index != stream.read || index >= stream.arrived {
            return;
        }
        stream.read += 1;
        assert!(stream.read <= stream.arrived, "a reader would wait for an item that it has read");
        let read = stream.read;
        let id = task.object(FIRST_ITEM + index);
        self.add_ref(id);
        self.unhold(id);
        self.tell_read(task, read);
    }

    /// The reader is gone. A generator that it had begun to read is not wanted any more, as in Python; one
    /// that was never read was called for what it does, and runs to its end unless it waits for a reader.
    /// Calls that it has made go on: items that were read may have references to their results.
    pub(crate) fn stream_dropped(&mut self, task: TaskId) {
        let Some(stream) = self.streams.remove(&task) else { return };
        for index in stream.read..stream.arrived {
            self.unhold(task.object(FIRST_ITEM + index));
        }
        let waits_for_readers =
            self.tasks.get(&task).is_some_and(|call| call.spec.template.backpressure > 0);
        if stream.total.is_none() && (stream.read > 0 || waits_for_readers) {
            self.leave(task);
        }
    }

    /// An item of a generator that we run, on its way to the caller.
    pub(crate) fn item_made(
        &mut self,
        task: TaskId,
        caller: &Arc<WorkerAddress>,
        index: u32,
        item: Outgoing,
    ) {
        let returned = self.outgoing(task, caller, item);
        self.borrows.send(caller, Frame::Item { task, index, returned }, &mut self.ctx);
    }

    /// Objects whose value a stream's item is.
    #[must_use]
    pub fn stream_item(task: TaskId, index: u32) -> ObjectId {
        task.object(FIRST_ITEM + index)
    }
}

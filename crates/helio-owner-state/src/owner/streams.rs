//! The items of generators, on their way from the call to its reader.

use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_proto::peer::{Frame, Returned, STREAMING, Value};
use helio_types::{ObjectId, TaskId, WorkerAddress, mutant};

use super::Owner;
use crate::calls::Task;
use crate::event::Action;
use crate::objects::Object;
use crate::spec::{FIRST_ITEM, Outgoing};
use crate::streams::unread;
use crate::value::{Stored, error};

impl Owner {
    pub(super) fn item_came(&mut self, task: TaskId, index: u32, returned: Returned) {
        let id = task.object(FIRST_ITEM + index);
        self.calls.on_item(task, index, matches!(returned.value, Value::Stored { .. }));
        if !self.streams.on_item(task, index) {
            self.item_repeated(task, index, returned);
            return self.end_if_left(task, index);
        }
        self.objects.expect_item(id);
        self.set_value(id, returned.value.into(), &returned.contained);
        self.ctx.push(Action::StreamChanged(task));
    }

    /// Takes in an item that is not needed: nobody reads any more, or a retried generator repeats what its first
    /// attempt had yielded.
    fn item_repeated(&mut self, task: TaskId, index: u32, returned: Returned) {
        let id = task.object(FIRST_ITEM + index);
        match (self.objects.get(id).map(Object::value), returned.value) {
            // The first attempt's copy was lost, and this one was made for it.
            (Some(Stored::Pending), value) => {
                self.set_value(id, value.into(), &returned.contained);
            }
            (Some(_), Value::Stored { locations, .. }) => {
                for location in locations {
                    self.objects.add_location(id, location);
                }
            }
            (None, Value::Stored { locations, .. }) => {
                self.ctx.push(Action::Free { id, locations })
            }
            _ => {}
        }
        // This attempt does not know how far the reader has come, and would wait for it.
        match self.streams.read_of_open(task) {
            Some(read) => self.tell_read(task, read),
            // Items that the call makes again are wanted whether or not the reader has come to them.
            None if self.calls.get(task).is_some_and(|call| !call.is_cancelled()) => {
                self.tell_read(task, index + 1);
            }
            None => {}
        }
    }

    /// A generator that its reader has left runs once more only for items that were lost.
    fn end_if_left(&mut self, task: TaskId, index: u32) {
        if self.calls.has_made_all(task, index) {
            self.leave(task);
        }
    }

    /// Tells a generator that is bound by its reader how many items that has taken.
    pub(super) fn tell_read(&mut self, task: TaskId, read: u32) {
        if let Some((to, spec)) = self.running_at(task)
            && spec.template.backpressure > 0
            && !mutant!("generator-not-told-of-its-reader")
        {
            self.ctx.send(to, Frame::Consumed { task, count: read });
        }
    }

    /// The generator's own value, and the end of its stream.
    pub(super) fn stream_finished(
        &mut self,
        id: TaskId,
        failed: bool,
        items: u32,
        returns: Vec<Returned>,
    ) {
        if !self.objects.is_pending(id.object(1)) {
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
            // The reader meets the error in its turn, behind the items that came before it.
            let index = self.streams.get(id).map_or(0, |stream| stream.arrived);
            self.item_came(id, index, error.clone());
            total = index + 1;
        }
        if self.streams.end(id, total) {
            self.ctx.push(Action::StreamChanged(id));
        }
        // The generator's own value says only that it has ended, or how; its error is an item, too, and that
        // is the one to be looked at.
        self.objects.on_error_read(id.object(1));
        let value = end
            .map_or_else(|| Stored::Inline(Arc::new(Vec::new())), |returned| returned.value.into());
        self.set_value(id.object(1), value, &[]);
    }

    /// A generator has ended. Large items that it has written where an attempt was given up, and of which the news was lost
    /// with that, are nobody's.
    pub(super) fn free_unheard(&mut self, task: &Task) {
        let (spec, earlier) = (task.spec(), &task.past().earlier);
        if spec.returns != STREAMING || earlier.strays.is_empty() || mutant!("unheard-items-stay") {
            return;
        }
        let id = spec.id.object(FIRST_ITEM + earlier.items);
        self.ctx.push(Action::FreeRest { id, locations: earlier.strays.clone() });
    }

    /// A generator has ended: those of its items that were lost and that this attempt did not bring again.
    /// With each the error that takes its place, or `None` where the generator has to run once more.
    pub(super) fn items_wanted(
        &mut self,
        task: &Task,
        failed: bool,
        items: u32,
        returns: &[Returned],
    ) -> Vec<(ObjectId, Option<Stored>)> {
        let earlier = &task.past().earlier;
        let spec = task.spec();
        let of_items = spec.made(earlier.items).skip(spec.return_count() as usize);
        let mut wanted = Vec::new();
        for (index, id) in (0..).zip(of_items) {
            if !self.objects.is_pending(id) {
                continue;
            }
            // A generator that its reader has left is cancelled when all has come: the error is nobody's.
            let is_left = task.is_cancelled() && earlier.is_left;
            let value = match returns.first() {
                Some(returned) if failed && !is_left => Some(returned.value.clone().into()),
                // The item came, and was lost before the end.
                _ if (index < items || is_left) && task.may_run_again() => {
                    self.objects.lost_again(id);
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

    pub(super) fn on_stream_read(&mut self, task: TaskId, index: u32) {
        let Some(read) = self.streams.on_read(task, index) else { return };
        let id = task.object(FIRST_ITEM + index);
        self.objects.add_ref(id);
        self.unhold(id);
        self.tell_read(task, read);
    }

    /// The reader is gone. A generator that it had begun to read is not wanted any more, as in Python; one
    /// that was never read was called for what it does, and runs to its end unless it waits for a reader.
    /// Calls that it has made go on: items that were read may have references to their results.
    pub(super) fn on_stream_dropped(&mut self, task: TaskId) {
        let Some(stream) = self.streams.close(task) else { return };
        for item in unread(task, &stream) {
            self.unhold(item);
        }
        let waits_for_readers =
            self.calls.get(task).is_some_and(|call| call.spec().template.backpressure > 0);
        if stream.total.is_none() && (stream.read > 0 || waits_for_readers) {
            self.leave(task);
        }
    }

    /// An item of a generator that we run, on its way to the caller.
    pub(super) fn on_item_made(
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

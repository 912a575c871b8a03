//! Streams: the items of a generator call, in order, as they come.
//!
//! Item *i* is the object with return index *i* + 2 of the call (index 1 is the generator itself).
//! An item that nobody has read is held by the stream.

use helio_types::{IdMap, ObjectId, TaskId, mutant};

use crate::spec::FIRST_ITEM;

/// A stream as its reader sees it.
#[derive(Debug, Default)]
pub struct Stream {
    /// Items that have come; they come in order.
    pub arrived: u32,
    /// Items that were read.
    pub read: u32,
    /// The number of items, once the call is over.
    pub total: Option<u32>,
}

/// The streams that are read here, by call.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: IdMap<TaskId, Stream>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&Stream> {
        self.all.get(&task)
    }

    /// A generator was called.
    pub(crate) fn open(&mut self, task: TaskId) {
        self.all.insert(task, Stream::default());
    }

    /// An item came; whether it is the next one of a stream that is read.
    pub(crate) fn on_item(&mut self, task: TaskId, index: u32) -> bool {
        // A generator that runs once more for items that were lost may yield more than it did.
        let is_next = |stream: &&mut Stream| stream.arrived == index && stream.total.is_none();
        let stream = self.all.get_mut(&task).filter(is_next);
        stream.map(|stream| stream.arrived += 1).is_some()
    }

    /// Returns the number of items read of a stream that has not ended; `None` for any other.
    pub(crate) fn read_of_open(&self, task: TaskId) -> Option<u32> {
        self.all.get(&task).filter(|stream| stream.total.is_none()).map(|stream| stream.read)
    }

    /// Whether a generator that has come to its end yielded more than arrived here: the rest was on a
    /// connection that broke, and the end came over the next one.
    pub(crate) fn has_lost_items(&self, task: TaskId, items: u32) -> bool {
        let is_short = |stream: &Stream| stream.total.is_none() && stream.arrived < items;
        self.all.get(&task).is_some_and(is_short) && !mutant!("items-lost-with-a-link-forgotten")
    }

    /// Notes the end of a generator with `items` items. Returns whether somebody reads them.
    pub(crate) fn end(&mut self, task: TaskId, items: u32) -> bool {
        let Some(stream) = self.all.get_mut(&task) else { return false };
        assert!(stream.read <= stream.arrived, "a reader has what never came");
        // More may have come than the last attempt made: items of an earlier one were read or wait.
        stream.total = Some(items.max(stream.arrived));
        true
    }

    /// The reader takes an item. Returns how many it has taken, if the item is the next one and has come.
    pub(crate) fn on_read(&mut self, task: TaskId, index: u32) -> Option<u32> {
        let stream = self.all.get_mut(&task)?;
        if index != stream.read || index >= stream.arrived {
            return None;
        }
        stream.read += 1;
        assert!(stream.read <= stream.arrived, "a reader would wait for an item that it has read");
        Some(stream.read)
    }

    /// The reader is gone.
    pub(crate) fn close(&mut self, task: TaskId) -> Option<Stream> {
        self.all.remove(&task)
    }

    /// The items that have come and were not read, each held by one use.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> {
        self.all.iter().flat_map(|(task, stream)| unread(*task, stream))
    }
}

/// The items of a stream that have come and were not read.
pub(crate) fn unread(task: TaskId, stream: &Stream) -> impl Iterator<Item = ObjectId> + use<> {
    (stream.read..stream.arrived).map(move |index| task.object(FIRST_ITEM + index))
}

//! The pin table: views of an object, the table's own among them, and the range that is used again.

use std::sync::Arc as StdArc;

use helio_process_state::Memory;
use helio_store::Arena;
use helio_types::ObjectId;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::memory::{MappedStore, Pin, Released};
use crate::sync::Mutex;

const ID: ObjectId = ObjectId([1; 28]);

/// The process's state as far as pins are concerned: `StoreClient`'s table and what was released.
struct Table {
    pin: Mutex<Option<Pin>>,
    released: Released,
    /// Stands for the bytes of the range, which are real memory and unknown to the checker: a view reads them,
    /// the daemon writes them when it has heard that the last view is gone.
    bytes: UnsafeCell<u8>,
}

impl Table {
    fn new(arena: &StdArc<Arena>) -> Self {
        let released = Released::new(Mutex::new(Vec::new()));
        let store = MappedStore { arena: Some(arena.clone()), released: released.clone() };
        let pin = store.pin(ID, 0, 8).expect("the range is inside the arena");
        Self { pin: Mutex::new(Some(pin)), released, bytes: UnsafeCell::new(7) }
    }

    /// A reader's view, if the object is still here.
    fn view(&self) -> Option<Pin> {
        self.pin.lock().clone()
    }

    fn read(&self, pin: &Pin) {
        assert_eq!(pin.as_ref().len(), 8);
        // The range is written only by `reuse`, which panics if that is not after this.
        self.bytes.with(|bytes| assert!(!bytes.is_null()));
    }

    /// `StoreClient::unpin_spare`.
    fn give_room(&self) {
        let mut pin = self.pin.lock();
        if pin.as_ref().is_some_and(|pin| !MappedStore::is_shared(pin)) {
            *pin = None;
        }
    }

    /// `State::return_pins`: how many releases the daemon is told of; it uses the range again.
    fn return_pins(&self) -> usize {
        let released = std::mem::take(&mut *self.released.lock());
        if !released.is_empty() {
            self.bytes.with_mut(|bytes| assert!(!bytes.is_null()));
        }
        released.len()
    }
}

#[test]
fn a_range_is_used_again_once_and_after_its_last_reader() {
    let arena = StdArc::new(Arena::create(1 << 20).expect("a memory file"));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let table = Arc::new(Table::new(&arena));
        let readers = [0, 1].map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let view = table.view();
                if let Some(view) = &view {
                    table.read(view);
                }
                drop(view);
            })
        });
        table.give_room();
        let mut told = table.return_pins();
        readers.into_iter().for_each(|reader| reader.join().expect("it does not panic"));
        table.give_room();
        told += table.return_pins();
        assert_eq!(told, 1, "SHM-1: the daemon is told of a view's end once");
    });
}

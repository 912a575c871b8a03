//! The node's memory file, as a simulated process sees it.

use std::cell::RefCell;
use std::rc::Rc;

use helio_process_state::Memory;
use helio_types::ObjectId;

/// Keeps a range of the object store from being reused; tells when it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(super) id: ObjectId,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) returned: Rc<RefCell<Vec<ObjectId>>>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.returned.borrow_mut().push(self.id);
    }
}

/// The node's memory file, as far as its extent goes; the bytes are the daemon's.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(super) size: u64,
    pub(super) returned: Rc<RefCell<Vec<ObjectId>>>,
    /// Objects that the daemon said to lie outside.
    pub(super) outside: Rc<RefCell<Vec<ObjectId>>>,
}

impl Memory for Arena {
    type Pin = Rc<Pin>;

    fn pin(&self, id: ObjectId, offset: u64, size: u64) -> Option<Rc<Pin>> {
        if offset + size > self.size {
            self.outside.borrow_mut().push(id);
            return None;
        }
        Some(Rc::new(Pin { id, offset, size, returned: self.returned.clone() }))
    }

    fn is_shared(pin: &Rc<Pin>) -> bool {
        Rc::strong_count(pin) > 1
    }
}

/// A value as the process has it.
pub(crate) type Payload = helio_process_state::Payload<Rc<Pin>>;

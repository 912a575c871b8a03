//! Values: put, get, wait, and the handles that keep them.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_owner_state::{Event, Stored};
use helio_proto::control::FailureKind;
use helio_proto::node::{CreateObject, SealObject};
use helio_proto::peer::Reference;
use helio_store::ArenaSlice;
use helio_types::{NodeAddress, ObjectId, WorkerAddress};

use crate::api::{Bytes, Error, Interrupt, OutgoingValue, Payload};
use crate::runtime::Runtime;
use crate::state::State;

/// An extent of the object store that is being written; dropped unsealed, it is given back.
#[derive(Debug)]
pub struct Created {
    runtime: Arc<Runtime>,
    id: ObjectId,
    size: u64,
    slice: ArenaSlice,
    sealed: bool,
}

impl Created {
    /// The object that it becomes.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn copy_in(&mut self, offset: usize, data: &[u8]) -> Result<(), Error> {
        self.slice.copy_in(offset, data).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// No byte changes any more (SHM-1).
    pub fn seal(mut self) -> OutgoingValue {
        self.sealed = true;
        let mut state = self.runtime.state.lock();
        state.tell_node(SealObject { object_id: self.id }.into());
        state.flush();
        OutgoingValue::Stored { size: self.size, location: state.node_address() }
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if !self.sealed {
            let mut state = self.runtime.state.lock();
            state.tell_node(helio_proto::node::AbortObject { object_id: self.id }.into());
            state.flush();
        }
    }
}

/// When whoever waits for many values looks at all of them again: looking at a hundred thousand each
/// time that one arrives would take minutes.
#[derive(Default)]
struct Looks {
    /// When the next one is due; `None`: there was none.
    next: Option<Instant>,
}

impl Looks {
    /// Of the time, looking takes at most one part in so many.
    const SHARE: u32 = 10;

    fn is_first(&self) -> bool {
        self.next.is_none()
    }

    fn are_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    fn look(&mut self, look: impl FnOnce()) {
        let began = Instant::now();
        look();
        let ended = Instant::now();
        self.next = Some(ended + (ended - began) * Self::SHARE);
    }
}

impl State {
    /// Asks the owners of borrowed objects whose values are not known yet.
    fn watch_borrowed(&mut self, ids: &[ObjectId]) {
        for id in ids {
            let object = self.owner.object(id);
            if object.is_some_and(|object| object.owner.is_some() && !object.is_ready()) {
                self.apply(Event::Watch { id: *id });
            }
        }
    }

    pub(crate) fn node_address(&self) -> NodeAddress {
        let me = self.owner.address();
        NodeAddress { node_id: me.node_id, host: me.host.clone(), port: self.registered.port }
    }

    /// Whether the object is still to be made.
    fn is_to_come(&self, id: ObjectId) -> bool {
        self.owner.object(&id).is_some_and(|object| !object.is_ready())
    }

    /// What reading an object gives, as far as it is known and here. Starts what is missing.
    pub(crate) fn read(&mut self, id: ObjectId) -> Option<Payload> {
        let locations = match self.owner.object(&id).map(|object| &object.value) {
            None | Some(Stored::Pending) => return None,
            Some(Stored::Inline(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: false });
            }
            Some(Stored::Error(bytes)) => {
                return Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true });
            }
            Some(Stored::Stores { locations, .. }) => locations,
        };
        if let Some(pin) = self.pins.get(&id) {
            return Some(Payload { bytes: Bytes::Pinned(pin.clone()), is_error: false });
        }
        if !self.fetching.contains_key(&id) {
            let locations = locations.clone();
            self.fetch(id, locations);
        }
        None
    }
}

impl Runtime {
    /// Puts a value; one handle is held.
    ///
    /// # Errors
    /// None at present; a full store shows in [`Runtime::create`].
    pub fn put(&self, value: OutgoingValue, contained: Vec<ObjectId>) -> Result<ObjectId, Error> {
        let mut state = self.settled();
        let id = state.new_put_id();
        state.apply(Event::Put { id, value, contained });
        self.changed(state);
        Ok(id)
    }

    /// Puts a value that was written as `created` under that id.
    ///
    /// # Errors
    /// As [`Runtime::put`].
    pub fn put_created(
        &self,
        created: Created,
        contained: Vec<ObjectId>,
    ) -> Result<ObjectId, Error> {
        let id = created.id();
        let value = created.seal();
        let mut state = self.settled();
        state.apply(Event::Put { id, value, contained });
        self.changed(state);
        Ok(id)
    }

    /// Memory in the object store for a value of `size` bytes that becomes a put.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store is full.
    pub fn create(self: &Arc<Self>, size: u64, interrupt: Interrupt<'_>) -> Result<Created, Error> {
        let id = self.state.lock().new_put_id();
        self.create_as(id, size, interrupt)
    }

    /// Stores a return of a call that this process runs, or an item; `write` fills it.
    ///
    /// # Errors
    /// As [`Runtime::create`], and those of `write`.
    pub fn store_as(
        self: &Arc<Self>,
        id: ObjectId,
        size: u64,
        write: impl FnOnce(&mut Created) -> Result<(), Error>,
        interrupt: Interrupt<'_>,
    ) -> Result<OutgoingValue, Error> {
        match self.create_as(id, size, interrupt) {
            Ok(mut created) => {
                write(&mut created)?;
                Ok(created.seal())
            }
            // An attempt that died had stored it already: readers may have that copy.
            Err(Error::Refused(failure)) if failure.kind == FailureKind::AlreadyExists as u32 => {
                let location = self.state.lock().node_address();
                Ok(OutgoingValue::Stored { size, location })
            }
            Err(error) => Err(error),
        }
    }

    fn create_as(
        self: &Arc<Self>,
        id: ObjectId,
        size: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Created, Error> {
        let request = {
            let mut state = self.settled();
            if state.arena.is_none() {
                return Err(Error::Invalid("this process has no object store".into()));
            }
            let request_id = state.request();
            state.grants.insert(request_id, None);
            state.creating.insert(request_id, (id, size));
            state.tell_node(CreateObject { request_id, object_id: id, size }.into());
            request_id
        };
        let grant = self.wait_until(None, interrupt, |state| match state.grants.get(&request) {
            Some(Some(_)) => state.grants.remove(&request).flatten(),
            _ => None,
        });
        let arena = {
            let mut state = self.state.lock();
            state.creating.remove(&request);
            if grant.is_err() {
                state.grants.remove(&request);
            }
            state.arena.clone()
        };
        let offset = grant?.map_err(Error::Refused)?;
        let arena = arena.ok_or_else(|| Error::Invalid("no object store".into()))?;
        let slice = arena.slice(offset, size).map_err(|error| Error::Io(error.to_string()))?;
        Ok(Created { runtime: self.clone(), id, size, slice, sealed: false })
    }

    /// The values of objects, in order.
    ///
    /// # Errors
    /// [`Error::Raised`] as soon as one holds an error, [`Error::Timeout`], [`Error::Interrupted`].
    pub fn get(
        &self,
        ids: &[ObjectId],
        timeout: Option<Duration>,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<Payload>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut values: Vec<Option<Payload>> = vec![None; ids.len()];
        let mut missing: VecDeque<usize> = (0..ids.len()).collect();
        let mut looks = Looks::default();
        let mut watched = false;
        // Values that were here and were let go of, because others need the room to be made.
        let mut let_go = Vec::new();
        let mut room_wanted = None;
        let raised = self.wait_until(deadline, interrupt, |state| {
            let asked = room_wanted.replace(state.room_wanted);
            if asked.is_some_and(|asked| asked != state.room_wanted)
                && missing.iter().any(|place| state.is_to_come(ids[*place]))
            {
                for (place, value) in values.iter_mut().enumerate() {
                    if value.take_if(|payload| matches!(payload.bytes, Bytes::Pinned(_))).is_some()
                    {
                        let_go.push(place);
                    }
                }
                state.return_spare_pins();
            }
            let mut raised = None;
            let mut is_missing = |place: usize| match state.read(ids[place]) {
                _ if raised.is_some() => true,
                Some(payload) if payload.is_error => {
                    state.apply(Event::ErrorRead { id: ids[place] });
                    raised = Some(payload);
                    true
                }
                Some(payload) => {
                    values[place] = Some(payload);
                    false
                }
                None => true,
            };
            while missing.front().is_some_and(|place| !is_missing(*place)) {
                missing.pop_front();
            }
            // So that fetches run side by side and an error shows although others are not ready.
            if missing.len() > 1 && looks.are_due() {
                looks.look(|| missing.retain(|place| is_missing(*place)));
            }
            // Nothing is to be made any more: what readers need beyond the memory is laid on disk.
            if missing.is_empty() {
                missing.extend(let_go.drain(..));
                missing.retain(|place| is_missing(*place));
            }
            if raised.is_some() {
                return Some(raised);
            }
            if !watched && !missing.is_empty() {
                watched = true;
                state.watch_borrowed(&ids[missing[0]..]);
            }
            state.lacks = missing.front().map(|place| ids[*place]);
            missing.is_empty().then_some(None)
        })?;
        match raised {
            Some(payload) => Err(Error::Raised(payload)),
            None => Ok(values.into_iter().flatten().collect()),
        }
    }

    /// A value that is in this process's memory already; never waits.
    #[must_use]
    pub fn try_get_inline(&self, id: ObjectId) -> Option<Payload> {
        let mut state = self.state.lock();
        if matches!(state.owner.object(&id)?.value, Stored::Error(_)) {
            state.apply(Event::ErrorRead { id });
        }
        match &state.owner.object(&id)?.value {
            Stored::Inline(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: false })
            }
            Stored::Error(bytes) => {
                Some(Payload { bytes: Bytes::Memory(bytes.clone()), is_error: true })
            }
            Stored::Stores { .. } => Some(Payload {
                bytes: Bytes::Pinned(state.pins.get(&id)?.clone()),
                is_error: false,
            }),
            Stored::Pending => None,
        }
    }

    /// Which of the objects are ready, once `count` are or the time is up.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Disconnected`].
    pub fn wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
        fetch_local: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<bool>, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut ready = vec![false; ids.len()];
        let mut looks = Looks::default();
        // So many values have to arrive before a look can find enough.
        let mut enough_at = 0;
        let result = self.wait_until(deadline, interrupt, |state| {
            let is_first = looks.is_first();
            if !is_first && state.arrivals < enough_at && !looks.are_due() {
                return None;
            }
            let mut n = 0;
            looks.look(|| {
                for (flag, id) in ready.iter_mut().zip(ids) {
                    if !*flag {
                        *flag = state.is_ready(*id, fetch_local);
                    }
                    n += usize::from(*flag);
                    if n >= count {
                        break;
                    }
                }
            });
            if n >= count {
                return Some(());
            }
            if is_first {
                state.watch_borrowed(ids);
            }
            enough_at = state.arrivals + (count - n) as u64;
            state.lacks = ready.iter().position(|ready| !ready).map(|place| ids[place]);
            None
        });
        match result {
            Ok(()) | Err(Error::Timeout) => Ok(ready),
            Err(error) => Err(error),
        }
    }

    /// Whether the object's value or error is known.
    #[must_use]
    pub fn is_ready(&self, id: ObjectId) -> bool {
        self.state.lock().owner.object(&id).is_some_and(helio_owner_state::Object::is_ready)
    }

    /// Tells [`Runtime::take_ready`] when the object is ready (at once if it is).
    pub fn watch(&self, id: ObjectId) {
        let mut state = self.settled();
        if state.read(id).is_some() {
            state.became_ready.push(id);
            state.notify_loop();
        } else {
            state.watched.insert(id);
            state.apply(Event::Watch { id });
        }
        self.changed(state);
    }

    /// Watched objects that became ready; clears [`Runtime::notify_fd`].
    #[must_use]
    pub fn take_ready(&self) -> Vec<ObjectId> {
        let _ = rustix::io::read(&*self.notify, &mut [0; 8]);
        let mut state = self.settled();
        if state.inbox.has_work() && state.work_waiters == 0 {
            // The mark that was cleared stood for this too.
            state.notify_loop();
        }
        let ready = std::mem::take(&mut state.became_ready);
        // What lies in an object store is ready for its reader when it is here.
        ready
            .into_iter()
            .filter(|id| {
                let here = state.owner.object(id).is_none_or(|object| object.is_ready())
                    && state.read_or_gone(*id);
                if !here {
                    state.watched.insert(*id);
                }
                here
            })
            .collect()
    }

    /// Readable when a watched object is ready, or work came while nobody waits for it.
    #[must_use]
    pub fn notify_fd(&self) -> RawFd {
        self.notify.as_raw_fd()
    }

    /// One more handle in this process.
    pub fn add_ref(&self, id: ObjectId) {
        self.state.lock().apply(Event::AddRef { id });
    }

    /// One handle fewer. Takes effect at the next call or poll; never waits.
    pub fn drop_ref(&self, id: ObjectId) {
        let first = {
            let mut dropped = self.dropped.lock();
            dropped.push(id);
            dropped.len() == 1
        };
        if !first {
            return;
        }
        // Somebody will look soon; if not, the timer makes them.
        match self.state.try_lock() {
            Some(mut state) if !state.timer_armed => {
                state.timer_armed = true;
                crate::state::set_timer(&state.timer, 1_000_000);
            }
            Some(_) => {}
            None => self.wake_up(),
        }
    }

    /// The reference as others need it.
    #[must_use]
    pub fn reference(&self, id: ObjectId) -> Reference {
        self.state.lock().owner.reference(id)
    }

    /// References to objects of one owner arrived in a value: one handle for each is held, and the
    /// owner is told.
    pub fn adopt(&self, owner: WorkerAddress, ids: Vec<ObjectId>) {
        let mut state = self.settled();
        state.apply(Event::Adopt { owner: Arc::new(owner), ids });
        self.changed(state);
    }

    /// For tests and tools: handles here, uses here, borrowers; `None` when it is not held at all.
    #[must_use]
    pub fn holders(&self, id: ObjectId) -> Option<(u32, u32, usize)> {
        self.settled().owner.object(&id).map(helio_owner_state::Object::holders)
    }

    /// For tests and tools: objects, unfinished calls and leases that this process knows.
    #[must_use]
    pub fn census(&self) -> (usize, usize, usize) {
        self.settled().owner.census()
    }
}

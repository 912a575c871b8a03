//! Values: put, get, wait, and the handles that keep them.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_owner_state::{Event as OwnerEvent, Object, Stored};
use helio_process_state::{Answer, Event, Readiness};
use helio_proto::control::FailureKind;
use helio_proto::peer::Reference;
use helio_store::ArenaSlice;
use helio_types::{ObjectId, WorkerAddress};

use crate::api::{Bytes, Error, Interrupt, OutgoingValue, Payload};
use crate::runtime::Runtime;

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
        state.apply(Event::Written { object: self.id, is_whole: true });
        state.flush();
        OutgoingValue::Stored { size: self.size, location: state.process.node_address() }
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if !self.sealed {
            let mut state = self.runtime.state.lock();
            state.apply(Event::Written { object: self.id, is_whole: false });
            state.flush();
        }
    }
}

/// The schedule of a wait for many values: looking at a hundred thousand each time that one arrives
/// would take minutes.
#[derive(Default)]
struct Looks {
    /// The time of the next look; `None`: there was none.
    next: Option<Instant>,
}

impl Looks {
    /// The largest part of the time that looking takes: one in so many.
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

impl Runtime {
    /// Puts a value; one handle is held.
    ///
    /// # Errors
    /// None at present; a full store shows in [`Runtime::create`].
    pub fn put(&self, value: OutgoingValue, contained: Vec<ObjectId>) -> Result<ObjectId, Error> {
        let mut state = self.settled();
        let id = state.process.new_put();
        state.apply(Event::Owner(OwnerEvent::Put { id, value, contained }));
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
        state.apply(Event::Owner(OwnerEvent::Put { id, value, contained }));
        self.changed(state);
        Ok(id)
    }

    /// Memory in the object store for a value of `size` bytes that becomes a put.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store is full.
    pub fn create(self: &Arc<Self>, size: u64, interrupt: Interrupt<'_>) -> Result<Created, Error> {
        let id = self.state.lock().process.new_put();
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
            Err(Error::Refused(failure)) if failure.kind == FailureKind::AlreadyExists => {
                let location = self.state.lock().process.node_address();
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
            let request = state.process.mint_request();
            state.apply(Event::Create { request, object: id, size });
            request
        };
        let grant =
            self.wait_until(None, interrupt, |state| match state.process.take_answer(request) {
                Some(Answer::Grant(grant)) => Some(grant),
                _ => None,
            });
        let arena = {
            let mut state = self.state.lock();
            // Interrupted: the daemon is told to give the room back when it grants it.
            if grant.is_err() {
                state.process.forget_request(request);
                state.flush();
            }
            state.arena.clone()
        };
        let offset = grant?.map_err(Error::Refused)?;
        let arena = arena.ok_or_else(|| Error::Invalid("no object store".into()))?;
        let slice = arena.slice(offset, size).map_err(|error| Error::Io(error.to_string()))?;
        Ok(Created { runtime: self.clone(), id, size, slice, sealed: false })
    }

    /// A reader of the objects begins: it does not get the error that an earlier reader was given for want
    /// of room.
    pub fn begin_read(&self, ids: &[ObjectId]) {
        self.state.lock().process.begin_read(ids);
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
        let mut unpinned = Vec::new();
        let mut room_wanted = None;
        let raised = self.wait_until(deadline, interrupt, |state| {
            let asked = room_wanted.replace(state.process.room_wanted());
            if asked.is_some_and(|asked| asked != state.process.room_wanted())
                && missing.iter().any(|place| state.process.is_pending(ids[*place]))
            {
                for (place, value) in values.iter_mut().enumerate() {
                    if value.take_if(|payload| matches!(payload.bytes, Bytes::Pinned(_))).is_some()
                    {
                        unpinned.push(place);
                    }
                }
                state.process.unpin_spare();
                state.execute_actions();
            }
            let mut raised = None;
            let mut is_missing = |place: usize| match state.process.read(ids[place]) {
                _ if raised.is_some() => true,
                Some(payload) if payload.is_error => {
                    state.apply(Event::Owner(OwnerEvent::ErrorRead { id: ids[place] }));
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
                missing.extend(unpinned.drain(..));
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
        if matches!(state.process.owner().object(&id)?.value(), Stored::Error(_)) {
            state.apply(Event::Owner(OwnerEvent::ErrorRead { id }));
        }
        state.process.peek(id)
    }

    /// Returns the objects that are ready, once `count` are or the time is up.
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
            if !is_first && state.process.arrivals() < enough_at && !looks.are_due() {
                return None;
            }
            let mut n = 0;
            looks.look(|| {
                for (flag, id) in ready.iter_mut().zip(ids) {
                    if !*flag {
                        *flag = state.process.is_ready(*id, fetch_local);
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
            // Once: the owner tells of the value when it is there.
            if is_first {
                state.watch_borrowed(ids);
            }
            enough_at = state.process.arrivals() + (count - n) as u64;
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
        self.state.lock().process.owner().object(&id).is_some_and(Object::is_ready)
    }

    /// Whether [`Runtime::get`] would return at once, for a reader that begins; if only the bytes are
    /// missing, they are fetched.
    #[must_use]
    pub fn is_here(&self, id: ObjectId) -> bool {
        let mut state = self.state.lock();
        state.process.begin_read(&[id]);
        let is_here = state.process.is_ready(id, true);
        if !is_here {
            self.changed(state);
        }
        is_here
    }

    /// Whether the object is as wished; if not, [`Runtime::take_ready`] gives its id once it is.
    #[must_use]
    pub fn watch(&self, id: ObjectId, readiness: Readiness) -> bool {
        let mut state = self.settled();
        let is_ready = state.process.watch(id, readiness);
        state.execute_actions();
        self.changed(state);
        is_ready
    }

    /// Watched objects that became as wished; clears [`Runtime::notify_fd`]. Memory can run short before
    /// the caller reads them: a value may have to be fetched again.
    #[must_use]
    pub fn take_ready(&self) -> Vec<ObjectId> {
        let mut state = self.settled();
        let was_marked = state.clear_notification();
        if was_marked && state.process.has_work() && state.work_waiters == 0 {
            // The mark that was cleared stood for this too. A mark that somebody else has cleared is his
            // to pass on: were each made again, a thread would read it all the time that work is due.
            state.notify_loop();
        }
        state.process.take_ready()
    }

    /// Clears [`Runtime::notify_fd`] for a reader that looks at everything afterwards.
    pub fn clear_notification(&self) {
        self.state.lock().clear_notification();
    }

    /// Readable when a watched object is ready, or work came while nobody waits for it.
    #[must_use]
    pub fn notify_fd(&self) -> RawFd {
        self.notify.as_raw_fd()
    }

    /// Counts one more handle of the object in this process.
    pub fn add_ref(&self, id: ObjectId) {
        self.state.lock().apply(Event::Owner(OwnerEvent::AddRef { id }));
    }

    /// Counts one handle of the object less. Takes effect at the next call or poll; never waits.
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
        self.state.lock().process.owner().reference(id)
    }

    /// References to objects of one owner arrived in a value: one handle for each is held, and the
    /// owner is told.
    pub fn adopt(&self, owner: WorkerAddress, ids: Vec<ObjectId>) {
        let mut state = self.settled();
        state.apply(Event::Owner(OwnerEvent::Adopt { owner: Arc::new(owner), ids }));
        self.changed(state);
    }

    /// For tests and tools: handles here, uses here, borrowers; `None` when it is not held at all.
    #[must_use]
    pub fn holders(&self, id: ObjectId) -> Option<(u32, u32, usize)> {
        self.settled().process.owner().object(&id).map(Object::holders)
    }

    /// For tests and tools: objects, unfinished calls and leases that this process knows.
    #[must_use]
    pub fn census(&self) -> (usize, usize, usize) {
        self.settled().process.owner().census()
    }
}

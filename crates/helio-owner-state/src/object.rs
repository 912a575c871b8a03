//! Objects: values, who holds them, and when they go.
//!
//! An object of ours is held by handles in this process (`local`), by what this process does with it
//! (`uses`: arguments of unfinished calls, values that contain it, returns in transit) and by
//! borrowers. It goes when all three are zero. A borrowed object goes when the first two are zero,
//! and its owner is told. An object that a remembered call took (`remembered`) stays, if need be without
//! its bytes ([`crate::lineage`]).

use std::collections::hash_map::Entry;
use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::peer::{Frame, Reference, Returned, Value, ValueRef};
use helio_types::{NodeAddress, NodeId, ObjectId, WorkerAddress, WorkerId, mutant};

use crate::Owner;
use crate::actor::actor_of_handle;
use crate::copies::add_each;
use crate::event::Action;
use crate::hash::shrink;
use crate::lazy::Lazy;
use crate::lineage::Final;
use crate::relations::Relations;
use crate::task::OutgoingValue;

/// The place of an object's value.
#[derive(Clone, Debug)]
pub enum Stored {
    /// The value is not known yet.
    Pending,
    /// In this process's own memory.
    Inline(Arc<Vec<u8>>),
    /// Here, and reading it raises.
    Error(Arc<Vec<u8>>),
    /// In the object stores of these nodes.
    Stores {
        /// The length of the value, in bytes.
        size: u64,
        /// The nodes that have the value.
        locations: Vec<NodeAddress>,
    },
}

/// One object: its owner, its value or place, and the counts that keep it.
#[derive(Debug)]
pub struct Object {
    /// The owner of the object; `None`: this process.
    pub owner: Option<Arc<WorkerAddress>>,
    /// The value.
    pub value: Stored,
    pub(crate) local: u32,
    pub(crate) uses: u32,
    /// How many finished calls that are remembered took it; they do not keep its bytes.
    pub(crate) remembered: u32,
    pub(crate) is_final: Final,
    pub(crate) relations: Lazy<Relations>,
    /// Borrowed: the owner was asked for the value.
    pub(crate) asked: bool,
    /// Borrowed: the number under which the owner was told.
    pub(crate) announced: u64,
    /// Somebody has seen the error that it holds, or will: it was read, or handed on.
    pub(crate) seen: bool,
}

impl Object {
    fn new(owner: Option<Arc<WorkerAddress>>) -> Self {
        Self {
            owner,
            value: Stored::Pending,
            local: 0,
            uses: 0,
            remembered: 0,
            is_final: Final::Unknown,
            relations: Lazy::default(),
            asked: false,
            announced: 0,
            seen: false,
        }
    }

    /// Whether the value or its error is known.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !matches!(self.value, Stored::Pending)
    }

    /// Whether the value lies in object stores, or did before it was let go of.
    pub(crate) fn is_in_stores(&self) -> bool {
        matches!(self.value, Stored::Stores { .. })
    }

    fn is_held(&self) -> bool {
        self.local > 0 || self.uses > 0 || !self.relations.borrowers.is_empty()
    }

    /// Whether it is more than the place of one that a remembered call took.
    pub(crate) fn is_listed(&self) -> bool {
        let has_bytes =
            !matches!(&self.value, Stored::Stores { locations, .. } if locations.is_empty());
        has_bytes || self.is_held()
    }

    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.owner.is_none() && !self.relations.borrowers.is_empty()
    }

    /// Whether nobody holds it, and nothing of it is under way: a call's return is kept until
    /// `set_value` brings its value.
    pub(crate) fn can_go(&self) -> bool {
        let is_settled =
            self.owner.is_some() || self.is_ready() || self.relations.handle_of.is_some();
        !self.is_held() && is_settled
    }

    /// Handles in this process, uses by this process, borrowing processes.
    #[must_use]
    pub fn holders(&self) -> (u32, u32, usize) {
        (self.local, self.uses, self.relations.borrowers.len())
    }
}

impl From<OutgoingValue> for Stored {
    fn from(value: OutgoingValue) -> Self {
        match value {
            OutgoingValue::Inline(bytes) => Self::Inline(Arc::new(bytes)),
            OutgoingValue::Error(bytes) => Self::Error(Arc::new(bytes)),
            OutgoingValue::Stored { size, location } => {
                Self::Stores { size, locations: vec![location] }
            }
        }
    }
}

impl From<Value> for Stored {
    fn from(value: Value) -> Self {
        match value {
            Value::Inline(bytes) => Self::Inline(Arc::new(bytes)),
            Value::Error(bytes) => Self::Error(Arc::new(bytes)),
            Value::Stored { size, locations } => Self::Stores { size, locations },
        }
    }
}

impl Stored {
    /// The value on its way out of here, without a copy; `None` while pending.
    pub(crate) fn as_wire(&self) -> Option<ValueRef<'_>> {
        match self {
            Self::Pending => None,
            Self::Inline(bytes) => Some(ValueRef::Inline(bytes)),
            Self::Error(bytes) => Some(ValueRef::Error(bytes)),
            Self::Stores { size, locations } => Some(ValueRef::Stored { size: *size, locations }),
        }
    }

    /// The value in transit; `None` while pending.
    #[must_use]
    pub(crate) fn to_wire(&self) -> Option<Value> {
        match self {
            Self::Pending => None,
            Self::Inline(bytes) => Some(Value::Inline(bytes.to_vec())),
            Self::Error(bytes) => Some(Value::Error(bytes.to_vec())),
            Self::Stores { size, locations } => {
                Some(Value::Stored { size: *size, locations: locations.clone() })
            }
        }
    }
}

impl Owner {
    pub(crate) fn put(&mut self, id: ObjectId, value: OutgoingValue, contained: Vec<ObjectId>) {
        for inner in &contained {
            self.hold(*inner);
        }
        let mut object = Object::new(None);
        object.value = value.into();
        if !contained.is_empty() {
            object.relations.contained = contained;
        }
        object.local = 1;
        let before = self.objects.insert(id, object);
        assert!(before.is_none(), "put ids are fresh");
        self.ctx.push(Action::Ready(id));
    }

    /// An object of ours whose value is to come, with `local` handles.
    pub(crate) fn expect(&mut self, id: ObjectId, local: u32) -> &mut Object {
        let object = self.objects.entry(id).or_insert_with(|| Object::new(None));
        object.local += local;
        object
    }

    pub(crate) fn add_ref(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.local += 1;
        }
    }

    pub(crate) fn drop_ref(&mut self, id: ObjectId) {
        let Entry::Occupied(mut entry) = self.objects.entry(id) else { return };
        let object = entry.get_mut();
        assert!(object.local > 0, "a handle is dropped once");
        object.local -= 1;
        if object.can_go() {
            match object.remembered {
                0 => {
                    let object = entry.remove();
                    self.gone(id, object);
                }
                _ => self.bytes_go(id),
            }
        }
    }

    /// One more use of an object that somebody here holds already.
    pub(crate) fn hold(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.uses += 1;
        }
    }

    pub(crate) fn unhold(&mut self, id: ObjectId) {
        let Entry::Occupied(mut entry) = self.objects.entry(id) else { return };
        let object = entry.get_mut();
        assert!(object.uses > 0, "a use ends once");
        object.uses -= 1;
        if object.can_go() {
            match object.remembered {
                0 => {
                    let object = entry.remove();
                    self.gone(id, object);
                }
                _ => self.bytes_go(id),
            }
        }
    }

    /// A reference came in. The caller adds the handle or use for which it came.
    pub(crate) fn adopt(&mut self, reference: &Reference) {
        if !self.objects.contains_key(&reference.id) {
            self.meet(reference.id, &Arc::new(reference.owner.clone()));
        }
    }

    /// References to objects of one owner came in, and a handle of each is held.
    pub(crate) fn adopt_all(&mut self, owner: &Arc<WorkerAddress>, ids: Vec<ObjectId>) {
        for id in ids {
            if let Some(object) = self.objects.get_mut(&id) {
                object.local += 1;
            } else {
                self.meet(id, owner);
                self.add_ref(id);
            }
        }
    }

    /// An object that was not known here.
    fn meet(&mut self, id: ObjectId, owner: &Arc<WorkerAddress>) {
        if owner.worker_id == self.ctx.me().worker_id {
            // Our own object came back after we let go of it: only a reference that travelled outside
            // of the protocol (plain pickle) does that.
            let object = self.expect(id, 0);
            object.value =
                error(ErrorKind::ObjectFreed, "the object was freed: no reference was left", id);
            self.ctx.push(Action::Ready(id));
            return;
        }
        let announced = self.borrows.announce(owner, id, &mut self.ctx);
        self.objects.insert(id, Object { announced, ..Object::new(Some(owner.clone())) });
    }

    /// See [`crate::Event::Recover`].
    pub(crate) fn recover(&mut self, reference: &Reference, gone: Vec<NodeId>) {
        let (id, is_known) = (reference.id, self.objects.contains_key(&reference.id));
        self.adopt(reference);
        self.add_ref(id);
        let owner = self.objects.get(&id).and_then(|object| object.owner.clone());
        for node in gone {
            match &owner {
                // Its value was never asked for here.
                Some(owner) if !is_known => {
                    let frame = Frame::LocationLost { object: id, node };
                    self.ctx.send(owner.clone(), frame);
                }
                _ => self.location_missed(id, node),
            }
        }
        self.watch(id);
    }

    /// Lets go of an object that may not be held any more.
    pub(crate) fn let_go(&mut self, id: ObjectId) {
        if let Entry::Occupied(entry) = self.objects.entry(id)
            && entry.get().can_go()
        {
            match entry.get().remembered {
                0 => {
                    let object = entry.remove();
                    self.gone(id, object);
                }
                _ => self.bytes_go(id),
            }
        }
    }

    /// Nobody holds the object any more, but a remembered call took it: its bytes go if they can be made
    /// again.
    #[cold]
    fn bytes_go(&mut self, id: ObjectId) {
        if !self.has_lineage(id) {
            return;
        }
        let Some(object) = self.objects.get_mut(&id) else { return };
        let Stored::Stores { locations, .. } = &mut object.value else { return };
        let mut locations = std::mem::take(locations);
        let relations = object.relations.present();
        let contained = relations.map_or_else(Vec::new, |relations| {
            relations.copies.clear();
            add_each(&mut locations, std::mem::take(&mut relations.strays));
            std::mem::take(&mut relations.contained)
        });
        if !locations.is_empty() {
            self.ctx.push(Action::Free { id, locations });
        }
        for inner in contained {
            self.unhold(inner);
        }
    }

    /// Nobody here held the object any more; it has been taken out.
    fn gone(&mut self, id: ObjectId, object: Object) {
        shrink(&mut self.objects, &mut self.ctx);
        let was_in_stores = object.is_in_stores();
        if object.owner.is_some() || matches!(object.value, Stored::Error(_)) {
            self.ctx.push(Action::Forget(id));
        }
        let mut relations = object.relations.into_present();
        match (&object.owner, object.value) {
            (Some(owner), _) => {
                let frame = Frame::RemoveBorrow { objects: vec![(id, object.announced)] };
                self.borrows.send(owner, frame, &mut self.ctx);
            }
            (None, Stored::Stores { mut locations, .. }) => {
                if let Some(relations) = &mut relations {
                    add_each(&mut locations, std::mem::take(&mut relations.strays));
                }
                self.ctx.push(Action::Free { id, locations });
            }
            // An error that the system itself put there is told where it happened; an exception of the user's code
            // would go unheard.
            (None, Stored::Error(bytes))
                if !object.seen && bytes.first() != Some(&helio_proto::error::TAG) =>
            {
                self.ctx.push(Action::Unseen(bytes));
            }
            (None, _) => {}
        }
        let mut handle_of = None;
        if let Some(relations) = relations {
            if !relations.strays.is_empty() {
                self.ctx.push(Action::Free { id, locations: relations.strays });
            }
            for inner in relations.contained {
                self.unhold(inner);
            }
            handle_of = relations.handle_of;
        }
        if let Some(actor) = handle_of {
            self.handles_gone(actor);
        } else if let Some(actor) = actor_of_handle(id) {
            self.retire_actor(actor);
        }
        if was_in_stores {
            self.lineage_unused(id);
        }
    }

    /// The value of an object of ours, or what the owner says of a borrowed one, is known.
    pub(crate) fn set_value(&mut self, id: ObjectId, value: Stored, contained: &[Reference]) {
        let mut held = Vec::new();
        if !contained.is_empty() && self.objects.contains_key(&id) {
            for reference in contained {
                self.adopt(reference);
                self.hold(reference.id);
            }
            held.extend(contained.iter().map(|reference| reference.id));
        }
        let Some(object) = self.objects.get_mut(&id) else {
            // Nobody wants it: what it brought along goes again.
            if let Stored::Stores { locations, .. } = value {
                self.ctx.push(Action::Free { id, locations });
            }
            return;
        };
        let ours = object.owner.is_none();
        object.value = value;
        let (mut before, mut resolvers, mut dependents) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
        if let Some(relations) = object.relations.present() {
            before = std::mem::take(&mut relations.contained);
            resolvers = std::mem::take(&mut relations.resolvers);
            dependents = std::mem::take(&mut relations.dependents);
            relations.copies.clear();
            if relations.made_again > 0 {
                relations.made_again = self.ctx.now();
            }
        }
        if !held.is_empty() {
            object.relations.contained = held;
        }
        object.seen |= !resolvers.is_empty() || !dependents.is_empty();
        let held = object.is_held();
        for inner in before {
            self.unhold(inner);
        }
        self.ctx.push(Action::Ready(id));
        if ours {
            for peer in resolvers {
                self.tell(id, &peer);
            }
        }
        for task in dependents {
            self.dependency_ready(task);
        }
        if !held {
            self.let_go(id);
        }
    }

    /// The front has read the error.
    pub(crate) fn error_read(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.seen = true;
        }
    }

    /// Somebody waits for a value that may not be ours.
    pub(crate) fn watch(&mut self, id: ObjectId) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        if let Some(owner) = &object.owner
            && !object.asked
            && matches!(object.value, Stored::Pending)
        {
            object.asked = true;
            self.ctx.send(owner.clone(), Frame::Resolve { object: id });
        }
    }

    /// A peer asks for the value of an object of ours.
    pub(crate) fn resolve(&mut self, id: ObjectId, peer: Arc<WorkerAddress>) {
        match self.objects.get_mut(&id) {
            Some(object) if object.owner.is_none() && !object.is_ready() => {
                object.relations.resolvers.push(peer)
            }
            Some(object) => {
                object.seen = true;
                self.tell(id, &peer);
            }
            None => self.tell(id, &peer),
        }
    }

    fn tell(&mut self, id: ObjectId, peer: &Arc<WorkerAddress>) {
        let returned =
            self.objects.get(&id).filter(|object| object.owner.is_none()).and_then(|object| {
                let contained =
                    object.relations.contained.iter().map(|inner| self.reference(*inner)).collect();
                Some(Returned { value: object.value.to_wire()?, contained })
            });
        self.ctx.send(peer.clone(), Frame::Resolved { object: id, returned });
    }

    /// The owner's answer for a borrowed object.
    pub(crate) fn resolved(&mut self, from: WorkerId, id: ObjectId, returned: Option<Returned>) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        if object.owner.as_ref().is_none_or(|owner| owner.worker_id != from) || object.is_ready() {
            return;
        }
        object.asked = false;
        match returned {
            Some(returned) => self.set_value(id, returned.value.into(), &returned.contained),
            None => {
                let lost =
                    error(ErrorKind::ObjectLost, "its owner does not know the object any more", id);
                self.set_value(id, lost, &[]);
            }
        }
    }

    pub(crate) fn borrower_added(&mut self, peer: WorkerId, id: ObjectId, number: u64) {
        let Some(object) = self.objects.get_mut(&id).filter(|object| object.owner.is_none()) else {
            return;
        };
        if mutant!("borrow-not-counted") {
            return;
        }
        match object.relations.borrowers.iter_mut().find(|(borrower, _)| *borrower == peer) {
            Some((_, latest)) => *latest = number.max(*latest),
            None => object.relations.borrowers.push((peer, number)),
        }
    }

    /// The borrow announced under `number` is over; a later one of the same peer is not.
    pub(crate) fn borrower_removed(&mut self, peer: WorkerId, id: ObjectId, number: u64) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let Some(relations) = object.relations.present() else { return };
        let before = relations.borrowers.len();
        relations.borrowers.retain(|(borrower, latest)| *borrower != peer || *latest > number);
        if before != relations.borrowers.len() && !object.is_held() {
            self.let_go(id);
        }
    }

    /// Voids a peer's announcements before number `since`; a dead peer's announcements are all void.
    pub(crate) fn borrows_void(&mut self, peer: WorkerId, since: u64) {
        let mut loose = Vec::new();
        for (id, object) in &mut self.objects {
            let Some(relations) = object.relations.present() else { continue };
            if since == u64::MAX {
                relations.resolvers.retain(|resolver| resolver.worker_id != peer);
            }
            let before = relations.borrowers.len();
            relations.borrowers.retain(|(borrower, latest)| *borrower != peer || *latest >= since);
            if before != relations.borrowers.len() && !object.is_held() {
                loose.push(*id);
            }
        }
        // The table's order is not part of the state; actions must be.
        loose.sort_unstable();
        for id in loose {
            self.let_go(id);
        }
    }

    /// An owner is dead: what we had not read of it is lost.
    pub(crate) fn owner_gone(&mut self, peer: WorkerId) {
        if mutant!("owners-death-ignored") {
            return;
        }
        let mut lost: Vec<ObjectId> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                object.owner.as_ref().is_some_and(|owner| owner.worker_id == peer)
            })
            .filter(|(_, object)| matches!(object.value, Stored::Pending | Stored::Stores { .. }))
            .map(|(id, _)| *id)
            .collect();
        lost.sort_unstable();
        for id in lost {
            // Its owner does not free the copies any more.
            if let Some(Stored::Stores { locations, .. }) =
                self.objects.get(&id).map(|object| &object.value)
            {
                self.ctx.push(Action::Free { id, locations: locations.clone() });
            }
            let text = "the object's owner has died: the process that created the reference is gone, and with it \
                        what was known of the object";
            self.set_value(id, error(ErrorKind::OwnerDied, text, id), &[]);
        }
    }

    /// The reference as others need it.
    #[must_use]
    pub fn reference(&self, id: ObjectId) -> Reference {
        let owner = self
            .objects
            .get(&id)
            .and_then(|object| object.owner.clone())
            .unwrap_or_else(|| self.ctx.me().clone());
        Reference { id, owner: (*owner).clone() }
    }
}

/// An error value for an object.
pub(crate) fn error(kind: ErrorKind, text: &str, object: ObjectId) -> Stored {
    let error = SystemError { object, ..SystemError::new(kind, text) };
    Stored::Error(Arc::new(error.to_payload()))
}

//! Objects: values, who holds them, and when they go.
//!
//! An object of ours is held by handles in this process (`local`), by what this process does with it
//! (`uses`: arguments of unfinished calls, values that contain it, returns in transit) and by
//! borrowers. It goes when all three are zero. A borrowed object goes when the first two are zero,
//! and its owner is told. An object that a remembered call took (`remembered`) stays, if need be without
//! its bytes ([`crate::lineages`]).

mod arguments;
mod borrowers;
mod check;
mod copies;
mod relations;

use std::collections::hash_map::Entry;
use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_proto::peer::{Frame, Reference, Returned};
use helio_types::{ActorId, IdMap, NodeAddress, ObjectId, TaskId, WorkerAddress, WorkerId};

use crate::borrows::Borrows;
use crate::context::Context;
use crate::event::Action;
use crate::lazy::Lazy;
use crate::room::shrink;
use crate::spec::actor_of_handle;
use crate::value::{Stored, add_each, error};
use relations::Relations;

/// The reason why an object of ours cannot be made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Final {
    /// The object may be made again, or nothing is known.
    #[default]
    Unknown,
    /// The options of the object's call allow no retries.
    NoRetries,
    /// The retries of the object's call are used up.
    UsedUp,
    /// The record of the object's call was dropped to make room for others.
    Evicted,
    /// The object's call was cancelled.
    Cancelled,
}

/// The way in which the record of a finished call keeps an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// The argument is not kept: it is not known.
    Unknown,
    /// The object is ours, and is counted as an argument of one call more.
    Own,
    /// The object is somebody else's, and has one use more.
    Used,
}

/// An object that this process owns or borrows: its owner, its value or place, and the counts that
/// keep it.
#[derive(Debug)]
pub struct Object {
    /// The owner of the object; `None`: this process.
    owner: Option<Arc<WorkerAddress>>,
    value: Stored,
    local: u32,
    uses: u32,
    /// Number of remembered finished calls that took the object as an argument; they do not keep
    /// its bytes.
    remembered: u32,
    is_final: Final,
    relations: Lazy<Relations>,
    /// Borrowed: the owner was asked for the value.
    asked: bool,
    /// Borrowed: the number under which the owner was told.
    announced: u64,
    /// Whether the error that it holds was seen, or will be: it was read, or handed on.
    seen: bool,
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

    /// The owner of the object; `None`: this process.
    #[must_use]
    pub fn owner(&self) -> Option<&Arc<WorkerAddress>> {
        self.owner.as_ref()
    }

    /// The value, or the place where it is.
    #[must_use]
    pub fn value(&self) -> &Stored {
        &self.value
    }

    /// Whether the value or its error is known.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !matches!(self.value, Stored::Pending)
    }

    /// Handles in this process, uses by this process, borrowing processes.
    #[must_use]
    pub fn holders(&self) -> (u32, u32, usize) {
        (self.local, self.uses, self.relations.borrowers.len())
    }

    /// Whether the value lies in object stores, or did before it was let go of.
    fn is_in_stores(&self) -> bool {
        matches!(self.value, Stored::Stores { .. })
    }

    /// Whether its bytes were given back, or are lost.
    fn is_without_bytes(&self) -> bool {
        matches!(&self.value, Stored::Stores { locations, .. } if locations.is_empty())
    }

    fn is_held(&self) -> bool {
        self.local > 0 || self.uses > 0 || !self.relations.borrowers.is_empty()
    }

    /// Whether it is more than the place of one that a remembered call took.
    pub(crate) fn is_listed(&self) -> bool {
        !self.is_without_bytes() || self.is_held()
    }

    /// Whether it stands for the handles of an actor that this process made.
    pub(crate) fn is_handle(&self) -> bool {
        self.relations.handle_of.is_some()
    }

    fn is_held_elsewhere(&self) -> bool {
        self.owner.is_none() && !self.relations.borrowers.is_empty()
    }

    fn is_of(&self, owner: WorkerId) -> bool {
        self.owner.as_ref().is_some_and(|own| own.worker_id == owner)
    }

    /// Whether nobody holds it, and nothing of it is under way: a call's return is kept until
    /// [`Objects::set`] brings its value.
    fn can_go(&self) -> bool {
        let is_settled =
            self.owner.is_some() || self.is_ready() || self.relations.handle_of.is_some();
        !self.is_held() && is_settled
    }
}

/// An object of which one holder has let go, as it is then.
#[derive(Debug)]
#[must_use]
pub(crate) enum Released {
    /// The object is held by others, or was not known.
    Kept,
    /// The object is not held, but a remembered call took it: its bytes go if they can be made again.
    Remembered,
    /// The object was not held any more and has been taken out; others have been told.
    Gone(Remains),
}

/// The remains of an object that is gone, for others to see to.
#[derive(Debug)]
pub(crate) struct Remains {
    relations: Option<Box<Relations>>,
    was_in_stores: bool,
}

impl Remains {
    /// The references that were inside it, once.
    #[inline]
    pub(crate) fn take_contained(&mut self) -> Vec<ObjectId> {
        let relations = self.relations.as_mut();
        relations.map_or_else(Vec::new, |relations| std::mem::take(&mut relations.contained))
    }

    /// The actor of ours for whose handles it stood.
    #[inline]
    pub(crate) fn handle_of(&self) -> Option<ActorId> {
        self.relations.as_ref()?.handle_of
    }

    /// Whether its value lay in object stores.
    pub(crate) fn was_in_stores(&self) -> bool {
        self.was_in_stores
    }
}

/// The consequences of an object's value becoming known.
#[derive(Debug)]
pub(crate) struct News {
    /// The references inside the value of before.
    pub(crate) before: Vec<ObjectId>,
    /// Peers that have asked for the value of an object of ours.
    pub(crate) resolvers: Vec<Arc<WorkerAddress>>,
    /// Calls of ours that wait for the value.
    pub(crate) dependents: Vec<TaskId>,
    /// Whether anybody holds the object.
    pub(crate) is_held: bool,
}

/// The objects that this process knows: its own, and those that it borrows.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    all: IdMap<ObjectId, Object>,
}

impl Objects {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<&Object> {
        self.all.get(&id)
    }

    /// All objects, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.all.iter().map(|(id, object)| (*id, object))
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.all.contains_key(&id)
    }

    /// Whether the object is known, and so are its value or its error.
    pub(crate) fn is_ready(&self, id: ObjectId) -> bool {
        self.all.get(&id).is_some_and(Object::is_ready)
    }

    /// Whether the object is known, and its value is still to come.
    pub(crate) fn is_pending(&self, id: ObjectId) -> bool {
        self.all.get(&id).is_some_and(|object| !object.is_ready())
    }

    /// Whether other processes hold objects of this one.
    pub(crate) fn are_held_elsewhere(&self) -> bool {
        self.all.values().any(Object::is_held_elsewhere)
    }

    /// The owner of an object that is somebody else's.
    pub(crate) fn owner_of(&self, id: ObjectId) -> Option<&Arc<WorkerAddress>> {
        self.all.get(&id)?.owner.as_ref()
    }

    /// A value of ours, with one handle.
    pub(crate) fn put(&mut self, id: ObjectId, value: Stored, contained: Vec<ObjectId>) {
        let mut object = Object::new(None);
        object.value = value;
        if !contained.is_empty() {
            object.relations.contained = contained;
        }
        object.local = 1;
        let before = self.all.insert(id, object);
        assert!(before.is_none(), "put ids are fresh");
    }

    fn own(&mut self, id: ObjectId) -> &mut Object {
        self.all.entry(id).or_insert_with(|| Object::new(None))
    }

    /// An object of ours whose value is to come, with one handle more.
    pub(crate) fn on_expect(&mut self, id: ObjectId) {
        self.own(id).local += 1;
    }

    /// An object that stands for the handles of an actor of ours, with one handle more.
    pub(crate) fn expect_handle(&mut self, id: ObjectId, actor: ActorId) {
        let object = self.own(id);
        object.local += 1;
        object.relations.handle_of = Some(actor);
    }

    /// An object of ours whose value is to come, with one use more.
    pub(crate) fn expect_item(&mut self, id: ObjectId) {
        self.own(id).uses += 1;
    }

    /// An object of somebody else that was not known here.
    pub(crate) fn borrow(&mut self, id: ObjectId, owner: Arc<WorkerAddress>, announced: u64) {
        self.all.insert(id, Object { announced, ..Object::new(Some(owner)) });
    }

    /// Our own object came back after we let go of it: only a reference that travelled outside of the protocol
    /// (plain pickle) does that.
    pub(crate) fn returned_too_late(&mut self, id: ObjectId) {
        let text = "the object was freed: no reference was left";
        self.own(id).value = error(ErrorKind::ObjectFreed, text, id);
    }

    /// Counts one more handle of the object.
    pub(crate) fn on_add_ref(&mut self, id: ObjectId) {
        self.add_ref(id);
    }

    /// Counts one more handle of the object. Returns whether the object is known.
    pub(crate) fn add_ref(&mut self, id: ObjectId) -> bool {
        let object = self.all.get_mut(&id);
        object.map(|object| object.local += 1).is_some()
    }

    /// Counts one handle of the object less; the last one may end it.
    #[inline]
    pub(crate) fn drop_ref(
        &mut self,
        id: ObjectId,
        borrows: &mut Borrows,
        ctx: &mut Context,
    ) -> Released {
        let count = |object: &mut Object| {
            assert!(object.local > 0, "a handle is dropped once");
            object.local -= 1;
        };
        self.release(id, count, borrows, ctx)
    }

    /// Counts one more use of an object that somebody here holds already.
    pub(crate) fn hold(&mut self, id: ObjectId) {
        if let Some(object) = self.all.get_mut(&id) {
            object.uses += 1;
        }
    }

    /// Counts one use of the object less; the last one may end it.
    #[inline]
    pub(crate) fn unhold(
        &mut self,
        id: ObjectId,
        borrows: &mut Borrows,
        ctx: &mut Context,
    ) -> Released {
        let count = |object: &mut Object| {
            assert!(object.uses > 0, "a use ends once");
            object.uses -= 1;
        };
        self.release(id, count, borrows, ctx)
    }

    /// Lets go of an object that may not be held any more.
    pub(crate) fn release_if_unheld(
        &mut self,
        id: ObjectId,
        borrows: &mut Borrows,
        ctx: &mut Context,
    ) -> Released {
        self.release(id, |_| {}, borrows, ctx)
    }

    /// Changes the counts of an object, and takes it out if nothing holds it any more.
    #[inline]
    fn release(
        &mut self,
        id: ObjectId,
        count: impl FnOnce(&mut Object),
        borrows: &mut Borrows,
        ctx: &mut Context,
    ) -> Released {
        let Entry::Occupied(mut entry) = self.all.entry(id) else { return Released::Kept };
        let object = entry.get_mut();
        count(object);
        if !object.can_go() {
            return Released::Kept;
        }
        // A remembered call took it: it stays as an object without bytes, if it can be made again.
        if object.remembered > 0 {
            return Released::Remembered;
        }
        let object = entry.remove();
        Released::Gone(self.on_gone(id, object, borrows, ctx))
    }

    /// Gives back the bytes of an object that can be made again; returns the references inside them.
    pub(crate) fn give_bytes_back(&mut self, id: ObjectId, ctx: &mut Context) -> Vec<ObjectId> {
        let Some(object) = self.all.get_mut(&id) else { return Vec::new() };
        // Small values stay: they take no room in a store.
        let Stored::Stores { locations, .. } = &mut object.value else { return Vec::new() };
        let mut locations = std::mem::take(locations);
        let relations = object.relations.present();
        let contained = relations.map_or_else(Vec::new, |relations| {
            relations.copies.clear();
            add_each(&mut locations, std::mem::take(&mut relations.strays));
            std::mem::take(&mut relations.contained)
        });
        if !locations.is_empty() {
            ctx.push(Action::Free { id, locations });
        }
        contained
    }

    /// Says to others that nobody here holds an object any more that has been taken out.
    fn on_gone(
        &mut self,
        id: ObjectId,
        object: Object,
        borrows: &mut Borrows,
        ctx: &mut Context,
    ) -> Remains {
        shrink(&mut self.all, ctx);
        let was_in_stores = object.is_in_stores();
        // This process may have pinned a copy here; of an own value in stores `Action::Free` says that.
        if object.owner.is_some() || matches!(object.value, Stored::Error(_)) {
            ctx.push(Action::Forget(id));
        }
        let mut relations = object.relations.into_present();
        match (&object.owner, object.value) {
            (Some(owner), _) => {
                let frame = Frame::RemoveBorrow { objects: vec![(id, object.announced)] };
                borrows.send(owner, frame, ctx);
            }
            (None, Stored::Stores { mut locations, .. }) => {
                if let Some(relations) = &mut relations {
                    add_each(&mut locations, std::mem::take(&mut relations.strays));
                }
                ctx.push(Action::Free { id, locations });
            }
            // An error that the system itself put there is told where it happened; an exception of the user's code
            // would go unheard.
            (None, Stored::Error(bytes))
                if !object.seen && bytes.first() != Some(&helio_proto::error::TAG) =>
            {
                ctx.push(Action::UnseenError(bytes));
            }
            (None, _) => {}
        }
        if let Some(relations) = &mut relations
            && !relations.strays.is_empty()
        {
            ctx.push(Action::Free { id, locations: std::mem::take(&mut relations.strays) });
        }
        Remains { relations, was_in_stores }
    }

    /// The value is known, and `held` are the references inside it. `None`: nobody wants it.
    pub(crate) fn set(
        &mut self,
        id: ObjectId,
        value: Stored,
        held: Vec<ObjectId>,
        ctx: &mut Context,
    ) -> Option<News> {
        let Some(object) = self.all.get_mut(&id) else {
            // What it brought along goes again.
            if let Stored::Stores { locations, .. } = value {
                ctx.push(Action::Free { id, locations });
            }
            return None;
        };
        object.value = value;
        let (mut before, mut resolvers, mut dependents) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
        if let Some(relations) = object.relations.present() {
            before = std::mem::take(&mut relations.contained);
            resolvers = std::mem::take(&mut relations.resolvers);
            dependents = std::mem::take(&mut relations.dependents);
            // The value that comes has its own places; copies of the one before are freed as strays.
            relations.copies.clear();
            // News of the copy before may still be under way: from now on it is not believed for a while.
            if relations.made_again > 0 {
                relations.made_again = ctx.now();
            }
        }
        if !held.is_empty() {
            object.relations.contained = held;
        }
        // Whoever is given an error raises it, or hands it on.
        object.seen |= !resolvers.is_empty() || !dependents.is_empty();
        if object.owner.is_some() {
            // Only its owner answers for an object: what is known here may be old.
            resolvers.clear();
        }
        Some(News { before, resolvers, dependents, is_held: object.is_held() })
    }

    /// The front has read the error, or something else tells of it.
    pub(crate) fn on_error_read(&mut self, id: ObjectId) {
        if let Some(object) = self.all.get_mut(&id) {
            object.seen = true;
        }
    }

    /// Asks the owner for the value of a borrowed object, once, because it is waited for.
    pub(crate) fn on_watch(&mut self, id: ObjectId, ctx: &mut Context) {
        let Some(object) = self.all.get_mut(&id) else { return };
        if let Some(owner) = &object.owner
            && !object.asked
            && matches!(object.value, Stored::Pending)
        {
            object.asked = true;
            ctx.send(owner.clone(), Frame::Resolve { object: id });
        }
    }

    /// The owner answers for a borrowed object; whether its answer is waited for.
    pub(crate) fn is_answered(&mut self, id: ObjectId, from: WorkerId) -> bool {
        let Some(object) = self.all.get_mut(&id) else { return false };
        if !object.is_of(from) || object.is_ready() {
            return false;
        }
        // If the value is lost again, the owner has to be asked anew.
        object.asked = false;
        true
    }

    /// A peer asks for the value of an object of ours.
    pub(crate) fn resolve(&mut self, id: ObjectId, peer: Arc<WorkerAddress>, ctx: &mut Context) {
        match self.all.get_mut(&id) {
            Some(object) if object.owner.is_none() && !object.is_ready() => {
                object.relations.resolvers.push(peer)
            }
            Some(object) => {
                object.seen = true;
                self.tell(id, &peer, ctx);
            }
            None => self.tell(id, &peer, ctx),
        }
    }

    /// Tells a peer the value of an object of ours, or that it is not known.
    pub(crate) fn tell(&self, id: ObjectId, peer: &Arc<WorkerAddress>, ctx: &mut Context) {
        let own = self.all.get(&id).filter(|object| object.owner.is_none());
        let returned = own.and_then(|object| {
            let contained = object.relations.contained.iter();
            let contained = contained.map(|inner| self.reference(*inner, ctx.me())).collect();
            Some(Returned { value: object.value.to_wire()?, contained })
        });
        ctx.send(peer.clone(), Frame::Resolved { object: id, returned });
    }

    /// The reference as others need it; `me` is this process.
    pub(crate) fn reference(&self, id: ObjectId, me: &Arc<WorkerAddress>) -> Reference {
        Reference { id, owner: (**self.owner_of(id).unwrap_or(me)).clone() }
    }

    /// Whether the object stands for an actor's handles, here or elsewhere.
    pub(crate) fn stands_for_handles(id: ObjectId, object: &Object) -> bool {
        object.is_handle() || actor_of_handle(id).is_some()
    }

    /// The nodes that are said to have the value.
    pub(crate) fn locations(&self, id: ObjectId) -> Option<&[NodeAddress]> {
        match &self.all.get(&id)?.value {
            Stored::Stores { locations, .. } => Some(locations),
            _ => None,
        }
    }
}

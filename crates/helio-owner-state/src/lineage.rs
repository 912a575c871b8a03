//! The records of finished calls, to make their returns again when the last copy is lost.
//!
//! A remembered call does not keep the bytes of arguments that can be made again themselves, or a chain
//! of calls would keep every value between its ends. Such an argument gives its bytes back when nobody
//! holds it, and stays as an object without a copy; when it is needed, it is made again first. What no
//! call made (`put`), and what others own, is kept: nothing could replace it.
//!
//! **LIMIT-1** The calls that are remembered take [`LINEAGE_BYTES_MAX`], or as many bytes as
//! [`Owner::limit_lineage`] says; then the oldest are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{IdMap, ObjectId, TaskId, mutant};

use helio_config::process::LINEAGE_BYTES_MAX;

use crate::Owner;
use crate::context::Context;
use crate::hash::shrink;
use crate::object::{Stored, error};
use crate::past::{Earlier, Past};
use crate::task::TaskSpec;

/// The size of a record beside the bytes of its arguments.
const CALL_BYTES: usize = 1024;

/// The record of a finished call whose returns lie in object stores.
#[derive(Debug)]
pub(crate) struct Lineage {
    spec: Arc<TaskSpec>,
    retries_left: i32,
    /// How many of its returns and items lie in object stores and are held by somebody.
    live: u32,
    /// Of a generator: one more than the index of the last item that lay in a store.
    items: u32,
    /// Whether a generator's reader has left it, as in [`Past`].
    is_left: bool,
    /// Arguments that others own: each is kept by a use.
    pub(crate) kept: Vec<ObjectId>,
    /// Counts calls in the order in which they ended.
    ended: u64,
}

impl Lineage {
    /// Its arguments. The handle of a method's actor is not among them: an actor that nobody can call any
    /// more ends, although the results of its methods may be read still.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.spec.args.held()
    }

    /// Returns the objects of the call that may lie in object stores.
    fn made(&self) -> impl Iterator<Item = ObjectId> + use<> {
        self.spec.made(self.items)
    }

    fn size(&self) -> usize {
        CALL_BYTES + self.spec.args.body.len()
    }
}

/// The remembered calls.
#[derive(Debug)]
pub(crate) struct Lineages {
    pub(crate) all: IdMap<TaskId, Lineage>,
    /// In the order in which they ended; some may be gone.
    order: VecDeque<TaskId>,
    ended_count: u64,
    size: usize,
    size_max: usize,
    /// Calls of which nothing is needed any more, while their arguments are let go of.
    forgotten: Vec<Lineage>,
    is_forgetting: bool,
}

impl Default for Lineages {
    fn default() -> Self {
        Self {
            all: IdMap::default(),
            order: VecDeque::new(),
            ended_count: 0,
            size: 0,
            size_max: LINEAGE_BYTES_MAX,
            forgotten: Vec::new(),
            is_forgetting: false,
        }
    }
}

impl Lineages {
    /// The place of a call that ends now, among those that have ended.
    pub(crate) fn next_ended(&mut self) -> u64 {
        self.ended_count += 1;
        self.ended_count
    }

    fn insert(&mut self, mut lineage: Lineage) {
        lineage.ended = self.next_ended();
        self.size += lineage.size();
        self.order.push_back(lineage.spec.id);
        self.all.insert(lineage.spec.id, lineage);
    }

    fn remove(&mut self, id: TaskId, ctx: &mut Context) -> Option<Lineage> {
        let lineage = self.all.remove(&id)?;
        assert!(self.size >= lineage.size(), "a remembered call is counted as it was remembered");
        self.size -= lineage.size();
        shrink(&mut self.all, ctx);
        if self.order.len() > 2 * self.all.len() + 1024 {
            self.order.retain(|id| self.all.contains_key(id));
        }
        Some(lineage)
    }
}

/// Why an object of ours cannot be made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Final {
    /// Nothing speaks against it, or nothing is known.
    #[default]
    Unknown,
    /// Its call is not to be tried again at all.
    NoRetries,
    /// Its call has been tried again as often as it may.
    UsedUp,
    /// Its call was forgotten to make room for others.
    Evicted,
    /// Its call was cancelled.
    Cancelled,
}

impl Owner {
    /// How many bytes the calls that are remembered may take from now on.
    pub fn limit_lineage(&mut self, bytes: usize) {
        self.lineages.size_max = bytes;
    }

    /// Remembers a finished call of whose returns and items so many are `live`.
    pub(crate) fn remember(
        &mut self,
        spec: Arc<TaskSpec>,
        retries_left: i32,
        live: u32,
        past: &Past,
    ) {
        let (items, is_left) = (past.earlier.items, past.earlier.is_left);
        let mut kept = Vec::new();
        for id in spec.args.held() {
            let Some(object) = self.objects.get_mut(&id) else { continue };
            if object.owner.is_none() {
                object.remembered += 1;
            } else {
                object.uses += 1;
                kept.push(id);
            }
        }
        self.lineages.insert(Lineage { spec, retries_left, live, items, is_left, kept, ended: 0 });
        while self.lineages.size > self.lineages.size_max
            && let Some(oldest) = self.lineages.order.pop_front()
        {
            if let Some(lineage) = self.lineages.remove(oldest, &mut self.ctx) {
                for id in lineage.made() {
                    self.mark_final(id, Final::Evicted);
                }
                self.forget(lineage);
            }
        }
    }

    pub(crate) fn mark_final(&mut self, id: ObjectId, why: Final) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.is_final = why;
        }
    }

    /// A return or item that lay in object stores is gone; when it was the last one, its call need not be
    /// remembered.
    pub(crate) fn lineage_unused(&mut self, id: ObjectId) {
        let task = id.task();
        let Some(lineage) = self.lineages.all.get_mut(&task) else { return };
        lineage.live = lineage.live.saturating_sub(1);
        if lineage.live == 0
            && let Some(lineage) = self.lineages.remove(task, &mut self.ctx)
        {
            self.forget(lineage);
        }
    }

    /// Lets go of a call's arguments, and of the calls that made them, however long their chain is.
    fn forget(&mut self, lineage: Lineage) {
        self.lineages.forgotten.push(lineage);
        if std::mem::replace(&mut self.lineages.is_forgetting, true) {
            return;
        }
        while let Some(lineage) = self.lineages.forgotten.pop() {
            for id in &lineage.kept {
                self.unhold(*id);
            }
            for id in lineage.held() {
                self.not_remembered(id);
                self.let_go(id);
            }
        }
        self.lineages.is_forgetting = false;
    }

    fn not_remembered(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id)
            && object.owner.is_none()
        {
            assert!(object.remembered > 0, "a remembered call is forgotten once");
            object.remembered -= 1;
        }
    }

    /// Whether an argument of ours has given its bytes back.
    fn is_without_bytes(&self, id: ObjectId) -> bool {
        self.objects.get(&id).is_some_and(|object| {
            object.owner.is_none()
                && matches!(&object.value, Stored::Stores { locations, .. } if locations.is_empty())
        })
    }

    /// Whether the object is a return of a call that is remembered and may run again.
    pub(crate) fn has_lineage(&self, id: ObjectId) -> bool {
        self.lineages.all.get(&id.task()).is_some_and(|lineage| {
            // Objects that the call has made beyond its returns (dynamic ones) come with them.
            let known = lineage.spec.return_count() + lineage.items;
            lineage.retries_left != 0 && id.index() <= known
        })
    }

    /// Whether [`Owner::rebuild`] would do it, with all that has to be made again before, and harm nobody. A
    /// method of an actor would run once more behind the one that runs there, which may wait for the value.
    pub(crate) fn can_rebuild(&self, id: ObjectId) -> bool {
        let mut wanted = vec![id];
        let mut seen: IdMap<TaskId, ()> = IdMap::default();
        while let Some(id) = wanted.pop() {
            if seen.insert(id.task(), ()).is_some() {
                continue;
            }
            if let Some(task) = self.tasks.get(&id.task()) {
                // An item that a generator has yielded comes once more only from another attempt.
                if task.attempt == 0 || task.has_yielded(id) {
                    return false;
                }
                continue;
            }
            let Some(lineage) = self.lineages.all.get(&id.task()) else { return false };
            if lineage.retries_left == 0 || lineage.spec.is_method() {
                return false;
            }
            wanted.extend(lineage.held().filter(|arg| self.is_without_bytes(*arg)));
        }
        true
    }

    /// Makes an object of ours again after its last copy was lost, and before it the arguments that its
    /// call needs and nobody has any more.
    pub(crate) fn rebuild(&mut self, id: ObjectId) {
        let mut wanted = vec![id];
        let mut again = Vec::new();
        while let Some(id) = wanted.pop() {
            let is_here = self.objects.get(&id).is_some_and(crate::Object::is_ready)
                && !self.is_without_bytes(id);
            if is_here && !mutant!("argument-at-hand-given-up") {
                continue;
            }
            if self.tasks.contains_key(&id.task()) {
                self.await_attempt(id);
                self.end_alone(id);
                continue;
            }
            if !self.is_without_bytes(id) {
                continue;
            }
            match self.take_lineage(id) {
                Ok(lineage) => {
                    for arg in lineage.held() {
                        self.hold(arg);
                        self.not_remembered(arg);
                    }
                    for kept in &lineage.kept {
                        self.unhold(*kept);
                    }
                    for object in lineage.made() {
                        if self.is_without_bytes(object)
                            && let Some(object) = self.objects.get_mut(&object)
                        {
                            object.value = Stored::Pending;
                            object.relations.made_again = self.ctx.now();
                        }
                    }
                    if !mutant!("lost-argument-not-made-again") {
                        wanted.extend(lineage.held());
                    }
                    again.push(lineage);
                }
                Err(text) => {
                    let value = error(ErrorKind::ReconstructionFailed, &text, id);
                    self.set_value(id, value, &[]);
                }
            }
        }
        // The call that was found last is needed first.
        for lineage in again.into_iter().rev() {
            let failure = Some("its value was lost and is made again".into());
            let Lineage { items, ended, is_left, .. } = lineage;
            let (created, is_remade) = (self.ctx.now(), true);
            let earlier =
                Earlier { failure, items, is_remade, ended, is_left, ..Earlier::default() };
            let past = Past { created, earlier: earlier.into() };
            let spec = self.with_handle(lineage.spec);
            self.enter(spec, 1, lineage.retries_left, past);
        }
    }

    /// An item is lost that a generator has yielded and does not yield again before its end, and the reader may
    /// take nothing else before it. So the generator is not to wait for its reader any more;
    /// and if it may not run again, the reader is told at once.
    fn end_alone(&mut self, id: ObjectId) {
        let Some(task) = self.tasks.get(&id.task()).filter(|task| task.has_yielded(id)) else {
            return;
        };
        if task.retries_left == 0 {
            let text = match task.attempt {
                0 => {
                    "its last copy was lost, and it cannot be made again: its generator may not run once \
                     more, for it was made with max_retries=0"
                }
                _ => {
                    "its last copy was lost, and it cannot be made again: its generator may not run once \
                     more, for it has no retries left"
                }
            };
            self.set_value(id, error(ErrorKind::ReconstructionFailed, text, id), &[]);
        } else {
            self.tell_read(id.task(), u32::MAX);
        }
    }

    /// A method's call as it is made once more: it keeps its actor alive, if a handle is left here.
    fn with_handle(&mut self, spec: Arc<TaskSpec>) -> Arc<TaskSpec> {
        let Some(handle) = spec.handle else { return spec };
        if self.objects.contains_key(&handle) {
            self.hold(handle);
            return spec;
        }
        Arc::new(TaskSpec {
            id: spec.id,
            template: spec.template.clone(),
            target: spec.target.clone(),
            args: spec.args.clone(),
            handle: None,
            ..*spec
        })
    }

    /// The call that made the object, one retry taken; or why it cannot be run again.
    fn take_lineage(&mut self, id: ObjectId) -> Result<Lineage, String> {
        let lost = "its last copy was lost, and it cannot be made again";
        let Some(lineage) = self.lineages.all.get(&id.task()) else {
            let why = self.objects.get(&id).map_or(Final::Unknown, |object| object.is_final);
            let why = match why {
                _ if id.index() >= PUT_INDEX_BASE => {
                    "it was made by `put` (or is an argument that was put for a call), not by a task that \
                     could be run once more"
                }
                Final::NoRetries => {
                    "its task was made with max_retries=0, or it was made by a method of an actor with \
                     max_task_retries=0"
                }
                Final::UsedUp => "its task has used up its retries (max_retries)",
                Final::Evicted => {
                    "its task was forgotten, because what is remembered of finished tasks (the lineage) has \
                     reached its limit (RAY_max_lineage_bytes)"
                }
                Final::Cancelled => "its task was cancelled",
                Final::Unknown => "nothing is known of the task that made it",
            };
            return Err(format!("{lost}: {why}"));
        };
        if lineage.retries_left == 0 {
            return Err(format!("{lost}: its task has used up its retries (max_retries)"));
        }
        let Some(mut lineage) = self.lineages.remove(id.task(), &mut self.ctx) else {
            return Err(lost.to_owned());
        };
        let counts = lineage.retries_left > 0 && !mutant!("making-again-not-counted");
        lineage.retries_left -= i32::from(counts);
        Ok(lineage)
    }
}

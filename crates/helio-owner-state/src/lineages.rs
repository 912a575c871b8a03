//! The records of finished calls, to make their returns again when the last copy is lost.
//!
//! A remembered call does not keep the bytes of arguments that can be made again themselves, or a chain
//! of calls would keep every value between its ends. Such an argument gives its bytes back when nobody
//! holds it, and stays as an object without a copy; when it is needed, it is made again first. What no
//! call made (`put`), and what others own, is kept: nothing could replace it.
//!
//! **LIMIT-1** The calls that are remembered take [`LINEAGE_BYTES_MAX`], or as many bytes as
//! [`crate::Owner::limit_lineage`] says; then the oldest are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use helio_config::process::LINEAGE_BYTES_MAX;
use helio_types::{IdMap, ObjectId, TaskId, mutant};

use crate::context::Context;
use crate::past::Past;
use crate::room::shrink;
use crate::spec::TaskSpec;

/// The size of a record beside the bytes of its arguments.
const CALL_BYTES: usize = 1024;

/// The record of a finished call whose returns lie in object stores.
#[derive(Debug)]
pub(crate) struct Lineage {
    spec: Arc<TaskSpec>,
    retries_left: i32,
    /// Number of the call's returns and items that lie in object stores and are held by somebody.
    live: u32,
    /// For a generator: one more than the index of the last item that lay in a store.
    items: u32,
    /// Whether a generator's reader has left it, as in [`Past`].
    is_left: bool,
    /// Arguments that others own: each is kept by a use.
    kept: Vec<ObjectId>,
    /// Counts calls in the order in which they ended.
    ended: u64,
}

impl Lineage {
    /// The record of a call that has ended. `live` of its returns and items lie in object stores and are held.
    pub(crate) fn new(
        spec: Arc<TaskSpec>,
        retries_left: i32,
        live: u32,
        past: &Past,
        kept: Vec<ObjectId>,
    ) -> Self {
        let (items, is_left) = (past.earlier.items, past.earlier.is_left);
        Self { spec, retries_left, live, items, is_left, kept, ended: 0 }
    }

    pub(crate) fn spec(&self) -> &Arc<TaskSpec> {
        &self.spec
    }

    pub(crate) fn retries_left(&self) -> i32 {
        self.retries_left
    }

    pub(crate) fn items(&self) -> u32 {
        self.items
    }

    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Returns the call's position in the order in which calls ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Arguments that others own, each kept by a use.
    pub(crate) fn kept(&self) -> &[ObjectId] {
        &self.kept
    }

    /// Returns the objects among the arguments of the call. The handle of a method's actor is not among
    /// them: an actor that nobody can call any more ends, although the results of its methods may be read
    /// still.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.spec.args.held()
    }

    /// Returns the objects of the call that may lie in object stores.
    pub(crate) fn made(&self) -> impl Iterator<Item = ObjectId> + use<> {
        self.spec.made(self.items)
    }

    fn size(&self) -> usize {
        CALL_BYTES + self.spec.args.body.len()
    }
}

/// The remembered calls.
#[derive(Debug)]
pub(crate) struct Lineages {
    all: IdMap<TaskId, Lineage>,
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
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Sets the number of bytes that the remembered calls may take from now on.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.size_max = bytes;
    }

    /// The place of a call that ends now, among those that have ended.
    pub(crate) fn next_ended(&mut self) -> u64 {
        self.ended_count += 1;
        self.ended_count
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Lineage> {
        self.all.get(&id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Lineage> {
        self.all.values()
    }

    /// Whether the object is a return of a call that is remembered and may run again.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.all.get(&id.task()).is_some_and(|lineage| {
            // Objects that the call has made beyond its returns (dynamic ones) come with them.
            let known = lineage.spec.return_count() + lineage.items;
            lineage.retries_left != 0 && id.index() <= known
        })
    }

    pub(crate) fn insert(&mut self, mut lineage: Lineage) {
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
        // Calls leave the table in any order, and the list only at its front: it is swept when most of it is gone.
        if self.order.len() > 2 * self.all.len() + 1024 {
            self.order.retain(|id| self.all.contains_key(id));
        }
        Some(lineage)
    }

    /// The oldest call, if the calls take more room than they may: it is remembered no more.
    pub(crate) fn evict(&mut self, ctx: &mut Context) -> Option<Lineage> {
        while self.size > self.size_max
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(lineage) = self.remove(oldest, ctx) {
                return Some(lineage);
            }
        }
        None
    }

    /// A return or item that lay in object stores is gone. When it was the last one, its call need not be
    /// remembered, and is returned.
    pub(crate) fn on_unused(&mut self, id: ObjectId, ctx: &mut Context) -> Option<Lineage> {
        let lineage = self.all.get_mut(&id.task())?;
        lineage.live = lineage.live.saturating_sub(1);
        if lineage.live == 0 { self.remove(id.task(), ctx) } else { None }
    }

    /// The call that made the object, one retry taken; or why it cannot be run again. `None`: it is not remembered.
    pub(crate) fn take_to_run(
        &mut self,
        id: ObjectId,
        ctx: &mut Context,
    ) -> Option<Result<Lineage, &'static str>> {
        if self.all.get(&id.task())?.retries_left == 0 {
            return Some(Err("its task has used up its retries (max_retries)"));
        }
        let mut lineage = self.remove(id.task(), ctx)?;
        let counts = lineage.retries_left > 0 && !mutant!("making-again-not-counted");
        lineage.retries_left -= i32::from(counts);
        Some(Ok(lineage))
    }

    /// Queues a forgotten call so that its arguments are let go of. Returns whether the caller has to begin with
    /// that; otherwise it is under way and will reach this call.
    pub(crate) fn begin_forgetting(&mut self, lineage: Lineage) -> bool {
        // A list in the place of recursion: a chain of calls may be longer than the stack.
        self.forgotten.push(lineage);
        !std::mem::replace(&mut self.is_forgetting, true)
    }

    /// The next forgotten call whose arguments are to be let go of; `None`: all are done.
    pub(crate) fn next_forgotten(&mut self) -> Option<Lineage> {
        let next = self.forgotten.pop();
        self.is_forgetting = next.is_some();
        next
    }
}

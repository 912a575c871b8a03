//! Calls that are remembered, and objects that are made again because their last copy was lost.

use std::sync::Arc;

use helio_proto::error::ErrorKind;
use helio_types::id::PUT_INDEX_BASE;
use helio_types::{IdMap, ObjectId, TaskId, mutant};

use super::Owner;
use crate::calls::{Attempt, Task};
use crate::lineages::Lineage;
use crate::objects::{Final, Kept};
use crate::past::{Earlier, Past};
use crate::spec::TaskSpec;
use crate::value::error;

impl Owner {
    /// Remembers a call that has ended, of whose returns and items so many are `live`.
    pub(super) fn remember(&mut self, task: &Task, live: u32) {
        let spec = task.spec();
        let held = spec.args.held();
        let kept = held.filter(|id| self.objects.remember(*id) == Kept::Used).collect();
        let lineage = Lineage::new(spec.clone(), task.retries_left(), live, task.past(), kept);
        self.lineages.insert(lineage);
        while let Some(lineage) = self.lineages.evict(&mut self.ctx) {
            for id in lineage.made() {
                self.objects.mark_final(id, Final::Evicted);
            }
            self.forget(lineage);
        }
    }

    /// A return or item that lay in object stores is gone; when it was the last one, its call need not be
    /// remembered.
    pub(super) fn on_lineage_unused(&mut self, id: ObjectId) {
        if let Some(lineage) = self.lineages.on_unused(id, &mut self.ctx) {
            self.forget(lineage);
        }
    }

    /// Lets go of a call's arguments, and of the calls that made them, however long their chain is.
    fn forget(&mut self, lineage: Lineage) {
        // The loop below is running further up in the stack, and takes this one as well.
        if !self.lineages.begin_forgetting(lineage) {
            return;
        }
        while let Some(lineage) = self.lineages.next_forgotten() {
            for id in lineage.kept() {
                self.unhold(*id);
            }
            for id in lineage.held() {
                self.objects.not_remembered(id);
                self.release_if_unheld(id);
            }
        }
    }

    /// Whether [`Owner::rebuild`] would do it, with all that has to be made again before, and harm nobody. A
    /// method of an actor would run once more behind the one that runs there, which may wait for the value.
    pub(super) fn can_rebuild(&self, id: ObjectId) -> bool {
        let mut wanted = vec![id];
        let mut seen: IdMap<TaskId, ()> = IdMap::default();
        while let Some(id) = wanted.pop() {
            if seen.insert(id.task(), ()).is_some() {
                continue;
            }
            if let Some(task) = self.calls.get(id.task()) {
                // An item that a generator has yielded comes once more only from another attempt.
                if task.attempt() == 0 || task.has_yielded(id.index()) {
                    return false;
                }
                continue;
            }
            let Some(lineage) = self.lineages.get(id.task()) else { return false };
            if lineage.retries_left() == 0 || lineage.spec().is_method() {
                return false;
            }
            wanted.extend(lineage.held().filter(|arg| self.objects.is_without_bytes(*arg)));
        }
        true
    }

    /// Makes an object of ours again after its last copy was lost, and before it the arguments that its
    /// call needs and nobody has any more.
    pub(super) fn rebuild(&mut self, id: ObjectId) {
        let mut wanted = vec![id];
        let mut again = Vec::new();
        while let Some(id) = wanted.pop() {
            // An argument of a call that is made again may still be there: then nothing has to be done for it.
            let is_here = self.objects.is_ready(id) && !self.objects.is_without_bytes(id);
            if is_here && !mutant!("argument-at-hand-given-up") {
                continue;
            }
            if self.calls.contains(id.task()) {
                // The call is under way again already, for another of its objects: this one comes with it.
                self.objects.await_attempt(id, self.ctx.now());
                self.end_alone(id);
                continue;
            }
            if !self.objects.is_without_bytes(id) {
                continue;
            }
            match self.take_lineage(id) {
                Ok(lineage) => {
                    // What kept the arguments for a remembered call is exchanged for the uses of a call under way.
                    // The new uses come first, so that no argument goes in between.
                    for arg in lineage.held() {
                        self.objects.hold(arg);
                        self.objects.not_remembered(arg);
                    }
                    for kept in lineage.kept() {
                        self.unhold(*kept);
                    }
                    for object in lineage.made() {
                        if self.objects.is_without_bytes(object) {
                            self.objects.made_again(object, self.ctx.now());
                        }
                    }
                    if !mutant!("lost-argument-not-made-again") {
                        wanted.extend(lineage.held());
                    }
                    again.push(lineage);
                }
                Err(text) => {
                    let kind = match ErrorKind::ReconstructionFailed {
                        _ if mutant!("loss-blamed-on-the-disk") => ErrorKind::OutOfDisk,
                        kind => kind,
                    };
                    let value = error(kind, &text, id);
                    self.set_value(id, value, &[]);
                }
            }
        }
        // The call that was found last is needed first.
        for lineage in again.into_iter().rev() {
            let failure = Some("its value was lost and is made again".into());
            let (items, ended, is_left) = (lineage.items(), lineage.ended(), lineage.is_left());
            let (created, is_remade) = (self.ctx.now(), true);
            let earlier =
                Earlier { failure, items, is_remade, ended, is_left, ..Earlier::default() };
            let past = Past { created, earlier: earlier.into() };
            let spec = self.with_handle(lineage.spec().clone());
            self.enter(Attempt { spec, number: 1, retries_left: lineage.retries_left(), past });
        }
    }

    /// An item is lost that a generator has yielded and does not yield again before its end, and the reader may
    /// take nothing else before it. So the generator is not to wait for its reader any more;
    /// and if it may not run again, the reader is told at once.
    fn end_alone(&mut self, id: ObjectId) {
        let Some(task) = self.calls.get(id.task()).filter(|task| task.has_yielded(id.index()))
        else {
            return;
        };
        if task.retries_left() == 0 {
            let text = match task.attempt() {
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
        if self.objects.contains(handle) {
            self.objects.hold(handle);
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
        let Some(taken) = self.lineages.take_to_run(id, &mut self.ctx) else {
            let why = self.objects.final_of(id);
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
        taken.map_err(|why| format!("{lost}: {why}"))
    }
}

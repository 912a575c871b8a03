//! Work that came in and was not handed out yet.
//!
//! Calls are handed out in the order they came. One whose arguments are still being brought to this
//! node holds back those behind it: an actor's calls must keep their order, and a task's successor
//! on the same lease was sent ahead only because its predecessor was expected to be short.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use helio_proto::peer::{Reference, Template};
use helio_types::{ObjectId, TaskId, WorkerAddress};

use crate::api::{Bytes, Construct, Lease, Payload, Work};

/// A value that a call needs.
#[derive(Debug)]
pub(crate) enum Input {
    Here(Payload),
    /// Being fetched into this node's store.
    Fetching(Reference),
}

/// What waits for its inputs.
#[derive(Debug)]
pub(crate) enum Item {
    Call {
        task: TaskId,
        caller: Arc<WorkerAddress>,
        template: Arc<Template>,
        returns: u32,
        attempt: u32,
        lease: Option<Arc<Lease>>,
    },
    Construct(Box<Construct>),
    /// Needs nothing.
    Other(Work),
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) item: Item,
    pub(crate) body: Option<Bytes>,
    /// When the body lies in the store, it is the first.
    pub(crate) inputs: Vec<Input>,
}

/// A call that was handed out.
#[derive(Debug)]
pub(crate) struct Begun {
    task: TaskId,
    pub(crate) at: u64,
    pub(crate) template: Arc<Template>,
    /// Where calls run side by side: it has found a place among them.
    pub(crate) is_running: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: VecDeque<Waiting>,
    /// Calls handed out and not finished.
    pub(crate) running: Vec<(TaskId, Arc<WorkerAddress>)>,
    /// When those of `running` began, and what they call.
    begun: Vec<Begun>,
    /// Cancelled before they were handed out.
    pub(crate) cancelled: HashSet<TaskId>,
    /// What goes before everything else: cancellations and the end.
    urgent: VecDeque<Work>,
}

impl Inbox {
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.queue.push_back(waiting);
    }

    pub(crate) fn push_urgent(&mut self, work: Work) {
        self.urgent.push_back(work);
    }

    /// Whether [`Inbox::pop`] would give something.
    pub(crate) fn has_work(&self) -> bool {
        !self.urgent.is_empty() || self.queue.front().is_some_and(Waiting::is_complete)
    }

    pub(crate) fn pop(&mut self) -> Option<Work> {
        if let Some(work) = self.urgent.pop_front() {
            return Some(work);
        }
        if !self.queue.front()?.is_complete() {
            return None;
        }
        let waiting = self.queue.pop_front()?;
        if let Item::Call { task, caller, .. } = &waiting.item {
            self.running.push((*task, caller.clone()));
        }
        Some(waiting.into_work())
    }

    /// Tasks (not methods) that were not handed out, the last `max` of them, to go back.
    pub(crate) fn unstarted(&mut self, max: usize) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut back = Vec::new();
        while back.len() < max {
            match self.queue.back() {
                Some(Waiting { item: Item::Call { task, caller, lease: Some(_), .. }, .. }) => {
                    back.push((*task, caller.clone()));
                    self.queue.pop_back();
                }
                _ => break,
            }
        }
        back.reverse();
        back
    }

    /// Takes out the tasks (not methods) that lack the object.
    pub(crate) fn take_lacking(&mut self, id: ObjectId) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut taken = Vec::new();
        self.queue.retain(|waiting| match &waiting.item {
            Item::Call { task, caller, lease: Some(_), .. } if waiting.lacks(id).is_some() => {
                taken.push((*task, caller.clone()));
                false
            }
            _ => true,
        });
        taken
    }

    /// The reference by which what waits here knows the object that it lacks.
    pub(crate) fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.queue.iter().find_map(|waiting| waiting.lacks(id))
    }

    /// An object is here (or lost: then `payload` is the error).
    pub(crate) fn arrived(&mut self, id: ObjectId, payload: &Payload) {
        for waiting in &mut self.queue {
            for input in &mut waiting.inputs {
                if matches!(input, Input::Fetching(wanted) if wanted.id == id) {
                    *input = Input::Here(payload.clone());
                }
            }
        }
    }

    /// It was handed out; `is_running`: and so it runs.
    pub(crate) fn has_begun(
        &mut self,
        task: TaskId,
        at: u64,
        template: &Arc<Template>,
        is_running: bool,
    ) {
        self.begun.push(Begun { task, at, template: template.clone(), is_running });
    }

    /// It runs now.
    pub(crate) fn runs(&mut self, task: TaskId, at: u64) {
        if let Some(begun) = self.begun.iter_mut().find(|begun| begun.task == task) {
            (begun.at, begun.is_running) = (at, true);
        }
    }

    /// The calls of the same group that run, and how many were handed out before this one and do not.
    pub(crate) fn beside(&self, task: TaskId) -> (Vec<&Begun>, usize) {
        let Some(own) = self.begun(task) else { return (Vec::new(), 0) };
        let group = &own.template.concurrency_group;
        let of_group = || self.begun.iter().filter(|one| one.template.concurrency_group == *group);
        let before = of_group().take_while(|one| one.task != task).filter(|one| !one.is_running);
        (of_group().filter(|one| one.is_running).collect(), before.count())
    }

    /// A call that runs.
    pub(crate) fn begun(&self, task: TaskId) -> Option<&Begun> {
        self.begun.iter().find(|begun| begun.task == task)
    }

    /// The call that has run for longest.
    pub(crate) fn begun_first(&self) -> Option<&Begun> {
        self.begun.iter().find(|begun| begun.is_running)
    }

    /// How many wait before that call, and the first argument that it lacks.
    pub(crate) fn place_of(&self, task: TaskId) -> Option<(usize, Option<ObjectId>)> {
        let is_it = |waiting: &Waiting| matches!(&waiting.item, Item::Call { task: other, .. } if *other == task);
        let place = self.queue.iter().position(is_it)?;
        let lacks = self.queue[place].inputs.iter().find_map(|input| match input {
            Input::Fetching(wanted) => Some(wanted.id),
            Input::Here(_) => None,
        });
        Some((place, lacks))
    }

    /// Takes a call out before it was handed out.
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<Arc<WorkerAddress>> {
        let place = self.queue.iter().position(
            |waiting| matches!(&waiting.item, Item::Call { task: queued, .. } if *queued == task),
        )?;
        match self.queue.remove(place)?.item {
            Item::Call { caller, .. } => Some(caller),
            Item::Construct(_) | Item::Other(_) => None,
        }
    }

    /// The call is over.
    pub(crate) fn finished(&mut self, task: TaskId) -> Option<Arc<WorkerAddress>> {
        let place = self.running.iter().position(|(running, _)| *running == task)?;
        if let Some(place) = self.begun.iter().position(|begun| begun.task == task) {
            self.begun.remove(place);
        }
        Some(self.running.swap_remove(place).1)
    }

    /// Drops what a lost caller sent. Its running calls go on; their replies go nowhere.
    pub(crate) fn caller_gone(&mut self, caller: &WorkerAddress) {
        self.queue.retain(|waiting| {
            !matches!(&waiting.item, Item::Call { caller: other, .. } if other.worker_id == caller.worker_id)
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

impl Waiting {
    fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.inputs.iter().find_map(|input| match input {
            Input::Fetching(wanted) if wanted.id == id => Some(wanted),
            _ => None,
        })
    }

    fn is_complete(&self) -> bool {
        self.inputs.iter().all(|input| matches!(input, Input::Here(_)))
    }

    fn into_work(self) -> Work {
        let mut inputs: VecDeque<Payload> = self
            .inputs
            .into_iter()
            .filter_map(|input| match input {
                Input::Here(payload) => Some(payload),
                Input::Fetching(_) => None,
            })
            .collect();
        let body = match self.body {
            Some(body) => body,
            None => inputs
                .pop_front()
                .map_or_else(|| Bytes::Memory(Arc::default()), |payload| payload.bytes),
        };
        let deps = inputs.into();
        match self.item {
            Item::Call { task, caller, template, returns, attempt, lease } => {
                Work::Call(Box::new(crate::api::Call {
                    task,
                    caller: caller.worker_id,
                    template,
                    body,
                    deps,
                    returns,
                    attempt,
                    lease,
                }))
            }
            Item::Construct(construct) => {
                Work::Construct(Box::new(Construct { body, deps, ..*construct }))
            }
            Item::Other(work) => work,
        }
    }
}

//! Work that came in and was not begun; a copy in small of `helio-worker`'s inbox.

use std::collections::VecDeque;
use std::sync::Arc;

use helio_proto::control::ActorSpec;
use helio_proto::peer::{Reference, Template};
use helio_types::{ObjectId, TaskId, WorkerAddress};

use super::Payload;

#[derive(Debug)]
pub(super) enum Input {
    Here(Payload),
    Fetching(Reference),
}

#[derive(Debug)]
pub(super) enum Item {
    Call {
        task: TaskId,
        caller: Arc<WorkerAddress>,
        template: Arc<Template>,
        returns: u32,
        is_retry: bool,
        is_task: bool,
    },
    Construct {
        spec: Box<ActorSpec>,
        incarnation: u32,
    },
    Exit,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) item: Item,
    /// `None`: the first input is the body.
    pub(super) body: Option<Arc<Vec<u8>>>,
    pub(super) inputs: Vec<Input>,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: VecDeque<Waiting>,
    pub(super) running: Vec<(TaskId, Arc<WorkerAddress>)>,
}

impl Inbox {
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.queue.push_back(waiting);
    }

    pub(super) fn has_work(&self) -> bool {
        self.queue.front().is_some_and(Waiting::is_complete)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.has_work().then(|| self.queue.pop_front())?
    }

    /// Tasks that were not begun, the last `max` of them.
    pub(super) fn unstarted(&mut self, max: usize) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut back = Vec::new();
        while back.len() < max {
            match self.queue.back() {
                Some(Waiting { item: Item::Call { task, caller, is_task: true, .. }, .. }) => {
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
    pub(super) fn take_lacking(&mut self, id: ObjectId) -> Vec<(TaskId, Arc<WorkerAddress>)> {
        let mut taken = Vec::new();
        self.queue.retain(|waiting| match &waiting.item {
            Item::Call { task, caller, is_task: true, .. } if waiting.lacks(id).is_some() => {
                taken.push((*task, caller.clone()));
                false
            }
            _ => true,
        });
        taken
    }

    /// The reference by which what waits here knows the object that it lacks.
    pub(super) fn lacks(&self, id: ObjectId) -> Option<&Reference> {
        self.queue.iter().find_map(|waiting| waiting.lacks(id))
    }

    pub(super) fn arrived(&mut self, id: ObjectId, payload: &Payload) {
        for input in self.queue.iter_mut().flat_map(|waiting| &mut waiting.inputs) {
            if matches!(input, Input::Fetching(wanted) if wanted.id == id) {
                *input = Input::Here(payload.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<Arc<WorkerAddress>> {
        let is_it = |waiting: &Waiting| matches!(&waiting.item, Item::Call { task: other, .. } if *other == task);
        let place = self.queue.iter().position(is_it)?;
        match self.queue.remove(place)?.item {
            Item::Call { caller, .. } => Some(caller),
            Item::Construct { .. } | Item::Exit => None,
        }
    }

    pub(super) fn finished(&mut self, task: TaskId) -> Option<Arc<WorkerAddress>> {
        let place = self.running.iter().position(|(running, _)| *running == task)?;
        Some(self.running.swap_remove(place).1)
    }

    pub(super) fn caller_gone(&mut self, caller: &WorkerAddress) {
        let of_caller = |waiting: &Waiting| matches!(&waiting.item, Item::Call { caller: other, .. } if other.worker_id == caller.worker_id);
        self.queue.retain(|waiting| !of_caller(waiting));
    }

    pub(super) fn len(&self) -> usize {
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

    /// The body and the values of the arguments that were references.
    pub(super) fn into_parts(self) -> (Item, Payload, Vec<Payload>) {
        let mut inputs: VecDeque<Payload> = VecDeque::new();
        for input in self.inputs {
            if let Input::Here(payload) = input {
                inputs.push_back(payload);
            }
        }
        let memory = |bytes| Payload::Memory { bytes, is_error: false };
        let body = match self.body {
            Some(body) => memory(body),
            None => inputs.pop_front().unwrap_or_else(|| memory(Arc::default())),
        };
        (self.item, body, inputs.into())
    }
}

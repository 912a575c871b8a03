//! Room for the arguments of tasks that are to run here.
//!
//! A task with arguments in the object store asks its node for room before they are fetched, and gives the
//! room back when it has ended or goes back to its caller. Arguments that are pinned here already are not
//! waited for. Calls of actors do not ask: they may need each other at the same time.

use helio_proto::node::{AdmitArguments, ReleaseArguments, StoredArgument};
use helio_proto::peer::{Dependency, Value};
use helio_types::{NodeAddress, ObjectId, TaskId};

use super::Process;
use crate::executor::{Input, here};
use crate::requests::Pending;
use crate::value::Memory;

impl<M: Memory> Process<M> {
    /// The values of a task's arguments; those in an object store are fetched once there is room for them.
    pub(crate) fn inputs_of_task(
        &mut self,
        task: TaskId,
        deps: Vec<Dependency>,
    ) -> Vec<Input<M::Pin>> {
        let mut arguments = Vec::new();
        let mut fetches = Vec::new();
        let mut inputs = Vec::with_capacity(deps.len());
        for dep in deps {
            let object_id = dep.reference.id;
            inputs.push(match dep.value {
                Value::Inline(bytes) => here(bytes, false),
                Value::Error(bytes) => here(bytes, true),
                Value::Stored { size, locations } => {
                    // Also what is pinned here counts: the daemon bounds the bytes of all arguments
                    // of running tasks.
                    arguments.push(StoredArgument { object_id, size });
                    match self.store.payload(object_id) {
                        Some(payload) => Input::Here(payload),
                        None => {
                            fetches.push((object_id, locations));
                            Input::Fetching(dep.reference)
                        }
                    }
                }
            });
        }
        if !arguments.is_empty() {
            let request_id = self.requests.begin(Pending::Arguments { fetches });
            if let Some(before) = self.executor.asks_for_room(task, request_id) {
                self.release_room(before);
            }
            self.links.tell_node(AdmitArguments { request_id, arguments });
        }
        inputs
    }

    pub(crate) fn on_arguments_admitted(&mut self, request: u64) {
        // Else the call has gone meanwhile, and the daemon knows.
        let Some(Pending::Arguments { fetches }) = self.requests.close(request) else { return };
        for (id, locations) in fetches {
            self.fetch_argument(id, locations);
        }
    }

    fn fetch_argument(&mut self, id: ObjectId, locations: Vec<NodeAddress>) {
        // Something else may have brought it here, or have given the call an error in its place.
        match self.store.payload(id) {
            Some(payload) => self.argument_arrived(id, &payload),
            None if self.executor.lacks(id).is_some() => self.fetch(id, locations),
            None => {}
        }
    }

    /// The call has ended, or does not run here after all.
    pub(crate) fn release_room_of(&mut self, task: TaskId) {
        if let Some(request) = self.executor.needs_no_room(task) {
            self.release_room(request);
        }
    }

    fn release_room(&mut self, request_id: u64) {
        self.requests.close(request_id);
        self.links.tell_node(ReleaseArguments { request_id });
    }
}

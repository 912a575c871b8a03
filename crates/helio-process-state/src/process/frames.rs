//! Frames of other processes: the one place where the peer protocol is taken apart.

use std::sync::Arc;

use helio_owner_state::Event as OwnerEvent;
use helio_proto::node::{JobConfig, LeaseGranted};
use helio_proto::peer::{Args, Dependency, Frame, Value};
use helio_types::{NodeId, ObjectId, WorkerAddress};

use super::Process;
use crate::event::Action;
use crate::executor::{CallOf, Input, Item, Lease, Waiting, here};
use crate::links::Peer;
use crate::questions::{Asker, HOPS_MAX, Subject};
use crate::value::{Bytes, Memory, Payload};

impl<M: Memory> Process<M> {
    /// A frame on any link. A frame that cannot be read ends its link.
    pub(crate) fn on_frame(&mut self, link: u64, bytes: &[u8]) {
        let result = match self.links.peer(link) {
            None => Ok(()),
            Some(Peer::Node) => self.decode_from_daemon(bytes).map(|m| self.on_own_node(m)),
            Some(Peer::RemoteNode(node)) => {
                let node = node.node_id;
                self.decode_from_daemon(bytes).map(|message| self.on_remote_node(node, message))
            }
            Some(Peer::Process(from)) => {
                let from = from.clone();
                self.on_peer(link, &from, bytes)
            }
        };
        if let Err(reason) = result {
            // What follows on the link cannot be read either: as if it had broken there.
            self.on_torn(link);
            self.actions.push(Action::Close { link, reason: Some(reason) });
        }
    }

    fn on_peer(
        &mut self,
        link: u64,
        from: &Arc<WorkerAddress>,
        bytes: &[u8],
    ) -> Result<(), String> {
        let outdated = self.links.has_spoken(link);
        self.close_all(outdated);
        match Frame::get(bytes).map_err(|error| error.to_string())? {
            Frame::Function { number, body } => self.links.define_function(link, number, body),
            Frame::Template { number, function, body } => {
                self.links.define_template(link, number, function, body)
            }
            Frame::BeginLease { lease, .. } if self.links.is_over(lease) => {
                // The daemon has lent this process to others: nobody would end what runs for this lessee.
                self.on_torn(link);
                self.actions.push(Action::Close { link, reason: None });
                Ok(())
            }
            Frame::BeginLease { lease, grant, job } => {
                let grant: LeaseGranted =
                    helio_proto::decode(grant).map_err(|_| "malformed lease".to_owned())?;
                let job: JobConfig =
                    helio_proto::decode(job).map_err(|_| "malformed job".to_owned())?;
                self.set_job(job.clone());
                self.links.begin_lease(link, lease, Lease { assigned: grant.assigned, job });
                Ok(())
            }
            call @ Frame::Call { .. } => self.on_call(link, from, &call),
            Frame::Steal { max } => {
                let unstarted = self.executor.take_unstarted(max as usize);
                self.hand_back(unstarted);
                Ok(())
            }
            Frame::Consumed { task, count } => {
                self.executor.was_consumed(task, count);
                self.signals.news = true;
                Ok(())
            }
            Frame::Why { number, object, is_executor, hops } => {
                let subject = match is_executor {
                    true => Subject::Running(object.task()),
                    false => Subject::Object(object),
                };
                // A peer's number is not believed: two processes may wait for each other.
                self.explain(subject, hops.min(HOPS_MAX), Asker::Peer(from.clone(), number));
                Ok(())
            }
            Frame::Because { number, text } => {
                self.explained(number, &text);
                Ok(())
            }
            frame => {
                if matches!(frame, Frame::Reply { .. }) {
                    self.links.was_answered(link);
                }
                if let Some(frame) = frame.into_owned() {
                    self.on_owner(OwnerEvent::Frame { from: from.worker_id, frame });
                }
                Ok(())
            }
        }
    }

    fn on_call(
        &mut self,
        link: u64,
        from: &Arc<WorkerAddress>,
        call: &Frame<'_>,
    ) -> Result<(), String> {
        let Frame::Call { task, template, lease, sequence, returns, flags, args } = call else {
            return Ok(());
        };
        if !self.links.is_current(from.worker_id, link) || self.links.is_over(*lease) {
            // Its caller is dead, or learns that this link is over and takes the call for one that may have run.
            return Ok(());
        }
        let template = self.links.template(link, *template)?;
        let lease = self.links.lease(link, *lease)?;
        if lease.is_some() && self.executor.refuses_tasks() {
            // This process waits for something itself, and the call could be what it waits for.
            self.send_frame(from, &Frame::Unstarted { tasks: vec![*task] });
            return Ok(());
        }
        let args = Args::get(args).map_err(|error| error.to_string())?;
        let body = (!args.stored_body).then(|| Bytes::of(args.body));
        let inputs = match lease {
            Some(_) => self.inputs_of_task(*task, args.deps),
            None => self.inputs(args.deps),
        };
        let item = Item::Call {
            task: *task,
            caller: from.clone(),
            template,
            returns: *returns,
            attempt: u32::from(flags.is_retry),
            remade: flags.is_remade.then_some(*sequence),
            lease,
        };
        let waiting = Waiting { item, body, inputs };
        match from.worker_id == self.owner.address().worker_id {
            true => self.executor.push_own(waiting),
            false => self.executor.push(waiting),
        }
        self.work_arrived();
        Ok(())
    }

    /// The values of a call's arguments; those in an object store are fetched.
    pub(crate) fn inputs(&mut self, deps: Vec<Dependency>) -> Vec<Input<M::Pin>> {
        let mut inputs = Vec::with_capacity(deps.len());
        for dep in deps {
            let id = dep.reference.id;
            inputs.push(match dep.value {
                Value::Inline(bytes) => here(bytes, false),
                Value::Error(bytes) => here(bytes, true),
                Value::Stored { locations, .. } => match self.store.payload(id) {
                    Some(payload) => Input::Here(payload),
                    None => {
                        let owner = Arc::new(dep.reference.owner.clone());
                        self.fetch_of(id, locations, Some(owner));
                        Input::Fetching(dep.reference)
                    }
                },
            });
        }
        inputs
    }

    /// Gives calls that were not begun back to their callers, one frame a caller.
    pub(crate) fn hand_back(&mut self, mut back: Vec<CallOf>) {
        for (task, _) in &back {
            self.release_room_of(*task);
        }
        while let Some((_, caller)) = back.first().cloned() {
            let (own, rest): (Vec<_>, Vec<_>) =
                back.into_iter().partition(|(_, other)| other.worker_id == caller.worker_id);
            let tasks = own.into_iter().map(|(task, _)| task).collect();
            self.send_frame(&caller, &Frame::Unstarted { tasks });
            back = rest;
        }
    }

    /// **OWN-1** The nodes `gone` do not have an argument that they were said to have. A task goes back to
    /// its caller, which waits until the argument is there again, as a `get` would: this worker may be
    /// the one that has to make it. A method call keeps its place and waits for the argument here.
    pub(crate) fn recover_argument(&mut self, id: ObjectId, gone: &[NodeId]) {
        let back = self.executor.take_lacking(id);
        for (place, (_, caller)) in back.iter().enumerate() {
            // One message for each caller, however many of its calls lack the object.
            if back[..place].iter().any(|(_, told)| told.worker_id == caller.worker_id) {
                continue;
            }
            for node in gone {
                self.send_frame(caller, &Frame::LocationLost { object: id, node: *node });
            }
        }
        self.hand_back(back);
        let Some(reference) = self.executor.lacks(id).cloned().map(Box::new) else { return };
        self.on_owner(OwnerEvent::Recover { reference, gone: gone.to_vec() });
        // One handle is enough, however many calls wait for it.
        if !self.store.recover(id) {
            self.on_owner(OwnerEvent::DropRef { id });
        }
        self.supply(id);
        self.run_owner();
    }

    /// Gives an argument that was made again to the calls that wait for it, if it is here by now.
    pub(crate) fn supply(&mut self, id: ObjectId) {
        if !self.store.is_recovering(id) {
            return;
        }
        if self.executor.lacks(id).is_some() {
            let Some(payload) = self.read(id) else { return };
            self.argument_arrived(id, &payload);
        }
        self.store.recovered(id);
        // This may run within a list of the owner's actions: what follows from it comes after them.
        self.queue_for_owner(OwnerEvent::DropRef { id });
    }

    /// An argument of waiting calls is here, or `payload` is the error in its place.
    pub(crate) fn argument_arrived(&mut self, id: ObjectId, payload: &Payload<M::Pin>) {
        self.executor.arrived(id, payload);
        self.work_arrived();
    }
}

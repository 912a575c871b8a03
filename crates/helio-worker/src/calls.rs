//! Frames from other processes.

use std::sync::Arc;

use helio_owner_state::Event;
use helio_proto::node::{JobConfig, LeaseGranted};
use helio_proto::peer::{Args, Dependency, Frame, Value};
use helio_types::{NodeId, ObjectId, TaskId, WorkerAddress};

use crate::api::{Bytes, Lease, Payload};
use crate::conn::Peer;
use crate::inbox::{Input, Item, Waiting};
use crate::state::State;
use crate::templates::{FUNCTIONS_MAX, Function, SENT_MAX};

impl State {
    /// Reads what a connection has; an error is why it must be closed.
    pub(crate) fn read_conn(&mut self, number: u64) -> Result<(), String> {
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        let open = conn.fill().map_err(|error| error.to_string())?;
        loop {
            let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
            let Some((start, end)) = conn.next().map_err(|error| error.to_string())? else { break };
            let input = conn.take_input();
            let result = self.handle(number, &input[start..end]);
            if let Some(conn) = self.conns.get_mut(&number) {
                conn.put_input(input);
            }
            result?;
        }
        if open { Ok(()) } else { Err("closed".into()) }
    }

    fn handle(&mut self, number: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(conn) = self.conns.get(&number) else { return Ok(()) };
        if !conn.greeted {
            return match conn.peer {
                Peer::Stranger => self.greeted_by(number, bytes),
                _ => self.welcomed(number, bytes),
            };
        }
        match conn.peer.clone() {
            Peer::Node | Peer::RemoteNode(_) => {
                let message =
                    helio_proto::decode(bytes).map_err(|_| "malformed message".to_owned())?;
                self.handle_node(number, message);
                Ok(())
            }
            Peer::Process(from) => self.handle_peer(number, &from, bytes),
            Peer::Stranger => Err("spoke before its greeting".into()),
        }
    }

    fn handle_peer(
        &mut self,
        number: u64,
        from: &Arc<WorkerAddress>,
        bytes: &[u8],
    ) -> Result<(), String> {
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.speaks = true;
        }
        let frame = Frame::get(bytes).map_err(|error| error.to_string())?;
        match frame {
            Frame::Function { number: function, body } => {
                self.function_came(number, function, body)
            }
            Frame::Template { number: template, function, body } => {
                self.template_came(number, template, function, body)
            }
            Frame::BeginLease { lease, grant, job } => {
                let grant: LeaseGranted =
                    helio_proto::decode(grant).map_err(|_| "malformed lease".to_owned())?;
                let job: JobConfig =
                    helio_proto::decode(job).map_err(|_| "malformed job".to_owned())?;
                self.set_job(job.clone());
                let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
                // A worker serves one lease at a time.
                conn.leases.clear();
                conn.leases.insert(lease, Arc::new(Lease { assigned: grant.assigned, job }));
                Ok(())
            }
            Frame::Call { .. } => self.call_came(number, from, &frame),
            Frame::Steal { max } => {
                self.hand_back(max as usize);
                Ok(())
            }
            Frame::Why { number, object, is_executor, hops } => {
                let subject = match is_executor {
                    true => crate::why::Subject::Running(object.task()),
                    false => crate::why::Subject::Object(object),
                };
                let asker = crate::why::Asker::Peer(from.clone(), number);
                self.explain(subject, hops.min(crate::why::HOPS), asker);
                Ok(())
            }
            Frame::Because { number, text } => {
                self.because(number, &text);
                Ok(())
            }
            Frame::Consumed { task, count } => {
                self.consumed.insert(task, count);
                self.news = true;
                Ok(())
            }
            frame => {
                if matches!(frame, Frame::Reply { .. })
                    && let Some(conn) = self.conns.get_mut(&number)
                {
                    conn.unanswered = conn.unanswered.saturating_sub(1);
                }
                if let Some(frame) = frame.into_owned() {
                    self.apply(Event::Frame { from: from.worker_id, frame });
                }
                Ok(())
            }
        }
    }

    fn function_came(&mut self, number: u64, function: u32, body: &[u8]) -> Result<(), String> {
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        let is_new = !conn.functions.contains_key(&function);
        if is_new && conn.functions.len() >= FUNCTIONS_MAX {
            return Err("too many functions".into());
        }
        conn.functions.insert(function, Function::copy_from_slice(body));
        Ok(())
    }

    fn template_came(
        &mut self,
        number: u64,
        template: u32,
        function: u32,
        body: &[u8],
    ) -> Result<(), String> {
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        let function = match function {
            0 => None,
            _ => Some(
                conn.functions
                    .get(&function)
                    .cloned()
                    .ok_or("names a function that it did not send")?,
            ),
        };
        let known = self.templates.find_or_read(body, function)?;
        let is_new = !conn.templates.contains_key(&template);
        if is_new && conn.templates.len() >= SENT_MAX {
            return Err("too many templates".into());
        }
        conn.templates.insert(template, known);
        Ok(())
    }

    fn call_came(
        &mut self,
        number: u64,
        from: &Arc<WorkerAddress>,
        frame: &Frame<'_>,
    ) -> Result<(), String> {
        let Frame::Call { task, template, lease, returns, flags, args, .. } = frame else {
            return Ok(());
        };
        let Some(conn) = self.conns.get(&number) else { return Ok(()) };
        let template =
            conn.templates.get(template).cloned().ok_or("names a template that it did not send")?;
        let lease = match lease.0 {
            0 => None,
            _ => {
                Some(conn.leases.get(lease).cloned().ok_or("names a lease that it did not begin")?)
            }
        };
        if lease.is_some() && self.blocked > 0 {
            // This worker waits for something itself; the call could be what it waits for.
            self.send_frame(from, &Frame::Unstarted { tasks: vec![*task] });
            return Ok(());
        }
        let args = Args::get(args).map_err(|error| error.to_string())?;
        let body = (!args.stored_body).then(|| Bytes::Memory(Arc::new(args.body)));
        let inputs = self.inputs(args.deps);
        let attempt = flags & helio_proto::peer::flags::RETRY;
        let item = Item::Call {
            task: *task,
            caller: from.clone(),
            template,
            returns: *returns,
            attempt,
            lease,
        };
        self.inbox.push(Waiting { item, body, inputs });
        self.work_came();
        Ok(())
    }

    /// The values of a call's arguments, fetching those in an object store.
    pub(crate) fn inputs(&mut self, deps: Vec<Dependency>) -> Vec<Input> {
        deps.into_iter()
            .map(|dep| match dep.value {
                Value::Inline(bytes) => here(bytes, false),
                Value::Error(bytes) => here(bytes, true),
                Value::Stored { locations, .. } => match self.pins.get(&dep.reference.id) {
                    Some(pin) => {
                        Input::Here(Payload { bytes: Bytes::Pinned(pin.clone()), is_error: false })
                    }
                    None => {
                        self.fetch(dep.reference.id, locations);
                        Input::Fetching(dep.reference)
                    }
                },
            })
            .collect()
    }

    /// Gives calls that were not begun back to their callers.
    pub(crate) fn hand_back(&mut self, max: usize) {
        let back = self.inbox.unstarted(max);
        self.give_back(back);
    }

    fn give_back(&mut self, mut back: Vec<(TaskId, Arc<WorkerAddress>)>) {
        while let Some((_, caller)) = back.first().cloned() {
            let (own, rest): (Vec<_>, Vec<_>) =
                back.into_iter().partition(|(_, other)| other.worker_id == caller.worker_id);
            let tasks: Vec<TaskId> = own.into_iter().map(|(task, _)| task).collect();
            self.send_frame(&caller, &Frame::Unstarted { tasks });
            back = rest;
        }
    }

    /// **OWN-1** Nodes do not have an argument that they were said to have. A task goes back to its caller,
    /// which waits until the argument is there again, as a `get` would; this worker may be the one that
    /// is to make it. What must keep its place, an actor's calls, waits for it here.
    pub(crate) fn recover_input(&mut self, id: ObjectId, gone: &[NodeId]) {
        let back = self.inbox.take_lacking(id);
        for (place, (_, caller)) in back.iter().enumerate() {
            if back[..place].iter().any(|(_, told)| told.worker_id == caller.worker_id) {
                continue;
            }
            for node in gone {
                self.send_frame(caller, &Frame::LocationLost { object: id, node: *node });
            }
        }
        self.give_back(back);
        let Some(reference) = self.inbox.lacks(id).cloned() else { return };
        self.apply(Event::Recover { reference, gone: gone.to_vec() });
        if !self.recovering.insert(id) {
            self.apply(Event::DropRef { id });
        }
        self.supply(id);
        self.perform();
    }

    /// Gives an argument that was recovered to what waits for it, if it is here by now.
    pub(crate) fn supply(&mut self, id: ObjectId) {
        if !self.recovering.contains(&id) {
            return;
        }
        if self.inbox.lacks(id).is_some() {
            let Some(payload) = self.read(id) else { return };
            self.inbox.arrived(id, &payload);
            self.work_came();
        }
        self.recovering.remove(&id);
        // It may be one of a list of actions that is being done: what this leads to comes after them.
        let now = self.now();
        self.owner.apply(Event::DropRef { id }, now, &mut self.actions);
    }

    /// Ends what is kept only for calls: pins of arguments that nothing refers to any more.
    pub(crate) fn drop_unowned_pins(&mut self) {
        if self.pins.is_empty() {
            return;
        }
        let unowned: Vec<ObjectId> =
            self.pins.keys().filter(|id| self.owner.object(id).is_none()).copied().collect();
        for id in unowned {
            self.pins.remove(&id);
        }
    }
}

fn here(bytes: Vec<u8>, is_error: bool) -> Input {
    Input::Here(Payload { bytes: Bytes::Memory(Arc::new(bytes)), is_error })
}

//! Objects on their way: brought here for readers, and read out by other daemons.

use helio_proto::cluster::{CancelPull, NodeToNode, PullChunk, PullFailed, PullObject, PullStart};
use helio_proto::control::Failure;
use helio_proto::node::{ObjectMissing, ObjectRefused};
use helio_types::{NodeAddress, NodeId, ObjectId, mutant};

use super::Store;
use super::allocator::Extent;
use super::env::Env;
use super::pulls::Pull;
use super::room::Wants;
use crate::event::{Action, Conn};
use crate::limits::PULL_RETRY_MS;
use crate::timers::Timer;

impl Store {
    /// Asks for the objects whose turn has come.
    pub(super) fn start_pulls(&mut self, env: &mut Env<'_>) {
        while let Some(object_id) = self.pulls.next_turn() {
            self.ask_next(object_id, env);
        }
    }

    /// Asks the next location for the object, or tells its readers that there is none.
    fn ask_next(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        let own = env.ctx.node_id();
        let node = env.node;
        let is_useless = |node_id| node_id == own || node.is_dead(node_id);
        if let Some(from) = self.pulls.next_location(object_id, is_useless, |id| node.heir(id)) {
            return self.ask(object_id, from, None, 0, env);
        }
        let Some(missing) = self.pulls.take_readers(object_id) else { return };
        let reason = match missing.reason.is_empty() {
            true => "no node that had it is alive".to_owned(),
            false => missing.reason,
        };
        // The reader may be this node itself, for one that leaves: that one looks for another heir.
        self.inherited(object_id, &reason, env);
        for (conn, request_id) in missing.readers {
            let (gone, reason) = (missing.gone.clone(), reason.clone());
            env.ctx.send(conn, ObjectMissing { request_id, gone, reason });
        }
    }

    /// Asks for the object; with the room for it, where it is known how much that takes.
    fn ask(
        &mut self,
        object_id: ObjectId,
        from: NodeAddress,
        extent: Option<Extent>,
        size: u64,
        env: &mut Env<'_>,
    ) {
        let to = from.clone();
        if let Some(number) = self.pulls.begin(object_id, from, extent, size) {
            let message = NodeToNode::Pull(PullObject { request_id: number, object_id });
            env.ctx.ask_node(to, message);
        }
    }

    /// Ends the pull of an object, if there is one, and tells the node that was asked.
    pub(super) fn stop_pull(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        let Some(pull) = self.pulls.end(object_id) else { return };
        let message = NodeToNode::CancelPull(CancelPull { request_id: pull.number });
        env.ctx.ask_node(pull.from.clone(), message);
        self.give_back_room(&pull, env);
    }

    /// A pull is over before its object was whole: its room is free, once nothing is written there any more (SHM-1).
    fn give_back_room(&mut self, pull: &Pull, env: &mut Env<'_>) {
        if pull.is_bulk {
            env.ctx.push(Action::StopReceiving { request_id: pull.number });
        }
        if let Some(extent) = pull.extent {
            self.objects.give_back(extent);
        }
    }

    /// The node that was asked does not have the object, or is gone: asks the next one.
    fn fail_pull(&mut self, object_id: ObjectId, reason: String, env: &mut Env<'_>) {
        let Some(pull) = self.pulls.end(object_id) else { return };
        // The readers' owners are told which nodes did not have it, and count on those no more.
        self.pulls.set_gone(object_id, pull.from.node_id);
        self.pulls.set_reason(object_id, reason);
        self.give_back_room(&pull, env);
        self.ask_next(object_id, env);
        self.start_pulls(env);
    }

    /// The object is here now: serves everybody who waits for it.
    pub(super) fn serve_readers(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        self.stop_pull(object_id, env);
        // It may have come by itself, made here by another attempt, while it waited for its turn.
        self.pulls.dequeue(object_id);
        self.room.forget_pull(object_id);
        self.serve_waiting(object_id, env);
        let Some(fetch) = self.pulls.take_readers(object_id) else { return };
        for (conn, request_id) in fetch.readers {
            self.hand_out(conn, request_id, object_id, env);
        }
        self.start_pulls(env);
    }

    /// Tells the readers of an object that there is no place for it here.
    pub(super) fn refuse_readers(
        &mut self,
        object_id: ObjectId,
        failure: &Failure,
        env: &mut Env<'_>,
    ) {
        let Some(fetch) = self.pulls.take_readers(object_id) else { return };
        self.pulls.dequeue(object_id);
        self.inherited(object_id, &failure.message, env);
        for (conn, request_id) in fetch.readers {
            env.ctx.send(conn, ObjectRefused { request_id, failure: failure.clone() });
        }
        self.start_pulls(env);
    }

    /// The object is written, or will not be: answers the daemons that asked for it meanwhile.
    fn serve_waiting(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        for (conn, request_id) in self.serves.waiting_for(object_id) {
            self.serves.stop_waiting(conn, request_id);
            // As if they asked only now: they get the object, or hear that it is not here.
            self.on_pull(conn, &PullObject { request_id, object_id }, env);
        }
    }

    /// The writer of an object died or changed its mind: the object may still be elsewhere.
    pub(super) fn on_writing_given_up(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        if self.objects.is_being_written(object_id) {
            return;
        }
        self.serve_waiting(object_id, env);
        if self.pulls.requeue_local(object_id) {
            self.start_pulls(env);
        }
    }

    /// Pulls an object that another node has, now that there is room for it.
    pub(super) fn let_pull(
        &mut self,
        object_id: ObjectId,
        extent: Extent,
        size: u64,
        env: &mut Env<'_>,
    ) {
        match self.pulls.take_waits_for_room(object_id) {
            Some(from) => self.ask(object_id, from, Some(extent), size, env),
            None => self.objects.give_back(extent),
        }
    }

    /// Handles the begin of an object that another daemon sends.
    pub(crate) fn on_pull_start(&mut self, node_id: NodeId, start: PullStart, env: &mut Env<'_>) {
        let Some(object_id) = self.pulls.object_from(node_id, start.request_id) else { return };
        let Some(pull) = self.pulls.pull_mut(object_id) else { return };
        // Room was made for the size that was said first: another one would not fit there.
        if pull.has_begun || (pull.extent.is_some() && pull.size != start.size) {
            return self.fail_pull(object_id, "it changed its mind".to_owned(), env);
        }
        if pull.extent.is_none() {
            if !self.objects.fits(start.size) {
                return self.on_pull_too_large(object_id, start.size, env);
            }
            let Some(extent) = self.objects.allocate(start.size) else {
                // The bytes would come at once: they are asked for again when there is room.
                let from = pull.from.clone();
                self.stop_pull(object_id, env);
                self.pulls.set_waits_for_room(object_id, from);
                self.want_room(object_id, start.size, Wants::Pull, env);
                return self.start_pulls(env);
            };
            pull.extent = Some(extent);
        }
        pull.size = start.size;
        pull.has_begun = true;
        pull.is_bulk = start.is_bulk && start.size > 0;
        if let (true, Some(extent)) = (pull.is_bulk, pull.extent) {
            let (from, request_id) = (pull.from.clone(), pull.number);
            let (offset, size) = (extent.offset, start.size);
            assert!(size <= extent.length, "an object would be written over the one behind it");
            return env.ctx.push(Action::Receive { from, request_id, offset, size });
        }
        self.finish_pull(object_id, env);
    }

    /// The object that comes is larger than the whole memory.
    fn on_pull_too_large(&mut self, object_id: ObjectId, size: u64, env: &mut Env<'_>) {
        let Some(from) = self.pulls.pull_mut(object_id).map(|pull| pull.from.clone()) else {
            return;
        };
        self.stop_pull(object_id, env);
        if self.objects.has_disk_file() {
            self.pulls.set_waits_for_room(object_id, from);
            self.lay_on_disk(object_id, size, Wants::Pull, env.ctx.now(), env);
        } else {
            let reason = format!("its {size} bytes are more than the store of this node holds");
            self.pulls.set_reason(object_id, reason);
            self.ask_next(object_id, env);
        }
        self.start_pulls(env);
    }

    /// Handles the next bytes of an object that another daemon sends.
    pub(crate) fn on_pull_chunk(&mut self, node_id: NodeId, chunk: PullChunk, env: &mut Env<'_>) {
        let Some(object_id) = self.pulls.object_from(node_id, chunk.request_id) else { return };
        let Some(pull) = self.pulls.pull_mut(object_id) else { return };
        let length = chunk.bytes.len() as u64;
        let Some(extent) = pull.extent.filter(|_| {
            // SHM-1: what a peer says of offsets is not believed; behind the extent lies another object.
            let is_next = chunk.offset == pull.received && length <= pull.size - pull.received;
            pull.has_begun && !pull.is_bulk && is_next
        }) else {
            return self.fail_pull(object_id, "the bytes came out of order".to_owned(), env);
        };
        pull.received += length;
        assert!(
            pull.received <= extent.length,
            "an object would be written over the one behind it"
        );
        let offset = extent.offset + chunk.offset;
        env.ctx.push(Action::Write { offset, bytes: chunk.bytes });
        self.finish_pull(object_id, env);
    }

    /// Notes the number of bytes of an object that have come over a connection of its own.
    pub(crate) fn on_received_some(&mut self, request_id: u64, received: u64) {
        let object_id = self.pulls.object(request_id);
        if let Some(pull) = object_id.and_then(|object_id| self.pulls.pull_mut(object_id)) {
            // Only shown to those who ask: the end of the object is said by `on_received`.
            pull.received = received.min(pull.size);
        }
    }

    /// An object has come over a connection of its own, or that connection was lost.
    pub(crate) fn on_received(
        &mut self,
        request_id: u64,
        outcome: Result<(), String>,
        env: &mut Env<'_>,
    ) {
        let Some(object_id) = self.pulls.object(request_id) else { return };
        let Some(pull) = self.pulls.pull_mut(object_id).filter(|pull| pull.is_bulk) else { return };
        pull.is_bulk = false;
        match outcome {
            Ok(()) => {
                pull.received = pull.size;
                self.finish_pull(object_id, env);
            }
            Err(reason) => {
                self.retry_pull(object_id, reason, env);
                self.start_pulls(env);
            }
        }
    }

    /// Handles the answer of another daemon that does not have the requested object.
    pub(crate) fn on_pull_failed(
        &mut self,
        node_id: NodeId,
        failed: PullFailed,
        env: &mut Env<'_>,
    ) {
        if let Some(object_id) = self.pulls.object_from(node_id, failed.request_id) {
            self.fail_pull(object_id, failed.reason, env);
        }
    }

    /// Ends the pull of an object if all its bytes have come.
    fn finish_pull(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        let Some(pull) = self.pulls.pull_mut(object_id) else { return };
        let (Some(extent), true) = (pull.extent, pull.received == pull.size) else { return };
        let size = pull.size;
        self.pulls.end(object_id);
        let owner = self.pulls.owner(object_id);
        self.objects.add_secondary(object_id, extent, size, owner);
        self.serve_readers(object_id, env);
        // After its readers have their pins: without one it could be evicted before they see it.
        self.objects.settle(object_id);
        env.ctx.status_changed();
    }

    /// Handles the request of another daemon to read an object.
    pub(crate) fn on_pull(&mut self, conn: Conn, pull: &PullObject, env: &mut Env<'_>) {
        let PullObject { request_id, object_id } = *pull;
        let refusal = self.serves.refusal(conn, request_id);
        if refusal.is_none() && self.objects.must_await(object_id) {
            // The other node would look elsewhere for what will be here in a moment.
            self.serves.wait(conn, request_id, object_id);
            return self.restore(object_id, env);
        }
        let reason = match refusal {
            Some(reason) => reason,
            // Pinned until all is sent: its memory is read from while the connection takes it.
            None => match self.objects.pin(object_id) {
                Some((offset, size)) => {
                    if mutant!("object-moves-while-it-is-sent") {
                        self.objects.unpin(object_id, 1);
                    }
                    self.serves.begin(conn, request_id, object_id);
                    let is_bulk = size > 0 && size >= env.ctx.setup().bulk_min;
                    let start = PullStart { request_id, size, is_bulk };
                    env.ctx.answer_node(conn, NodeToNode::PullStart(start));
                    let serve = Action::Serve { conn, request_id, offset, size, is_bulk };
                    return env.ctx.push(serve);
                }
                None => "the object is not in its store",
            },
        };
        let reason = format!("node {}: {reason}", env.ctx.setup().address.host);
        env.ctx.answer_node(conn, NodeToNode::PullFailed(PullFailed { request_id, reason }));
    }

    /// Handles the news that another daemon does not want an object any more.
    pub(crate) fn on_cancel_pull(&mut self, conn: Conn, cancel: &CancelPull, env: &mut Env<'_>) {
        if self.serves.cancel(conn, cancel.request_id) {
            env.ctx.push(Action::StopServing { conn, request_id: cancel.request_id });
        }
    }

    /// An object was read out, or its reader is gone.
    pub(crate) fn on_served(&mut self, conn: Conn, request_id: u64, env: &mut Env<'_>) {
        if let Some(object_id) = self.serves.end(conn, request_id) {
            if !mutant!("object-moves-while-it-is-sent") {
                self.objects.unpin(object_id, 1);
            }
            self.give_new_room(env);
        }
    }

    /// The connection to a node is lost. That says nothing of its objects, of which it may have the only
    /// copies; so it is asked again after the others, until the news come that it is dead.
    pub(crate) fn on_peer_lost(&mut self, conn: Option<Conn>, node_id: NodeId, env: &mut Env<'_>) {
        if let Some(conn) = conn {
            for request_id in self.serves.on_reader_lost(conn) {
                env.ctx.push(Action::StopServing { conn, request_id });
            }
        }
        for object_id in self.pulls.pulled_from(node_id) {
            let reason = format!("node {node_id}: it cannot be reached");
            self.retry_pull(object_id, reason, env);
        }
        self.start_pulls(env);
    }

    /// A connection over which an object came is lost: its node is asked again in a while, after the others.
    fn retry_pull(&mut self, object_id: ObjectId, reason: String, env: &mut Env<'_>) {
        match self.pulls.retry(object_id) {
            Some(pull) if !mutant!("lost-transfer-not-repeated") => {
                self.give_back_room(&pull, env);
                env.ctx.set_timer(env.ctx.now() + PULL_RETRY_MS, Timer::Pull(object_id));
            }
            _ => self.fail_pull(object_id, reason, env),
        }
    }

    /// A node has died: the objects that come from it are pulled from other nodes.
    pub(crate) fn on_node_died(&mut self, node_id: NodeId, env: &mut Env<'_>) {
        let heir = env.node.heir(node_id);
        // What it was told to free lately it may have handed to its heir before it heard of that.
        for dropped in self.drops.take(node_id, env.ctx.now()) {
            let told = heir.as_ref().filter(|_| !mutant!("late-free-not-told-the-heir"));
            match told.filter(|_| !mutant!("heir-not-told-what-was-freed")) {
                Some(heir) if heir.node_id != env.ctx.node_id() => {
                    env.ctx.ask_node(heir.clone(), NodeToNode::Drop(dropped));
                }
                Some(_) if dropped.rest_of.is_nil() => self.on_drop(dropped.object_id, env),
                Some(_) => {
                    for object_id in self.end_items(dropped.object_id, dropped.rest_of) {
                        self.on_drop(object_id, env);
                    }
                }
                None => {}
            }
        }
        for object_id in self.pulls.pulled_from(node_id) {
            let heir = env.node.heir(node_id);
            if let Some(heir) = heir.filter(|heir| heir.node_id != env.ctx.node_id())
                && let Some(pull) = self.pulls.end(object_id)
            {
                self.give_back_room(&pull, env);
                // The bytes moved on while they were being read: the heir has all of them.
                self.pulls.add_next_location(object_id, heir);
                self.ask_next(object_id, env);
                continue;
            }
            self.fail_pull(object_id, format!("node {node_id}: it has died"), env);
        }
    }

    /// A while has passed since the connection over which an object came was lost.
    pub(crate) fn on_pull_timer(&mut self, object_id: ObjectId, env: &mut Env<'_>) {
        if self.pulls.enqueue_again(object_id) {
            self.start_pulls(env);
        }
    }
}

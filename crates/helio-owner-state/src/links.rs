//! Frames from peers, and peers that are lost.

use std::sync::Arc;

use helio_proto::peer::Frame;
use helio_types::{WorkerAddress, WorkerId};

use crate::Owner;
use crate::event::Action;

impl Owner {
    pub(crate) fn frame(&mut self, from: WorkerId, frame: Frame<'static>) {
        match frame {
            Frame::Reply { task, .. } => self.replied(from, task, frame),
            Frame::Unstarted { tasks } => self.unstarted(from, tasks),
            Frame::Item { task, index, returned } => self.item_came(task, index, returned),
            Frame::Resolve { object } => {
                if let Some(peer) = self.peer_address(from) {
                    self.resolve(object, peer);
                }
            }
            Frame::Resolved { object, returned } => self.resolved(from, object, returned),
            Frame::AddBorrow { number, object } => {
                self.borrower_added(from, object, number);
                if let Some(peer) = self.peer_address(from) {
                    self.ctx.send(peer, Frame::BorrowAdded { number });
                }
            }
            Frame::BorrowAdded { number } => self.borrows.confirmed(number, &mut self.ctx),
            Frame::RemoveBorrow { objects } => {
                for (object, number) in objects {
                    self.borrower_removed(from, object, number);
                }
            }
            Frame::BorrowsComplete { since } => {
                self.borrows_void(from, since);
                self.ask_again(from);
            }
            Frame::ReturnsHeld { task } => self.returns_held(task),
            Frame::LocationLost { object, node } => self.location_missed(object, node),
            Frame::LocationAdded { object, node } => self.copied(object, node),
            // Of a call that is ours: somebody who holds what it returns. An actor that calls itself may
            // hear it from itself, and then it is the one that runs the call.
            Frame::Cancel { task, force, recursive }
                if from != self.ctx.me().worker_id && self.tasks.contains_key(&task) =>
            {
                let is_method = self.tasks[&task].spec.is_method();
                self.cancel(task, force && !is_method, recursive);
            }
            Frame::Cancel { task, force, recursive } => {
                if recursive {
                    self.cancel_children(task, force);
                }
                self.ctx.push(Action::CancelRunning { task, force });
            }
            // The executor's.
            Frame::Function { .. }
            | Frame::Template { .. }
            | Frame::BeginLease { .. }
            | Frame::Call { .. }
            | Frame::Steal { .. }
            | Frame::Consumed { .. } => {}
            // The shell's: it asks on where this machine's knowledge ends.
            Frame::Why { .. } | Frame::Because { .. } => {}
        }
    }

    /// How a peer that spoke to us is reached; the shell finds the connection by the worker's id.
    pub(crate) fn peer_address(&self, peer: WorkerId) -> Option<Arc<WorkerAddress>> {
        Some(Arc::new(WorkerAddress { worker_id: peer, ..WorkerAddress::default() }))
    }

    /// The peer noticed later than we that a connection broke, and may have answered into the broken one
    /// what had reached it over the new one: ask again.
    fn ask_again(&mut self, from: WorkerId) {
        let Some(peer) = self.peer_address(from) else { return };
        for (number, object) in self.borrows.unconfirmed_by(from) {
            let is_held = |held: &crate::Object| held.owner.is_some() && held.announced == number;
            if self.objects.get(&object).is_some_and(is_held) {
                let frame = Frame::AddBorrow { number, object };
                self.ctx.send(peer.clone(), frame);
            } else {
                // The object has been let go of since: there is nothing to confirm.
                self.borrows.confirmed(number, &mut self.ctx);
            }
        }
        let waits = |object: &crate::Object| object.asked && !object.is_ready();
        let of_peer = |object: &crate::Object| {
            object.owner.as_ref().is_some_and(|owner| owner.worker_id == from)
        };
        let open = self.objects.iter().filter(|(_, object)| of_peer(object) && waits(object));
        let mut open: Vec<_> = open.map(|(id, _)| *id).collect();
        open.sort_unstable();
        for object in open {
            self.ctx.send(peer.clone(), Frame::Resolve { object });
        }
    }

    /// The connection broke. Whether the process is gone as well, its daemon knows.
    pub(crate) fn peer_lost(&mut self, peer: &Arc<WorkerAddress>) {
        if peer.node_id.is_nil() {
            // An answer to somebody whose connection broke before: that break was told with the whole
            // address, and who asked hears of it, too, and asks again.
            return;
        }
        self.borrows.broken(peer.worker_id);
        self.leases_broken(peer);
        self.actors_broken(peer);
        if self.suspects.insert(peer.worker_id, peer.clone()).is_none() {
            self.ctx.push(Action::AskLiveness(peer.clone()));
        }
    }

    pub(crate) fn liveness(&mut self, worker: WorkerId, dead: bool) {
        let Some(peer) = self.suspects.remove(&worker) else { return };
        if dead {
            self.borrows.gone(worker, &mut self.ctx);
            self.borrows_void(worker, u64::MAX);
            self.owner_gone(worker);
        } else {
            self.introduce_again(&peer);
        }
        // Replies to it may be lost with the connection; it has given those calls up.
        let mut held = self.borrows.adrift.remove(&worker).unwrap_or_default();
        held.sort_unstable();
        for id in held {
            self.unhold(id);
        }
    }

    /// The peer lives: what we told it over the broken connection may be lost, so say it again.
    fn introduce_again(&mut self, peer: &Arc<WorkerAddress>) {
        let mut borrowed: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                object.owner.as_ref().is_some_and(|owner| owner.worker_id == peer.worker_id)
            })
            .map(|(id, object)| (*id, object.asked && !object.is_ready()))
            .collect();
        borrowed.sort_unstable();
        let void_since = self.borrows.begin_anew(peer.worker_id);
        let since = self.borrows.next_number();
        for (id, asked) in borrowed {
            let number = self.borrows.announce(peer, id, &mut self.ctx);
            if let Some(object) = self.objects.get_mut(&id) {
                object.announced = number;
            }
            if asked {
                self.ctx.send(peer.clone(), Frame::Resolve { object: id });
            }
        }
        self.ctx.send(peer.clone(), Frame::BorrowsComplete { since });
        self.borrows.announced_anew(void_since, &mut self.ctx);
    }
}

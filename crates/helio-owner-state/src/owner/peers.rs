//! Frames from peers, and peers that are lost.

use std::sync::Arc;

use helio_proto::peer::Frame;
use helio_types::{WorkerAddress, WorkerId, mutant};

use super::Owner;
use crate::event::Action;

impl Owner {
    pub(super) fn on_frame(&mut self, from: WorkerId, frame: Frame<'static>) {
        match frame {
            Frame::Reply { task, .. } => self.replied(from, task, frame),
            Frame::Unstarted { tasks } => self.unstarted(from, tasks),
            Frame::Item { task, index, returned } => self.item_came(task, index, returned),
            Frame::Resolve { object } => {
                if let Some(peer) = self.peer_address(from) {
                    self.objects.resolve(object, peer, &mut self.ctx);
                }
            }
            Frame::Resolved { object, returned } => self.resolved(from, object, returned),
            Frame::AddBorrow { number, object } => {
                self.objects.add_borrower(from, object, number);
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
            Frame::LocationLost { object, node } => self.on_location_lost(object, node),
            Frame::LocationAdded { object, node } => {
                self.objects.on_copied(object, node, &mut self.ctx)
            }
            // Of a call that is ours: somebody who holds what it returns. An actor that calls itself may
            // hear it from itself, and then it is the one that runs the call.
            Frame::Cancel { task, force, recursive }
                if from != self.ctx.me().worker_id && self.calls.contains(task) =>
            {
                let is_method = self.calls.get(task).is_some_and(|call| call.spec().is_method());
                // By force a method's process would end, and with it the actor, which others use.
                self.cancel(task, force && !is_method, recursive);
            }
            Frame::Cancel { task, force, recursive } => {
                if recursive || mutant!("children-cancelled-though-not-asked") {
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

    /// Returns the address of a peer that has spoken to us; the shell finds its connection by the
    /// worker's id.
    pub(super) fn peer_address(&self, peer: WorkerId) -> Option<Arc<WorkerAddress>> {
        Some(Arc::new(WorkerAddress { worker_id: peer, ..WorkerAddress::default() }))
    }

    /// The peer noticed later than we that a connection broke, and may have answered into the broken one
    /// what had reached it over the new one: ask again.
    fn ask_again(&mut self, from: WorkerId) {
        let Some(peer) = self.peer_address(from) else { return };
        for (number, object) in self.borrows.unconfirmed_by(from) {
            if self.objects.is_borrowed_as(object, number) {
                let frame = Frame::AddBorrow { number, object };
                self.ctx.send(peer.clone(), frame);
            } else {
                // The object has been let go of since: there is nothing to confirm.
                self.borrows.confirmed(number, &mut self.ctx);
            }
        }
        for object in self.objects.asked_of(from) {
            self.ctx.send(peer.clone(), Frame::Resolve { object });
        }
    }

    /// No connection to a process could be made.
    pub(super) fn on_peer_unreached(&mut self, peer: WorkerId) {
        self.leases.on_unreached(peer);
        self.actors_unreached(peer);
    }

    /// The connection broke. Whether the process is gone as well, its daemon knows.
    pub(super) fn on_peer_lost(&mut self, peer: &Arc<WorkerAddress>) {
        if peer.node_id.is_nil() {
            // An answer to somebody whose connection broke before: that break was told with the whole
            // address, and who asked hears of it, too, and asks again.
            return;
        }
        self.borrows.broken(peer.worker_id);
        for request in self.leases.on_link_broken(peer.worker_id, self.ctx.now()) {
            self.drop_with_node(request);
        }
        self.actors.on_link_broken(peer.worker_id, &mut self.ctx);
        if self.suspects.insert(peer.worker_id, peer.clone()).is_none() {
            self.ctx.push(Action::AskLiveness(peer.clone()));
        }
    }

    pub(super) fn on_liveness(&mut self, worker: WorkerId, dead: bool) {
        let Some(peer) = self.suspects.remove(&worker) else { return };
        if dead {
            self.borrows.gone(worker, &mut self.ctx);
            self.borrows_void(worker, u64::MAX);
            self.on_owner_gone(worker);
        } else {
            self.introduce_again(&peer);
        }
        // Replies to it may be lost with the connection; it has given those calls up.
        for id in self.borrows.take_adrift(worker) {
            self.unhold(id);
        }
    }

    /// The peer lives: what we told it over the broken connection may be lost, so say it again.
    fn introduce_again(&mut self, peer: &Arc<WorkerAddress>) {
        let borrowed = self.objects.borrowed_of(peer.worker_id);
        let void_since = self.borrows.begin_anew(peer.worker_id);
        let since = self.borrows.next_number();
        for (id, asked) in borrowed {
            let number = self.borrows.announce(peer, id, &mut self.ctx);
            self.objects.announced_anew(id, number);
            if asked {
                self.ctx.send(peer.clone(), Frame::Resolve { object: id });
            }
        }
        // After all announcements: the peer takes every borrow before `since` for void that was not
        // announced again.
        self.ctx.send(peer.clone(), Frame::BorrowsComplete { since });
        self.borrows.announced_anew(void_since, &mut self.ctx);
    }
}

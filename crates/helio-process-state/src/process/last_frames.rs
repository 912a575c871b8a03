//! News of processes that have ended, held back until the frames that they sent before are here.
//!
//! The news take another way than the frames and may be quicker. Of a process of this machine everything
//! lies in the connection by then, so the shell drains it once. Of another machine's, part is still on its
//! way, or waits at the other end for room here: the connection is read until it closes, which its kernel
//! does when all was sent.

use helio_owner_state::Event as OwnerEvent;
use helio_proto::control::{ActorInfo, ActorPhase};
use helio_proto::node::LeaseLost;
use helio_types::{ActorId, DeathKind, NodeId, WorkerId, mutant};

use super::Process;
use crate::event::Action;
use crate::links::Peer;
use crate::value::Memory;

/// Microseconds that a connection may stay open after the news: a child that the process has forked holds
/// it, or the network is cut.
const LAST_FRAMES_US: u64 = 5_000_000;

/// News of a process that has ended.
#[derive(Debug)]
pub(crate) enum Death {
    /// A leased worker, by its daemon.
    Worker(NodeId, LeaseLost),
    /// An actor's, or what came of the actor since.
    Actor(ActorInfo),
    /// The death of a process for which this one could run tasks.
    Lessee(WorkerId),
    /// The death of the machine at the other end.
    Machine,
}

impl Death {
    /// Whether the whole node is gone: nobody closes the connections of its processes.
    fn is_of_node(&self) -> bool {
        let cause = match self {
            Self::Worker(_, lost) => &lost.cause,
            Self::Actor(info) => &info.cause,
            Self::Lessee(_) => return false,
            Self::Machine => return true,
        };
        cause.kind == DeathKind::NodeDied
    }

    fn is_of_actor(&self, actor: ActorId) -> bool {
        matches!(self, Self::Actor(info) if info.actor_id == actor)
    }
}

/// The news of ended processes that wait for the last frames of these processes.
#[derive(Debug)]
pub(crate) struct Deferred {
    link: u64,
    news: Death,
    /// The time at which the news are told although the link has not closed; `None`: the shell
    /// drains the link.
    until: Option<u64>,
}

impl<M: Memory> Process<M> {
    /// News of an actor come in their order: those of its next process wait behind those of its last.
    pub(crate) fn on_actor_news(&mut self, info: ActorInfo) {
        let waiting = self.deferred.iter().find(|other| other.news.is_of_actor(info.actor_id));
        if let Some(&Deferred { link, .. }) = waiting {
            let news = Death::Actor(info);
            // What is waited for cannot come any more.
            if news.is_of_node() {
                self.actions.push(Action::Drain { link });
            }
            self.deferred.push(Deferred { link, news, until: None });
            return;
        }
        let address = self.owner.actor(&info.actor_id).and_then(|actor| actor.address());
        match address.map(|address| address.worker_id) {
            Some(worker) if matches!(info.phase, ActorPhase::Dead | ActorPhase::Restarting) => {
                self.after_last_frames(worker, Death::Actor(info));
            }
            _ => self.on_owner(OwnerEvent::ActorUpdate { info: Box::new(info) }),
        }
    }

    pub(crate) fn after_last_frames(&mut self, worker: WorkerId, news: Death) {
        match self.links.from_process(worker).or_else(|| self.links.to_process(worker)) {
            Some(_) if mutant!("death-heard-before-the-last-words") => self.tell_death(news),
            Some(link) => {
                // On one machine all that was written has come; from another, frames may be later than the news.
                let more_comes = self.is_remote(link) && !news.is_of_node();
                let until = more_comes.then(|| self.now + LAST_FRAMES_US);
                let is_open = self.links.peer(link).is_some();
                assert!(is_open, "news of a death would wait for ever, behind a link that is over");
                self.deferred.push(Deferred { link, news, until });
                if until.is_none() {
                    self.actions.push(Action::Drain { link });
                }
            }
            None => self.tell_death(news),
        }
    }

    /// The link has closed, or all that has come on it was handed in.
    pub(crate) fn on_drained(&mut self, link: u64) {
        while let Some(place) = self.deferred.iter().position(|deferred| deferred.link == link) {
            let deferred = self.deferred.remove(place);
            match deferred.news {
                Death::Machine if self.links.peer(link).is_some() => self.end_link(link),
                Death::Machine => {}
                news => self.tell_death(news),
            }
        }
    }

    /// Returns the time at which the next connection has been open for too long.
    pub(crate) fn next_drain(&self) -> Option<u64> {
        self.deferred.iter().filter_map(|deferred| deferred.until).min()
    }

    /// Time has passed: what has come on a link that did not close is all that comes.
    pub(crate) fn drain_overdue(&mut self) {
        for deferred in &mut self.deferred {
            // It stays in the list until the shell has read what is there.
            if deferred.until.take_if(|until| *until <= self.now).is_some() {
                self.actions.push(Action::Drain { link: deferred.link });
            }
        }
    }

    fn is_remote(&self, link: u64) -> bool {
        let own = self.owner.address().node_id;
        matches!(self.links.peer(link), Some(Peer::Process(at)) if at.node_id != own)
    }

    /// A machine is gone. One that lost its power closes no connection, and nobody notices on one on which nothing is under
    /// way: what its processes own would be waited for without end, and what they have borrowed kept.
    pub(crate) fn end_links_into(&mut self, node: NodeId) {
        for link in self.links.of_node(node) {
            self.deferred.push(Deferred { link, news: Death::Machine, until: None });
            self.actions.push(Action::Drain { link });
        }
    }

    /// The last frames of a lessee have been read: its connections are of no use any more.
    fn end_links_of(&mut self, lessee: WorkerId) {
        if let Some(link) = self.links.to_process(lessee) {
            self.end_link(link);
        }
    }

    fn end_link(&mut self, link: u64) {
        // From another machine frames may have been lost; on one machine all have been read.
        if self.is_remote(link) {
            self.on_torn(link);
        } else {
            self.on_closed(link);
        }
        let is_gone = self.links.peer(link).is_none();
        assert!(is_gone, "what is sent to the dead would count as on its way");
        self.actions.push(Action::Close { link, reason: None });
    }

    fn tell_death(&mut self, news: Death) {
        self.on_owner(match news {
            Death::Lessee(lessee) => return self.end_links_of(lessee),
            Death::Machine => return,
            Death::Worker(node, LeaseLost { lease_id: lease, cause, .. }) => {
                OwnerEvent::LeaseLost { node, lease, cause: Box::new(cause) }
            }
            Death::Actor(info) => OwnerEvent::ActorUpdate { info: Box::new(info) },
        });
    }
}

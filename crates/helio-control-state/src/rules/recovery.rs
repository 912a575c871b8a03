//! A restart of the service: from durable entries to the state of before.

use std::collections::BTreeSet;

use helio_config::control::RECOVERY_MS_MAX;
use helio_types::{ActorId, DeathCause, DeathKind, NodeId, mutant};

use super::Control;
use crate::actors::State;
use crate::durable::{self, Entry};
use crate::event::{Action, Note};

impl Control {
    /// The state of before, from what was persisted, and what to do first. Actors may still run on
    /// their nodes: these have a while to register again before the actors are made anew, except those
    /// in `gone`, which are known to have ended (the head's own, whose place this process has taken).
    /// `now` is in microseconds.
    ///
    /// With no entries this is the first start of the session. An entry that cannot be read is left
    /// out and logged: a release that is older than the one that wrote it must still start.
    #[must_use]
    pub fn recover(
        session_name: &str,
        entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        gone: &[NodeId],
        now: u64,
    ) -> (Self, Vec<Action>) {
        Self::recover_under(0, session_name, entries, gone, now)
    }

    /// Recovers like [`Self::recover`] where heads take each other's place, for the head of that
    /// number.
    #[must_use]
    pub fn recover_under(
        epoch: u64,
        session_name: &str,
        entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        gone: &[NodeId],
        now: u64,
    ) -> (Self, Vec<Action>) {
        let mut control = Self::new(session_name);
        control.epoch = epoch;
        control.out.set_now(now / 1000);
        control.ticked_ms = now / 1000;
        let mut is_first = true;
        for (key, value) in entries {
            is_first = false;
            if control.restore(&key, value).is_none() {
                control.out.log(Note::EntrySkipped { key });
            }
        }
        // An empty store is that of a new cluster: there is nobody to wait for.
        if is_first {
            control.out.persist(durable::session(session_name));
        } else {
            control.recovering_until_ms = Some(control.now_ms() + RECOVERY_MS_MAX);
            control.resume_groups();
            control.resume_actors();
            for node_id in gone {
                let sentence = "the node it ran on is gone: its daemon died and was started again";
                // After all entries: its actors and groups have to be known to end with it.
                control.forget_place(*node_id);
                control.node_gone(*node_id, &DeathCause::new(DeathKind::NodeDied, sentence));
            }
            control.follow_up();
        }
        let actions = control.take_actions();
        (control, actions)
    }

    fn restore(&mut self, key: &[u8], value: Vec<u8>) -> Option<()> {
        match durable::read(key, value)? {
            Entry::Session(name) => self.session_name = name,
            // Where it runs is not durable: its node tells when it comes back.
            // When it was made stands in its other record, if it was sent to a node.
            Entry::Actor(spec) => {
                let now_ms = self.now_ms();
                self.actors.insert(spec, State::Recovering, now_ms);
            }
            Entry::Group(spec) => self.groups.insert(spec, self.out.now_ms()),
            Entry::Places(info) => return self.groups.restore_places(&info).then_some(()),
            Entry::Attempt(info) => return self.groups.restore_attempt(&info).then_some(()),
            Entry::Incarnation(info) => {
                return self.actors.update(info.actor_id, |actor| {
                    (actor.incarnation, actor.home) = (info.incarnation, info.node_id);
                    (actor.attempt, actor.moves) = (info.attempt, info.moves);
                    actor.made_ms = info.made_ms;
                    actor.is_reviving = info.is_reviving;
                    actor.is_moving = info.is_moving && !mutant!("restart-forgets-who-moves");
                });
            }
            Entry::Job(job) => self.jobs.restore(job),
            Entry::Node(address) => drop(self.former.insert(address.node_id, address)),
            Entry::KeyValue { namespace, key, value } => self.kv.insert(namespace, key, value),
        }
        Some(())
    }

    /// Groups with places keep these until their nodes tell otherwise. Where a single node was asked for
    /// the rest it may hold that, and is waited for.
    fn resume_groups(&mut self) {
        // Which actors live in a group is derived, and not kept.
        let members: Vec<ActorId> = self.actors.iter().map(|(actor_id, _)| actor_id).collect();
        for actor_id in members {
            self.join_group(actor_id);
        }
        let actors = &self.actors;
        self.groups.resume(|creator| actors.get(creator).is_some());
        self.enqueue_resumed_groups(|former| former.is_none());
    }

    /// Actors that were sent to no node wait for one as before.
    fn resume_actors(&mut self) {
        let unsent = self
            .actors
            .iter()
            .filter(|(_, actor)| actor.state == State::Recovering && actor.home.is_nil());
        let unsent: Vec<ActorId> = unsent.map(|(actor_id, _)| actor_id).collect();
        let since_ms = self.now_ms();
        for actor_id in unsent {
            self.actors.update(actor_id, |actor| actor.state = State::Waiting { since_ms });
            self.enqueue_actor(actor_id);
        }
    }

    /// Ends the recovery when its time is over.
    pub(crate) fn check_recovery(&mut self) {
        let now_ms = self.now_ms();
        if self.recovering_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.recovering_until_ms = None;
            self.give_up_absent(now_ms);
        }
    }

    /// Gives up the actors and nodes that have not come back in time.
    fn give_up_absent(&mut self, now_ms: u64) {
        let absent = self.actors.iter().filter(|(_, actor)| actor.state == State::Recovering);
        let absent: Vec<ActorId> = absent.map(|(actor_id, _)| actor_id).collect();
        self.enqueue_resumed_groups(|_| true);
        let absent = if mutant!("absent-actors-awaited-for-ever") { Vec::new() } else { absent };
        for actor_id in absent {
            let gone = "its node did not come back after the control service had started anew";
            self.process_ended(actor_id, DeathCause::new(DeathKind::NodeDied, gone));
        }
        let owners = self.actors.owner_nodes().filter(|node_id| !node_id.is_nil());
        let former = self.former.keys().copied();
        let mentioned = owners.chain(self.jobs.nodes()).chain(self.groups.nodes()).chain(former);
        let lost: BTreeSet<NodeId> =
            mentioned.filter(|node_id| !self.nodes.is_alive(*node_id)).collect();
        for node_id in lost {
            // The node may come later. Its work was given to others, so it cannot go on as it is.
            let cause = "it did not come back after the control service had started anew";
            self.nodes.record_earlier_death(node_id, cause, now_ms);
            self.forget_place(node_id);
            let cause = DeathCause::new(DeathKind::NodeDied, "its node did not come back");
            self.node_gone(node_id, &cause);
        }
        self.follow_ups.has_room = true;
    }
}

//! News for the subscribers of actors, and for drivers.

use helio_proto::control::{ActorInfo, ActorPhase, ControlResponse, Failure, FailureKind};
use helio_proto::node::Notice;
use helio_types::{ActorId, DeathCause, DeathKind, JobId};

use super::Control;
use crate::subscriptions::Subscriber;

impl Control {
    /// Tells the subscribers of an actor what it has become.
    pub(crate) fn publish_actor(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get(actor_id) else { return };
        // After its death there is nothing more to tell.
        let subscribers = match actor.is_dead() {
            true => self.subscriptions.take(actor_id),
            false => self.subscriptions.of(actor_id),
        };
        if subscribers.is_empty() {
            return;
        }
        let info = actor.info();
        for (node_id, worker_id) in subscribers {
            self.out.send_to_client(node_id, worker_id, info.clone());
        }
    }

    pub(crate) fn subscribe(
        &mut self,
        actor_id: ActorId,
        subscriber: Subscriber,
    ) -> ControlResponse {
        let full = |what: &str| {
            Failure::new(FailureKind::System, format!("too many {what} are followed")).into()
        };
        if let Some(actor) = self.actors.get(actor_id) {
            if self.subscriptions.is_full(actor_id) {
                return full("handles of the actor");
            }
            // The answer is the last news of a dead one.
            if !actor.is_dead() {
                self.subscriptions.add(actor_id, subscriber);
            }
            return actor.info().into();
        }
        // The handle may be faster than the creation, but not after the job's end.
        if !self.jobs.is_running(actor_id.job()) {
            return forgotten(actor_id).into();
        }
        let now_ms = self.now_ms();
        if !self.subscriptions.add_unknown(actor_id, subscriber, now_ms) {
            return full("actors that are not known");
        }
        ActorInfo {
            actor_id,
            phase: ActorPhase::Pending,
            why: "its creation has not reached the control service yet".to_owned(),
            job_id: actor_id.job(),
            ..ActorInfo::default()
        }
        .into()
    }

    /// Subscribers of actors that were never created are told that these are dead.
    pub(crate) fn expire_unknown(&mut self) {
        for actor_id in self.subscriptions.overdue(self.now_ms()) {
            for (node_id, worker_id) in self.subscriptions.take(actor_id) {
                self.out.send_to_client(node_id, worker_id, forgotten(actor_id));
            }
        }
    }

    /// Sends a sentence to the terminal of a job's driver.
    pub(crate) fn warn_driver(&mut self, job_id: JobId, text: String) {
        if let Some((node_id, driver)) = self.driver_of(job_id) {
            self.out.send_to_client(node_id, driver, Notice { is_warning: true, text });
        }
    }
}

/// The answer about an actor that is not in the table.
fn forgotten(actor_id: ActorId) -> ActorInfo {
    let sentence = "the control service does not know it: it ended long ago, or its creator ended before creating it";
    ActorInfo {
        actor_id,
        phase: ActorPhase::Dead,
        cause: DeathCause::new(DeathKind::Unknown, sentence),
        job_id: actor_id.job(),
        ..ActorInfo::default()
    }
}

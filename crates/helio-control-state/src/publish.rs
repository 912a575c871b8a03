//! What those who hold an actor's handle are told.

use std::collections::BTreeSet;

use helio_config::control::{SUBSCRIBERS_MAX, UNKNOWN_ACTORS_MAX};
use helio_proto::control::{ActorInfo, ActorPhase, ControlResponse, Failure, FailureKind};
use helio_proto::node::Notice;
use helio_types::{ActorId, DeathCause, DeathKind, JobId, NodeId, WorkerId};

use crate::Control;
use crate::actors::{Actor, State, Unknown};

impl Actor {
    pub(crate) fn info(&self) -> ActorInfo {
        let (address, pid) = match &self.state {
            State::Alive { address, pid } => (address.clone(), *pid),
            _ => Default::default(),
        };
        ActorInfo {
            actor_id: self.spec.actor_id,
            phase: self.phase() as u32,
            incarnation: self.incarnation,
            address,
            cause: self.cause.clone(),
            why: self.why.clone(),
            name: self.spec.name.clone(),
            namespace: self.spec.namespace.clone(),
            class_name: self.spec.class_name.clone(),
            job_id: self.spec.job_id,
            pid,
            restarts: self.incarnation,
            detached: self.spec.detached,
            max_task_retries: self.spec.max_task_retries,
            node_id: self.node_id().unwrap_or_default(),
            resources: self.spec.resources.clone(),
            is_unlisted: self.spec.is_unlisted,
        }
    }
}

impl Control {
    /// Tells the followers of an actor what it has become.
    pub(crate) fn publish(&mut self, actor_id: ActorId) {
        let Some(actor) = self.actors.get_mut(&actor_id) else { return };
        let info = actor.info();
        // After its death there is nothing more to tell.
        let is_over = actor.is_dead();
        let followers =
            if is_over { std::mem::take(&mut actor.followers) } else { actor.followers.clone() };
        for (node_id, worker_id) in followers {
            if is_over {
                self.no_longer_follows((node_id, worker_id), actor_id);
            }
            self.send_to_client(node_id, worker_id, info.clone());
        }
    }

    pub(crate) fn follow(
        &mut self,
        actor_id: ActorId,
        follower: (NodeId, WorkerId),
    ) -> ControlResponse {
        let full = |what: &str| {
            Failure::new(FailureKind::System, format!("too many {what} are followed")).into()
        };
        if let Some(actor) = self.actors.get_mut(&actor_id) {
            if actor.followers.len() >= SUBSCRIBERS_MAX {
                return full("handles of the actor");
            }
            if !actor.is_dead() {
                actor.followers.insert(follower);
                self.followed.entry(follower).or_default().insert(actor_id);
            }
            return actor.info().into();
        }
        // The handle may be faster than the creation, but not after the job's end.
        if !self.jobs.running.contains_key(&actor_id.job()) {
            return forgotten(actor_id).into();
        }
        if self.unknown.len() >= UNKNOWN_ACTORS_MAX {
            return full("actors that are not known");
        }
        let since_ms = self.now_ms;
        let unknown = self
            .unknown
            .entry(actor_id)
            .or_insert_with(|| Unknown { since_ms, followers: BTreeSet::new() });
        unknown.followers.insert(follower);
        self.followed.entry(follower).or_default().insert(actor_id);
        ActorInfo {
            actor_id,
            phase: ActorPhase::Pending as u32,
            why: "its creation has not reached the control service yet".to_owned(),
            job_id: actor_id.job(),
            ..ActorInfo::default()
        }
        .into()
    }

    pub(crate) fn unfollow(&mut self, actor_id: ActorId, follower: (NodeId, WorkerId)) {
        self.no_longer_follows(follower, actor_id);
        if let Some(actor) = self.actors.get_mut(&actor_id) {
            actor.followers.remove(&follower);
        }
        if let Some(unknown) = self.unknown.get_mut(&actor_id) {
            unknown.followers.remove(&follower);
            if unknown.followers.is_empty() {
                self.unknown.remove(&actor_id);
            }
        }
    }

    pub(crate) fn drop_follower(&mut self, node_id: NodeId, worker_id: WorkerId) {
        for actor_id in self.followed.get(&(node_id, worker_id)).cloned().unwrap_or_default() {
            self.unfollow(actor_id, (node_id, worker_id));
        }
    }

    pub(crate) fn drop_followers_on(&mut self, node_id: NodeId) {
        let (first, last) = (WorkerId([0; WorkerId::LEN]), WorkerId([u8::MAX; WorkerId::LEN]));
        let here = self.followed.range((node_id, first)..=(node_id, last));
        let here: Vec<WorkerId> = here.map(|((_, worker_id), _)| *worker_id).collect();
        for worker_id in here {
            self.drop_follower(node_id, worker_id);
        }
    }

    fn no_longer_follows(&mut self, follower: (NodeId, WorkerId), actor_id: ActorId) {
        if let Some(actors) = self.followed.get_mut(&follower) {
            actors.remove(&actor_id);
            if actors.is_empty() {
                self.followed.remove(&follower);
            }
        }
    }

    pub(crate) fn give_up_unknown(&mut self, actor_id: ActorId) {
        let Some(unknown) = self.unknown.remove(&actor_id) else { return };
        for (node_id, worker_id) in unknown.followers {
            self.no_longer_follows((node_id, worker_id), actor_id);
            self.send_to_client(node_id, worker_id, forgotten(actor_id));
        }
    }

    /// A sentence for the terminal of a job's driver.
    pub(crate) fn warn_driver(&mut self, job_id: JobId, text: String) {
        if let Some((node_id, driver)) = self.driver_of(job_id) {
            self.send_to_client(node_id, driver, Notice { is_warning: true, text });
        }
    }
}

/// What is said of an actor that is not in the table.
fn forgotten(actor_id: ActorId) -> ActorInfo {
    let sentence = "the control service does not know it: it ended long ago, or its creator ended before creating it";
    ActorInfo {
        actor_id,
        phase: ActorPhase::Dead as u32,
        cause: DeathCause::new(DeathKind::Unknown, sentence),
        job_id: actor_id.job(),
        ..ActorInfo::default()
    }
}

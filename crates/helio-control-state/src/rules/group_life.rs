//! The begin and end of placement groups.

use helio_proto::control::{ControlResponse, Empty, Failure, FailureKind};
use helio_proto::group::{GroupNews, GroupSpec};
use helio_types::{ActorId, JobId, PlacementGroupId, mutant};

use super::Control;
use crate::durable;
use crate::groups::{Group, gone};

impl Control {
    pub(crate) fn create_group(&mut self, spec: GroupSpec) -> ControlResponse {
        let group_id = spec.group_id;
        // A node that lost its connection asks again.
        if self.groups.is_known(group_id) {
            return Empty {}.into();
        }
        if let Some(failure) = self.groups.refusal(&spec) {
            return failure.into();
        }
        if !self.group_outlives(&spec) {
            return Failure::new(FailureKind::System, "its job is over".to_owned()).into();
        }
        let now_ms = self.out.now_ms();
        let spec = GroupSpec { made_ms: now_ms, ..spec };
        if !mutant!("group-not-persisted") {
            self.out.persist(durable::group(&spec));
        }
        self.groups.insert(spec, now_ms);
        self.enqueue_group(group_id);
        Empty {}.into()
    }

    /// Whether what made the group is still there.
    fn group_outlives(&self, spec: &GroupSpec) -> bool {
        let creator_lives = self.actors.is_living(spec.creator);
        let is_detached = spec.detached && !mutant!("detached-group-ends-with-its-job");
        is_detached || creator_lives || self.jobs.is_running(spec.job_id)
    }

    pub(crate) fn remove_group(&mut self, group_id: PlacementGroupId, reason: &str) {
        let Some(group) = self.groups.get(group_id) else { return };
        for actor_id in group.users().clone() {
            self.end_actor_of_group(actor_id, group_id, reason);
        }
        self.groups.dequeue(group_id);
        self.return_bundles(group_id);
        let (waiters, askers) = self.groups.remove(group_id);
        if !mutant!("removed-group-stays-durable") {
            self.persist_all(durable::no_group(group_id));
        }
        // Calls for the group wait on these nodes, and fail now.
        for node_id in askers {
            self.out.send(node_id, GroupNews { group_id, removed: true, why: String::new() });
        }
        for requester in waiters {
            self.out.reply(requester, gone(group_id));
        }
    }

    /// Removes the groups of a job that is over, except those that outlive it.
    pub(crate) fn end_groups_of_job(&mut self, job_id: JobId) {
        let is_over = |group: &&Group| !self.group_outlives(group.spec());
        let over = self.groups.of_job(job_id).filter(is_over).map(|group| group.spec().group_id);
        let over: Vec<PlacementGroupId> = over.collect();
        for group_id in over {
            self.remove_group(group_id, "its job is over: the driver has ended");
        }
    }

    /// The actor is over; the groups that it made go with it, unless their job still runs.
    pub(crate) fn end_groups_of_actor(&mut self, actor_id: ActorId) {
        if !self.jobs.is_running(actor_id.job()) {
            self.end_groups_of_job(actor_id.job());
        }
    }
}

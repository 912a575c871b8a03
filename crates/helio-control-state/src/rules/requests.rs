//! Requests of drivers and workers.

use helio_config::control::ACTORS_MAX;
use helio_proto::control::{
    ActorSpec, Changes, ControlRequest, ControlResponse, Empty, Failure, FailureKind,
    GetNamedActor, NamedActors, Nodes,
};
use helio_proto::node::ControlCall;
use helio_scheduler::{Placement, fails_when_infeasible};
use helio_types::{NodeId, WorkerId, mutant};

use super::Control;
use crate::event::{Change, Requester};

impl Control {
    pub(crate) fn on_request(&mut self, node_id: NodeId, worker_id: WorkerId, call: ControlCall) {
        let requester = Requester { node_id, worker_id, request_id: call.request_id };
        // Refused at once: what would change durable state cannot be answered before the disk has room.
        if let Some(refusal) = self.refuse_for_disk(&call.request) {
            return self.out.reply(requester, refusal);
        }
        let response = match call.request {
            ControlRequest::CreateActor(spec) => self.create_actor(spec),
            ControlRequest::StartJob(job) => self.start_job(requester, job),
            ControlRequest::StopCluster(stop) => {
                // Answered first: the end of the cluster ends the connection, too.
                self.out.reply(requester, Empty {});
                return self.on_stop(&stop.reason);
            }
            ControlRequest::DrainNode(drain) => self.drain_node(drain),
            ControlRequest::KillActor(kill) => {
                self.on_kill_actor(&kill);
                Empty {}.into()
            }
            ControlRequest::SubscribeActor(subscribe) => {
                self.subscribe(subscribe.actor_id, (node_id, worker_id))
            }
            ControlRequest::UnsubscribeActor(unsubscribe) => {
                self.subscriptions.remove(unsubscribe.actor_id, (node_id, worker_id));
                Empty {}.into()
            }
            ControlRequest::GetNamedActor(get) => self.get_named(&get),
            ControlRequest::ListNamedActors(list) => {
                NamedActors { actors: self.actors.named_rows(&list) }.into()
            }
            ControlRequest::KvPut(put) => self.kv.put(put).persisted(self),
            ControlRequest::KvGet(get) => self.kv.get(get),
            ControlRequest::KvDel(del) => self.kv.delete(del).persisted(self),
            ControlRequest::KvKeys(keys) => self.kv.keys(&keys),
            ControlRequest::KvEntries(entries) => self.kv.entries(&entries),
            ControlRequest::ListNodes(_) => Nodes {
                nodes: self.nodes.rows(),
                pending: self.pending_demands(),
                membership: self.nodes.membership(),
            }
            .into(),
            ControlRequest::AwaitNodes(wait) => return self.on_await_nodes(requester, wait.seen),
            ControlRequest::ListActors(_) => self.actors.rows().into(),
            ControlRequest::ListJobs(_) => self.jobs.rows().into(),
            ControlRequest::CountChanges(_) => Changes { count: self.n_changes }.into(),
            ControlRequest::CreateGroup(spec) => self.create_group(spec),
            ControlRequest::RemoveGroup(remove) => {
                self.remove_group(remove.group_id, "by `remove_placement_group`");
                Empty {}.into()
            }
            ControlRequest::AwaitGroup(wait) => {
                return self.on_await_group(requester, wait.group_id);
            }
            ControlRequest::GetGroup(get) => self.groups.row(&get),
            ControlRequest::ListGroups(_) => self.groups.rows().into(),
            ControlRequest::Unknown => {
                let sentence = "this release of the control service does not know the request: install the same \
                                release of heliostat on every machine";
                Failure::new(FailureKind::Invalid, sentence).into()
            }
        };
        self.out.reply(requester, response);
    }

    /// Returns the refusal of a request that has to be kept on a full disk. A thing that exists already is answered as
    /// ever: a node that lost its connection asks again.
    fn refuse_for_disk(&self, request: &ControlRequest) -> Option<Failure> {
        let refusal = self.disk.refusal(request)?;
        let is_there = match request {
            ControlRequest::CreateActor(spec) => {
                let named = self.actors.by_name(&spec.namespace, &spec.name);
                self.actors.get(spec.actor_id).is_some() || named.is_some()
            }
            ControlRequest::CreateGroup(spec) => self.groups.get(spec.group_id).is_some(),
            // A client sends this request without waiting for the answer to the group's creation.
            ControlRequest::AwaitGroup(wait) => self.groups.get(wait.group_id).is_some(),
            _ => false,
        };
        (!is_there).then_some(refusal)
    }

    fn create_actor(&mut self, spec: ActorSpec) -> ControlResponse {
        let actor_id = spec.actor_id;
        // A node that lost its connection asks again.
        if let Some(actor) = self.actors.get(actor_id) {
            return actor.info().into();
        }
        if let Some(refusal) = self.refuse_actor(&spec) {
            return refusal;
        }
        self.add_actor(spec);
        self.enqueue_actor(actor_id);
        self.actors.get(actor_id).map(|actor| actor.info().into()).unwrap_or(Empty {}.into())
    }

    fn refuse_actor(&mut self, spec: &ActorSpec) -> Option<ControlResponse> {
        let no = |kind, text: String| Some(Failure::new(kind, text).into());
        if spec.actor_id.is_nil() {
            return no(FailureKind::Invalid, "the actor has no id".to_owned());
        }
        let (name, namespace) = (&spec.name, &spec.namespace);
        let taken = self.actors.by_name(namespace, name);
        if let Some(taken) = taken.filter(|_| !mutant!("name-given-twice")) {
            if spec.get_if_exists {
                return Some(taken.named().into());
            }
            let text = format!(
                "The name {name} (namespace={namespace}) is already taken. Please use a different name or get the \
                 existing actor using ray.get_actor('{name}', namespace='{namespace}')"
            );
            return no(FailureKind::AlreadyExists, text);
        }
        if self.actors.is_full() {
            return no(
                FailureKind::System,
                format!("the cluster has {ACTORS_MAX} actors, the most it can"),
            );
        }
        // While the service recovers, the node to which the actor is bound may still come back.
        if fails_when_infeasible(&spec.strategy) && !self.is_recovering() {
            let need = &spec.placement_resources;
            let placement = self.nodes.place(None, need, &spec.strategy, 0);
            if let Placement::Infeasible(reason) = placement {
                let text = format!("The actor {} cannot be placed: {reason}", spec.class_name);
                return no(FailureKind::Unschedulable, text);
            }
        }
        None
    }

    fn get_named(&self, get: &GetNamedActor) -> ControlResponse {
        let found = self.actors.by_name(&get.namespace, &get.name);
        // An actor whose last handle is gone is as good as over.
        match found.filter(|actor| !actor.is_ending) {
            Some(actor) => actor.named().into(),
            None => {
                let text = format!(
                    "Failed to look up actor with name '{}'. This could because 1. You are trying to look up a \
                     named actor you didn't create. 2. The named actor died. 3. You did not use a namespace matching \
                     the namespace of the actor.",
                    get.name
                );
                Failure::new(FailureKind::NotFound, text).into()
            }
        }
    }
}

/// A response, and the change that becomes durable before it goes out.
trait Persisted {
    fn persisted(self, control: &mut Control) -> ControlResponse;
}

impl Persisted for (Option<Change>, ControlResponse) {
    fn persisted(self, control: &mut Control) -> ControlResponse {
        control.persist_all(self.0);
        self.1
    }
}

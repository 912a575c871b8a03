//! What drivers, workers and observers ask.

use helio_config::control::{ACTORS_MAX, LIST_ROWS_MAX};
use helio_proto::cluster::{ControlToNode, ShutDown};
use helio_proto::control::{
    ActorSpec, Actors, ControlRequest, ControlResponse, Empty, Failure, FailureKind, GetNamedActor,
    Jobs, ListNamedActors, NamedActor, NamedActors, Nodes, StrategyKind,
};
use helio_proto::node::ControlCall;
use helio_scheduler::{Placement, fails_when_infeasible, place};
use helio_types::{NodeId, WorkerId};

use crate::{Action, Control};

/// Whom an answer goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Asker {
    pub(crate) node_id: NodeId,
    pub(crate) worker_id: WorkerId,
    pub(crate) request_id: u64,
}

impl Control {
    pub(crate) fn on_request(&mut self, node_id: NodeId, worker_id: WorkerId, call: ControlCall) {
        let asker = Asker { node_id, worker_id, request_id: call.request_id };
        let response = match call.request {
            ControlRequest::CreateActor(spec) => return self.create_actor(asker, spec),
            ControlRequest::StartJob(job) => return self.start_job(asker, job),
            ControlRequest::StopCluster(stop) => return self.stop_cluster(asker, stop.reason),
            ControlRequest::KillActor(kill) => {
                self.kill_on_request(&kill);
                Empty {}.into()
            }
            ControlRequest::SubscribeActor(subscribe) => {
                self.follow(subscribe.actor_id, (node_id, worker_id))
            }
            ControlRequest::UnsubscribeActor(unsubscribe) => {
                self.unfollow(unsubscribe.actor_id, (node_id, worker_id));
                Empty {}.into()
            }
            ControlRequest::GetNamedActor(get) => self.get_named(get),
            ControlRequest::ListNamedActors(list) => self.list_named(&list),
            ControlRequest::KvPut(put) => self.kv_put(put),
            ControlRequest::KvGet(get) => self.kv_get(get),
            ControlRequest::KvDel(del) => self.kv_del(del),
            ControlRequest::KvKeys(keys) => self.kv_keys(keys),
            ControlRequest::ListNodes(_) => self.list_nodes(),
            ControlRequest::ListActors(_) => self.list_actors(),
            ControlRequest::ListJobs(_) => self.list_jobs(),
            ControlRequest::CreateGroup(spec) => self.create_group(spec),
            ControlRequest::RemoveGroup(remove) => {
                self.remove_group(remove.group_id, "by `remove_placement_group`");
                Empty {}.into()
            }
            ControlRequest::AwaitGroup(wait) => return self.await_group(asker, wait.group_id),
            ControlRequest::GetGroup(get) => self.get_group(&get),
            ControlRequest::ListGroups(_) => self.list_groups(),
            ControlRequest::Unknown => {
                let sentence = "this release of the control service does not know the request: install the same \
                                release of heliostat on every machine";
                Failure::new(FailureKind::Invalid, sentence).into()
            }
        };
        self.reply(asker, response);
    }

    fn create_actor(&mut self, asker: Asker, spec: ActorSpec) {
        let actor_id = spec.actor_id;
        // A node that lost its connection asks again.
        if let Some(actor) = self.actors.get(&actor_id) {
            let info = actor.info();
            return self.reply(asker, info);
        }
        if let Some(refusal) = self.refuse_actor(&spec) {
            return self.reply(asker, refusal);
        }
        self.add_actor(spec);
        let info = self.actors[&actor_id].info();
        self.reply(asker, info);
    }

    fn refuse_actor(&self, spec: &ActorSpec) -> Option<ControlResponse> {
        let no = |kind, text: String| Some(Failure::new(kind, text).into());
        if spec.actor_id.is_nil() {
            return no(FailureKind::Invalid, "the actor has no id".to_owned());
        }
        let (name, namespace) = (&spec.name, &spec.namespace);
        if let Some(taken) =
            self.names.get(&(namespace.clone(), name.clone())).filter(|_| !name.is_empty())
        {
            if spec.get_if_exists {
                return Some(self.named(&self.actors[taken].spec).into());
            }
            let text = format!(
                "The name {name} (namespace={namespace}) is already taken. Please use a different name or get the \
                 existing actor using ray.get_actor('{name}', namespace='{namespace}')"
            );
            return no(FailureKind::AlreadyExists, text);
        }
        if self.actors.len() - self.dead_actors.len() >= ACTORS_MAX {
            return no(
                FailureKind::System,
                format!("the cluster has {ACTORS_MAX} actors, the most it can"),
            );
        }
        if fails_when_infeasible(&spec.strategy) && self.recovering_until_ms.is_none() {
            let placement =
                place(&self.views, None, &spec.placement_resources, &spec.strategy, 0, &[]);
            if let Placement::Infeasible(reason) = placement {
                let text = format!("The actor {} cannot be placed: {reason}", spec.class_name);
                return no(FailureKind::Unschedulable, text);
            }
        }
        debug_assert!(
            StrategyKind::from_number(spec.strategy.kind) as u32 <= 3,
            "kinds are 0 to 3"
        );
        None
    }

    fn named(&self, spec: &ActorSpec) -> NamedActor {
        NamedActor {
            name: spec.name.clone(),
            namespace: spec.namespace.clone(),
            actor_id: spec.actor_id,
            handle: spec.handle.clone(),
        }
    }

    fn get_named(&self, get: GetNamedActor) -> ControlResponse {
        let GetNamedActor { name, namespace } = get;
        let found = self.names.get(&(namespace, name.clone())).and_then(|id| self.actors.get(id));
        // One whose last handle is gone is as good as over.
        match found.filter(|actor| !actor.ending) {
            Some(actor) => self.named(&actor.spec).into(),
            None => {
                let text = format!(
                    "Failed to look up actor with name '{name}'. This could because 1. You are trying to look up a \
                     named actor you didn't create. 2. The named actor died. 3. You did not use a namespace matching \
                     the namespace of the actor."
                );
                Failure::new(FailureKind::NotFound, text).into()
            }
        }
    }

    fn list_named(&self, list: &ListNamedActors) -> ControlResponse {
        let wanted = |namespace: &str| list.all_namespaces || namespace == list.namespace;
        let ids =
            self.names.iter().filter(|((namespace, _), _)| wanted(namespace)).map(|(_, id)| id);
        let live = ids.filter_map(|id| self.actors.get(id)).filter(|actor| !actor.ending);
        let rows = live.map(|actor| NamedActor { handle: Vec::new(), ..self.named(&actor.spec) });
        NamedActors { actors: rows.take(LIST_ROWS_MAX).collect() }.into()
    }

    fn list_nodes(&self) -> ControlResponse {
        let alive = self.nodes.values().filter(|node| node.info.alive);
        let dead = self.nodes.values().filter(|node| !node.info.alive);
        let rows = alive.chain(dead).map(|node| node.info.clone());
        Nodes { nodes: rows.take(LIST_ROWS_MAX).collect(), pending: self.pending_demands() }.into()
    }

    fn list_actors(&self) -> ControlResponse {
        let alive = self.actors.values().filter(|actor| !actor.is_dead());
        let dead = self.dead_actors.iter().rev().filter_map(|id| self.actors.get(id));
        Actors {
            actors: alive.chain(dead).take(LIST_ROWS_MAX).map(crate::actors::Actor::info).collect(),
        }
        .into()
    }

    fn list_jobs(&self) -> ControlResponse {
        let all = self.jobs.running.values().chain(self.jobs.finished.iter().rev());
        Jobs { jobs: all.take(LIST_ROWS_MAX).cloned().collect() }.into()
    }

    fn stop_cluster(&mut self, asker: Asker, reason: String) {
        self.reply(asker, Empty {});
        self.end(&reason);
    }

    /// Ends the cluster.
    pub(crate) fn end(&mut self, reason: &str) {
        let all: Vec<NodeId> = self.views.iter().map(|view| view.address.node_id).collect();
        for node_id in all {
            self.send(node_id, ControlToNode::ShutDown(ShutDown { reason: reason.to_owned() }));
        }
        self.out.push(Action::End { reason: reason.to_owned() });
    }
}

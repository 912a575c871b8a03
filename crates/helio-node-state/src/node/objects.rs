//! Events of the object store: who stands around it, and which events reach it.

use helio_types::{JobId, NodeAddress, NodeId, ObjectId, WorkerId};

use super::Node;
use crate::arguments::Arguments;
use crate::clients::{Client, Clients, Kind};
use crate::cluster::Cluster;
use crate::context::Violation;
use crate::event::Conn;
use crate::pool::{Pool, Use};
use crate::store::{Env, Store, Surroundings};

/// The answers to the store's questions, from the tables of the other sub-machines.
struct Neighbours<'a> {
    arguments: &'a Arguments,
    clients: &'a Clients,
    cluster: &'a Cluster,
    pool: &'a Pool,
}

impl Surroundings for Neighbours<'_> {
    fn is_dead(&self, node_id: NodeId) -> bool {
        self.cluster.is_dead(node_id)
    }

    fn heir(&self, node_id: NodeId) -> Option<NodeAddress> {
        self.cluster.heir(node_id)
    }

    fn is_gone(&self, node_id: NodeId) -> bool {
        self.cluster.is_gone(node_id)
    }

    fn runs_with_arguments(&self, conn: Conn) -> bool {
        let is_blocked = |client: &Client| self.pool.is_blocked(client.worker_id());
        self.arguments.has(conn) && !self.clients.get(conn).is_some_and(is_blocked)
    }

    fn task_begins_soon(&self) -> bool {
        self.pool.has_demands()
    }

    fn process(&self, conn: Conn) -> (u32, bool) {
        let client = self.clients.get(conn);
        client.map_or((0, false), |client| (client.pid(), client.kind() == Kind::Driver))
    }
}

impl Node {
    /// Hands an event to the object store.
    pub(super) fn with_store<R>(&mut self, act: impl FnOnce(&mut Store, &mut Env<'_>) -> R) -> R {
        let Self { arguments, clients, cluster, pool, store, ctx, .. } = self;
        let node = Neighbours { arguments, clients, cluster, pool };
        act(store, &mut Env { ctx, node: &node })
    }

    /// Hands a client's message to the object store, and closes its connection if it may not say that.
    pub(super) fn with_store_for(
        &mut self,
        conn: Conn,
        act: impl FnOnce(&mut Store, &mut Env<'_>) -> Result<(), Violation>,
    ) {
        let outcome = self.with_store(act);
        self.close_on_violation(conn, outcome);
    }

    pub(super) fn on_seal_object(&mut self, conn: Conn, object_id: ObjectId) {
        let Some(creator) = self.clients.get(conn).map(Client::worker_id) else { return };
        self.with_store_for(conn, |store, env| store.on_seal(conn, object_id, creator, env));
    }

    /// A client is gone: its objects come back.
    pub(super) fn reclaim_objects(&mut self, conn: Conn, client: &Client) {
        let is_job_over = self.jobs.is_finished(client.job_id());
        let worker_id = client.worker_id();
        self.with_store(|store, env| store.on_client_gone(conn, worker_id, is_job_over, env));
    }

    /// A job is over: its objects go, except those that its detached actors made. Theirs are taken back
    /// with the actors' connections.
    pub(super) fn drop_objects_of_job(&mut self, job_id: JobId) {
        let Self { actors, arguments, clients, cluster, pool, store, ctx, .. } = self;
        let is_detached_actor = |worker_id: WorkerId| {
            let usage = pool.usage(worker_id);
            let is_detached = matches!(usage, Some(Use::Actor(key)) if actors.is_detached(key));
            is_detached && clients.local(worker_id).is_some()
        };
        let node = Neighbours { arguments, clients, cluster, pool };
        store.on_job_finished(job_id, is_detached_actor, &mut Env { ctx, node: &node });
    }

    /// **WHY-1** What an object waits for that is to be read here; `nodes` are said to have it.
    pub(super) fn why_object(&self, object_id: ObjectId, nodes: &[NodeId]) -> String {
        let Self { arguments, clients, cluster, pool, store, .. } = self;
        store.why(object_id, nodes, &Neighbours { arguments, clients, cluster, pool })
    }
}

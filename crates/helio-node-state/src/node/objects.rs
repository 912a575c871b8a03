//! Events of the object store: who stands around it, and which events reach it.

use helio_proto::node::CreateObject;
use helio_types::{JobId, NodeAddress, NodeId, ObjectId, WorkerId, mutant};

use super::Node;
use crate::arguments::Arguments;
use crate::clients::{Client, Clients, Kind};
use crate::cluster::Cluster;
use crate::context::Violation;
use crate::event::Conn;
use crate::pool::Pool;
use crate::store::{Env, Owner, Store, Surroundings};

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
        let result = act(store, &mut Env { ctx, node: &node });
        self.look_at_owners();
        result
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

    /// Returns the owner of the object that a client is to write.
    pub(super) fn owner_to_be(&self, conn: Conn, create: &CreateObject) -> Owner {
        if create.owner.is_nil() {
            let own = |client: &Client| Owner {
                worker_id: client.worker_id(),
                node_id: client.node_id(),
            };
            return self.clients.get(conn).map(own).unwrap_or_default();
        }
        Owner { worker_id: create.owner, node_id: create.owner_node }
    }

    /// A client is gone: its objects come back, and what it owned is over with it, if it lived here.
    pub(super) fn reclaim_objects(&mut self, conn: Conn, client: &Client) {
        let owner = Owner { worker_id: client.worker_id(), node_id: client.node_id() };
        self.with_store(|store, env| store.on_client_gone(conn, env));
        match client.kind() {
            Kind::Remote if self.store.owners().contains(&owner) => self.on_owner_seen(owner),
            Kind::Remote => {}
            _ => self.on_owner_dead(owner.worker_id),
        }
    }

    /// Objects of these have come: whether they live.
    fn look_at_owners(&mut self) {
        for owner in self.store.take_seen() {
            self.on_owner_seen(owner);
        }
    }

    fn on_owner_seen(&mut self, owner: Owner) {
        let Owner { worker_id, node_id } = owner;
        if worker_id.is_nil() {
            return;
        }
        if node_id == self.ctx.node_id() {
            // The end of one that is in the pool is yet to be told.
            if self.clients.local(worker_id).is_none() && !self.pool.contains(worker_id) {
                self.on_owner_dead(worker_id);
            }
        } else if !self.owners.contains(worker_id)
            && self.clients.of_worker_id(worker_id).next().is_none()
        {
            self.owners.add(owner, &mut self.ctx);
            self.ask_after_owner(owner);
        }
    }

    fn ask_after_owner(&mut self, owner: Owner) {
        match self.cluster.address(owner.node_id) {
            Some((to, true)) => self.liveness.ask_after_owner(owner.worker_id, to, &mut self.ctx),
            Some(_) => self.on_owner_dead(owner.worker_id),
            // The owner's node has joined just now.
            None => {}
        }
    }

    pub(super) fn on_owner_dead(&mut self, worker_id: WorkerId) {
        if worker_id.is_nil() || mutant!("dead-owners-objects-stay") {
            return;
        }
        self.owners.remove(worker_id);
        self.with_store(|store, env| {
            store.on_owners_dead(|owner| owner.worker_id == worker_id, env)
        });
    }

    /// A node is dead, and with it the processes there.
    pub(super) fn on_owners_node_died(&mut self, node_id: NodeId) {
        self.owners.on_node_died(node_id);
        self.with_store(|store, env| store.on_owners_dead(|owner| owner.node_id == node_id, env));
    }

    pub(super) fn on_owners_timer(&mut self) {
        let here = self.store.owners();
        let clients = &self.clients;
        let has_connection = |worker_id| clients.of_worker_id(worker_id).next().is_some();
        let is_over = |owner: Owner| !here.contains(&owner) || has_connection(owner.worker_id);
        for owner in self.owners.on_timer(is_over, &mut self.ctx) {
            self.ask_after_owner(owner);
        }
    }

    /// A job is over: its objects go, except those of processes that go on: its detached actors, and whoever works
    /// for them. Theirs go with them.
    pub(super) fn drop_objects_of_job(&mut self, job_id: JobId) {
        let Self { arguments, clients, cluster, owners, pool, store, ctx, .. } = self;
        let goes_on = |owner: Owner| {
            let worker_id = owner.worker_id;
            clients.of_worker_id(worker_id).next().is_some() || owners.contains(worker_id)
        };
        let node = Neighbours { arguments, clients, cluster, pool };
        store.on_job_finished(job_id, goes_on, &mut Env { ctx, node: &node });
        // Its driver is gone, and maybe others.
        for owner in self.owners.all() {
            self.ask_after_owner(owner);
        }
    }

    /// **WHY-1** What an object waits for that is to be read here; `nodes` are said to have it.
    pub(super) fn why_object(&self, object_id: ObjectId, nodes: &[NodeId]) -> String {
        let Self { arguments, clients, cluster, pool, store, .. } = self;
        store.why(object_id, nodes, &Neighbours { arguments, clients, cluster, pool })
    }
}

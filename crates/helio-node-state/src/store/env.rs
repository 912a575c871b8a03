//! The surroundings of the object store: the context for effects, and the questions that the store asks
//! about the rest of the node.

use helio_types::{NodeAddress, NodeId};

use crate::context::Context;
use crate::event::Conn;

/// Questions of the object store about the rest of the node.
pub(crate) trait Surroundings {
    /// Whether the node is known to be dead.
    fn is_dead(&self, node_id: NodeId) -> bool;

    /// Returns the node that took over the objects of a node that has left.
    fn heir(&self, node_id: NodeId) -> Option<NodeAddress>;

    /// Whether the node is not in the cluster, or dead.
    fn is_gone(&self, node_id: NodeId) -> bool;

    /// Whether the client runs a task that has arguments from the store and does not wait for other work.
    fn runs_with_arguments(&self, conn: Conn) -> bool;

    /// Whether a task has its resources here and waits only for a worker to start.
    fn task_begins_soon(&self) -> bool;

    /// The client's process, and whether it is a driver.
    fn process(&self, conn: Conn) -> (u32, bool);
}

/// The surroundings in which the store handles an event.
pub(crate) struct Env<'a> {
    pub(crate) ctx: &'a mut Context,
    pub(crate) node: &'a dyn Surroundings,
}

//! The id classes that can do nothing more than `BaseID`.

use helio_types::{NodeId, WorkerId};

use super::base::id_class;

id_class! {
    /// A node, from its start to its end.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> node_id = ray.NodeID.from_hex(ray.get_runtime_context().get_node_id())
    ///     >>> node_id.hex() in {node["NodeID"] for node in ray.nodes()}
    ///     True
    NodeID, NodeId {}
}

id_class! {
    /// A process that runs tasks, or a driver.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> worker_id = ray.WorkerID.from_hex(ray.get_runtime_context().get_worker_id())
    ///     >>> worker_id == ray.WorkerID(worker_id.binary())
    ///     True
    WorkerID, WorkerId {}
}

id_class! {
    /// Anything that has no class of ids of its own.
    ///
    /// Examples:
    ///     >>> from ray import UniqueID
    ///     >>> UniqueID.from_hex("00" * UniqueID.size()).binary() == bytes(UniqueID.SIZE)
    ///     True
    UniqueID, WorkerId {}
}

id_class! {
    /// A remote function.
    ///
    /// Examples:
    ///     >>> from ray import FunctionID
    ///     >>> function_id = FunctionID.from_random()
    ///     >>> FunctionID(function_id.binary()) == function_id
    ///     True
    FunctionID, WorkerId {}
}

id_class! {
    /// An actor class.
    ///
    /// Examples:
    ///     >>> from ray import ActorClassID
    ///     >>> ActorClassID.nil().is_nil(), len(ActorClassID.from_random().binary()) == ActorClassID.size()
    ///     (True, True)
    ActorClassID, WorkerId {}
}

id_class! {
    /// A cluster, from the first start of its head.
    ///
    /// Examples:
    ///     >>> from ray import ClusterID
    ///     >>> cluster_id = ClusterID.from_random()
    ///     >>> ClusterID.from_hex(cluster_id.hex()) == cluster_id
    ///     True
    ClusterID, WorkerId {}
}

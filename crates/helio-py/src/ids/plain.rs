//! The id classes that can do nothing more than `BaseID`.

use helio_types::{NodeId, WorkerId};

use super::base::id_class;

id_class! {
    /// A node, from its start to its end.
    NodeID, NodeId {}
}

id_class! {
    /// A process that runs tasks, or a driver.
    WorkerID, WorkerId {}
}

id_class! {
    /// Anything that has no class of ids of its own.
    UniqueID, WorkerId {}
}

id_class! {
    /// A remote function.
    FunctionID, WorkerId {}
}

id_class! {
    /// An actor class.
    ActorClassID, WorkerId {}
}

id_class! {
    /// A cluster, from the first start of its head.
    ClusterID, WorkerId {}
}

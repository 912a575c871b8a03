//! The id classes that can do nothing more than `BaseID`.

use helio_types::{NodeId, WorkerId};

use super::base::id_class;

id_class! {
    /// A machine's daemon.
    NodeID, NodeId {}
}

id_class! {
    /// A driver or worker process.
    WorkerID, WorkerId {}
}

id_class! {
    /// An id of no particular kind, as Ray's base class of ids.
    UniqueID, WorkerId {}
}

id_class! {
    /// A pickled function.
    FunctionID, WorkerId {}
}

id_class! {
    /// A pickled actor class.
    ActorClassID, WorkerId {}
}

id_class! {
    /// A cluster.
    ClusterID, WorkerId {}
}

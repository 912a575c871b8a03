//! The place of an object's value, and the value in transit.

use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::peer::{Value, ValueRef};
use helio_types::{NodeAddress, ObjectId, TaskId, WorkerAddress};

use crate::spec::OutgoingValue;

/// The place of an object's value.
#[derive(Clone, Debug)]
pub enum Stored {
    /// The value is not known yet.
    Pending,
    /// In this process's own memory.
    Inline(Arc<Vec<u8>>),
    /// The object is an error: reading it raises.
    Error(Arc<Vec<u8>>),
    /// In the object stores of these nodes.
    Stores {
        /// The length of the value, in bytes.
        size: u64,
        /// The nodes that have the value.
        locations: Vec<NodeAddress>,
    },
}

impl From<OutgoingValue> for Stored {
    fn from(value: OutgoingValue) -> Self {
        match value {
            OutgoingValue::Inline(bytes) => Self::Inline(Arc::new(bytes)),
            OutgoingValue::Error(bytes) => Self::Error(Arc::new(bytes)),
            OutgoingValue::Stored { size, location } => {
                Self::Stores { size, locations: vec![location] }
            }
        }
    }
}

impl From<Value> for Stored {
    fn from(value: Value) -> Self {
        match value {
            Value::Inline(bytes) => Self::Inline(Arc::new(bytes)),
            Value::Error(bytes) => Self::Error(Arc::new(bytes)),
            Value::Stored { size, locations } => Self::Stores { size, locations },
        }
    }
}

impl Stored {
    /// The value on its way out of here, without a copy; `None` while pending.
    pub(crate) fn as_wire(&self) -> Option<ValueRef<'_>> {
        match self {
            Self::Pending => None,
            Self::Inline(bytes) => Some(ValueRef::Inline(bytes)),
            Self::Error(bytes) => Some(ValueRef::Error(bytes)),
            Self::Stores { size, locations } => Some(ValueRef::Stored { size: *size, locations }),
        }
    }

    /// The value in transit; `None` while pending.
    #[must_use]
    pub(crate) fn to_wire(&self) -> Option<Value> {
        match self {
            Self::Pending => None,
            Self::Inline(bytes) => Some(Value::Inline(bytes.to_vec())),
            Self::Error(bytes) => Some(Value::Error(bytes.to_vec())),
            Self::Stores { size, locations } => {
                Some(Value::Stored { size: *size, locations: locations.clone() })
            }
        }
    }
}

/// An error value for an object.
pub(crate) fn error(kind: ErrorKind, text: &str, object: ObjectId) -> Stored {
    let error = SystemError { object, ..SystemError::new(kind, text) };
    Stored::Error(Arc::new(error.to_payload()))
}

/// The error in place of the values of a call that was cancelled.
pub(crate) fn cancelled_error(task: TaskId, name: &str) -> Stored {
    let text = format!("the task was cancelled: {name}");
    let error = SystemError {
        task,
        name: name.to_owned(),
        ..SystemError::new(ErrorKind::TaskCancelled, text)
    };
    Stored::Error(Arc::new(error.to_payload()))
}

/// Returns the node on which a process lives.
pub(crate) fn node_of(process: &WorkerAddress) -> NodeAddress {
    let WorkerAddress { node_id, host, port, .. } = process.clone();
    NodeAddress { node_id, host, port }
}

/// Adds the nodes that are not there yet.
pub(crate) fn add_each(nodes: &mut Vec<NodeAddress>, more: Vec<NodeAddress>) {
    for node in more {
        if !nodes.iter().any(|known| known.node_id == node.node_id) {
            nodes.push(node);
        }
    }
}

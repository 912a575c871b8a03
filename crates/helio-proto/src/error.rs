//! Errors that the system itself puts in an object's place. Exceptions of user code are the
//! front's to encode; the first byte tells the two apart.

use helio_types::{ActorId, DeathCause, ObjectId, TaskId};

use crate::wire::messages;

/// The first byte of a serialized [`SystemError`].
pub const TAG: u8 = 0xe0;

/// What went wrong; chooses the exception class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// `RaySystemError`
    System = 0,
    /// `WorkerCrashedError`
    WorkerCrashed = 1,
    /// `ActorDiedError`
    ActorDied = 2,
    /// `ActorUnavailableError`
    ActorUnavailable = 3,
    /// `ObjectLostError`
    ObjectLost = 4,
    /// `OwnerDiedError`
    OwnerDied = 5,
    /// `ObjectReconstructionFailedError`
    ReconstructionFailed = 6,
    /// `TaskCancelledError`
    TaskCancelled = 7,
    /// `TaskUnschedulableError`
    TaskUnschedulable = 8,
    /// `ActorUnschedulableError`
    ActorUnschedulable = 9,
    /// `RuntimeEnvSetupError`
    RuntimeEnvSetup = 10,
    /// `NodeDiedError`
    NodeDied = 11,
    /// `OutOfMemoryError`
    OutOfMemory = 12,
    /// `ObjectStoreFullError`
    StoreFull = 13,
    /// `OutOfDiskError`
    OutOfDisk = 14,
    /// `ObjectFreedError`
    ObjectFreed = 15,
    /// `TaskPlacementGroupRemoved`
    TaskGroupRemoved = 16,
    /// `ActorPlacementGroupRemoved`
    ActorGroupRemoved = 17,
}

impl ErrorKind {
    /// All kinds; the position is the number on the wire.
    pub const ALL: [Self; 18] = [
        Self::System,
        Self::WorkerCrashed,
        Self::ActorDied,
        Self::ActorUnavailable,
        Self::ObjectLost,
        Self::OwnerDied,
        Self::ReconstructionFailed,
        Self::TaskCancelled,
        Self::TaskUnschedulable,
        Self::ActorUnschedulable,
        Self::RuntimeEnvSetup,
        Self::NodeDied,
        Self::OutOfMemory,
        Self::StoreFull,
        Self::OutOfDisk,
        Self::ObjectFreed,
        Self::TaskGroupRemoved,
        Self::ActorGroupRemoved,
    ];

    /// The kind of that number; an unknown one is `System`.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::System)
    }
}

messages! {
    /// An error of the system.
    pub struct SystemError {
        /// An [`ErrorKind`].
        1 kind: u32,
        /// For the user.
        2 message: String,
        3 cause: DeathCause,
        4 object: ObjectId,
        5 actor: ActorId,
        6 task: TaskId,
        /// The function, method or class.
        7 name: String,
    }
}

impl SystemError {
    /// An error with a sentence.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind: kind as u32, message: message.into(), ..Self::default() }
    }

    /// The bytes that stand in an object's place.
    #[must_use]
    pub fn to_payload(&self) -> Vec<u8> {
        let mut bytes = vec![TAG];
        bytes.extend_from_slice(&crate::encode(self));
        bytes
    }

    /// Reads such bytes; `None` when they are an exception of user code.
    #[must_use]
    pub fn from_payload(bytes: &[u8]) -> Option<Self> {
        let (&first, rest) = bytes.split_first()?;
        (first == TAG).then(|| {
            crate::decode(rest).unwrap_or_else(|_| Self::new(ErrorKind::System, "unreadable error"))
        })
    }
}

/// The first byte of an error that reached a call through one of its arguments.
pub const THROUGH: u8 = 0xe1;

/// The error of a call of `name`, one of whose arguments holds `error`.
#[must_use]
pub fn through(name: &str, error: &[u8]) -> Vec<u8> {
    let mut bytes = vec![THROUGH];
    crate::reader::put_bytes(&mut bytes, name.as_bytes());
    bytes.extend_from_slice(error);
    bytes
}

/// Takes apart what [`through`] made: the name and the argument's error.
#[must_use]
pub fn came_through(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let mut reader = crate::reader::Reader::new(bytes);
    if reader.u8().ok()? != THROUGH {
        return None;
    }
    let name = reader.str().ok()?;
    Some((name, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_reads_back_and_others_are_left_alone() {
        let error = SystemError::new(ErrorKind::ActorDied, "it died");
        assert_eq!(SystemError::from_payload(&error.to_payload()), Some(error));
        assert_eq!(SystemError::from_payload(b"\x01abc"), None);
        assert_eq!(SystemError::from_payload(b""), None);
        assert_eq!(came_through(&through("f", b"\x01abc")), Some(("f", &b"\x01abc"[..])));
        assert_eq!(came_through(b"\x01abc"), None);
    }
}

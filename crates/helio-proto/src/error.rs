//! Errors that the system itself puts in an object's place. Exceptions of user code are the
//! front's to encode; the first byte tells the two apart.

use helio_types::{ActorId, DeathCause, ObjectId, TaskId};

use crate::wire::{messages, numbers};

/// The first byte of a serialized [`SystemError`].
pub const TAG: u8 = 0xe0;

numbers! {
    /// The kind of a failure; chooses the exception class.
    pub enum ErrorKind {
        /// `RaySystemError`
        #[default]
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
}

messages! {
    /// An error of the system.
    pub struct SystemError {
        1 kind: ErrorKind,
        /// The sentence for the user.
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
        Self { kind, message: message.into(), ..Self::default() }
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
            // A reader that raised nothing would take the object for a value: an unreadable error is an error still.
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

/// The first byte of an exception of user code that has a line for people before it.
pub const TOLD: u8 = 0xe2;

/// Maximum length of that line, in bytes.
pub const TOLD_MAX: usize = 400;

/// The exception `error` with its line: the class and the message, as far as they fit.
#[must_use]
pub fn told(line: &str, error: &[u8]) -> Vec<u8> {
    let mut bytes = vec![TOLD];
    crate::reader::put_bytes(&mut bytes, cut(line, TOLD_MAX).as_bytes());
    bytes.extend_from_slice(error);
    bytes
}

/// Takes apart what [`told`] made: the line and the exception.
#[must_use]
pub fn was_told(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let mut reader = crate::reader::Reader::new(bytes);
    if reader.u8().ok()? != TOLD {
        return None;
    }
    let line = reader.str().ok()?;
    Some((line, reader.rest()))
}

/// Returns the line that a person is told of an error in an object's place, through however many processes the error
/// came; empty: no text is known.
#[must_use]
pub fn line(bytes: &[u8]) -> String {
    let mut inner = bytes;
    // An error that went through several calls has a name for each of them around it.
    while let Some((_, next)) = came_through(inner) {
        inner = next;
    }
    match SystemError::from_payload(inner) {
        Some(error) => error.message,
        None => was_told(inner).map_or_else(String::new, |(line, _)| line.to_owned()),
    }
}

/// The text, of which at most `max` bytes.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
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

    #[test]
    fn an_exception_carries_a_line_for_people_through_calls_that_it_fails() {
        let raised = told("ValueError: no", b"\x01abc");
        assert_eq!(was_told(&raised), Some(("ValueError: no", &b"\x01abc"[..])));
        assert_eq!(line(&through("g", &through("f", &raised))), "ValueError: no");
        assert_eq!(
            line(&SystemError::new(ErrorKind::ActorDied, "it died").to_payload()),
            "it died"
        );
        assert_eq!((line(b"\x01abc"), was_told(b"\x01abc")), (String::new(), None));
        assert_eq!(was_told(&told(&"é".repeat(300), b"")).map(|(line, _)| line.len()), Some(400));
    }
}

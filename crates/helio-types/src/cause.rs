//! Causes of the ends of processes, in the words that reach the caller.

use std::fmt;

use crate::TaskId;

/// The kind of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeathKind {
    /// The process is gone, and its exit status is not known.
    #[default]
    Unknown,
    /// The process left with an exit code.
    Exited,
    /// A signal killed it.
    Signaled,
    /// The process ended because it was told to (`ray.kill`, out of scope, job over).
    Intended,
    /// The node of the process went away.
    NodeDied,
    /// The memory monitor ended it.
    OutOfMemory,
    /// The actor's constructor raised.
    InitFailed,
    /// The user's code asked for it (`exit_actor`).
    UserExit,
    /// The worker could not be started.
    StartFailed,
    /// The placement group that it ran in was removed.
    GroupRemoved,
    /// The runtime environment that it was to run in could not be made.
    EnvFailed,
}

impl DeathKind {
    /// All kinds; the position is the number on the wire.
    pub const ALL: [Self; 11] = [
        Self::Unknown,
        Self::Exited,
        Self::Signaled,
        Self::Intended,
        Self::NodeDied,
        Self::OutOfMemory,
        Self::InitFailed,
        Self::UserExit,
        Self::StartFailed,
        Self::GroupRemoved,
        Self::EnvFailed,
    ];

    /// The kind that stands on the wire as this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The cause of the end of a process, or of the actor in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeathCause {
    /// The kind of death, which decides the exception that callers read.
    pub kind: DeathKind,
    /// The exit code or the signal's number, where one is known.
    pub code: i32,
    /// The process, 0 when unknown.
    pub pid: u32,
    /// A sentence for the user: what ended it.
    pub message: String,
    /// The last lines of its log.
    pub log_tail: String,
    /// For [`DeathKind::InitFailed`]: the serialized exception.
    pub error: Vec<u8>,
    /// For [`DeathKind::OutOfMemory`]: another attempt would end the same way, so there is none.
    pub is_final: bool,
    /// The call in which the user's code asked for the end; nil: none did.
    pub by: TaskId,
    /// The method in which an actor's code asked for the end; empty: none did.
    pub method: String,
}

impl DeathCause {
    /// A cause with a sentence and nothing else.
    #[must_use]
    pub fn new(kind: DeathKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), ..Self::default() }
    }

    /// Whether the call asked for the end, and for a good one: it has done what it was to do.
    #[must_use]
    pub fn is_good_end_of(&self, task: TaskId) -> bool {
        let is_exit = matches!(self.kind, DeathKind::Exited | DeathKind::UserExit);
        is_exit && self.code == 0 && !task.is_nil() && self.by == task
    }

    /// Returns the kind of the process's end, in the words of Ray's state API.
    ///
    /// ```
    /// use helio_types::{DeathCause, DeathKind};
    ///
    /// let killed = DeathCause::new(DeathKind::Intended, "ray.kill was called");
    /// assert_eq!(killed.exit_type(), "INTENDED_SYSTEM_EXIT");
    /// assert!(killed.is_intended());
    /// let crashed = DeathCause { code: 11, ..DeathCause::new(DeathKind::Signaled, "SIGSEGV") };
    /// assert_eq!(crashed.exit_type(), "SYSTEM_ERROR");
    /// ```
    #[must_use]
    pub fn exit_type(&self) -> &'static str {
        match self.kind {
            DeathKind::Intended | DeathKind::GroupRemoved => "INTENDED_SYSTEM_EXIT",
            DeathKind::UserExit => "INTENDED_USER_EXIT",
            DeathKind::Exited if self.code == 0 => "INTENDED_USER_EXIT",
            DeathKind::InitFailed => "USER_ERROR",
            DeathKind::OutOfMemory => "NODE_OUT_OF_MEMORY",
            _ => "SYSTEM_ERROR",
        }
    }

    /// Whether the end was asked for, so that nothing should be restarted or retried.
    #[must_use]
    pub fn is_intended(&self) -> bool {
        matches!(self.kind, DeathKind::Intended | DeathKind::UserExit | DeathKind::GroupRemoved)
    }
}

impl fmt::Display for DeathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.log_tail.is_empty() {
            write!(f, "\nThe last lines of its log:\n{}", self.log_tail)?;
        }
        Ok(())
    }
}

/// The name of a signal, for people.
#[must_use]
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => "a signal",
    }
}

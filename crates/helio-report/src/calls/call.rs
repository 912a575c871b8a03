//! The record of a call, and the group that it is counted in.

use helio_proto::inspect::TaskPhase;
use helio_types::TaskId;

/// A call's name in the table: its id, and the number of its earlier attempts.
pub type Key = (TaskId, u32);

/// Calls that are counted together ([`group_of`]): the function's name, the kind, how they stand.
pub(super) type GroupId = u32;

/// The kinds of calls, as rows name them.
pub(super) const KINDS: [&str; 3] = ["NORMAL_TASK", "ACTOR_TASK", "ACTOR_CREATION_TASK"];
/// Number of groups of each name.
pub(super) const OF_NAME: u32 = (TaskPhase::ALL.len() * KINDS.len()) as u32;

/// The record of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) key: Key,
    /// The slot of another attempt, or of another call whose id has the same word.
    pub(super) other: u32,
    /// The question about all that there is in, or after, which it was told of.
    pub(super) round: u32,
    pub(super) name: u32,
    pub(super) phase: TaskPhase,
    /// The call was taken out of its slot.
    pub(super) is_gone: bool,
    /// The call is the constructor of an actor, of which the actors' table knows more.
    pub(super) is_constructor: bool,
    /// The process that told of it has ended.
    pub(super) is_over: bool,
    /// Whether who made it in which job is known.
    pub(super) has_origin: bool,
    pub(super) rank: u8,
    /// The process that told of it.
    pub(super) teller: u32,
    pub(super) actor: u32,
    pub(super) parent: u32,
    pub(super) job: u32,
    pub(super) node: u32,
    pub(super) worker: u32,
    pub(super) error: u32,
    pub(super) why: u32,
    pub(super) resources: u32,
    pub(super) created_ms: u64,
    pub(super) started_us: u64,
    pub(super) ended_us: u64,
}

impl Call {
    /// Whether both say the same of a call.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        *self == Self { other: self.other, round: self.round, ..*other }
    }

    pub(super) fn kind(&self) -> usize {
        match (self.is_constructor, self.actor) {
            (true, _) => 2,
            (false, 0) => 0,
            (false, _) => 1,
        }
    }
}

/// Returns the group that a call is counted in.
pub(super) fn group_of(call: &Call) -> GroupId {
    call.name * OF_NAME + (call.kind() * TaskPhase::ALL.len()) as u32 + call.phase as u32
}

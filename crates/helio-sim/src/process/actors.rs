//! The way in which a simulated actor takes its calls, which its id tells.

use helio_types::ActorId;

/// Calls that an actor of several places runs side by side: more than any program makes, because a call
/// that overtook another may read what that one returns.
pub(super) const PLACES: u32 = 1_000;

/// Whether an actor takes its calls in any order, as everybody knows who knows its id.
pub(super) fn is_unordered(actor: ActorId) -> bool {
    actor.0[0] % 2 == 1
}

/// Whether an actor has a concurrency group besides the default one.
pub(super) fn has_groups(actor: ActorId) -> bool {
    actor.0[0] % 4 == 2
}

/// The concurrency group of an actor's call of that salt.
pub(super) fn group(actor: ActorId, salt: u64) -> &'static str {
    if has_groups(actor) && salt.is_multiple_of(3) { "group" } else { "" }
}

//! The meaning of the control service's answer for an actor that was to be made under a name.

use helio_proto::control::{ControlResponse, Failure};
use helio_types::ActorId;

/// The outcome of the creation of a named actor.
#[derive(Clone, PartialEq, Debug)]
pub enum CreationOutcome {
    /// The actor was made, or is being made.
    Made,
    /// The name belongs to another actor, which is taken instead (`get_if_exists`); the handle of the new
    /// one is dropped.
    Exists {
        /// The actor that has the name.
        actor: ActorId,
        /// The handle of the existing actor, as its creator wrote it.
        handle: Vec<u8>,
    },
    /// The actor is not made; its handle goes.
    Refused(Failure),
}

impl CreationOutcome {
    /// The outcome that an answer has for the actor.
    #[must_use]
    pub fn of(answer: ControlResponse, actor: ActorId) -> Self {
        match answer {
            ControlResponse::Failed(failure) => Self::Refused(failure),
            ControlResponse::NamedActor(found) if found.actor_id != actor => {
                Self::Exists { actor: found.actor_id, handle: found.handle }
            }
            _ => Self::Made,
        }
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::control::NamedActor;
    use helio_types::JobId;

    use super::*;

    #[test]
    fn only_another_actor_of_the_name_is_taken_instead() {
        let actor = |n: u8| ActorId::new([n; 12], JobId([1, 0, 0, 0]));
        let named = |n: u8| {
            let found = NamedActor { actor_id: actor(n), handle: vec![n], ..NamedActor::default() };
            CreationOutcome::of(ControlResponse::NamedActor(found), actor(1))
        };
        assert_eq!(named(1), CreationOutcome::Made);
        assert_eq!(named(2), CreationOutcome::Exists { actor: actor(2), handle: vec![2] });
        let failure = Failure::default();
        let refused = CreationOutcome::of(ControlResponse::Failed(failure.clone()), actor(1));
        assert_eq!(refused, CreationOutcome::Refused(failure));
    }
}

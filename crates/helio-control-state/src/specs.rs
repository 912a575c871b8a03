//! The parts of specs that actors of one kind have in common, kept once.
//!
//! A million actors are mostly made from a few classes by a few processes. Their specs differ in the id,
//! the name, the arguments and the handle, and the handle differs in the id that it contains.

use std::collections::BTreeSet;
use std::sync::Arc;

use helio_proto::control::ActorSpec;
use helio_proto::encode;
use helio_proto::environment::RuntimeEnv;
use helio_types::ActorId;

/// A spec without what differs from actor to actor.
#[derive(Debug)]
struct Kept {
    /// The spec in its wire form, by which it is found.
    encoded: Arc<[u8]>,
    spec: Arc<ActorSpec>,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.encoded.cmp(&other.encoded)
    }
}

/// The specs in use.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    kept: BTreeSet<Kept>,
    /// The one that was asked for last: mostly the next actor is of its class.
    newest: Arc<ActorSpec>,
    /// Number of specs at which those that nobody uses any more are dropped.
    sweep_at: usize,
}

/// The parts of its spec that an actor has to itself.
#[derive(Debug, Default)]
pub(crate) struct OwnSpec {
    name: Box<str>,
    args: Box<[u8]>,
    /// The position of the actor's id in the handle, if it is there.
    id_at: Option<u32>,
}

impl OwnSpec {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The actor is over: its arguments and its handle are not needed any more.
    pub(crate) fn forget(&mut self) {
        self.args = Box::default();
        self.id_at = None;
    }
}

impl Specs {
    /// Splits a spec into what the actor shares with others and what is its own.
    pub(crate) fn split(&mut self, mut spec: ActorSpec) -> (Arc<ActorSpec>, OwnSpec) {
        let id = spec.actor_id;
        // Without the id the handles of actors made alike are equal, and can be kept once.
        let id_at = spec.handle.windows(ActorId::LEN).position(|part| part == id.0);
        if let Some(at) = id_at {
            spec.handle[at..at + ActorId::LEN].fill(0);
        }
        let own = OwnSpec {
            name: std::mem::take(&mut spec.name).into_boxed_str(),
            args: std::mem::take(&mut spec.args).into_boxed_slice(),
            id_at: id_at.map(|at| at as u32),
        };
        spec.actor_id = ActorId::NIL;
        (self.keep(spec), own)
    }

    fn keep(&mut self, spec: ActorSpec) -> Arc<ActorSpec> {
        if *self.newest == spec {
            return self.newest.clone();
        }
        let encoded: Arc<[u8]> = encode(&spec).into();
        let kept = Kept { encoded, spec: Arc::new(spec) };
        if let Some(found) = self.kept.get(&kept) {
            self.newest = found.spec.clone();
            return found.spec.clone();
        }
        if self.kept.len() >= self.sweep_at {
            self.kept.retain(|kept| Arc::strong_count(&kept.spec) > 1);
            // The doubling makes a sweep cost each spec a constant, however many there are.
            self.sweep_at = 2 * self.kept.len() + 64;
        }
        let spec = kept.spec.clone();
        self.newest = spec.clone();
        self.kept.insert(kept);
        assert!(self.kept.len() <= self.sweep_at, "specs that nobody uses would be kept for ever");
        spec
    }

    /// The spec of an actor that is over: what made it is not needed any more, and may be large.
    pub(crate) fn of_dead(&mut self, spec: &ActorSpec) -> Arc<ActorSpec> {
        self.keep(ActorSpec {
            template: Vec::new(),
            handle: Vec::new(),
            job_config: Vec::new(),
            runtime_env: RuntimeEnv::default(),
            modules: Vec::new(),
            ..spec.clone()
        })
    }
}

/// The whole spec of an actor again.
pub(crate) fn join(actor_id: ActorId, shared: &ActorSpec, own: &OwnSpec) -> ActorSpec {
    ActorSpec {
        actor_id,
        name: own.name.to_string(),
        args: own.args.to_vec(),
        handle: handle(actor_id, shared, own),
        ..shared.clone()
    }
}

/// The actor's handle in its serialized form.
pub(crate) fn handle(actor_id: ActorId, shared: &ActorSpec, own: &OwnSpec) -> Vec<u8> {
    let mut handle = shared.handle.clone();
    if let Some(at) = own.id_at {
        let place = &mut handle[at as usize..at as usize + ActorId::LEN];
        assert!(place.iter().all(|byte| *byte == 0), "the handle would be that of another actor");
        place.copy_from_slice(&actor_id.0);
    }
    handle
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_types::JobId;

    fn spec(number: u8) -> ActorSpec {
        let actor_id = ActorId::new([number; 12], JobId([1, 0, 0, 0]));
        ActorSpec {
            actor_id,
            name: format!("actor {number}"),
            args: vec![number],
            handle: [b"handle of ".as_slice(), &actor_id.0, b"."].concat(),
            template: vec![1; 100],
            ..ActorSpec::default()
        }
    }

    #[test]
    fn actors_of_one_class_share_a_spec_and_get_their_own_back() {
        let mut specs = Specs::default();
        let split: Vec<_> = (0..100).map(|number| specs.split(spec(number))).collect();
        assert_eq!(specs.kept.len(), 1);
        for (number, (shared, own)) in split.iter().enumerate() {
            let whole = spec(number as u8);
            assert_eq!(join(whole.actor_id, shared, own), whole);
        }
    }

    #[test]
    fn specs_that_nobody_uses_are_dropped() {
        let mut specs = Specs::default();
        for number in 0..10_000u32 {
            let class_name = number.to_string();
            drop(specs.split(ActorSpec { class_name, ..spec(1) }));
        }
        assert!(specs.kept.len() <= 128, "{} specs are kept", specs.kept.len());
    }
}

//! Invariants that hold between any two events, and the state that is left at the end; for tests, the simulator and
//! release assertions.

use std::collections::BTreeMap;

use helio_types::ObjectId;

use crate::Owner;
use crate::object::Stored;
use crate::task::State;

/// How much each table holds. All zero when this process holds nothing and owes nothing (LIMIT-1:
/// nothing grows with the age of the process).
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub struct Tables {
    /// Objects, its own and borrowed ones.
    pub objects: usize,
    /// Unfinished calls.
    pub tasks: usize,
    /// Calls that are remembered to make their returns again.
    pub lineages: usize,
    /// Leases.
    pub leases: usize,
    /// Lease requests that were not answered.
    pub requests: usize,
    /// Actors that it knows.
    pub actors: usize,
    /// Borrows that their owners have not confirmed.
    pub unconfirmed: usize,
    /// Frames that wait for confirmations.
    pub gated: usize,
    /// Calls whose returns it holds for their callers.
    pub returned: usize,
    /// Generators that are being read.
    pub streams: usize,
    /// Peers of whom it has asked whether they live.
    pub suspects: usize,
}

impl Tables {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Owner {
    /// How much each table holds.
    #[must_use]
    pub fn tables(&self) -> Tables {
        let (unconfirmed, gated) = self.borrows.waiting();
        Tables {
            objects: self.objects.len(),
            tasks: self.tasks.len(),
            lineages: self.lineages.all.len(),
            leases: self.leases.count(),
            requests: self.leases.requests_count(),
            actors: self.actors.len(),
            unconfirmed,
            gated,
            returned: self.borrows.returned.len() + self.borrows.adrift.len(),
            streams: self.streams.len(),
            suspects: self.suspects.len(),
        }
    }

    /// Returns a line for each object that is held, for people who look for a leak.
    #[must_use]
    pub fn holdings(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (id, object) in &self.objects {
            let whose = object
                .owner
                .as_ref()
                .map_or("own".to_owned(), |owner| format!("of {:?}", owner.worker_id));
            let (local, uses, _) = object.holders();
            let (borrowers, value) = (&object.relations.borrowers, &object.value);
            lines.push(format!(
                "{id} {whose}: {local} handles, {uses} uses, borrowers {borrowers:?}, {value:?}"
            ));
        }
        lines.sort_unstable();
        lines
    }

    /// Whether the tables agree with each other.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut uses: BTreeMap<ObjectId, u32> = BTreeMap::new();
        let mut count = |id: ObjectId| *uses.entry(id).or_default() += 1;
        self.objects
            .values()
            .flat_map(|object| &object.relations.contained)
            .copied()
            .for_each(&mut count);
        self.tasks.values().for_each(|task| task.spec.held().for_each(&mut count));
        self.lineages.all.values().flat_map(|lineage| &lineage.kept).copied().for_each(&mut count);
        self.actors.values().flat_map(crate::actor::Actor::held).for_each(&mut count);
        self.borrows.returned.values().flat_map(|(_, held)| held).copied().for_each(&mut count);
        self.borrows.adrift.values().flatten().copied().for_each(&mut count);
        for (task, stream) in &self.streams {
            (stream.read..stream.arrived)
                .map(|index| Self::stream_item(*task, index))
                .for_each(&mut count);
        }
        let mut remembered: BTreeMap<ObjectId, u32> = BTreeMap::new();
        for id in self.lineages.all.values().flat_map(crate::lineage::Lineage::held) {
            *remembered.entry(id).or_default() += 1;
        }
        let mut objects: Vec<_> = self.objects.iter().collect();
        objects.sort_unstable_by_key(|(id, _)| **id);
        for (id, object) in objects {
            let wanted = uses.get(id).copied().unwrap_or(0);
            if object.uses != wanted {
                return Err(format!("{id} counts {} uses and has {wanted}", object.uses));
            }
            let wanted =
                remembered.get(id).copied().filter(|_| object.owner.is_none()).unwrap_or(0);
            if object.remembered != wanted {
                return Err(format!(
                    "{id} counts {} remembered calls and has {wanted}",
                    object.remembered
                ));
            }
            let is_kept = object.owner.is_none() && (!object.is_ready() || object.remembered > 0);
            if !is_kept
                && object.local == 0
                && object.uses == 0
                && object.relations.borrowers.is_empty()
            {
                return Err(format!("{id} is held by nobody"));
            }
            if let (Some(_), false) = (&object.owner, object.relations.borrowers.is_empty()) {
                return Err(format!("OWN-1: {id} is somebody else's and has borrowers here"));
            }
            // An object that is made again, or asked for again, keeps what it contained until the new value is here.
            let is_lost = object.owner.is_none()
                && matches!(object.value, Stored::Pending)
                && !self.tasks.contains_key(&id.task());
            if is_lost && !object.relations.contained.is_empty() {
                return Err(format!(
                    "{id} is pending, nothing makes it, and it contains something"
                ));
            }
        }
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), String> {
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        tasks.sort_unstable_by_key(|(id, _)| **id);
        for (id, task) in tasks {
            let missing = task
                .spec
                .awaited()
                .filter(|dep| self.objects.get(dep).is_some_and(|o| !o.is_ready()))
                .count();
            match task.state {
                State::Waiting(0) => return Err(format!("{id} waits for nothing")),
                // More of them may be lost by now; those are looked for before the call goes.
                State::Waiting(n) if n as usize > missing => {
                    return Err(format!("{id} waits for {n} arguments and {missing} are missing"));
                }
                State::Waiting(_) if !self.has_waiting_call(task) => {
                    return Err(format!("{id} waits for arguments out of its place"));
                }
                State::OnLease(request) if !self.leases.has_sent(request, *id) => {
                    return Err(format!("{id} is on a lease that does not know it"));
                }
                State::Queued
                    if !self.leases.has_queued(*id)
                        && !self.has_queued_call(&task.spec.target, *id) =>
                {
                    return Err(format!("{id} is in no queue"));
                }
                _ => {}
            }
        }
        self.leases.check()
    }
}

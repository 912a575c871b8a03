//! Invariants that hold between any two events, and the state that is left at the end; for tests, the simulator and
//! release assertions.

use std::collections::BTreeMap;

use helio_types::ObjectId;

use super::Owner;
use crate::calls::State;
use crate::check::Census;

impl Owner {
    /// Returns the number of entries in each table.
    #[must_use]
    pub fn tables(&self) -> Census {
        let (unconfirmed, gated) = self.borrows.waiting();
        Census {
            objects: self.objects.len(),
            tasks: self.calls.len(),
            lineages: self.lineages.len(),
            leases: self.leases.count(),
            requests: self.leases.requests_count(),
            actors: self.actors.len(),
            unconfirmed,
            gated,
            returned: self.borrows.returned_count(),
            streams: self.streams.len(),
            suspects: self.suspects.len(),
        }
    }

    /// Returns a line for each object that is held, for people who look for a leak.
    #[must_use]
    pub fn holdings(&self) -> Vec<String> {
        self.objects.holdings()
    }

    /// Whether the tables agree with each other.
    ///
    /// # Errors
    /// The first disagreement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        let mut uses: BTreeMap<ObjectId, u32> = BTreeMap::new();
        let mut count = |id: ObjectId| *uses.entry(id).or_default() += 1;
        // Everything that causes a use, counted anew.
        self.objects.all_contained().for_each(&mut count);
        self.calls.iter().for_each(|task| task.spec().held().for_each(&mut count));
        self.lineages.values().flat_map(|lineage| lineage.kept()).copied().for_each(&mut count);
        self.actors.held().for_each(&mut count);
        self.borrows.held().for_each(&mut count);
        self.streams.held().for_each(&mut count);
        let mut remembered: BTreeMap<ObjectId, u32> = BTreeMap::new();
        for id in self.lineages.values().flat_map(|lineage| lineage.held()) {
            *remembered.entry(id).or_default() += 1;
        }
        self.objects.check(&uses, &remembered, |task| self.calls.contains(task))?;
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), String> {
        for task in self.calls.in_order() {
            let (spec, id) = (task.spec(), task.spec().id);
            let missing = spec.awaited().filter(|dep| self.objects.is_pending(*dep)).count();
            match task.state() {
                State::Waiting(0) => return Err(format!("{id} waits for nothing")),
                // More of them may be lost by now; those are looked for before the call goes.
                State::Waiting(n) if n as usize > missing => {
                    return Err(format!("{id} waits for {n} arguments and {missing} are missing"));
                }
                State::Waiting(_) if !self.actors.has_waiting(task) => {
                    return Err(format!("{id} waits for arguments out of its place"));
                }
                State::OnLease(request) if !self.leases.has_sent(request, id) => {
                    return Err(format!("{id} is on a lease that does not know it"));
                }
                State::Queued
                    if !self.leases.has_queued(id) && !self.actors.has_queued(&spec.target, id) =>
                {
                    return Err(format!("{id} is in no queue"));
                }
                _ => {}
            }
        }
        self.leases.check()
    }
}

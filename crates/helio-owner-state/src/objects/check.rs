//! Whether the counts of objects agree with what holds them.

use std::collections::BTreeMap;

use helio_types::{ObjectId, TaskId};

use super::Objects;
use crate::value::Stored;

impl Objects {
    /// The references inside values, one for each value.
    pub(crate) fn all_contained(&self) -> impl Iterator<Item = ObjectId> {
        self.all.values().flat_map(|object| &object.relations.contained).copied()
    }

    /// Returns a line for each object that is held, for people who look for a leak.
    pub(crate) fn holdings(&self) -> Vec<String> {
        let line = |(id, object): (&ObjectId, &super::Object)| {
            let whose = object
                .owner
                .as_ref()
                .map_or("own".to_owned(), |owner| format!("of {:?}", owner.worker_id));
            let (local, uses, _) = object.holders();
            let (borrowers, value) = (&object.relations.borrowers, &object.value);
            format!(
                "{id} {whose}: {local} handles, {uses} uses, borrowers {borrowers:?}, {value:?}"
            )
        };
        let mut lines: Vec<String> = self.all.iter().map(line).collect();
        lines.sort_unstable();
        lines
    }

    /// Whether each object is held as it counts: `uses` and `remembered` are what was found elsewhere.
    pub(crate) fn check(
        &self,
        uses: &BTreeMap<ObjectId, u32>,
        remembered: &BTreeMap<ObjectId, u32>,
        is_unfinished: impl Fn(TaskId) -> bool,
    ) -> Result<(), String> {
        let mut objects: Vec<_> = self.all.iter().collect();
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
            if !is_kept && !object.is_held() {
                return Err(format!("{id} is held by nobody"));
            }
            if let (Some(_), false) = (&object.owner, object.relations.borrowers.is_empty()) {
                return Err(format!("OWN-1: {id} is somebody else's and has borrowers here"));
            }
            // An object that is made again, or asked for again, keeps what it contained until the new value is here.
            let is_lost = object.owner.is_none()
                && matches!(object.value, Stored::Pending)
                && !is_unfinished(id.task());
            if is_lost && !object.relations.contained.is_empty() {
                return Err(format!(
                    "{id} is pending, nothing makes it, and it contains something"
                ));
            }
        }
        Ok(())
    }
}

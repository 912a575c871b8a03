//! **WHY-1** What calls that wait for a worker say.

use helio_types::TaskId;

use super::Leases;
use super::goal::Goal;
use super::places::{Place, Places};
use crate::why::{NextHop, Why};

/// Number of awaited calls that a reason names; the rest is counted.
const NAMED_MAX: usize = 4;

impl Leases {
    /// Returns the position of a waiting call; `None` if it is in no line.
    pub(crate) fn place(&self, task: TaskId) -> Option<Place> {
        let mut classes = self.classes.iter().enumerate();
        classes.find_map(|(class, of)| {
            let (before, node) = of.queue.position(task)?;
            Some(Place { class, before, node })
        })
    }

    /// Returns the positions of all waiting calls.
    pub(crate) fn places(&self) -> Places {
        let classes = self.classes.iter().enumerate();
        let all = classes.flat_map(|(class, of)| {
            let line = of.queue.in_order().into_iter().enumerate();
            line.map(move |(before, (node, id))| (id, Place { class, before, node }))
        });
        Places::new(all)
    }

    pub(crate) fn name_of_request(&self, request: u64) -> Option<&str> {
        let mut classes = self.classes.iter();
        let class = classes.find(|class| class.requests.contains_key(&request))?;
        Some(class.class.name.as_str()).filter(|name| !name.is_empty())
    }

    /// The calls that the leases run, by name; empty: none.
    pub(crate) fn running<'a>(
        &self,
        leases: impl Iterator<Item = &'a u64>,
        name_of: impl Fn(TaskId) -> Option<String>,
    ) -> String {
        let first = |lease: &u64| self.leases.get(lease)?.sent.front().copied();
        let mut names: Vec<String> = leases.filter_map(first).filter_map(name_of).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > NAMED_MAX {
            let more = names.len() - NAMED_MAX;
            names.truncate(NAMED_MAX);
            names.push(format!("{more} others"));
        }
        names.join(", ")
    }

    /// The calls that run on any lease.
    pub(crate) fn all_running(&self, name_of: impl Fn(TaskId) -> Option<String>) -> String {
        self.running(self.leases.keys(), name_of)
    }

    /// **WHY-1** What a queued call waits for.
    pub(crate) fn why(
        &self,
        place: Option<Place>,
        name: &str,
        name_of: impl Fn(TaskId) -> Option<String>,
    ) -> Why {
        let Some(Place { class: index, before, node }) = place else {
            return Why { text: format!("{name} is about to be queued."), next: None };
        };
        let class = &self.classes[index];
        let before = match before {
            0 => String::new(),
            1 => "; 1 call of its kind comes first".to_owned(),
            n => format!("; {n} calls of its kind come first"),
        };
        let running = self.running(class.leases.iter(), &name_of);
        let named = if running.is_empty() { running } else { format!(" with {running}") };
        let busy = match class.leases.len() {
            0 => String::new(),
            1 => format!("; 1 worker of its kind is busy{named}"),
            n => format!("; {n} workers of its kind are busy{named}"),
        };
        let goal = node.map_or(Goal::Any, Goal::Near);
        // The request that was made for a call like this one is the one whose daemon knows why it waits; any other of
        // the class is better than none.
        let own = class.requests.iter().find(|(_, asked)| asked.goal == goal);
        let next = own.or_else(|| class.requests.iter().next());
        let lost = match self.pauses.holds(index) {
            true => "; the node on which it was to run is out of reach, and it asks again soon",
            false => "",
        };
        Why {
            text: format!("{name} waits for a worker{before}{busy}{lost}."),
            next: next.map(|(request, asked)| NextHop::Daemon {
                node: asked.at.clone(),
                request: *request,
                // Workers of its own kind are named above already.
                running: if class.leases.is_empty() {
                    self.all_running(&name_of)
                } else {
                    String::new()
                },
            }),
        }
    }
}

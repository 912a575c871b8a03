//! The queue of coming events, in the order of their time.
//!
//! An event mostly causes another one a fixed while later: an answer after the way of a
//! message, the next heartbeat after a second. So entries stand in a few lanes, each in the order of time,
//! and are read and written from end to end. A heap and a tree of as many entries would take the
//! processor's caches from the machine that is measured in between.

use std::collections::VecDeque;

#[derive(Debug)]
struct Entry<T> {
    /// The time, and a number: entries of one time come in the order in which they were made.
    at: (u64, u64),
    what: T,
}

/// The queue of coming events.
#[derive(Debug)]
pub struct Agenda<T> {
    lanes: Vec<VecDeque<Entry<T>>>,
    n_made: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { lanes: Vec::new(), n_made: 0 }
    }
}

impl<T> Agenda<T> {
    /// Adds an entry.
    pub fn add(&mut self, time: u64, what: T) {
        self.n_made += 1;
        let entry = Entry { at: (time, self.n_made), what };
        let fits =
            |lane: &&mut VecDeque<Entry<T>>| lane.back().is_none_or(|last| last.at < entry.at);
        // The first lane that ends earlier: with few delays there are few lanes, and a look at each is cheap.
        match self.lanes.iter_mut().find(fits) {
            Some(lane) => lane.push_back(entry),
            None => self.lanes.push(VecDeque::from([entry])),
        }
    }

    /// The time of the first entry.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        self.lanes.iter().filter_map(|lane| lane.front()).map(|entry| entry.at.0).min()
    }

    /// Takes the first entry.
    pub fn take(&mut self) -> Option<(u64, T)> {
        let first = |lane: &&mut VecDeque<Entry<T>>| lane.front().map(|entry| entry.at);
        let lanes = self.lanes.iter_mut().filter(|lane| !lane.is_empty());
        let entry = lanes.min_by_key(first)?.pop_front()?;
        Some((entry.at.0, entry.what))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn entries_come_by_time_and_those_of_one_time_as_they_were_made() {
        let mut agenda = Agenda::default();
        let times = [5, 3, 5, 9, 1, 3, 1, 4];
        for (number, time) in times.into_iter().enumerate() {
            agenda.add(time, number);
        }
        assert_eq!(agenda.next_time(), Some(1));
        assert_eq!(agenda.take(), Some((1, 4)));
        agenda.add(2, 8);
        let rest: Vec<_> = std::iter::from_fn(|| agenda.take()).collect();
        assert_eq!(rest, [(1, 6), (2, 8), (3, 1), (3, 5), (4, 7), (5, 0), (5, 2), (9, 3)]);
        assert_eq!(agenda.next_time(), None);
    }
}

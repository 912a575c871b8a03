//! The calls that were handed out and have not finished.

use std::collections::VecDeque;
use std::sync::Arc;

use helio_proto::template::Template;
use helio_types::{IdMap, TaskId, WorkerAddress, WorkerId};

/// Number of empty places that are kept before the calls close ranks.
const GAPS_MIN: usize = 64;

/// A call that was handed out.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) task: TaskId,
    pub(crate) caller: Arc<WorkerAddress>,
    /// The time at which the call was handed out; later, the time at which it found its place among
    /// those that run side by side.
    pub(crate) at: u64,
    pub(crate) template: Arc<Template>,
    /// For calls that run side by side: this one has found a place among them.
    pub(crate) is_running: bool,
}

/// The calls that were handed out and have not finished, in that order.
///
/// A call that finishes leaves an empty place. Empty places at both ends go at once; when those in the middle
/// outnumber the calls, the calls close ranks, which costs each finished call a constant on average.
#[derive(Debug, Default)]
pub(crate) struct Running {
    places: VecDeque<Option<Begun>>,
    /// The number of the first place.
    first: u64,
    /// The number of each call's place.
    numbers: IdMap<TaskId, u64>,
}

impl Running {
    pub(super) fn add(&mut self, begun: Begun) {
        let before = self.numbers.insert(begun.task, self.first + self.places.len() as u64);
        assert!(before.is_none(), "a call that runs would be lost behind its next attempt");
        self.places.push_back(Some(begun));
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<Begun> {
        let number = self.numbers.remove(&task)?;
        let place = self.place(number);
        let begun = self.places.get_mut(place)?.take();
        let is_it = begun.as_ref().is_some_and(|begun| begun.task == task);
        assert!(is_it, "the end of one call would be told to the caller of another");
        // Places keep the order of the calls, so one in the middle stays empty until its neighbours have gone.
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        while let Some(None) = self.places.back() {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.numbers.len() + GAPS_MIN {
            self.close_ranks();
        }
        begun
    }

    fn close_ranks(&mut self) {
        self.places.retain(Option::is_some);
        for (number, begun) in (self.first..).zip(self.places.iter().flatten()) {
            self.numbers.insert(begun.task, number);
        }
    }

    fn place(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    pub(super) fn get_mut(&mut self, task: TaskId) -> Option<&mut Begun> {
        let place = self.place(*self.numbers.get(&task)?);
        self.places.get_mut(place)?.as_mut()
    }

    /// The call, if it runs here.
    pub(crate) fn get(&self, task: TaskId) -> Option<&Begun> {
        self.places.get(self.place(*self.numbers.get(&task)?))?.as_ref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The call that was handed out last.
    pub(crate) fn last(&self) -> Option<&Begun> {
        self.places.back()?.as_ref()
    }

    /// Whether one of that caller's calls is among them.
    pub(crate) fn of_caller(&self, caller: WorkerId) -> bool {
        self.iter().any(|begun| begun.caller.worker_id == caller)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Begun> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use helio_types::{ActorId, JobId};

    use super::*;

    fn begun(number: u64) -> Begun {
        let task = TaskId::new(number, ActorId::new([7; 12], JobId::default()));
        let (caller, template) = (Arc::default(), Arc::default());
        Begun { task, caller, at: number, template, is_running: true }
    }

    /// Calls of all ages end in an arbitrary order, as a model in a plain list says.
    #[test]
    fn calls_are_found_and_stay_in_order_whichever_ends_and_leave_no_places() {
        let (mut running, mut model) = (Running::default(), Vec::<u64>::new());
        let mut random = 1_u64;
        for number in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let drawn = (random >> 33) as usize;
            let most = if number < 10_000 { 500 } else { 3 };
            running.add(begun(number));
            model.push(number);
            while model.len() > most || (drawn.is_multiple_of(3) && model.len() > 1) {
                // The oldest is a long call: it keeps its place.
                let ended = model.remove(1 + drawn % (model.len() - 1));
                assert_eq!(running.remove(begun(ended).task).unwrap().at, ended);
                assert!(running.remove(begun(ended).task).is_none());
                if drawn.is_multiple_of(2) {
                    break;
                }
            }
            let probe = model[drawn % model.len()];
            assert_eq!(running.get(begun(probe).task).unwrap().at, probe);
            assert_eq!(running.get_mut(begun(probe).task).unwrap().at, probe);
            assert_eq!(running.last().map(|last| last.at), model.last().copied());
            assert!(running.places.len() <= 2 * model.len() + GAPS_MIN + 1);
        }
        assert_eq!(running.iter().map(|one| one.at).collect::<Vec<_>>(), model);
        for ended in model {
            assert!(running.remove(begun(ended).task).is_some());
        }
        assert!(running.is_empty() && running.places.is_empty());
    }
}

//! The subscribers of actors' changes.
//!
//! A million actors have a million subscriptions and more, so one takes two small entries of flat tables:
//! processes are numbered while they have subscriptions.

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{SUBSCRIBERS_MAX, UNKNOWN_ACTOR_MS_MAX, UNKNOWN_ACTORS_MAX};
use helio_types::{ActorId, IdMap, NodeId, WorkerId, mutant};

use crate::sets::Sets;

/// A process that subscribes, and its node.
pub(crate) type Subscriber = (NodeId, WorkerId);

/// The table of subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_actor: IdMap<ActorId, Numbers>,
    /// Derived from `by_actor`.
    by_process: Sets<u32>,
    /// The numbers of the processes that have subscriptions.
    numbers: BTreeMap<Subscriber, u32>,
    /// Derived from `numbers`.
    processes: BTreeMap<u32, Subscriber>,
    next: u32,
    /// Actors that have subscribers although their creation has not arrived, since when: a handle was
    /// faster.
    unknown: BTreeMap<ActorId, u64>,
}

/// The numbers of an actor's subscribers: mostly one.
#[derive(Debug)]
enum Numbers {
    One(u32),
    #[expect(clippy::box_collection, reason = "an entry of a million is 16 bytes, not 24")]
    Many(Box<BTreeSet<u32>>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(numbers) => numbers.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Self::One(number) => (Some(*number), None),
            Self::Many(numbers) => (None, Some(numbers.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn insert(&mut self, number: u32) {
        match self {
            Self::One(one) if *one == number => {}
            Self::One(one) => *self = Self::Many(Box::new(BTreeSet::from([*one, number]))),
            Self::Many(numbers) => drop(numbers.insert(number)),
        }
    }

    /// Whether none is left.
    fn remove(&mut self, number: u32) -> bool {
        match self {
            Self::One(one) => *one == number,
            Self::Many(numbers) => {
                numbers.remove(&number);
                numbers.is_empty()
            }
        }
    }
}

impl Subscriptions {
    /// The processes that are told of the actor.
    pub(crate) fn of(&self, actor_id: ActorId) -> Vec<Subscriber> {
        let numbers = self.by_actor.get(&actor_id).into_iter().flat_map(Numbers::iter);
        numbers.map(|number| self.processes[&number]).collect()
    }

    pub(crate) fn n_unknown(&self) -> usize {
        self.unknown.len()
    }

    /// Subscribes a process to an actor that exists.
    pub(crate) fn add(&mut self, actor_id: ActorId, subscriber: Subscriber) {
        let number = match self.numbers.get(&subscriber) {
            Some(number) => *number,
            None => self.number(subscriber),
        };
        self.by_actor.entry(actor_id).or_insert(Numbers::One(number)).insert(number);
        self.by_process.insert(number, actor_id);
    }

    fn number(&mut self, subscriber: Subscriber) -> u32 {
        // After four thousand million processes the numbers begin anew, and some may be in use.
        while self.processes.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let before = self.numbers.insert(subscriber, self.next);
        assert!(before.is_none(), "a process would go on being told by a number that nobody ends");
        let before = self.processes.insert(self.next, subscriber);
        assert!(before.is_none(), "what one process follows would be told to another");
        self.next
    }

    /// Whether the actor has as many subscribers as it may have.
    pub(crate) fn is_full(&self, actor_id: ActorId) -> bool {
        self.by_actor.get(&actor_id).is_some_and(|numbers| numbers.len() >= SUBSCRIBERS_MAX)
    }

    /// Subscribes a process to an actor that does not exist yet, unless there are too many of those.
    pub(crate) fn add_unknown(
        &mut self,
        actor_id: ActorId,
        subscriber: Subscriber,
        now_ms: u64,
    ) -> bool {
        if self.unknown.len() >= UNKNOWN_ACTORS_MAX {
            return false;
        }
        // The time of the first one: a second handle does not prolong the wait.
        self.unknown.entry(actor_id).or_insert(now_ms);
        self.add(actor_id, subscriber);
        true
    }

    /// The actor was created: its early subscribers stay.
    pub(crate) fn now_known(&mut self, actor_id: ActorId) {
        if mutant!("early-subscriber-forgotten") && self.unknown.contains_key(&actor_id) {
            self.take(actor_id);
        }
        self.unknown.remove(&actor_id);
    }

    pub(crate) fn remove(&mut self, actor_id: ActorId, subscriber: Subscriber) {
        let Some(number) = self.numbers.get(&subscriber).copied() else { return };
        let is_last = self.by_actor.get_mut(&actor_id).is_some_and(|one| one.remove(number));
        if is_last {
            self.by_actor.remove(&actor_id);
        }
        self.by_process.remove(number, actor_id);
        if !self.by_process.has(&number) {
            self.numbers.remove(&subscriber);
            self.processes.remove(&number);
        }
        if !self.by_actor.contains_key(&actor_id) {
            self.unknown.remove(&actor_id);
        }
    }

    /// Ends all subscriptions to an actor; answers who had one.
    pub(crate) fn take(&mut self, actor_id: ActorId) -> Vec<Subscriber> {
        let subscribers = self.of(actor_id);
        for subscriber in &subscribers {
            self.remove(actor_id, *subscriber);
        }
        subscribers
    }

    /// A process has ended.
    pub(crate) fn remove_process(&mut self, subscriber: Subscriber) {
        let Some(number) = self.numbers.get(&subscriber).copied() else { return };
        for actor_id in self.by_process.of(number) {
            self.remove(actor_id, subscriber);
        }
    }

    /// All processes of a node have ended.
    pub(crate) fn remove_node(&mut self, node_id: NodeId) {
        let (first, last) = (WorkerId([0; WorkerId::LEN]), WorkerId([u8::MAX; WorkerId::LEN]));
        let here = self.numbers.range((node_id, first)..=(node_id, last));
        let here: Vec<Subscriber> = here.map(|(subscriber, _)| *subscriber).collect();
        for subscriber in here {
            self.remove_process(subscriber);
        }
    }

    /// Actors whose creation has not arrived in time.
    pub(crate) fn overdue(&self, now_ms: u64) -> Vec<ActorId> {
        let is_old = |since_ms: u64| now_ms.saturating_sub(since_ms) >= UNKNOWN_ACTOR_MS_MAX;
        self.unknown.iter().filter(|(_, since)| is_old(**since)).map(|(id, _)| *id).collect()
    }

    /// Whether the derived sets agree; `exists` tells whether an actor lives.
    pub(crate) fn check(&self, exists: impl Fn(ActorId) -> bool) -> Result<(), String> {
        let pairs = || {
            let of_each = self.by_actor.iter();
            of_each.flat_map(|(actor_id, all)| all.iter().map(move |number| (number, *actor_id)))
        };
        let mirrored: Sets<u32> = pairs().collect();
        let numbers: BTreeSet<u32> = pairs().map(|(number, _)| number).collect();
        let is_named = |(number, who): (&u32, &Subscriber)| self.numbers.get(who) == Some(number);
        if mirrored != self.by_process
            || !numbers.iter().eq(self.processes.keys())
            || self.numbers.len() != self.processes.len()
            || !self.processes.iter().all(is_named)
        {
            return Err("the index of subscribers is not that of the actors".to_owned());
        }
        for actor_id in self.by_actor.keys() {
            if exists(*actor_id) == self.unknown.contains_key(actor_id) {
                return Err(format!("{actor_id} has subscribers, and is dead or known twice"));
            }
        }
        Ok(())
    }
}

//! Whether this node still belongs to the cluster: what it does when the control service is silent.
//!
//! A silent control service has two explanations. Either the head is away: then the nodes beside it are
//! whole, go on, and wait for it. Or this node is cut off: then the control service, which still hears
//! most of the others, declares it dead and gives its actors to them, and nothing that still runs here
//! may count. The node tells the two apart by asking others: with most of them it goes on; with the
//! minority it **suspends** its workers before the verdict can fall, and resumes them when it is heard
//! again in time. The control service keeps the other half of the rule: it declares nobody dead while it
//! misses most nodes itself. (The indirect probe is that of SWIM, Das, Gupta and Motivala 2002.)
//!
//! ```text
//!            unanswered for half the time that a dead node needs
//!   joined ─────────────────────────────────────────────────▶ searching ◀──▶ suspended
//!      ▲                    heard                                │      most reached / not reached
//!      └─────────────────────────────────────────────────────────┴── without a head for too long:
//!                                                                    start anew, join as a new node
//! ```
//!
//! The control service also asks this node whether it reaches another one, of which it hears nothing.

use std::collections::{BTreeMap, BTreeSet};

use helio_config::control::{
    HEADLESS_MS_MAX, HEARTBEAT_MS, HEARTBEATS_MISSED_MAX, PEERS_ASKED_MAX, alone_ms, suspect_ms,
};
use helio_types::{NodeId, mutant};

/// The next step for the contact with the control service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Ask that node for a sign of life.
    Ping(NodeId),
    /// Try a new connection to the control service beside the silent one.
    Reach,
    /// Tell the control service whether that node answered.
    Tell { node_id: NodeId, is_reached: bool },
    /// Stop the workers: the cluster may go on without this node.
    Suspend,
    /// Let them go on.
    Resume,
    /// Register anew, because nothing here counts any more; the reason.
    Rejoin(String),
}

/// The place of this node, seen from the control service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the same process: they live and end together.
    InHead,
    /// On the same machine: no link is between them.
    BesideHead,
    /// On another machine.
    Elsewhere,
    /// On a machine outside the cluster, whose links are all carried by one connection. That is made again when it
    /// breaks, and what was sent meanwhile arrives then: tries beside it would arrive all at once.
    Guest,
}

/// A round of pings.
#[derive(Debug, Default)]
struct Round {
    /// The time at which the round ends.
    until: u64,
    asked: BTreeSet<NodeId>,
    answered: BTreeSet<NodeId>,
}

#[derive(Debug)]
pub(crate) struct Contact {
    place: Place,
    /// Milliseconds that the node goes on without a control service.
    headless_ms_max: u64,
    /// Milliseconds of silence after which the control service may declare a node dead.
    silence_ms_max: u64,
    /// The time at which this node sent the newest message that the control service has answered; `None`: the
    /// node has not joined yet. It is no later than the moment from which on the control service counts its
    /// silence.
    heard: Option<u64>,
    /// The time at which the control service's machine last refused a connection because nobody
    /// listens at its port.
    refused: Option<u64>,
    /// The time at which [`Contact::look`] is needed.
    due: u64,
    round: Option<Round>,
    /// Counts rounds, so that each asks other nodes where there are many.
    rounds: usize,
    is_suspended: bool,
    /// Nodes that the control service asks about, and when it did.
    questions: BTreeMap<NodeId, u64>,
}

impl Contact {
    pub(crate) fn new(place: Place, headless_ms_max: u64) -> Self {
        Self {
            place,
            headless_ms_max: if headless_ms_max == 0 { HEADLESS_MS_MAX } else { headless_ms_max },
            silence_ms_max: HEARTBEAT_MS * HEARTBEATS_MISSED_MAX,
            heard: None,
            refused: None,
            due: u64::MAX,
            round: None,
            rounds: 0,
            is_suspended: false,
            questions: BTreeMap::new(),
        }
    }

    /// Returns the time at which [`Contact::look`] is needed; `u64::MAX`: never.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// The control service has taken the node in, as asked at `sent`.
    pub(crate) fn on_accepted(&mut self, silence_ms: u64, sent: u64, now: u64) {
        // On the head's machine no network can come between: the daemon ends with its control service.
        if self.place == Place::InHead {
            return;
        }
        if silence_ms > 0 {
            self.silence_ms_max = silence_ms;
        }
        self.heard.get_or_insert(0);
        self.on_heard(sent, now);
    }

    /// The control service has answered what was sent at `sent`.
    ///
    /// The grantor of a lease counts from when it was asked for it, and the holder from when it asked:
    /// so the holder's time is up first, however long messages take and whatever else was heard since.
    pub(crate) fn on_heard(&mut self, sent: u64, now: u64) {
        let suspect_ms = self.suspect_ms();
        let Some(heard) = &mut self.heard else { return };
        *heard = sent.min(now).max(*heard);
        // Where a look is due already, it finds out by itself that it came too early.
        self.due = if self.round.is_some() { now } else { self.due.min(*heard + suspect_ms) };
    }

    /// Handles the news that another head has taken the cluster over.
    pub(crate) fn on_head_moved(&mut self, place: Place) {
        self.place = place;
        self.refused = None;
    }

    /// The control service's machine answers, and nobody listens at the port.
    pub(crate) fn on_control_refused(&mut self, now: u64) {
        self.refused = Some(now);
    }

    /// The control service wants to know whether that node is reached.
    pub(crate) fn on_question(&mut self, node_id: NodeId, now: u64) -> Order {
        self.questions.insert(node_id, now);
        // The answer that it is not reached is due even if nobody else says anything.
        self.due = self.due.min(now + self.round_ms());
        Order::Ping(node_id)
    }

    /// Takes in a sign of life of another node.
    pub(crate) fn on_pong(&mut self, node_id: NodeId) -> Option<Order> {
        if let Some(round) = self.round.as_mut().filter(|round| round.asked.contains(&node_id)) {
            round.answered.insert(node_id);
        }
        self.questions.remove(&node_id).map(|_| Order::Tell { node_id, is_reached: true })
    }

    /// No connection to that node could be made, or it broke.
    pub(crate) fn on_unreached(&mut self, node_id: NodeId) -> Option<Order> {
        self.questions.remove(&node_id).map(|_| Order::Tell { node_id, is_reached: false })
    }

    /// Looks at the time. `witnesses` are the other nodes that are alive and not on the head's machine.
    pub(crate) fn look(&mut self, now: u64, witnesses: impl FnOnce() -> Vec<NodeId>) -> Vec<Order> {
        let mut orders = Vec::new();
        let Some(mut heard) = self.heard else { return orders };
        // This process stood still: that it heard nothing meanwhile is no sign.
        if now.saturating_sub(self.due) > self.suspect_ms() {
            heard = now;
            self.heard = Some(now);
        }
        let late: Vec<NodeId> = self
            .questions
            .iter()
            .filter(|(_, asked)| now.saturating_sub(**asked) >= self.round_ms())
            .map(|(node_id, _)| *node_id)
            .collect();
        for node_id in late {
            self.questions.remove(&node_id);
            orders.push(Order::Tell { node_id, is_reached: false });
        }
        let silence = now.saturating_sub(heard);
        if silence < self.suspect_ms() {
            self.round = None;
            self.suspend(false, &mut orders);
            self.due = heard + self.suspect_ms();
        // Nobody declares a guest dead for its silence: it needs no witnesses, and stops no work.
        } else if silence < self.headless_ms_max && self.place == Place::Guest {
            self.due = heard + self.headless_ms_max;
        } else if silence >= self.headless_ms_max {
            let seconds = silence / 1000;
            let reason = format!("nothing was heard of the control service for {seconds} s");
            // Begun anew, the node counts from its next registration on.
            self.heard = None;
            self.due = u64::MAX;
            orders.push(Order::Rejoin(reason));
            return orders;
        } else {
            self.search(now, silence, &witnesses(), &mut orders);
        }
        if let Some(asked) = self.questions.values().min() {
            self.due = self.due.min(asked + self.round_ms());
        }
        orders
    }

    fn search(&mut self, now: u64, silence: u64, witnesses: &[NodeId], orders: &mut Vec<Order>) {
        if let Some(round) = self.round.take_if(|round| round.until <= now) {
            let is_minority = self.is_minority(&round, silence, now);
            self.suspend(is_minority, orders);
        }
        if self.round.is_none() {
            self.rounds += 1;
            let many = witnesses.len().max(1);
            let first = (self.rounds * PEERS_ASKED_MAX) % many;
            let asked = witnesses.iter().cycle().skip(first).take(PEERS_ASKED_MAX.min(many));
            let asked: BTreeSet<NodeId> = asked.copied().collect();
            // The connection may have died in silence: a new one tells more than waiting does.
            orders.push(Order::Reach);
            orders.extend(asked.iter().map(|node_id| Order::Ping(*node_id)));
            let until = self.round_end(silence, now);
            self.round = Some(Round { until, asked, answered: BTreeSet::new() });
        }
        self.due = self.round.as_ref().map_or(now, |round| round.until);
    }

    /// Returns the end of a round of pings that begins now. The first ones end a round's time before a
    /// verdict can fall, also where this machine is so busy that they begin late: that is the time to stop
    /// the workers in.
    fn round_end(&self, silence: u64, now: u64) -> u64 {
        let left = (self.silence_ms_max - self.round_ms()).saturating_sub(silence);
        match left {
            0 => now + self.round_ms(),
            left => now + self.round_ms().min(left).max(self.round_ms() / 4),
        }
    }

    /// Whether the control service may declare this node dead while it is silent.
    fn is_minority(&self, round: &Round, silence: u64, now: u64) -> bool {
        if self.place != Place::Elsewhere || mutant!("cut-off-node-goes-on") {
            return false;
        }
        if round.asked.is_empty() {
            // Nobody else can testify, so the control service waits longer, see `alone_ms`. A machine that
            // refuses connections is there: its control service has ended and declares nobody dead.
            let is_refused =
                self.refused.is_some_and(|at| now.saturating_sub(at) <= 2 * self.round_ms());
            return !is_refused && silence + 2 * self.round_ms() >= alone_ms(self.silence_ms_max);
        }
        let is_asked = round.answered.is_subset(&round.asked);
        assert!(is_asked, "a node that was not asked would count for the majority");
        // This node counts too.
        2 * (round.answered.len() + 1) <= round.asked.len() + 1
    }

    fn suspend(&mut self, is_suspended: bool, orders: &mut Vec<Order>) {
        if std::mem::replace(&mut self.is_suspended, is_suspended) != is_suspended {
            let may_stop = !is_suspended || self.place == Place::Elsewhere;
            assert!(may_stop, "workers would stop that no verdict can reach");
            orders.push(if is_suspended { Order::Suspend } else { Order::Resume });
        }
    }

    /// Returns the milliseconds of silence after which the node begins to search.
    fn suspect_ms(&self) -> u64 {
        suspect_ms(self.silence_ms_max)
    }

    /// Returns the length of a round of pings, in milliseconds. Two of them fit between the suspicion
    /// and the verdict.
    fn round_ms(&self) -> u64 {
        (self.silence_ms_max / 5).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADLESS: u64 = 60_000;

    fn witnesses(count: u8) -> Vec<NodeId> {
        (1..=count).map(|number| NodeId([number; 28])).collect()
    }

    /// A node that joined at 0, and the moments of what it was told to do, in a run where `answers` of the
    /// others answer pings and the control service is silent from 0 on.
    fn run(others: u8, answers: u8, until: u64) -> Vec<(u64, Order)> {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        let all = witnesses(others);
        let mut done = Vec::new();
        while contact.due() <= until {
            let now = contact.due();
            for order in contact.look(now, || all.clone()) {
                if let Order::Ping(node_id) = order
                    && node_id.0[0] <= answers
                {
                    assert_eq!(contact.on_pong(node_id), None);
                }
                done.push((now, order));
            }
        }
        done
    }

    fn first(done: &[(u64, Order)], wanted: &Order) -> Option<u64> {
        done.iter().find(|(_, order)| order == wanted).map(|(at, _)| *at)
    }

    #[test]
    fn a_node_that_is_heard_asks_nobody() {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        for second in 0..600 {
            contact.on_heard(second * 1_000, second * 1_000);
            while contact.due() <= second * 1_000 {
                assert_eq!(contact.look(contact.due(), || witnesses(3)), []);
            }
        }
    }

    #[test]
    fn a_guest_in_a_long_silence_tries_nothing_and_goes_on_when_it_is_heard() {
        let mut contact = Contact::new(Place::Guest, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        for now in [contact.due(), 20_000, HEADLESS - 1] {
            assert_eq!(contact.look(now, || witnesses(2)), []);
        }
        contact.on_heard(HEADLESS - 1, HEADLESS);
        for _ in 0..2 {
            assert_eq!(contact.look(contact.due(), || witnesses(2)), []);
        }
        let orders = contact.look(contact.due(), || witnesses(2));
        assert!(matches!(&orders[..], [Order::Rejoin(_)]), "{orders:?}");
    }

    #[test]
    fn with_most_others_it_goes_on_and_looks_for_the_head() {
        let done = run(2, 1, 30_000);
        assert_eq!(first(&done, &Order::Suspend), None);
        assert!(done.iter().filter(|(_, order)| *order == Order::Reach).count() > 20);
    }

    #[test]
    fn with_the_minority_it_stops_its_workers_before_it_can_be_declared_dead() {
        for (others, answers) in [(1, 0), (2, 0), (3, 1), (7, 2), (20, 3)] {
            let done = run(others, answers, 30_000);
            let at = first(&done, &Order::Suspend).expect("suspended");
            assert!(at < 5_000, "{others} others, {answers} answer: suspended at {at}");
        }
    }

    /// The answer took long, and so did this machine: what counts is when the heartbeat was sent.
    #[test]
    fn its_time_is_up_before_that_of_the_control_service() {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        contact.on_heard(1_000, 3_400);
        assert_eq!(contact.due(), 2_500, "a look that comes too early is none");
        let mut suspended = None;
        while suspended.is_none() && contact.due() < 30_000 {
            // Each look comes late.
            let now = contact.due().max(3_400) + 400;
            if contact.look(now, || witnesses(2)).contains(&Order::Suspend) {
                suspended = Some(now);
            }
        }
        assert!(suspended.is_some_and(|at| at < 6_000), "{suspended:?}");
    }

    #[test]
    fn alone_it_goes_on_longer() {
        let at = first(&run(0, 0, 30_000), &Order::Suspend).expect("suspended");
        assert!((5_000..10_000).contains(&at), "{at}");
    }

    #[test]
    fn alone_it_goes_on_where_the_head_has_only_ended() {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        while contact.due() < 50_000 {
            let now = contact.due();
            contact.on_control_refused(now);
            assert!(!contact.look(now, Vec::new).contains(&Order::Suspend));
        }
    }

    #[test]
    fn beside_the_control_service_it_never_stops_its_workers() {
        let mut contact = Contact::new(Place::BesideHead, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        while contact.due() < 50_000 {
            assert!(!contact.look(contact.due(), || witnesses(2)).contains(&Order::Suspend));
        }
    }

    #[test]
    fn in_the_heads_process_there_is_nothing_to_find_out() {
        let mut contact = Contact::new(Place::InHead, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        assert_eq!(contact.due(), u64::MAX);
    }

    #[test]
    fn what_was_stopped_goes_on_when_the_control_service_is_heard() {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        while !contact.is_suspended {
            contact.look(contact.due(), || witnesses(2));
        }
        contact.on_heard(4_800, 4_900);
        assert_eq!(contact.look(contact.due(), || witnesses(2)), [Order::Resume]);
        assert!(!contact.is_suspended);
    }

    #[test]
    fn without_a_head_for_too_long_it_starts_anew() {
        let done = run(2, 2, 100_000);
        let (at, last) = done.last().expect("orders");
        assert!(matches!(last, Order::Rejoin(_)));
        assert!((HEADLESS..HEADLESS + 2_000).contains(at), "{at}");
    }

    #[test]
    fn a_process_that_stood_still_does_not_take_its_sleep_for_silence() {
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        assert_eq!(contact.look(100_000, || witnesses(2)), []);
        assert_eq!(contact.due(), 102_500);
    }

    #[test]
    fn a_question_is_answered_by_a_pong_a_broken_connection_or_the_time() {
        let [one, two, three] = [1, 2, 3].map(|number| NodeId([number; 28]));
        let mut contact = Contact::new(Place::Elsewhere, HEADLESS);
        contact.on_accepted(5_000, 0, 0);
        for node_id in [one, two, three] {
            assert_eq!(contact.on_question(node_id, 100), Order::Ping(node_id));
        }
        let tell = |node_id, is_reached| Order::Tell { node_id, is_reached };
        assert_eq!(contact.on_pong(one), Some(tell(one, true)));
        assert_eq!(contact.on_unreached(two), Some(tell(two, false)));
        assert_eq!(contact.due(), 1_100);
        contact.on_heard(1_000, 1_000);
        assert_eq!(contact.look(1_100, Vec::new), [tell(three, false)]);
        assert_eq!(contact.on_pong(three), None);
    }
}

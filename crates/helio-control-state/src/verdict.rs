//! The decision which silent nodes are dead.
//!
//! A node that is not heard may be gone, or the link between it and the head may be. So a verdict needs
//! evidence:
//!
//! | silent for | and | verdict |
//! |---|---|---|
//! | `silence_ms_max` | the two nodes that were asked do not reach it either | dead |
//! | `silence_ms_max` | it runs on the head's machine | dead |
//! | twice that | it is the only other machine, and the head's link is up | dead |
//! | `patience_ms` | nothing more | dead: it has given up its workers by itself |
//!
//! A head that misses more than half of the other machines suspects itself and waits with everyone until
//! `patience_ms`. A node that is with the minority of the others stops its workers before the verdict can
//! fall (`contact` in helio-node-state), so what is given to others never runs twice. The indirect probe is
//! that of SWIM (Das, Gupta and Motivala 2002).

use std::collections::BTreeMap;

use helio_config::control::{WITNESSES, alone_ms, suspect_ms};
use helio_types::{NodeId, mutant};

/// The head's view of a node that is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sight {
    pub(crate) node_id: NodeId,
    /// Milliseconds that the node has been silent.
    pub(crate) silence_ms: u64,
    /// Whether it runs on the head's machine: no link is between them.
    pub(crate) is_here: bool,
}

/// The limits of nodes' silence, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) heartbeat_ms: u64,
    pub(crate) silence_ms_max: u64,
    pub(crate) patience_ms: u64,
}

impl Patience {
    /// Returns the silence, in milliseconds, after which a node is suspected and others are asked.
    pub(crate) fn suspect_ms(&self) -> u64 {
        suspect_ms(self.silence_ms_max)
    }
}

/// The outcome of a look at the nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// The dead, each with its cause.
    pub(crate) dead: Vec<(NodeId, String)>,
    /// The questions to ask: the node to ask, and the silent one.
    pub(crate) questions: Vec<(NodeId, NodeId)>,
    /// Whether the head misses most nodes and suspects itself; set when that changed since the last look.
    pub(crate) doubt: Option<bool>,
}

#[derive(Debug, Default)]
struct Suspicion {
    asked_ms: u64,
    /// Number of rounds of questions so far, so that each round asks other nodes.
    rounds: usize,
    /// The nodes that were asked last, and the answer of each.
    witnesses: BTreeMap<NodeId, Option<bool>>,
}

impl Suspicion {
    /// All who were asked say that they do not reach the node.
    fn is_confirmed(&self) -> bool {
        !self.witnesses.is_empty() && self.witnesses.values().all(|said| *said == Some(false))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    suspicions: BTreeMap<NodeId, Suspicion>,
    in_doubt: bool,
    /// The time since which the head has had no reason to suspect itself: before, silence was not evidence.
    sure_since_ms: u64,
    /// The head's machine has no link.
    is_cut_off: bool,
}

impl Verdict {
    /// Whether any node is suspected: then it is looked at them again soon.
    pub(crate) fn is_watching(&self) -> bool {
        !self.suspicions.is_empty()
    }

    /// Whether a look changes nothing and yields nothing while no node is missed.
    pub(crate) fn is_calm(&self) -> bool {
        self.suspicions.is_empty() && !self.in_doubt && !self.is_cut_off
    }

    /// The link of the head's machine is up, or down.
    pub(crate) fn on_link(&mut self, is_up: bool) {
        self.is_cut_off = !is_up;
    }

    /// A node that was asked says whether it reaches another.
    pub(crate) fn on_probed(&mut self, witness: NodeId, about: NodeId, is_reached: bool) {
        if let Some(suspicion) = self.suspicions.get_mut(&about)
            && let Some(said) = suspicion.witnesses.get_mut(&witness)
        {
            *said = Some(is_reached);
        }
    }

    pub(crate) fn forget(&mut self, node_id: NodeId) {
        self.suspicions.remove(&node_id);
    }

    /// Judges the nodes that are alive.
    pub(crate) fn look(&mut self, now_ms: u64, patience: Patience, sights: &[Sight]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let is_missed = |sight: &&Sight| sight.silence_ms >= patience.suspect_ms();
        // A node on the head's own machine is heard whatever the network does: it is no sign of being cut off.
        let elsewhere = sights.iter().filter(|sight| !sight.is_here);
        let n_elsewhere = elsewhere.clone().count();
        let n_missed = elsewhere.clone().filter(is_missed).count();
        let is_lonely = n_elsewhere == 1;
        let in_doubt =
            self.is_cut_off || (n_missed > 0 && 2 * n_missed > n_elsewhere && !is_lonely);
        // Silence that fell into a doubt may be this head's own fault: it counts from the end of that on.
        if in_doubt {
            self.sure_since_ms = now_ms;
        }
        assert!(now_ms >= self.sure_since_ms, "a doubt of the future would count as long ago");
        let sure_ms = now_ms - self.sure_since_ms;
        if std::mem::replace(&mut self.in_doubt, in_doubt) != in_doubt {
            verdicts.doubt = Some(in_doubt);
        }
        self.suspicions.retain(|node_id, _| {
            sights.iter().any(|sight| sight.node_id == *node_id && is_missed(&sight))
        });
        let heard: Vec<NodeId> =
            elsewhere.filter(|sight| !is_missed(sight)).map(|sight| sight.node_id).collect();
        for sight in sights.iter().filter(is_missed) {
            let is_confirmed = self.ask(now_ms, patience, sight, &heard, &mut verdicts)
                || mutant!("no-witness-needed");
            let evident_ms = match (sight.is_here || is_confirmed, is_lonely) {
                (true, _) if mutant!("dead-after-half-the-silence") => patience.suspect_ms(),
                (true, _) => patience.silence_ms_max,
                (false, true) => alone_ms(patience.silence_ms_max),
                (false, false) => patience.patience_ms,
            };
            let counted_ms =
                if sight.is_here { sight.silence_ms } else { sight.silence_ms.min(sure_ms) };
            // Doubt delays a verdict, and does not prevent it: a node that is silent for so long is of no use, whosever
            // fault it is.
            if counted_ms >= evident_ms || sight.silence_ms >= patience.patience_ms {
                let cause = self.cause(sight, is_confirmed, evident_ms);
                verdicts.dead.push((sight.node_id, cause));
            }
        }
        for (node_id, _) in &verdicts.dead {
            self.suspicions.remove(node_id);
        }
        verdicts
    }

    /// Sees to it that others are asked; whether those who were confirm that the node is not reached.
    fn ask(
        &mut self,
        now_ms: u64,
        patience: Patience,
        sight: &Sight,
        heard: &[NodeId],
        verdicts: &mut Verdicts,
    ) -> bool {
        let suspicion = self.suspicions.entry(sight.node_id).or_default();
        let is_judge_of_itself = suspicion.witnesses.contains_key(&sight.node_id);
        assert!(!is_judge_of_itself, "a node would testify that it is not reached");
        let is_confirmed = suspicion.is_confirmed();
        let is_asked = suspicion.rounds > 0
            && now_ms.saturating_sub(suspicion.asked_ms) < 2 * patience.heartbeat_ms;
        if sight.is_here || is_asked || heard.is_empty() {
            return is_confirmed;
        }
        // Neighbours in the order of ids, others in each round.
        let next = heard.partition_point(|node_id| *node_id < sight.node_id);
        let first = (next + suspicion.rounds * WITNESSES) % heard.len();
        let asked = heard.iter().cycle().skip(first).take(WITNESSES.min(heard.len()));
        suspicion.witnesses = asked.map(|node_id| (*node_id, None)).collect();
        suspicion.asked_ms = now_ms;
        suspicion.rounds += 1;
        let questions = suspicion.witnesses.keys().map(|witness| (*witness, sight.node_id));
        verdicts.questions.extend(questions);
        is_confirmed
    }

    fn cause(&self, sight: &Sight, is_confirmed: bool, may_be_ms: u64) -> String {
        let seconds = sight.silence_ms / 1000;
        let witnesses = self.suspicions.get(&sight.node_id).map(|suspicion| &suspicion.witnesses);
        match witnesses.map_or(0, BTreeMap::len) {
            1 if is_confirmed => {
                format!("it was silent for {seconds} s, and another node did not reach it either")
            }
            n if n > 1 && is_confirmed => {
                format!(
                    "it was silent for {seconds} s, and {n} other nodes did not reach it either"
                )
            }
            _ => {
                let may_be = may_be_ms as f64 / 1000.0;
                format!("it was silent for {seconds} s, and may be for {may_be} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { heartbeat_ms: 1_000, silence_ms_max: 5_000, patience_ms: 65_000 };

    fn id(number: u8) -> NodeId {
        NodeId([number; 28])
    }

    #[test]
    fn a_calm_head_learns_nothing_while_no_node_is_missed() {
        let sight = |number, silence_ms| Sight { node_id: id(number), silence_ms, is_here: false };
        let heard = [sight(1, 0), sight(2, PATIENCE.suspect_ms() - 1), sight(3, 0)];
        let missed = [sight(1, 0), sight(2, PATIENCE.suspect_ms()), sight(3, 0)];
        let mut verdict = Verdict::default();
        assert!(verdict.is_calm());
        assert_eq!(verdict.look(1_000, PATIENCE, &heard), Verdicts::default());
        assert!(verdict.is_calm(), "such looks need not be taken");
        verdict.look(2_000, PATIENCE, &missed);
        assert!(!verdict.is_calm(), "a look without the node ends the suspicion");
        assert_eq!(verdict.look(3_000, PATIENCE, &heard), Verdicts::default());
        assert!(verdict.is_calm());
        verdict.on_link(false);
        assert!(!verdict.is_calm(), "the doubt is news");
        assert_eq!(verdict.look(4_000, PATIENCE, &heard).doubt, Some(true));
        verdict.on_link(true);
        assert!(!verdict.is_calm(), "and so is its end");
        assert_eq!(verdict.look(5_000, PATIENCE, &heard).doubt, Some(false));
        assert!(verdict.is_calm());
    }

    /// Nodes 1..=count of other machines; those in `silent` are not heard from 0 on. Every question is
    /// answered with what `reaches` says. When each was declared dead.
    fn run(
        count: u8,
        silent: &[u8],
        reaches: impl Fn(u8) -> Option<bool>,
        until_ms: u64,
        is_up: bool,
    ) -> BTreeMap<u8, u64> {
        let mut verdict = Verdict::default();
        verdict.on_link(is_up);
        let mut dead = BTreeMap::new();
        let mut open: Vec<(NodeId, NodeId)> = Vec::new();
        for now_ms in (0..until_ms).step_by(100) {
            for (witness, about) in std::mem::take(&mut open) {
                if let Some(is_reached) = reaches(about.0[0]) {
                    verdict.on_probed(witness, about, is_reached);
                }
            }
            let sights: Vec<Sight> = (1..=count)
                .filter(|number| !dead.contains_key(number))
                .map(|number| Sight {
                    node_id: id(number),
                    silence_ms: if silent.contains(&number) { now_ms } else { 0 },
                    is_here: false,
                })
                .collect();
            let verdicts = verdict.look(now_ms, PATIENCE, &sights);
            for (witness, about) in &verdicts.questions {
                assert!(!silent.contains(&witness.0[0]) && silent.contains(&about.0[0]));
            }
            open = verdicts.questions;
            dead.extend(verdicts.dead.iter().map(|(node_id, _)| (node_id.0[0], now_ms)));
        }
        dead
    }

    #[test]
    fn a_node_that_others_do_not_reach_either_dies_at_once() {
        for count in [2, 3, 8, 100] {
            let dead = run(count, &[2], |_| Some(false), 70_000, true);
            assert_eq!(dead.keys().copied().collect::<Vec<_>>(), [2]);
            assert!((5_000..5_500).contains(&dead[&2]), "{dead:?}");
        }
    }

    #[test]
    fn a_node_that_only_the_head_misses_gets_all_patience() {
        let dead = run(4, &[3], |_| Some(true), 80_000, true);
        assert_eq!(dead, BTreeMap::from([(3, 65_000)]));
    }

    #[test]
    fn without_an_answer_nobody_dies_early() {
        let dead = run(4, &[3], |_| None, 80_000, true);
        assert_eq!(dead, BTreeMap::from([(3, 65_000)]));
    }

    #[test]
    fn a_head_that_misses_most_buries_nobody() {
        for (count, silent) in [(2, &[1, 2][..]), (3, &[1, 2][..]), (8, &[1, 2, 3, 4, 5][..])] {
            assert_eq!(run(count, silent, |_| Some(false), 64_000, true), BTreeMap::new());
        }
    }

    #[test]
    fn a_head_without_a_link_buries_nobody() {
        assert_eq!(run(1, &[1], |_| None, 64_000, false), BTreeMap::new());
        assert_eq!(run(8, &[1], |_| Some(false), 64_000, false), BTreeMap::new());
    }

    #[test]
    fn after_a_doubt_silence_counts_anew() {
        let mut verdict = Verdict::default();
        let sight = |number, silence_ms| Sight { node_id: id(number), silence_ms, is_here: false };
        verdict.on_link(false);
        let _ = verdict.look(40_000, PATIENCE, &[sight(1, 40_000)]);
        verdict.on_link(true);
        let verdicts = verdict.look(49_000, PATIENCE, &[sight(1, 49_000)]);
        assert_eq!(verdicts.dead, []);
        let verdicts = verdict.look(50_000, PATIENCE, &[sight(1, 50_000)]);
        assert_eq!(verdicts.dead.len(), 1);
    }

    #[test]
    fn half_of_the_nodes_can_die_together() {
        let dead = run(8, &[1, 2, 3, 4], |_| Some(false), 20_000, true);
        assert_eq!(dead.len(), 4);
        assert!(dead.values().all(|at| *at < 5_500));
    }

    #[test]
    fn the_only_other_machine_gets_twice_the_time() {
        let dead = run(1, &[1], |_| None, 20_000, true);
        assert_eq!(dead, BTreeMap::from([(1, 10_000)]));
    }

    #[test]
    fn on_the_heads_machine_no_link_can_be_the_cause() {
        let mut verdict = Verdict::default();
        let sights =
            [1, 2].map(|number| Sight { node_id: id(number), silence_ms: 5_000, is_here: true });
        let verdicts = verdict.look(5_000, PATIENCE, &sights);
        assert_eq!(verdicts.dead.len(), 2);
        assert_eq!(verdicts.questions, []);
    }

    #[test]
    fn a_node_that_speaks_again_is_suspected_no_more() {
        let mut verdict = Verdict::default();
        let sight = |silence_ms| [Sight { node_id: id(1), silence_ms, is_here: false }];
        let _ = verdict.look(3_000, PATIENCE, &sight(3_000));
        assert!(verdict.is_watching());
        let _ = verdict.look(3_100, PATIENCE, &sight(0));
        assert!(!verdict.is_watching());
    }
}

//! The shape of the curves, by counts: what must not grow with the number of nodes does not.

#![allow(clippy::unwrap_used, reason = "tests")]

use helio_scale::costs::Costs;
use helio_scale::scenario::{Outcome, Size, queue_tasks, run};

fn outcome(n_nodes: usize) -> Outcome {
    let size = Size { n_nodes, actors_a_node: 5, window: 200, seconds: 2 };
    run(size, &Costs::rough(), false).unwrap()
}

fn each(count: u64, outcome: &Outcome) -> f64 {
    count as f64 / outcome.n_nodes as f64
}

/// LIMIT-1, CTL-1: from 50 to 250 nodes messages of each node stay the same, placement looks at few more
/// nodes, and views do not grow with the square.
#[test]
fn costs_grow_as_they_should() {
    let (few, many) = (outcome(50), outcome(250));

    // At rest a node costs one heartbeat a second and its answer.
    for one in [&few, &many] {
        let seconds = one.at_rest.passed_ns as f64 / 1e9;
        let beats = each(one.at_rest.received, one) / seconds;
        assert!((0.8..=1.2).contains(&beats), "{beats} messages a second of each idle node");
        let answers = each(one.at_rest.sent, one) / seconds;
        assert!((0.8..=1.2).contains(&answers), "{answers} messages a second to each idle node");
        assert_eq!(one.at_rest.visited, 0, "nothing is placed");
    }

    // Every daemon knows all others, and hears as much of them however many there are.
    for one in [&few, &many] {
        assert_eq!(one.known, vec![one.n_nodes - 1; 16]);
    }
    let heard = |one: &Outcome| one.under_load.daemons.entries as f64 / 16.0;
    assert!(heard(&many) <= 1.2 * heard(&few), "{} and {} nodes", heard(&few), heard(&many));

    // Under load each node is told of a bounded number of others.
    let entries = |one: &Outcome| {
        each(one.under_load.view_entries, one)
            / (one.under_load.received as f64 / one.n_nodes as f64)
    };
    assert!(
        entries(&few) <= 33.0 && entries(&many) <= 33.0,
        "{} and {}",
        entries(&few),
        entries(&many)
    );
    let told = |one: &Outcome| each(one.under_load.sent, one);
    assert!(told(&many) <= 1.2 * told(&few), "{} and {} messages", told(&few), told(&many));

    // A placement looks at a number of nodes like the logarithm of how many there are.
    for one in [&few, &many] {
        assert_eq!(one.creating.launches, one.n_actors as u64);
    }
    for one in [&few, &many] {
        let visited = one.creating.visited as f64 / one.creating.launches as f64;
        let logarithm = (one.n_nodes as f64).log2();
        assert!(visited <= 5.0 * logarithm, "{visited} of {} nodes", one.n_nodes);
    }

    // Every node whose requests wait is told of one with room.
    for one in [&few, &many] {
        assert_eq!(one.spilling.spills_ns.len(), one.n_nodes / 10);
    }

    // Deaths that come together cost each other node a few messages.
    for one in [&few, &many] {
        assert!(one.recovering.launches > 0);
        let views = each(one.recovering.views, one);
        assert!(views <= 12.0, "{views} views for each node of {}", one.n_nodes);
    }
}

/// A million tasks wait at their owner; the daemon sees a bounded number of requests.
#[test]
fn queued_tasks_wait_at_their_owner() {
    let (few, many) = (queue_tasks(1_000), queue_tasks(20_000));
    assert!(many.messages <= few.messages.max(100), "{} messages", many.messages);
    assert!(many.bytes <= 2.0 * few.bytes + 64.0, "{} and {} bytes each", few.bytes, many.bytes);
}

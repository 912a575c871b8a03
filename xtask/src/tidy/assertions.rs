//! The machines end at a broken invariant that would do silent harm, in release builds, too: how many assertions each
//! crate, and each sub-machine that has a table of its own, has at least.

use super::Source;

/// (where, how many assertions outside tests it has at least). Raise a number with each that comes; one that goes needs
/// a reason.
const FLOORS: &[(&str, usize)] = &[
    ("crates/helio-process-state/", 12),
    ("crates/helio-process-state/src/executor/running.rs", 2),
    ("crates/helio-process-state/src/links/", 5),
    ("crates/helio-process-state/src/requests.rs", 3),
    ("crates/helio-process-state/src/store.rs", 2),
    ("crates/helio-owner-state/", 14),
    ("crates/helio-owner-state/src/borrows.rs", 2),
    ("crates/helio-owner-state/src/calls.rs", 5),
    ("crates/helio-owner-state/src/leases/", 9),
    ("crates/helio-owner-state/src/lineages.rs", 1),
    ("crates/helio-owner-state/src/objects/", 5),
    ("crates/helio-owner-state/src/streams.rs", 2),
    ("crates/helio-node-state/", 28),
    ("crates/helio-node-state/src/actors.rs", 2),
    ("crates/helio-node-state/src/arguments.rs", 2),
    ("crates/helio-node-state/src/bundles.rs", 2),
    ("crates/helio-node-state/src/clients.rs", 2),
    ("crates/helio-node-state/src/drain.rs", 2),
    ("crates/helio-node-state/src/leases/", 4),
    ("crates/helio-node-state/src/ledger.rs", 2),
    ("crates/helio-node-state/src/pool/", 2),
    ("crates/helio-node-state/src/store/", 10),
    ("crates/helio-control-state/", 17),
    ("crates/helio-control-state/src/actors.rs", 2),
    ("crates/helio-control-state/src/groups/", 2),
    ("crates/helio-control-state/src/jobs.rs", 2),
    ("crates/helio-control-state/src/nodes/", 2),
    ("crates/helio-control-state/src/queue.rs", 2),
    ("crates/helio-control-state/src/subscriptions.rs", 2),
    ("crates/helio-control-state/src/watches.rs", 2),
    ("crates/helio-proto/", 2),
    ("crates/helio-store/src/arena.rs", 2),
    ("crates/helio-store/src/heap.rs", 3),
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let short = FLOORS.iter().filter_map(|(place, floor)| {
        let here = sources.iter().filter(|source| source.path.starts_with(place));
        let count = here.filter(|source| source.is("rs")).map(count).sum::<usize>();
        (count < *floor).then(|| {
            format!(
                "{place}: {count} release assertions, and {floor} by xtask/src/tidy/assertions.rs"
            )
        })
    });
    short.collect()
}

fn count(source: &Source) -> usize {
    const WORDS: [&str; 3] = ["assert!(", "assert_eq!(", "assert_ne!("];
    let is_one = |line: &str| WORDS.iter().any(|word| line.trim_start().starts_with(word));
    source.code().filter(|(_, line)| is_one(line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn an_assertion_that_went_is_missed_and_those_of_tests_and_debug_builds_do_not_count() {
        let text =
            "    assert!(a);\n    debug_assert!(b);\n#[cfg(test)]\nmod tests {\n    assert!(c);\n}";
        let problems = check(&[source("crates/helio-proto/src/frame.rs", text)]);
        let proto = problems.iter().find(|problem| problem.starts_with("crates/helio-proto/"));
        assert!(proto.unwrap().contains("1 release assertions, and 2"), "{problems:?}");
        let two = source("crates/helio-proto/src/frame.rs", "assert!(a);\nassert_eq!(a, b);");
        assert!(!check(&[two]).iter().any(|problem| problem.starts_with("crates/helio-proto/")));
    }
}

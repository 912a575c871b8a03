//! Bugs that are planted on purpose in the machines ([`helio_types::mutant`]), and the hunt for them.
//!
//! A judge that lets one pass accepts a runtime that does less than it promised. `cargo xtask mutants` plants one
//! after the other, runs seeds until one fails, and writes `docs/internals/mutants.md`.

#[cfg(feature = "mutants")]
use crate::scenarios::Scenario;

/// A bug that can be planted.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The name in `mutant!`.
    pub name: &'static str,
    /// The part of the system that has the bug.
    pub area: &'static str,
    /// The effect of the bug, as a sentence.
    pub breaks: &'static str,
}

const fn row(area: &'static str, name: &'static str, breaks: &'static str) -> Mutant {
    Mutant { name, area, breaks }
}

/// All of them, by area.
pub const MUTANTS: &[Mutant] = &[
    row("retries", "task-not-retried", "a task whose worker died fails, though retries are left"),
    row(
        "retries",
        "method-not-retried",
        "a method whose actor died fails, though retries are left",
    ),
    row("retries", "raised-call-not-retried", "an exception that the options retry is the result"),
    row("retries", "retry-not-counted", "a call is tried again for ever"),
    row(
        "retries",
        "begun-call-does-not-count",
        "a call that may have begun is sent again for nothing",
    ),
    row("retries", "unbegun-call-counts", "a call that cannot have begun costs a retry"),
    row(
        "lineage",
        "lineage-with-an-end-forgotten",
        "what a call with 1 or 3 retries made is not made again",
    ),
    row(
        "lineage",
        "making-again-not-counted",
        "a lost object is made again more often than its retries say",
    ),
    row(
        "lineage",
        "lost-argument-not-made-again",
        "a call is made again without the arguments that were lost with its result",
    ),
    row(
        "lineage",
        "argument-at-hand-given-up",
        "an item that is there is given up when a call that took it is made again",
    ),
    row("restarts", "one-restart-refused", "`max_restarts=1` is not honoured"),
    row(
        "restarts",
        "one-restart-too-many",
        "an actor is restarted once more than `max_restarts` says",
    ),
    row(
        "restarts",
        "failed-constructor-tried-again",
        "an actor whose constructor raised is restarted",
    ),
    row("restarts", "killed-actor-restarted", "`kill(no_restart=True)` restarts"),
    row(
        "retries",
        "unsent-method-given-up",
        "a method that was never sent fails when no connection could be made to its actor",
    ),
    row(
        "restarts",
        "method-does-not-wait-for-a-restart",
        "a method with retries fails while its actor restarts",
    ),
    row("pins", "pin-forgotten", "an object that is read can be moved"),
    row(
        "pins",
        "forgotten-object-stays-pinned",
        "what somebody else owns stays pinned when nobody here refers to it",
    ),
    row(
        "cancelling",
        "cancelled-call-retried",
        "a cancelled call whose worker died is tried again",
    ),
    row("cancelling", "waiting-call-not-cancelled", "a call that waits is not stopped"),
    row("cancelling", "children-not-cancelled", "what a cancelled call has made goes on"),
    row(
        "placement",
        "spread-tasks-packed",
        "tasks with the strategy SPREAD go to nodes as any others",
    ),
    row(
        "transfers",
        "object-moves-while-it-is-sent",
        "an object can be moved while another node reads it",
    ),
    row(
        "transfers",
        "lost-transfer-not-repeated",
        "an object is given up when a connection broke over which it came",
    ),
    row(
        "memory",
        "last-tries-end-first",
        "a worker whose call has no retries ends before others when memory is short",
    ),
    row(
        "actors",
        "early-subscriber-forgotten",
        "who asks for an actor before it is made never hears of it",
    ),
    row(
        "arguments",
        "arguments-of-the-dead-count",
        "arguments of tasks whose worker died take room for ever",
    ),
    row(
        "placement",
        "bundle-given-back-under-its-users",
        "a bundle is given back while its users still run",
    ),
    row("workers", "idle-workers-without-end", "more idle workers stay than a node keeps"),
    row("jobs", "detached-actor-ends-with-its-job", "a detached actor ends with its job"),
    row("jobs", "actors-outlive-their-owner", "an actor whose owner died lives on"),
    row("placement", "newest-actor-first", "of actors that wait the newest is placed first"),
    row("pins", "late-object-pinned", "what comes after its reader has left stays pinned"),
    row(
        "pins",
        "abandoned-copy-forgotten",
        "what an attempt has written that was given up stays when the result is freed",
    ),
    row(
        "pins",
        "late-copy-forgotten",
        "a copy stays that was made of what its owner has freed meanwhile",
    ),
    row(
        "pins",
        "copies-of-dead-readers-stay",
        "a copy stays whose reader died before it told the owner",
    ),
    row(
        "pins",
        "dead-owners-objects-stay",
        "what a dead process owned stays in the stores of nodes",
    ),
    row("pins", "free-ignored", "an object that its owner freed stays"),
    row("pins", "borrow-not-counted", "an object is freed that somebody else holds"),
    row(
        "pins",
        "borrow-gate-open",
        "a reference is let go of before its owner knows of the next holder",
    ),
    row(
        "pins",
        "returned-reference-not-held",
        "a reference inside a result is let go of on the way",
    ),
    row(
        "pins",
        "links-into-dead-nodes-stay",
        "who waits for a process of a machine without power is not told of the machine's death",
    ),
    row("pins", "owners-death-ignored", "readers of an owner that died are not told"),
    row("leases", "lease-given-back-twice", "what a lease took is given back twice"),
    row("leases", "idle-lease-kept", "an idle worker is never given back"),
    row("leases", "room-given-twice", "what is lent counts as free"),
    row("leases", "waiting-workers-cpu-not-lent", "a worker that waits keeps its CPU"),
    row("order", "method-overtakes", "a method passes one that waits for its argument"),
    row(
        "order",
        "retried-methods-come-last",
        "methods that are tried again come behind those made later",
    ),
    row("order", "last-call-first", "a worker begins with the newest call"),
    row("persistence", "overwritten-key-not-persisted", "the second value of a key is not durable"),
    row("persistence", "deleted-key-stays-durable", "a deleted key is back after a restart"),
    row("persistence", "actor-not-persisted", "an actor is not durable"),
    row("persistence", "incarnation-not-persisted", "an actor's restarts are not durable"),
    row("persistence", "dead-actor-stays-durable", "the record of a dead actor stays"),
    row("persistence", "group-not-persisted", "a placement group is not durable"),
    row(
        "persistence",
        "removed-group-stays-durable",
        "the record of a removed placement group stays",
    ),
    row("persistence", "running-job-not-persisted", "a job is not durable while it runs"),
    row(
        "jobs",
        "ended-job-listed-as-running",
        "a list of jobs says that one runs whose driver ended",
    ),
    row(
        "back-pressure",
        "generator-ignores-its-bound",
        "a generator yields whether or not somebody reads",
    ),
    row(
        "back-pressure",
        "generator-not-told-of-its-reader",
        "a generator waits for a reader that has read",
    ),
    row("placement", "strict-spread-packed", "STRICT_SPREAD puts bundles onto one node"),
    row("placement", "strict-pack-spread", "STRICT_PACK puts bundles onto several nodes"),
    row("placement", "spread-packed", "SPREAD puts bundles onto one node while another is empty"),
    row(
        "placement",
        "pack-spread",
        "PACK puts bundles onto several nodes while one could hold them",
    ),
    row("placement", "affinity-ignored", "a task that is bound to a node runs on another"),
    row("placement", "label-selector-ignored", "a task runs on a node without the label"),
    row(
        "placement",
        "negated-selector-turned-round",
        "a selector that excludes a label's value asks for it",
    ),
    row(
        "placement",
        "fallback-first",
        "a fallback is taken although the first selectors have room",
    ),
    row("placement", "fallback-ignored", "the fallbacks of a label selector are never tried"),
    row("placement", "actors-strategy-ignored", "an actor goes anywhere, whatever its strategy"),
    row("placement", "bundles-not-given-back", "the bundles of a removed group stay"),
    row(
        "fencing",
        "stopped-node-awaited",
        "a node that said that it leaves is awaited like one whose connection broke",
    ),
    row("fencing", "dead-after-half-the-silence", "a node is declared dead after half the silence"),
    row("fencing", "no-witness-needed", "a node is declared dead that only the head misses"),
    row("fencing", "cut-off-node-goes-on", "a node that is cut off does not stop its workers"),
    row("fencing", "dead-node-registers-again", "a node that was declared dead goes on"),
    row(
        "fencing",
        "stray-life-goes-on",
        "an actor lives on where the control service does not want it",
    ),
    row(
        "fencing",
        "old-life-taken-for-the-new-one",
        "news of an actor's old process count for the new one",
    ),
    row("fencing", "dead-callers-call-begins", "a call begins whose caller is known to be dead"),
    row("drains", "drained-node-leaves-at-once", "a drained node does not wait for what runs"),
    row(
        "drains",
        "drained-node-leaves-unheard",
        "a drained node leaves while the control service is away",
    ),
    row("drains", "drained-objects-not-handed-over", "a drained node leaves with its objects"),
    row(
        "drains",
        "restart-forgets-who-moves",
        "an actor that moves while the control service restarts is dead",
    ),
    row(
        "drains",
        "lost-order-to-leave-not-repeated",
        "a node whose connection broke never hears that it is to leave",
    ),
    row("drains", "order-to-stay-not-sent", "a node never hears that it is to stay after all"),
    row(
        "drains",
        "lost-order-to-stay-not-repeated",
        "a node whose connection broke never hears that it is to stay after all",
    ),
    row(
        "drains",
        "leaves-although-it-is-to-stay",
        "a node leaves although its drain was taken back",
    ),
    row("drains", "node-that-stays-takes-no-work", "a node that is to stay takes no work any more"),
    row("drains", "heir-not-named", "nobody learns who has a drained node's objects"),
    row("drains", "heir-ignored", "owners do not look for objects where they went"),
    row("drains", "drained-node-gets-work", "what is drained takes new work"),
    row("drains", "actor-stays-on-a-drained-node", "a drained node keeps an actor that could move"),
    row(
        "spilling",
        "file-counts-before-it-is-whole",
        "memory is given away before its file is whole",
    ),
    row("spilling", "failed-write-taken-for-done", "a write that the disk refused counts as done"),
    row("spilling", "file-not-removed", "the file of a freed object stays"),
    row("spilling", "failed-read-taken-for-done", "an object that the disk did not give is there"),
    row(
        "spilling",
        "damaged-file-taken-for-whole",
        "bytes of a file that differ from what was written are read",
    ),
    row(
        "leases",
        "all-classes-refused-with-one",
        "calls that need something else fail when a node can make no process",
    ),
    row(
        "placement",
        "bundles-lent-without-end",
        "what runs in a placement group takes nothing of its bundles",
    ),
    row("placement", "actors-hold-nothing", "an actor that lives has none of its resources"),
    row(
        "placement",
        "detached-group-ends-with-its-job",
        "a detached placement group ends with its job",
    ),
    row("devices", "part-of-a-gpu-not-counted", "parts of a GPU are lent without end"),
    row(
        "devices",
        "part-given-back-to-another-bundle",
        "a part of a GPU goes back to another bundle than it came from",
    ),
    row("devices", "shared-gpu-lent-whole", "a GPU is lent whole of which somebody has a part"),
    row(
        "environments",
        "worker-of-another-environment",
        "a call runs in a worker of another runtime environment",
    ),
    row(
        "environments",
        "broken-environment-tried-again",
        "an environment that can never be made is tried again",
    ),
    row(
        "environments",
        "broken-environment-blamed-on-the-node",
        "a call whose environment cannot be made fails as if its node could make no process",
    ),
    row(
        "connections",
        "rest-of-a-message-dropped",
        "what a connection did not take at once is dropped",
    ),
    row(
        "connections",
        "part-of-a-message-sent-again",
        "what a connection took of a message is written again",
    ),
    row(
        "actors",
        "coroutines-one-at-a-time",
        "a call of an actor of coroutines waits for the one before",
    ),
    row(
        "actors",
        "sent-call-not-pending",
        "calls that were sent do not count for `max_pending_calls`",
    ),
    row(
        "actors",
        "one-call-too-few-ahead",
        "a call is refused before `max_pending_calls` are under way",
    ),
    row(
        "clocks",
        "heads-standstill-taken-for-silence",
        "nodes are declared dead because the head's clock jumped",
    ),
    row(
        "clocks",
        "own-standstill-taken-for-absence",
        "others are dead for a node whose own clock jumped after the control service had restarted",
    ),
    row("names", "name-given-twice", "`get_if_exists` makes a second actor of a name"),
    row("table", "put-overwrites-anyway", "`overwrite=False` overwrites"),
    row("table", "list-ignores-its-prefix", "a list of keys has others, too"),
    row("waits", "known-counts-as-here", "`wait` calls ready what is not on this node"),
    row(
        "persistence",
        "answers-before-it-is-durable",
        "what a full disk did not take is acknowledged",
    ),
    row(
        "recovery",
        "clients-that-ended-meanwhile-forgotten",
        "a driver that ended while the control service was away lives on",
    ),
    row(
        "recovery",
        "absent-actors-awaited-for-ever",
        "an actor whose node did not come back is never made again",
    ),
    row("recovery", "jobs-number-given-twice", "after a restart a job gets the number of another"),
    row(
        "recovery",
        "unanswered-calls-not-repeated",
        "what the control service was asked when its connection broke is never answered",
    ),
    row(
        "recovery",
        "subscriptions-not-repeated",
        "who follows an actor hears nothing after a restart of the control service",
    ),
    row(
        "retries",
        "death-heard-before-the-last-words",
        "the results that a process sent last are lost when it ends",
    ),
    row(
        "transfers",
        "second-reader-forgotten",
        "of several readers of an object that no node has one hears so",
    ),
    row("leases", "request-withdrawn-in-silence", "a worker is lent that nobody wants any more"),
    row(
        "stop",
        "node-of-another-session-joins",
        "a node that has missed a stop joins the next session at the address",
    ),
    row("stop", "stop-forgets-a-node", "a node of a cluster that is stopped goes on"),
    row(
        "stop",
        "nodes-of-a-stopped-cluster-join-anew",
        "the nodes of a cluster that is stopped join it again",
    ),
    row(
        "stop",
        "stop-awaits-nobody",
        "a cluster that is stopped does not wait for nodes without a connection",
    ),
    row(
        "stop",
        "stopped-cluster-takes-nodes-in",
        "a node that comes late to a cluster that is stopped is taken in",
    ),
    row(
        "disks",
        "disk-left-alone-for-ever",
        "a disk that did not take an object once is never tried again",
    ),
    row("hand-over", "handed-back-call-forgotten", "a call that its worker handed back is lost"),
    row(
        "pins",
        "owner-asked-after-once",
        "objects of an owner elsewhere that dies later stay on the node",
    ),
    row(
        "drains",
        "heir-not-told-what-was-freed",
        "what is freed on a node that leaves stays on its heir",
    ),
    row(
        "drains",
        "late-free-not-told-the-heir",
        "what is freed on a node that has just left stays on its heir",
    ),
    row(
        "placement",
        "removed-group-still-awaited",
        "calls for a placement group that was removed wait for ever",
    ),
    row(
        "restarts",
        "nobody-hears-that-a-process-is-gone",
        "who waits for the news of an end is not told when it comes",
    ),
    row(
        "memory",
        "out-of-memory-tried-again-at-once",
        "a call whose worker was ended for want of memory does not wait",
    ),
    row(
        "hand-over",
        "handed-back-call-begins-too",
        "a call that was handed back begins all the same",
    ),
    row(
        "order",
        "other-concurrency-groups-wait",
        "a call waits for the argument of a call of another concurrency group",
    ),
    row(
        "order",
        "unordered-call-holds-back-others",
        "an actor that takes its calls in any order takes them in their order",
    ),
    row(
        "streams",
        "items-lost-with-a-link-forgotten",
        "a generator ends without the items that a broken connection took along",
    ),
    row(
        "streams",
        "unheard-items-stay",
        "large items stay that a generator made while the news of them were lost for good",
    ),
    row(
        "streams",
        "failed-generator-just-ends",
        "the reader of a generator that raised sees its end and no error",
    ),
    row(
        "names",
        "names-known-in-every-namespace",
        "an actor is found by its name from another namespace",
    ),
    row(
        "placement",
        "group-ready-before-it-is-placed",
        "who waits for a placement group goes on before its bundles are held",
    ),
    row(
        "placement",
        "whole-group-moves-with-one-node",
        "a placement group that loses a node loses the bundles on the others, too",
    ),
    row(
        "placement",
        "lost-bundle-not-placed-again",
        "a bundle that was lost with its node is not looked for elsewhere",
    ),
    row("jobs", "worker-of-another-job", "a call runs in a worker that another job has used"),
    row("jobs", "ended-job-not-listed", "a job is forgotten when its driver has ended"),
    row(
        "jobs",
        "job-begins-with-each-question",
        "a driver whose node asks again after a broken connection has two jobs",
    ),
    row(
        "cancelling",
        "children-cancelled-though-not-asked",
        "`cancel(recursive=False)` ends what the call has made",
    ),
    row("cancelling", "cancel-by-force-only-asks", "`cancel(force=True)` leaves the worker alive"),
    row("drains", "grace-without-end", "a node that is to leave waits longer than its grace"),
    row(
        "demand",
        "groups-are-no-demand",
        "a placement group that waits does not count as demand for nodes",
    ),
    row("demand", "tasks-are-no-demand", "tasks that no node can hold are no demand for nodes"),
    row(
        "environments",
        "restart-without-its-environment",
        "an actor is restarted in another runtime environment",
    ),
    row(
        "reads",
        "old-refusal-for-a-new-reader",
        "a read raises that there was no room for an earlier one",
    ),
    row(
        "reads",
        "borrowed-value-not-asked-for",
        "who waits for a value that somebody else owns does not ask for it",
    ),
    row(
        "workers",
        "worker-of-one-call-lent-on",
        "a worker that is to run one call is kept for others",
    ),
    row("causes", "crash-blamed-on-memory", "the death of any worker is told as want of memory"),
    row("causes", "crash-blamed-on-the-node", "the death of any worker is told as its node's"),
    row("causes", "crash-blamed-on-the-store", "the death of any worker is told as a full store"),
    row(
        "causes",
        "crash-taken-for-a-refusal",
        "the death of any worker is told as that of a node that can make no processes",
    ),
    row("causes", "loss-blamed-on-the-disk", "what cannot be made again is told as a full disk"),
    row("causes", "broken-disk-told-as-full", "a disk that fails is told as one that is full"),
    row(
        "causes",
        "crash-taken-for-a-cancellation",
        "a call whose worker died is told to be cancelled",
    ),
    row(
        "causes",
        "refusal-blamed-on-the-group",
        "a call that no node could make a process for is told that its placement group is gone",
    ),
    row(
        "causes",
        "refusal-blamed-on-the-place",
        "a call that no node could make a process for is told that it may run nowhere",
    ),
    row(
        "causes",
        "owners-death-reaches-what-others-own",
        "with one owner all that is borrowed is lost",
    ),
    row(
        "causes",
        "death-blamed-on-the-group",
        "any death of an actor is told as the end of its placement group",
    ),
    row(
        "causes",
        "death-blamed-on-the-environment",
        "any death of an actor is told as a failure of its environment",
    ),
    row(
        "causes",
        "death-blamed-on-the-place",
        "any death of an actor is told as one that may live nowhere",
    ),
    row("placement", "calls-take-nothing", "a call that runs takes nothing of its node"),
];

/// The outcome of the hunt for one mutant.
#[cfg(feature = "mutants")]
#[derive(Debug)]
pub struct Found<By> {
    /// The first seed, or the name of the first scenario, that fails.
    pub by: By,
    /// The judge's first sentence about it.
    pub says: String,
}

/// Runs seeds with the mutant until one fails.
#[cfg(feature = "mutants")]
#[must_use]
pub fn hunt(mutant: &Mutant, mut seeds: std::ops::Range<u64>) -> Option<Found<u64>> {
    seeds.find_map(|seed| {
        let first = || crate::run(seed, 0).violations.into_iter().next();
        first_word(mutant, first).map(|says| Found { by: seed, says })
    })
}

/// Plays scenarios with the mutant until one fails.
#[cfg(feature = "mutants")]
#[must_use]
pub fn play(mutant: &Mutant, scenarios: &[Scenario]) -> Option<Found<&'static str>> {
    scenarios.iter().find_map(|one| {
        let says = first_word(mutant, || (one.play)().err())?;
        Some(Found { by: one.name, says })
    })
}

/// Returns what is said first of something that is run with the mutant.
#[cfg(feature = "mutants")]
fn first_word(
    mutant: &Mutant,
    run: impl FnOnce() -> Option<String> + std::panic::UnwindSafe,
) -> Option<String> {
    helio_types::mutants::plant(mutant.name);
    // A machine that ends at one of its own assertions has found it, too.
    let says = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some(format!("an assertion: {}", text.unwrap_or_default()))
    });
    helio_types::mutants::plant("");
    says
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::scenarios::SCENARIOS;

    fn page(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals").join(name);
        std::fs::read_to_string(path).expect("the page is there")
    }

    /// The words in back quotes of the last cell of each row below a heading.
    fn named(text: &str, heading: &str) -> BTreeSet<String> {
        let part = text.split("\n## ").find(|part| part.starts_with(heading)).expect("a heading");
        let cells = part.lines().filter(|line| line.starts_with("| "));
        let last = cells.filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
        let words = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        words.map(str::to_owned).collect()
    }

    #[test]
    fn the_promises_name_bugs_that_are_planted_and_found() {
        let found = page("mutants.md");
        let promised = named(&page("simulator.md"), "Promise, rule, bug");
        assert!(promised.len() > 40, "{promised:?}");
        for name in &promised {
            assert!(
                MUTANTS.iter().any(|mutant| mutant.name == name),
                "{name} is not a planted bug"
            );
        }
        for mutant in MUTANTS {
            let row = found.lines().find(|line| line.contains(&format!("| `{}` |", mutant.name)));
            let row = row.unwrap_or_else(|| panic!("cargo xtask mutants --only {}", mutant.name));
            let by = row.split(" | ").nth(3).expect("what shows it");
            let is_scenario = SCENARIOS.iter().any(|one| by == format!("scenario `{}`", one.name));
            let is_shown = is_scenario || by.parse::<u64>().is_ok();
            assert!(is_shown, "nothing shows this bug: {row}");
        }
    }
}

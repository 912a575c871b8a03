//! Settings of the control service.

/// How often a node says that it is there, in milliseconds.
pub const HEARTBEAT_MS: u64 = 1_000;

/// A node that missed so many heartbeats is dead: a machine that stalls for a moment is not given up.
pub const HEARTBEATS_MISSED_MAX: u64 = 5;

/// A control service that was told nothing for so many heartbeats, not even the time, did not run (its process
/// was stopped, its machine suspended): that nobody was heard does not mean that they have failed.
pub const STALL_HEARTBEATS: u64 = 2;

/// How long a node whose connection broke may take to come back, in milliseconds.
pub const RECONNECT_MS_MAX: u64 = 1_000;

/// How soon after a restart of the control service every node that is there has come back, in milliseconds: each tries at
/// least once in [`RECONNECT_MS_MAX`]. A cluster that is stopped meanwhile ends no sooner, so that all are told.
pub const LATE_NODES_MS: u64 = 2 * RECONNECT_MS_MAX;

/// After a restart of the control service: how long the nodes of before may take to come back before
/// what lived on them is given up, in milliseconds.
pub const RECOVERY_MS_MAX: u64 = 10_000;

/// Changed resources of nodes are gathered for at least this long before the others are told, in
/// milliseconds.
pub const VIEW_INTERVAL_MS_MIN: u64 = 20;

/// The number of nodes for which changes are gathered a millisecond longer, so that what the control service sends a
/// second stays proportional to their number (10,000 nodes are told once a second).
pub const VIEW_NODES_A_MS: u64 = 10;

/// How long a node of a cluster of so many gathers changes before it reports them, in milliseconds. All
/// nodes together report at most 10,000 times a second, so that in a large cluster in which all nodes are
/// busy the control service still hears every heartbeat in time.
#[must_use]
pub const fn status_gather_ms(n_nodes: usize) -> u64 {
    const STATUSES_A_MS: u64 = 10;
    let shared_ms = n_nodes as u64 / STATUSES_A_MS;
    if shared_ms > 20 { shared_ms } else { 20 }
}

/// How many nodes one message describes when many are told of all.
pub const VIEW_PAGE_NODES: usize = 1000;

/// How many descriptions of nodes are sent to nodes that have just registered, before other work has its
/// turn: about 60 MB.
pub const LISTED_NODES_MAX: usize = 200_000;

/// How many other nodes a node is told the resources of, as they change. In a larger cluster a node whose
/// requests find no room among these is told of others that have room.
pub const WATCHED_MAX: usize = 32;

/// How many nodes with room a node is told of at a time, for each shape of request that waits there.
pub const CANDIDATES_MAX: usize = 8;

/// How many shapes of waiting requests of a node are looked at for that.
pub const CANDIDATE_SHAPES_MAX: usize = 8;

/// How many nodes get such an answer at a time; the others get theirs
/// [`VIEW_INTERVAL_MS_MIN`] later.
pub const CANDIDATE_NODES_MAX: usize = 512;

/// In a cluster of more nodes than this joins and deaths are gathered for [`VIEW_INTERVAL_MS_MIN`], and a
/// millisecond more for every [`MEMBERS_A_MS`] nodes, before the others are told: a thousand nodes that
/// die at once cost each other node a few messages instead of a thousand.
pub const MEMBERS_AT_ONCE_MAX: usize = 64;

/// See [`MEMBERS_AT_ONCE_MAX`].
pub const MEMBERS_A_MS: u64 = 100;

/// How often a state that is about to pass by itself is looked at, in milliseconds.
pub const LOOK_AGAIN_MS: u64 = 100;

/// An actor that waits longer than this tells those who hold its handle why, in milliseconds.
pub const WHY_AFTER_MS: u64 = 1_000;

/// How long somebody may hold the handle of an actor whose creation has not arrived, in milliseconds;
/// then the actor is said to be dead.
pub const UNKNOWN_ACTOR_MS_MAX: u64 = 10_000;

/// How many nodes may be alive; the next is refused.
pub const NODES_MAX: usize = 20_000;

/// How many dead nodes are remembered; the oldest is forgotten.
pub const DEAD_NODES_MAX: usize = 1_000;

/// How many actors may be alive or wait; the next creation fails.
pub const ACTORS_MAX: usize = 1_000_000;

/// How many dead actors are remembered; the oldest is forgotten. One takes about 2 kB.
pub const DEAD_ACTORS_MAX: usize = 4_000;

/// How many jobs may run; the next driver is refused.
pub const JOBS_MAX: usize = 10_000;

/// How many finished jobs are remembered; the oldest is forgotten.
pub const FINISHED_JOBS_MAX: usize = 1_000;

/// How many processes may follow one actor; the next is refused.
pub const SUBSCRIBERS_MAX: usize = 100_000;

/// How many actors that are not known (yet) may be followed; the next is refused.
pub const UNKNOWN_ACTORS_MAX: usize = 10_000;

/// How many keys the key-value table may have; the next put fails.
pub const KV_KEYS_MAX: usize = 1_000_000;

/// How many bytes the key-value table may hold; a put beyond it fails.
pub const KV_BYTES_MAX: usize = 1 << 30;

/// How many rows a listing has at most.
pub const LIST_ROWS_MAX: usize = 10_000;

/// How many processes may wait for the next change of the cluster's nodes.
pub const NODE_WAITERS_MAX: usize = 100_000;

/// How many placement groups may wait or be placed; the next creation fails.
pub const GROUPS_MAX: usize = 100_000;

/// How many bundles a placement group may have; a larger one is refused.
pub const BUNDLES_MAX: usize = 10_000;

/// How many removed placement groups are remembered; the oldest is forgotten.
pub const REMOVED_GROUPS_MAX: usize = 1_000;

/// How long a node goes on without a control service, in milliseconds: a head that is away for less costs
/// a pause and nothing else. Then the node starts anew; Ray's `gcs_rpc_server_reconnect_timeout_s`.
pub const HEADLESS_MS_MAX: u64 = 60_000;

/// How much longer than [`HEADLESS_MS_MAX`] the control service waits before it declares a node dead that
/// only it misses, in milliseconds: by then the node has given up its workers by itself.
pub const HEADLESS_MARGIN_MS: u64 = 5_000;

/// How many nodes the control service asks about one of which it hears nothing.
pub const WITNESSES: usize = 2;

/// How many nodes a node asks for a sign of life when the control service is silent.
pub const PEERS_ASKED_MAX: usize = 7;

/// After how long a silence, in milliseconds, the control service suspects a node and a node the control
/// service: half of the silence after which a node may be declared dead. Both sides go by it.
#[must_use]
pub const fn suspect_ms(silence_ms_max: u64) -> u64 {
    silence_ms_max / 2
}

/// After how long a silence, in milliseconds, the only other machine of a cluster may be declared dead: twice
/// as long as others, because no third one can say which of the two is cut off.
#[must_use]
pub const fn alone_ms(silence_ms_max: u64) -> u64 {
    silence_ms_max * 2
}

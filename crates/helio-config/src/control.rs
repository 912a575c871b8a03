//! Settings of the control service.

/// Milliseconds between two heartbeats of a node.
pub const HEARTBEAT_MS: u64 = 1_000;

/// Number of missed heartbeats after which a node is dead: a machine that stalls for a moment is not
/// given up.
pub const HEARTBEATS_MISSED_MAX: u64 = 5;

/// A control service that was told nothing for so many heartbeats, not even the time, did not run (its process
/// was stopped, its machine suspended): that nobody was heard does not mean that they have failed.
pub const STALL_HEARTBEATS: u64 = 2;

/// Milliseconds that a node whose connection broke may take to come back.
pub const RECONNECT_MS_MAX: u64 = 1_000;

/// Milliseconds after a restart of the control service until every living node has come back: each tries at least once in
/// [`RECONNECT_MS_MAX`]. A cluster that is stopped meanwhile ends no sooner, so that all are told.
pub const LATE_NODES_MS: u64 = 2 * RECONNECT_MS_MAX;

/// Milliseconds after a restart of the control service that the earlier nodes may take to come back,
/// before what lived on them is given up.
pub const RECOVERY_MS_MAX: u64 = 10_000;

/// Changed resources of nodes are gathered for at least this long before the others are told, in
/// milliseconds.
pub const VIEW_INTERVAL_MS_MIN: u64 = 20;

/// The number of nodes for which changes are gathered a millisecond longer, so that what the control service sends a
/// second stays proportional to their number (10,000 nodes are told once a second).
pub const VIEW_NODES_A_MS: u64 = 10;

/// Returns the milliseconds for which a node of a cluster of so many gathers changes before it reports
/// them. All nodes together report at most 10,000 times a second, so that in a large cluster in which all
/// nodes are busy the control service still hears every heartbeat in time.
#[must_use]
pub const fn status_gather_ms(n_nodes: usize) -> u64 {
    const STATUSES_A_MS: u64 = 10;
    let shared_ms = n_nodes as u64 / STATUSES_A_MS;
    if shared_ms > 20 { shared_ms } else { 20 }
}

/// Number of nodes in one message when many are told of all.
pub const VIEW_PAGE_NODES: usize = 1000;

/// Number of descriptions of nodes that are sent to nodes that have just registered, before other work
/// has its turn: about 60 MB.
pub const LISTED_NODES_MAX: usize = 200_000;

/// Number of other nodes of which a node is told the resources, as they change. In a larger cluster a
/// node whose requests find no room among these is told of others that have room.
pub const WATCHED_MAX: usize = 32;

/// Number of nodes with room that a node is told of at a time, for each shape of request that waits
/// there.
pub const CANDIDATES_MAX: usize = 8;

/// Number of shapes of a node's waiting requests that are looked at for that.
pub const CANDIDATE_SHAPES_MAX: usize = 8;

/// Number of nodes that get such an answer at a time; the others get theirs
/// [`VIEW_INTERVAL_MS_MIN`] later.
pub const CANDIDATE_NODES_MAX: usize = 512;

/// In a cluster of more nodes than this joins and deaths are gathered for [`VIEW_INTERVAL_MS_MIN`], and a
/// millisecond more for every [`MEMBERS_A_MS`] nodes, before the others are told: a thousand nodes that
/// die at once cost each other node a few messages instead of a thousand.
pub const MEMBERS_AT_ONCE_MAX: usize = 64;

/// Number of nodes for which joins and deaths are gathered one millisecond longer; see [`MEMBERS_AT_ONCE_MAX`].
pub const MEMBERS_A_MS: u64 = 100;

/// Milliseconds between two looks at a state that is about to pass by itself.
pub const LOOK_AGAIN_MS: u64 = 100;

/// An actor that waits longer than this tells those who hold its handle why, in milliseconds.
pub const WHY_AFTER_MS: u64 = 1_000;

/// Milliseconds that a process may hold the handle of an actor whose creation has not arrived; then
/// the actor is said to be dead.
pub const UNKNOWN_ACTOR_MS_MAX: u64 = 10_000;

/// Maximum number of living nodes; the next is refused.
pub const NODES_MAX: usize = 20_000;

/// Number of dead nodes that are remembered; the oldest is forgotten.
pub const DEAD_NODES_MAX: usize = 1_000;

/// Maximum number of actors that live or wait; the next creation fails.
pub const ACTORS_MAX: usize = 1_000_000;

/// Number of dead actors that are remembered; the oldest is forgotten. One takes about 2 kB.
pub const DEAD_ACTORS_MAX: usize = 4_000;

/// Maximum number of running jobs; the next driver is refused.
pub const JOBS_MAX: usize = 10_000;

/// Number of finished jobs that are remembered; the oldest is forgotten.
pub const FINISHED_JOBS_MAX: usize = 1_000;

/// Maximum number of processes that follow one actor; the next is refused.
pub const SUBSCRIBERS_MAX: usize = 100_000;

/// Maximum number of followed actors that are not known (yet); the next is refused.
pub const UNKNOWN_ACTORS_MAX: usize = 10_000;

/// Maximum number of keys of the key-value table; the next put fails.
pub const KV_KEYS_MAX: usize = 1_000_000;

/// Maximum number of bytes in the key-value table; a put beyond it fails.
pub const KV_BYTES_MAX: usize = 1 << 30;

/// Maximum number of rows of a listing.
pub const LIST_ROWS_MAX: usize = 10_000;

/// Maximum number of processes that wait for the next change of the cluster's nodes.
pub const NODE_WAITERS_MAX: usize = 100_000;

/// Maximum number of placement groups that wait or are placed; the next creation fails.
pub const GROUPS_MAX: usize = 100_000;

/// Maximum number of bundles of a placement group; a larger one is refused.
pub const BUNDLES_MAX: usize = 10_000;

/// Number of removed placement groups that are remembered; the oldest is forgotten.
pub const REMOVED_GROUPS_MAX: usize = 1_000;

/// Milliseconds that a node goes on without a control service: a head that is away for less costs a pause
/// and nothing else. Then the node starts anew; Ray's `gcs_rpc_server_reconnect_timeout_s`.
pub const HEADLESS_MS_MAX: u64 = 60_000;

/// Milliseconds beyond [`HEADLESS_MS_MAX`] before the control service declares a node dead that only it
/// misses: by then the node has given up its workers by itself.
pub const HEADLESS_MARGIN_MS: u64 = 5_000;

/// Number of nodes that the control service asks about one of which it hears nothing.
pub const WITNESSES: usize = 2;

/// Number of nodes that a node asks for a sign of life when the control service is silent.
pub const PEERS_ASKED_MAX: usize = 7;

/// Returns the silence, in milliseconds, after which the control service suspects a node and a node the
/// control service: half of the silence after which a node may be declared dead. Both sides go by it.
#[must_use]
pub const fn suspect_ms(silence_ms_max: u64) -> u64 {
    silence_ms_max / 2
}

/// Returns the silence, in milliseconds, after which the only other machine of a cluster may be declared
/// dead: twice as long as others, because no third one can say which of the two is cut off.
#[must_use]
pub const fn alone_ms(silence_ms_max: u64) -> u64 {
    silence_ms_max * 2
}

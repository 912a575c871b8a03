//! **LIMIT-1** The bounds of the node's tables, and what happens at each.

use helio_config::control::HEARTBEAT_MS;

/// Milliseconds from a worker's start to its registration; beyond them it is killed and its start
/// counts as failed.
pub const WORKER_START_MS_MAX: u64 = 60_000;

/// Milliseconds for the same where the environment has packages to install; Ray's
/// `setup_timeout_seconds`.
pub const WORKER_INSTALL_MS_MAX: u64 = 600_000;

/// Milliseconds that a worker may wait for its fork from the process that loads modules: a large library takes
/// minutes to load from a slow disk, or beside much else. From the fork on, [`WORKER_START_MS_MAX`] holds.
pub const WORKER_FORK_MS_MAX: u64 = 600_000;

/// Number of failed starts in a row after which the clients that wait for such a worker are told.
pub const WORKER_START_FAILURES_MAX: u32 = 3;

/// Maximum number of worker processes of a node; requests beyond it wait.
pub const WORKERS_MAX: usize = 4096;

/// Milliseconds that an idle worker beyond the kept ones lives.
pub const WORKER_IDLE_MS_MAX: u64 = 1_000;

/// Milliseconds that a worker that was started ahead waits for its first work.
pub const WORKER_AHEAD_MS_MAX: u64 = 4_000;

/// Maximum number of workers that a client may have started ahead.
pub const WORKERS_AHEAD_MAX: u32 = 16;

/// Maximum number of clients that wait for a worker that is started ahead; those beyond it are not
/// kept waiting.
pub const ASKED_MAX: usize = 1_000;

/// Maximum number of modules that are loaded ahead.
pub const MODULES_MAX: usize = 32;
/// Milliseconds that the process with loaded modules lives without a job that expects them.
pub const LOADED_IDLE_MS_MAX: u64 = 600_000;

/// Milliseconds that a worker that was asked to end may take; then it is killed.
pub const WORKER_EXIT_MS_MAX: u64 = 5_000;

/// Milliseconds that a worker whose job is over may take to tell of its calls and end; then it is
/// killed.
pub const LAST_WORDS_MS_MAX: u64 = 1_000;

/// Milliseconds that a worker's connection may take to end by itself after its process ended. Then what
/// has arrived is read, and no more is waited for: only a child that inherited the socket keeps it open
/// longer.
pub const WORKER_DRAIN_MS_MAX: u64 = 100;

/// Maximum number of lease requests that wait on a node; more are refused.
pub const REQUESTS_MAX: usize = 100_000;

/// Milliseconds that a request from another node waits before it may be sent on.
pub const SPILL_AGAIN_MS: u64 = 200;

/// Milliseconds that the news of a node that joined may be on their way. Until then nothing counts as
/// impossible.
pub const VIEW_LAG_MS_MAX: u64 = 500;

/// Milliseconds that an actor that was placed here waits for room before the placement is given
/// back.
pub const ACTOR_PLACEMENT_MS_MAX: u64 = 500;

/// Milliseconds that room is kept free for actors and placement groups that are not placed yet: longer than the
/// time between two messages of the control service which ask for it.
pub const KEPT_FREE_MS_MAX: u64 = 2_000;

/// Number of ended actors that are remembered with their cause; the oldest are forgotten.
pub const ACTORS_ENDED_MAX: usize = 4_000;

/// Milliseconds between two questions to the control service about a placement group that requests
/// wait for and that no node seems to hold.
pub const GROUP_ASK_MS: u64 = 1_000;

/// Number of ended processes that are remembered with what they knew of calls; the oldest are
/// forgotten.
pub const LAST_WORDS_MAX: usize = 1_000;
/// Maximum number of rows that those processes left, together.
pub const LAST_WORDS_ROWS_MAX: usize = 10_000;

/// Number of ended processes that are remembered with their cause; the oldest are forgotten.
pub const DEATHS_MAX: usize = 1_000;

/// Number of finished jobs that are remembered; the oldest are forgotten.
pub const JOBS_FINISHED_MAX: usize = 10_000;

/// Milliseconds for which the question whether a living process is alive is left open: whoever asks
/// has seen its connection break, and the news of its death may be a moment behind.
pub const LIVENESS_MS: u64 = 200;

/// Milliseconds between two questions to other nodes after owners of objects here that have no
/// connection.
pub const OWNERS_ASK_MS: u64 = 10_000;

/// Maximum number of open questions about other nodes' processes; more are answered "not known
/// dead".
pub const LIVENESS_ASKED_MAX: usize = 10_000;

/// Maximum number of open inspections (questions of the state API to processes); more get no answers.
pub const INSPECTIONS_MAX: usize = 64;

/// Milliseconds that processes and other nodes may take to answer an inspection.
pub const INSPECTION_MS_MAX: u64 = 3_000;

/// Maximum number of open calls of one client to the control service; more are refused.
pub const CALLS_MAX: usize = 10_000;

/// Milliseconds that an object that is to be read waits for room in memory before it is laid on
/// disk.
pub const READ_ROOM_MS_MAX: u64 = 500;

/// Maximum number of tasks that have a place for their arguments or wait for one; the arguments of more
/// are fetched at once.
pub const ARGUMENTS_MAX: usize = 100_000;

/// Maximum number of objects that wait for room; creations beyond it are refused.
pub const ROOM_WAITS_MAX: usize = 10_000;

/// Milliseconds between two requests to clients for pins that they can do without, while objects
/// wait for room.
pub const PINS_ASK_MS: u64 = 100;

/// Milliseconds that a disk that did not take an object is left alone.
pub const DISK_RETRY_MS: u64 = 10_000;

/// Maximum number of objects of a node; a creation beyond it is refused.
pub const OBJECTS_MAX: usize = 1_000_000;

/// Maximum number of objects that are being brought here at a time; more wait.
pub const PULLS_MAX: usize = 16;

/// Size in bytes from which on objects travel over connections of their own: below it two more round trips
/// cost more than the copies that they save.
pub const BULK_MIN: u64 = 1 << 20;

/// Maximum number of objects that are waited for; more fetches are refused.
pub const FETCHES_MAX: usize = 100_000;

/// Maximum number of objects that one peer may be reading from here; it queues beyond its own
/// [`PULLS_MAX`].
pub const SERVES_MAX: usize = 256;

/// Milliseconds that a cluster's own driver may take to register.
pub const OWNER_MS_MAX: u64 = 30_000;

/// Number of runtime environments that are remembered; the longest unused are forgotten.
pub const ENVIRONMENTS_MAX: usize = 200;

/// Number of dead nodes that are remembered; the oldest are forgotten.
pub const DEAD_NODES_MAX: usize = 1_000;

/// Milliseconds between two questions of a leaving node to its idle workers whether they are still
/// needed.
pub const DRAIN_LOOK_MS: u64 = 1_000;

/// The part of the remaining time that running work has on a machine that will be taken away, in percent; the rest is
/// for handing over objects.
pub const PREEMPTED_RUN_PERCENT: u64 = 75;

/// Maximum number of tries of a pull after its connection was lost: with the waits between, long enough for
/// a dead node to be known as such.
pub const PULL_RETRIES_MAX: u32 = 200;
/// Milliseconds before each such try.
pub const PULL_RETRY_MS: u64 = 50;

/// Milliseconds that a node may go unmentioned after the control service was reached again, before it
/// counts as dead: longer than a service that started anew waits for nodes to come back.
pub const NODE_ABSENT_MS_MAX: u64 = 12_000;
/// A daemon that takes nothing in for so long stood still: the control service answers its heartbeats.
pub const STANDSTILL_MS: u64 = 3 * HEARTBEAT_MS;

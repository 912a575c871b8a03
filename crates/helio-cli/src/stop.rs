//! `stop`: ends this user's daemons on this machine.
//!
//! A node whose cluster goes on without it leaves in order: it hands over what it has, as `drain-node` has it do.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use helio_proto::control::{ControlResponse, DrainNode};
use helio_types::NodeId;
use rustix::process::{Pid, Signal};

use crate::args::Stop;
use crate::session::{self, Found};
use crate::{folder, leftovers, locate, observer, output};

/// Time between two looks whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Time that killed processes may take to vanish.
const KILLED_MAX: Duration = Duration::from_secs(2);

/// The part of the grace that running work has, in percent; the rest is for handing over objects.
const RUNNING_PERCENT: u64 = 75;

/// Time that the head may take to answer that a node leaves.
const ORDER_MAX: Duration = Duration::from_secs(2);

/// Time that a node may take to end when the answer to the order is missing.
const ENDS_MAX: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Stop) -> Result<(), String> {
    let temp_dir = folder::temp_dir(None);
    let (alive, dead): (Vec<Found>, Vec<Found>) =
        session::find(&temp_dir).into_iter().partition(Found::is_alive);
    // Before the folders are cleaned, for these tell which processes are left.
    let n_left: usize = dead.iter().map(|found| leftovers::end(&found.dir)).sum();
    for found in &dead {
        found.clean();
    }
    if n_left > 0 {
        output::line(&format!("Ended {n_left} processes of daemons that were killed before."));
    }
    if alive.is_empty() {
        if n_left == 0 {
            output::line("Did not find any active Ray processes.");
        }
        return Ok(());
    }
    let n_found = alive.len();
    let (leaving, rest) =
        if args.force { (Vec::new(), alive) } else { order_to_leave(alive, args.grace_period) };
    let first = if args.force { Signal::KILL } else { Signal::TERM };
    send(&rest, first);
    let grace = if args.force { KILLED_MAX } else { Duration::from_secs(args.grace_period) };
    let left = wait(leaving.into_iter().chain(rest).collect(), grace);
    let n_stopped = n_found - left.len();
    send(&left, Signal::KILL);
    let n_killed = left.len();
    let left = wait(left, KILLED_MAX);
    if !left.is_empty() {
        let pids: Vec<String> =
            left.iter().filter_map(|found| found.pid).map(|pid| pid.to_string()).collect();
        return Err(format!("Could not terminate the daemons with pid {}.", pids.join(", ")));
    }
    output::line(&match n_killed {
        0 => format!("Stopped all {n_found} Ray processes."),
        _ => format!(
            "{n_stopped} of {n_found} Ray processes stopped in time; the others did not within the grace period of {} s \
             and were killed. Set `--grace-period` to a larger value to give them longer.",
            args.grace_period
        ),
    });
    Ok(())
}

/// Tells nodes to leave in order whose head is not among those that end. Returns the nodes that do, and all others.
fn order_to_leave(alive: Vec<Found>, grace_s: u64) -> (Vec<Found>, Vec<Found>) {
    let heads = alive.iter().filter(|found| found.is_head());
    let heads: Vec<String> = heads.map(|head| head.text("control_address").to_owned()).collect();
    let (mut rest, members): (Vec<Found>, Vec<Found>) = alive
        .into_iter()
        .partition(|found| heads.iter().any(|head| head == found.text("control_address")));
    let mut leaving = Vec::new();
    for found in members {
        let node_id = found.text("node_id");
        match order(&found, grace_s.saturating_mul(1000) / 100 * RUNNING_PERCENT) {
            Ok(()) => {
                output::line(&format!(
                    "The node {node_id} takes no new work and hands over what it has, for up to {grace_s} s."
                ));
                leaving.push(found);
            }
            // The node had nothing to hand over and was gone before the answer came.
            Err(_) if ends_now(&found) => leaving.push(found),
            Err(why) => {
                output::line(&format!(
                    "The node {node_id} ends at once, without handing over what it has: {why}."
                ));
                rest.push(found);
            }
        }
    }
    (leaving, rest)
}

fn order(node: &Found, grace_ms: u64) -> Result<(), String> {
    let node_id = NodeId::from_hex(node.text("node_id")).map_err(|_| "it has not joined")?;
    let drain = DrainNode {
        node_id,
        reason: "it was stopped".to_owned(),
        grace_ms: grace_ms.max(1),
        is_cancelled: false,
    };
    let socket = Path::new(node.text("node_socket"));
    match observer::ask_within(socket, &locate::token()?, drain, ORDER_MAX)? {
        ControlResponse::Failed(failure) => Err(failure.message),
        _ => Ok(()),
    }
}

/// Whether a node whose answer did not come is ending.
fn ends_now(found: &Found) -> bool {
    let began = Instant::now();
    while began.elapsed() < ENDS_MAX {
        if found.has_ended() {
            return true;
        }
        thread::sleep(LOOK_EVERY);
    }
    false
}

fn send(to: &[Found], signal: Signal) {
    for found in to {
        let pid = found.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // One that has just ended is what was wanted.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Waits for those daemons to end and cleans their folders; returns those that are still alive at the end of the time.
fn wait(mut alive: Vec<Found>, at_most: Duration) -> Vec<Found> {
    let began = Instant::now();
    while !alive.is_empty() {
        alive.retain(|found| {
            let is_gone = found.has_ended();
            if is_gone {
                // Killed, its workers and their files go by themselves.
                leftovers::end_after(&found.dir, KILLED_MAX);
                found.clean();
            }
            !is_gone
        });
        if alive.is_empty() || began.elapsed() >= at_most {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    alive
}

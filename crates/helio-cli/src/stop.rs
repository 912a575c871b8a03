//! `stop`: ends this user's daemons on this machine.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::args::Stop;
use crate::session::{self, Found};
use crate::{folder, output};

/// How often it is looked whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long killed ones may take to vanish.
const KILLED_MAX: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Stop) -> Result<(), String> {
    let temp_dir = folder::temp_dir(None);
    let (alive, dead): (Vec<Found>, Vec<Found>) =
        session::find(&temp_dir).into_iter().partition(Found::is_alive);
    for found in &dead {
        found.clean();
    }
    if alive.is_empty() {
        output::line("Did not find any active Ray processes.");
        return Ok(());
    }
    let n_found = alive.len();
    let first = if args.force { Signal::KILL } else { Signal::TERM };
    send(&alive, first);
    let grace = if args.force { KILLED_MAX } else { Duration::from_secs(args.grace_period) };
    let left = wait(alive, grace);
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

fn send(to: &[Found], signal: Signal) {
    for found in to {
        let pid = found.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // One that has just ended is what was wanted.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Those that are still there at the end of the time; the others' folders are cleaned.
fn wait(mut alive: Vec<Found>, at_most: Duration) -> Vec<Found> {
    let began = Instant::now();
    while !alive.is_empty() {
        alive.retain(|found| {
            let is_gone = found.has_ended();
            if is_gone {
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

//! Environment variables that a daemon reads when it starts: `HELIOSTAT_x`, or `RAY_x` for those who
//! come from there.

use std::time::Duration;

use helio_config::control::{
    HEADLESS_MARGIN_MS, HEADLESS_MS_MAX, HEARTBEAT_MS, HEARTBEATS_MISSED_MAX,
};
use helio_config::dashboard::JOB_GRACE_S;
use helio_config::session::{SESSIONS_KEPT_DAYS, SESSIONS_KEPT_MAX};
use helio_control::Health;
use helio_node::SPILLS_MAX;

use crate::old_sessions::Kept;

const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// How full the memory may be before the memory monitor acts.
const MEMORY_USAGE_THRESHOLD: f64 = 0.95;

/// Which part of the object store the arguments of running tasks may have.
const MAX_TASK_ARGS_MEMORY_FRACTION: f64 = 0.7;

/// How full the disk may become with objects: others need some of it, too.
const LOCAL_FS_CAPACITY_THRESHOLD: f64 = 0.95;

/// How often it looks.
const MEMORY_MONITOR_REFRESH_MS: u64 = 250;

/// The variable; the project's own name wins.
pub(crate) fn text(name: &str) -> Option<String> {
    let of = |prefix: &str| std::env::var(format!("{prefix}_{name}")).ok();
    of("HELIOSTAT").or_else(|| of("RAY")).filter(|text| !text.is_empty())
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> Result<T, String> {
    match text(name) {
        None => Ok(default),
        Some(text) => text.trim().parse().map_err(|_| format!("{name} is no number: {text:?}")),
    }
}

fn part(name: &str, default: f64) -> Result<f64, String> {
    let part = number(name, default)?;
    if (0.0..=1.0).contains(&part) {
        Ok(part)
    } else {
        Err(format!("{name} is a part between 0 and 1, not {part}"))
    }
}

/// How long a job that is stopped has between SIGTERM and SIGKILL.
pub(crate) fn job_grace() -> Result<Duration, String> {
    number("JOB_STOP_WAIT_TIME_S", JOB_GRACE_S).map(Duration::from_secs)
}

pub(crate) fn memory_usage_threshold() -> Result<f64, String> {
    part("memory_usage_threshold", MEMORY_USAGE_THRESHOLD)
}

/// Of the object store, for the arguments of running tasks; 0: all of it.
pub(crate) fn max_task_args_memory_fraction() -> Result<f64, String> {
    part("max_task_args_memory_fraction", MAX_TASK_ARGS_MEMORY_FRACTION)
}

pub(crate) fn local_fs_capacity_threshold() -> Result<f64, String> {
    part("local_fs_capacity_threshold", LOCAL_FS_CAPACITY_THRESHOLD)
}

/// How many objects are written to disk at a time.
pub(crate) fn max_io_workers() -> Result<usize, String> {
    at_least_one("max_io_workers", SPILLS_MAX)
}

/// How the control service tells whether nodes are alive.
pub(crate) fn health() -> Result<Health, String> {
    let heartbeat_ms = at_least_one("health_check_period_ms", HEARTBEAT_MS)?;
    let missed = at_least_one("health_check_failure_threshold", HEARTBEATS_MISSED_MAX)?;
    let timeout_ms: u64 = number("health_check_timeout_ms", 0)?;
    Ok(Health {
        heartbeat_ms,
        silence_ms_max: heartbeat_ms.saturating_mul(missed).saturating_add(timeout_ms),
        first_silence_ms: number("health_check_initial_delay_ms", 0)?,
        // By then a node that does not hear the head has given up its workers.
        patience_ms: headless_ms_max()?.saturating_add(HEADLESS_MARGIN_MS),
    })
}

/// How long a node goes on without a control service.
pub(crate) fn headless_ms_max() -> Result<u64, String> {
    let seconds = at_least_one("gcs_rpc_server_reconnect_timeout_s", HEADLESS_MS_MAX / 1000)?;
    Ok(seconds.saturating_mul(1000))
}

fn at_least_one<T>(name: &str, default: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + From<u8>,
{
    let value = number(name, default)?;
    if value < T::from(1) { Err(format!("{name} is at least 1")) } else { Ok(value) }
}

/// 0: the monitor is off.
pub(crate) fn memory_monitor_refresh_ms() -> Result<u64, String> {
    let is_off = text("DISABLE_MEMORY_MONITOR")
        .is_some_and(|text| !matches!(text.to_ascii_lowercase().as_str(), "0" | "false" | "no"));
    if is_off { Ok(0) } else { number("memory_monitor_refresh_ms", MEMORY_MONITOR_REFRESH_MS) }
}

/// Which folders of sessions that are over stay.
pub(crate) fn kept_sessions() -> Result<Kept, String> {
    let sessions = number("SESSIONS_KEPT_MAX", SESSIONS_KEPT_MAX)?;
    let days = number("SESSIONS_KEPT_DAYS", SESSIONS_KEPT_DAYS)?;
    if days.is_nan() || days < 0.0 {
        return Err(format!("SESSIONS_KEPT_DAYS is a number of days, not {days}"));
    }
    let age = match Duration::try_from_secs_f64(days * SECONDS_OF_A_DAY) {
        Ok(age) if !age.is_zero() => age,
        _ => Duration::MAX,
    };
    Ok(Kept { sessions: if sessions == 0 { usize::MAX } else { sessions }, age })
}

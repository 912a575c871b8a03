//! Settings that a daemon reads when it starts, in the form it needs them.

use std::time::Duration;

use helio_config::control::HEADLESS_MARGIN_MS;
use helio_config::table::{
    DISABLE_MEMORY_MONITOR, GCS_RPC_SERVER_RECONNECT_TIMEOUT_S, HEALTH_CHECK_FAILURE_THRESHOLD,
    HEALTH_CHECK_INITIAL_DELAY_MS, HEALTH_CHECK_PERIOD_MS, HEALTH_CHECK_TIMEOUT_MS,
    JOB_STOP_WAIT_TIME_S, MEMORY_MONITOR_REFRESH_MS, PREEMPTION_GRACE_S, SESSIONS_KEPT_DAYS,
    SESSIONS_KEPT_MAX,
};
use helio_control::Health;
use helio_env::settings::read;

use crate::old_sessions::Kept;

const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// Returns the time between SIGTERM and SIGKILL for a job that is stopped.
pub(crate) fn job_grace() -> Result<Duration, String> {
    read(&JOB_STOP_WAIT_TIME_S).map(Duration::from_secs)
}

/// Returns the limits by which the control service tells whether nodes are alive.
pub(crate) fn health() -> Result<Health, String> {
    let heartbeat_ms = read(&HEALTH_CHECK_PERIOD_MS)?;
    let missed = read(&HEALTH_CHECK_FAILURE_THRESHOLD)?;
    let timeout_ms = read(&HEALTH_CHECK_TIMEOUT_MS)?;
    Ok(Health {
        heartbeat_ms,
        silence_ms_max: heartbeat_ms.saturating_mul(missed).saturating_add(timeout_ms),
        first_silence_ms: read(&HEALTH_CHECK_INITIAL_DELAY_MS)?,
        // By then a node that does not hear the head has given up its workers.
        patience_ms: headless_ms_max()?.saturating_add(HEADLESS_MARGIN_MS),
    })
}

/// Returns the milliseconds that a node goes on without a control service.
pub(crate) fn headless_ms_max() -> Result<u64, String> {
    Ok(read(&GCS_RPC_SERVER_RECONNECT_TIMEOUT_S)?.saturating_mul(1000))
}

/// 0: SIGTERM ends the daemon at once.
pub(crate) fn preemption_grace_ms() -> Result<u64, String> {
    Ok((read(&PREEMPTION_GRACE_S)? * 1000.0) as u64)
}

/// 0: the monitor is off.
pub(crate) fn memory_monitor_refresh_ms() -> Result<u64, String> {
    if read(&DISABLE_MEMORY_MONITOR)? { Ok(0) } else { read(&MEMORY_MONITOR_REFRESH_MS) }
}

/// Reads the limits of the folders of ended sessions that stay.
pub(crate) fn kept_sessions() -> Result<Kept, String> {
    let sessions = usize::try_from(read(&SESSIONS_KEPT_MAX)?).unwrap_or(usize::MAX);
    let days = read(&SESSIONS_KEPT_DAYS)?;
    let age = match Duration::try_from_secs_f64(days * SECONDS_OF_A_DAY) {
        Ok(age) if !age.is_zero() => age,
        _ => Duration::MAX,
    };
    Ok(Kept { sessions: if sessions == 0 { usize::MAX } else { sessions }, age })
}

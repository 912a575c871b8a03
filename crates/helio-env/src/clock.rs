//! Time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the process asked first; never goes back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that begins at 0.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the milliseconds since the clock was started.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Returns the microseconds since the clock was started.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// The moment of that reading.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Instant {
        self.start + std::time::Duration::from_millis(now_ms)
    }
}

/// Returns the CPU time of this thread: the difference of two readings is the cost of what it did,
/// however busy the machine is.
#[must_use]
pub fn of_thread() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Milliseconds since 1970, for people and for other machines.
#[must_use]
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Microseconds since 1970.
#[must_use]
pub fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

//! The two doors between Python and waiting (**GIL-1**): [`detached`] lets go of the GIL, [`attached`]
//! takes it. Each call site is named and counted; threads that Python does not know never pass.
//!
//! A wait that is let go of stays open to Ctrl-C: its `interrupt` closure, which the runtime calls after
//! a signal and now and then, takes the GIL on the main thread, runs Python's signal handlers, and keeps
//! what they raise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::ffi;
use pyo3::prelude::*;

/// The sites at which the GIL is released and taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GilSite {
    Connect,
    Shutdown,
    Get,
    Wait,
    Put,
    Args,
    Control,
    Stream,
    NextWork,
    Linger,
    Logs,
    Pool,
    EventLoop,
    /// Python's signal handlers run in the middle of a wait.
    Signals,
}

impl GilSite {
    const ALL: [(Self, &'static str); 14] = [
        (Self::Connect, "connect"),
        (Self::Shutdown, "shutdown"),
        (Self::Get, "get"),
        (Self::Wait, "wait"),
        (Self::Put, "put"),
        (Self::Args, "args"),
        (Self::Control, "control"),
        (Self::Stream, "stream"),
        (Self::NextWork, "next_work"),
        (Self::Linger, "linger"),
        (Self::Logs, "logs"),
        (Self::Pool, "pool"),
        (Self::EventLoop, "event_loop"),
        (Self::Signals, "signals"),
    ];
}

/// Number of times that each site took the GIL.
static TAKEN: [AtomicU64; GilSite::ALL.len()] = [const { AtomicU64::new(0) }; GilSite::ALL.len()];
/// Number of times that a thread that is not Python's took the GIL.
static TAKEN_BY_OTHERS: AtomicU64 = AtomicU64::new(0);

fn count(site: GilSite) {
    TAKEN[site as usize].fetch_add(1, Ordering::Relaxed);
}

/// Whether this is the process's first thread, the only one on which Python runs signal handlers.
fn is_main_thread() -> bool {
    // SAFETY: both calls only return numbers.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

/// Takes the GIL.
fn attached<T>(site: GilSite, f: impl FnOnce(Python<'_>) -> T) -> T {
    count(site);
    // SAFETY: asks for a pointer; needs no GIL.
    if unsafe { ffi::PyGILState_GetThisThreadState() }.is_null() {
        TAKEN_BY_OTHERS.fetch_add(1, Ordering::Relaxed);
    }
    Python::attach(f)
}

/// Lets go of the GIL while `wait` runs; `wait` gets the closure that the runtime asks between its
/// waits. What a signal handler raised comes out as the error, whatever `wait` returned.
pub(crate) fn detached<T, F>(py: Python<'_>, site: GilSite, wait: F) -> PyResult<T>
where
    T: Send,
    F: Send + FnOnce(&mut dyn FnMut() -> bool) -> T,
{
    let (value, raised) = py.detach(|| {
        let mut raised = None;
        let value = wait(&mut || {
            if raised.is_some() {
                return true;
            }
            // Python runs handlers of signals in its main thread alone.
            if is_main_thread() {
                raised = attached(GilSite::Signals, |py| py.check_signals().err());
            }
            raised.is_some()
        });
        stay_out(site);
        (value, raised)
    });
    count(site);
    match raised {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// The progress of the process's end.
static END: AtomicU8 = AtomicU8::new(NOT_NEAR);
const NOT_NEAR: u8 = 0;
/// Functions registered with `atexit` run.
const NEAR: u8 = 1;
/// The interpreter finalizes next.
const HERE: u8 = 2;
/// Time for which a thread is kept while the end is near: another function of `atexit` may wait for
/// it.
const KEPT_MAX: Duration = Duration::from_secs(5);

/// Keeps a thread whose wait is over from the GIL at the end of the process. The interpreter ends each
/// thread that asks for the GIL while it finalizes (before CPython 3.14), and the process aborts if
/// that unwinds frames of Rust. The thread that shows the workers' lines is waited for.
fn stay_out(site: GilSite) {
    if END.load(Ordering::Acquire) == NOT_NEAR || is_main_thread() || matches!(site, GilSite::Logs)
    {
        return;
    }
    let began = Instant::now();
    while END.load(Ordering::Acquire) == HERE || began.elapsed() < KEPT_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process ends: its session is about to, or, `last`, the interpreter itself.
#[pyfunction]
pub(crate) fn _process_ends(last: bool) {
    END.store(if last { HERE } else { NEAR }, Ordering::Release);
}

/// The number of times that each named site took the GIL; `io` counts threads that are not Python's.
#[pyfunction]
pub(crate) fn gil_counts() -> HashMap<&'static str, u64> {
    let taken = |site: GilSite| TAKEN[site as usize].load(Ordering::Relaxed);
    let mut counts: HashMap<_, _> =
        GilSite::ALL.iter().map(|(site, name)| (*name, taken(*site))).collect();
    counts.insert("io", TAKEN_BY_OTHERS.load(Ordering::Relaxed));
    counts
}

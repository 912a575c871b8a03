//! The worker: what `run_worker()` does on the process's main thread.
//!
//! One loop takes work from the runtime, without the GIL, and runs it: tasks and the calls of a plain
//! actor right there; the calls of a threaded actor in its pools; those of an async actor on an event
//! loop, which then takes the main loop's place. Reading order: [`main_loop`], [`execute`],
//! [`functions`], [`failure`], [`stream`], [`construct`], [`pool`], [`threaded`], [`asynchronous`], [`ending`],
//! [`leftovers`].

mod asynchronous;
pub(crate) mod blocking;
mod cancel;
mod construct;
pub(crate) mod devices;
mod ending;
mod execute;
mod failure;
mod flow;
mod functions;
mod job;
pub(crate) mod leftovers;
mod main_loop;
mod outcomes;
mod pool;
mod printing;
mod process;
mod results;
mod stream;
mod threaded;
mod threads;
mod title;
mod warm_up;

pub(crate) use asynchronous::{
    _loop_fd, _loop_passes, _loop_sleeps, _loop_woke, _next_call, RunningCall,
};
pub(crate) use ending::{_ask_to_leave, _asked_to_leave, _end_in_time, _look_again};
pub(crate) use execute::exit_actor;
pub(crate) use leftovers::{_note_error, _runs_calls};
pub(crate) use main_loop::run_worker;
pub(crate) use printing::{_display_name, _line_is_open, _printing_task};
pub(crate) use threaded::_serve_pool;
pub(crate) use warm_up::_prepare_copies;

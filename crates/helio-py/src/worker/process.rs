//! The place of a worker among the processes of its machine. Its first piece of work decides that: until
//! then it is one of the zygote's group, unless it has an environment to set up.
//!
//! Either way a Ctrl-C at the driver's terminal is the driver's business, and what the worker has started
//! can be ended with it.

/// A worker of tasks leads a process group, and its main thread does not interrupt another one as it
/// wakes up: else each task that is sent takes the CPU from its caller, who may be about to send the
/// next. It loses no share of the CPU by that; what it starts takes it over.
pub(super) fn serve_tasks() {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid for the call. Where it is not allowed, nothing is lost but speed.
    unsafe {
        libc::setpgid(0, 0);
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority);
    }
}

/// An actor leads a session. The kernel shares the CPU among sessions (`sched_autogroup`): two ranks of a
/// training run that shared one were served by turns and waited for each other, 4 % of their time. Tasks
/// stay in the node's session: many short ones would each have the driver's share.
pub(super) fn serve_actor() {
    // SAFETY: touches no memory. It fails where the worker's set-up has led one already.
    unsafe { libc::setsid() };
}

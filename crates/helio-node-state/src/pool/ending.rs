//! The ends of workers: asked for, ordered, forced, or their own.

use helio_proto::node::{Exit as ExitMessage, Leaving, LesseeGone};
use helio_types::{DeathCause, DeathKind, LeaseId, WorkerId};

use super::{Gone, Pool, Stay, Use, Worker};
use crate::context::Context;
use crate::event::{Action, Conn, Exit};
use crate::exits;
use crate::limits::{LAST_WORDS_MS_MAX, WORKER_DRAIN_MS_MAX, WORKER_EXIT_MS_MAX};
use crate::timers::Timer;

/// The reason of a worker's end when the owner of its call has ended.
const LESSEE_GONE: &str = "The process that owned its task has ended.";

impl Pool {
    /// Asks a worker to end; kills it when it does not.
    pub(crate) fn end(&mut self, worker_id: WorkerId, reason: &str, ctx: &mut Context) {
        self.set_usage(worker_id, Use::Ending);
        self.ask_to_exit(worker_id, reason, false, ctx);
    }

    /// Asks a worker that keeps its use to exit; it may refuse if `unless_needed`.
    pub(crate) fn ask_to_exit(
        &mut self,
        worker_id: WorkerId,
        reason: &str,
        unless_needed: bool,
        ctx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        let by = ctx.now() + WORKER_EXIT_MS_MAX;
        worker.exit_by = Some(by);
        // The first reason is the one that started it: what follows, such as a kill, is its consequence.
        worker.cause.get_or_insert_with(|| DeathCause::new(DeathKind::Intended, reason));
        match worker.conn {
            Some(conn) => {
                let reason = reason.to_owned();
                ctx.send(conn, ExitMessage { reason, drain: true, unless_needed });
            }
            // Before it has registered it cannot be told, and owns nothing that others could need.
            None => ctx.push(Action::Kill { worker_id }),
        }
        ctx.set_timer(by, Timer::WorkerExit(worker_id));
    }

    /// The worker was asked to end and should have.
    pub(crate) fn on_exit_timer(&mut self, worker_id: WorkerId, ctx: &mut Context) {
        let Some(worker) = self.workers.get(&worker_id) else { return };
        // Others read what it owns for as long as they like; only the end of its job ends that.
        let may_wait = worker.lingers && !worker.is_told;
        if !may_wait && worker.exit_by.is_some_and(|by| by <= ctx.now()) {
            self.kill(worker_id, None, ctx);
        }
    }

    /// Kills a worker now, for the given reason unless it has one already.
    pub(crate) fn kill(
        &mut self,
        worker_id: WorkerId,
        cause: Option<DeathCause>,
        ctx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        if worker.cause.is_none() {
            worker.cause = cause;
        }
        worker.is_killed = true;
        // A worker with a lease or an actor keeps that until its process is gone: what it holds comes back then.
        if matches!(worker.usage, Use::Starting | Use::Idle { .. }) {
            self.set_usage(worker_id, Use::Ending);
        }
        ctx.push(Action::Kill { worker_id });
    }

    /// An idle worker was asked to end, and others need it; or its lessee is gone, and nothing of that
    /// lessee runs in it.
    pub(crate) fn on_stays(&self, worker_id: WorkerId) -> Stay {
        match self.workers.get(&worker_id) {
            Some(worker)
                if !worker.is_killed
                    && !worker.is_leaving
                    && !worker.is_told
                    && worker.exit_by.is_some() =>
            {
                match worker.usage {
                    Use::Ending => Stay::Stays(None),
                    Use::Leased(lease_id) => Stay::Stays(Some(lease_id)),
                    _ => Stay::Ignored,
                }
            }
            _ => Stay::Ignored,
        }
    }

    /// The worker does not have to end any more.
    pub(crate) fn keep(&mut self, worker_id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            (worker.exit_by, worker.cause) = (None, None);
        }
    }

    /// The process `lessee` that leased the worker is gone. Work that the worker runs for it ends; a worker that
    /// runs nothing for it is free, because others may hold objects that it owns, unless its job is over.
    /// Returns whether the worker's lease ends at once.
    pub(crate) fn on_lessee_gone(
        &mut self,
        worker_id: WorkerId,
        lease_id: LeaseId,
        lessee: WorkerId,
        is_job_over: bool,
        ctx: &mut Context,
    ) -> bool {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return false };
        let cause = DeathCause::new(DeathKind::Intended, LESSEE_GONE);
        match worker.conn {
            // Its end is under way, and the lease ends with that.
            _ if worker.is_killed || worker.exited.is_some() => {}
            // It has ended for its lessee, and stays for those that hold what it owns.
            Some(_) if worker.lingers => return true,
            Some(conn) if !is_job_over => {
                let by = ctx.now() + WORKER_EXIT_MS_MAX;
                worker.exit_by = Some(by);
                worker.cause.get_or_insert(cause);
                let reason = LESSEE_GONE.to_owned();
                ctx.send(conn, LesseeGone { worker_id: lessee, reason, lease_id });
                ctx.set_timer(by, Timer::WorkerExit(worker_id));
            }
            _ => self.end_at_once(worker_id, cause, ctx),
        }
        false
    }

    /// Ends a worker whose job is over, whatever it runs. It tells of its calls first: a driver that was killed
    /// did not.
    pub(crate) fn end_at_once(
        &mut self,
        worker_id: WorkerId,
        cause: DeathCause,
        ctx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&worker_id) else { return };
        if std::mem::replace(&mut worker.is_told, true) {
            return;
        }
        // One that is being killed tells nothing any more.
        let Some(conn) = worker.conn.filter(|_| !worker.is_killed && worker.exited.is_none())
        else {
            return self.kill(worker_id, Some(cause), ctx);
        };
        let by = ctx.now() + LAST_WORDS_MS_MAX;
        worker.exit_by = Some(by);
        let reason = worker.cause.get_or_insert(cause).message.clone();
        // So that no lease or actor gets a worker that is about to end.
        if matches!(worker.usage, Use::Idle { .. }) {
            self.set_usage(worker_id, Use::Ending);
        }
        ctx.send(conn, ExitMessage { reason, drain: false, unless_needed: false });
        ctx.set_timer(by, Timer::WorkerExit(worker_id));
    }

    /// The worker says why it is about to end. Returns its lease, if it lingers.
    pub(crate) fn on_leaving(&mut self, worker_id: WorkerId, leaving: Leaving) -> Option<LeaseId> {
        let worker = self.workers.get_mut(&worker_id)?;
        match &mut worker.exited {
            // The news of its end were quicker, and say less.
            Some(exited) if exited.kind == DeathKind::Exited => {
                let log_tail = std::mem::take(&mut exited.log_tail);
                *exited = exits::cause(Some(leaving.cause), worker.pid, Exit::Unknown, log_tail);
            }
            Some(_) => {}
            None => {
                worker.cause.get_or_insert(leaving.cause);
            }
        }
        worker.is_leaving = true;
        worker.lingers |= leaving.is_needed;
        match (leaving.is_needed, worker.usage) {
            (true, Use::Leased(lease_id)) => Some(lease_id),
            _ => None,
        }
    }

    /// The worker's process ended. Returns the cause if its connection had ended before.
    pub(crate) fn on_exited(
        &mut self,
        worker_id: WorkerId,
        exit: Exit,
        log_tail: String,
        ctx: &mut Context,
    ) -> Option<DeathCause> {
        let worker = self.workers.get_mut(&worker_id)?;
        let cause = exits::cause(worker.cause.take(), worker.pid, exit, log_tail);
        if worker.conn.is_none() {
            return Some(cause);
        }
        // Its last frames may still be in the connection: the cause is told when that has been read.
        worker.exited = Some(cause);
        ctx.set_timer(ctx.now() + WORKER_DRAIN_MS_MAX, Timer::WorkerDrain(worker_id));
        if matches!(worker.usage, Use::Idle { .. }) {
            self.set_usage(worker_id, Use::Ending);
        }
        None
    }

    /// The connection of a worker whose process has ended: a child of it holds its socket open.
    pub(crate) fn undrained(&self, worker_id: WorkerId) -> Option<Conn> {
        let worker = self.workers.get(&worker_id)?;
        worker.conn.filter(|_| worker.exited.is_some())
    }

    /// The worker's connection ended: its process has, or has to. Returns the cause if it had before.
    pub(crate) fn on_disconnected(
        &mut self,
        worker_id: WorkerId,
        ctx: &mut Context,
    ) -> Option<DeathCause> {
        let worker = self.workers.get_mut(&worker_id)?;
        worker.conn = None;
        // A process's end and its connection's end come in either order: the later one is the worker's.
        if let Some(cause) = worker.exited.take() {
            return Some(cause);
        }
        if matches!(worker.usage, Use::Idle { .. }) {
            self.set_usage(worker_id, Use::Ending);
        }
        ctx.push(Action::Kill { worker_id });
        None
    }

    /// Forgets a worker: its process and its connection have ended.
    pub(crate) fn remove(&mut self, worker_id: WorkerId, ctx: &mut Context) -> Option<Gone> {
        let Worker { key, usage, is_blocked, life, .. } = self.workers.remove(&worker_id)?;
        if let Use::Idle { since } = usage {
            self.idle.remove(&(since, worker_id));
        }
        ctx.push(Action::Forget { worker_id });
        Some(Gone { key, usage, is_blocked, life })
    }
}

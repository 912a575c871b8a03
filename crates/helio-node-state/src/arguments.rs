//! Room for the arguments of tasks: only as many tasks get theirs as leave room in the memory file for
//! what they make.
//!
//! A worker asks before it fetches a task's arguments, and says when the task is over. Requests are
//! admitted while all admitted arguments together stay below a part of the memory; an object that several
//! tasks read counts once. There is no deadlock: a request is admitted, whatever its size, when no running
//! task has any arguments. A worker that waits in `get` for other work does not count, for that work may need
//! arguments itself.
//!
//! Requests wait first come, first served, so that large ones are not passed over for ever. What a worker
//! asks for beside a task that it has already is brought ahead of its turn: it takes at most half of the
//! room and makes nobody wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use helio_proto::node::{AdmitArguments, ArgumentsAdmitted, ReleaseArguments};
use helio_types::{ObjectId, mutant};

use crate::context::{Context, Violation};
use crate::event::Conn;
use crate::limits::ARGUMENTS_MAX;

/// Number of processes with the largest arguments that an explanation names.
const NAMED_MAX: usize = 4;

#[derive(Debug)]
struct Waiting {
    conn: Conn,
    request_id: u64,
    arguments: Vec<(ObjectId, u64)>,
}

/// The requests for room: the admitted ones with their objects, and those that wait.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// Bytes that the arguments of all running tasks may have together; 0: no limit.
    bytes_max: u64,
    waiting: VecDeque<Waiting>,
    admitted: BTreeMap<(Conn, u64), Vec<(ObjectId, u64)>>,
    /// The objects that count: the number of admitted requests that read each, and its size in bytes.
    counted: BTreeMap<ObjectId, (u32, u64)>,
    bytes: u64,
    /// Workers that wait for other work; their arguments do not count.
    aside: BTreeSet<Conn>,
}

impl Arguments {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Requests, admitted or waiting.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.admitted.len()
    }

    /// Whether a task of the worker has arguments.
    pub(crate) fn has(&self, conn: Conn) -> bool {
        self.of(conn).next().is_some()
    }

    fn of(&self, conn: Conn) -> impl Iterator<Item = &[(ObjectId, u64)]> {
        self.admitted.range((conn, 0)..=(conn, u64::MAX)).map(|(_, arguments)| &arguments[..])
    }

    fn count(&mut self, arguments: &[(ObjectId, u64)]) {
        for (object_id, size) in arguments {
            let entry = self.counted.entry(*object_id).or_insert((0, *size));
            if entry.0 == 0 {
                self.bytes += entry.1;
            }
            entry.0 += 1;
        }
    }

    fn uncount(&mut self, arguments: &[(ObjectId, u64)]) {
        for (object_id, _) in arguments {
            let Some(entry) = self.counted.get_mut(object_id) else { continue };
            assert!(entry.0 > 0, "arguments are let go of once");
            entry.0 -= 1;
            if entry.0 == 0 {
                assert!(self.bytes >= entry.1, "the bytes of arguments were counted");
                self.bytes -= entry.1;
                self.counted.remove(object_id);
            }
        }
    }

    /// Returns the bytes that would count if these arguments did, too.
    fn bytes_with(&self, arguments: &[(ObjectId, u64)]) -> u64 {
        let new = arguments.iter().filter(|(id, _)| !self.counted.contains_key(id));
        // A task may have the same object as two of its arguments.
        let new: BTreeMap<ObjectId, u64> = new.copied().collect();
        self.bytes + new.values().sum::<u64>()
    }

    /// Takes the next request that there is room for out of the queue, and counts it.
    fn admit(&mut self) -> Option<(Conn, u64)> {
        let mut seen = BTreeSet::new();
        let mut found = None;
        for (place, one) in self.waiting.iter().enumerate() {
            // The calls of one worker run in their order.
            if !seen.insert(one.conn) {
                continue;
            }
            let bytes = self.bytes_with(&one.arguments);
            let is_ahead = self.has(one.conn);
            // Arguments that are fetched ahead leave half of the room to workers that have none to run.
            let max = if is_ahead { self.bytes_max / 2 } else { self.bytes_max };
            // Objects that running tasks already read take no more room.
            let has_room = bytes <= max || bytes == self.bytes || self.bytes == 0;
            // A large one is not overtaken by small ones for ever: the first worker without arguments waits at the
            // front.
            if has_room || !is_ahead {
                found = has_room.then_some(place);
                break;
            }
        }
        let Waiting { conn, request_id, arguments } = self.waiting.remove(found?)?;
        // A worker that waits for other work reads nothing now.
        if !self.aside.contains(&conn) {
            self.count(&arguments);
        }
        self.admitted.insert((conn, request_id), arguments);
        Some((conn, request_id))
    }

    /// A worker asks whether it may fetch the arguments of a task.
    pub(crate) fn on_request(
        &mut self,
        conn: Conn,
        request: AdmitArguments,
        ctx: &mut Context,
    ) -> Result<(), Violation> {
        let AdmitArguments { request_id, arguments } = request;
        if self.admitted.contains_key(&(conn, request_id)) {
            return Err(Violation("a request number that is in use"));
        }
        if self.bytes_max == 0 || self.len() >= ARGUMENTS_MAX {
            // These arguments are not counted.
            ctx.send(conn, ArgumentsAdmitted { request_id });
            return Ok(());
        }
        let sizes = arguments.into_iter().map(|argument| (argument.object_id, argument.size));
        self.waiting.push_back(Waiting { conn, request_id, arguments: sizes.collect() });
        self.admit_waiting(ctx);
        Ok(())
    }

    /// A task is over, or its worker does not want the arguments any more.
    pub(crate) fn on_release(
        &mut self,
        conn: Conn,
        released: &ReleaseArguments,
        ctx: &mut Context,
    ) {
        self.release(conn, released.request_id);
        self.admit_waiting(ctx);
    }

    /// A worker waits for other work, or goes on.
    pub(crate) fn on_blocked(&mut self, conn: Conn, is_blocked: bool, ctx: &mut Context) {
        self.set_aside(conn, is_blocked);
        self.admit_waiting(ctx);
    }

    pub(crate) fn on_client_gone(&mut self, conn: Conn, ctx: &mut Context) {
        // A dead worker releases nothing itself.
        if !mutant!("arguments-of-the-dead-count") {
            self.forget(conn);
        }
        self.admit_waiting(ctx);
    }

    fn admit_waiting(&mut self, ctx: &mut Context) {
        while let Some((conn, request_id)) = self.admit() {
            ctx.send(conn, ArgumentsAdmitted { request_id });
        }
    }

    fn release(&mut self, conn: Conn, request_id: u64) {
        match self.admitted.remove(&(conn, request_id)) {
            Some(arguments) if !self.aside.contains(&conn) => self.uncount(&arguments),
            Some(_) => {}
            None => {
                self.waiting.retain(|one| one.conn != conn || one.request_id != request_id);
            }
        }
    }

    /// The worker waits for other work, or does so no longer.
    fn set_aside(&mut self, conn: Conn, is_aside: bool) {
        let has_changed = match is_aside {
            true => self.aside.insert(conn),
            false => self.aside.remove(&conn),
        };
        if !has_changed {
            return;
        }
        let of_conn: Vec<Vec<(ObjectId, u64)>> = self.of(conn).map(<[_]>::to_vec).collect();
        for arguments in of_conn {
            match is_aside {
                true => self.uncount(&arguments),
                false => self.count(&arguments),
            }
        }
    }

    fn forget(&mut self, conn: Conn) {
        // Its counts go by the same way as those of a worker that waits.
        self.set_aside(conn, true);
        self.admitted.retain(|(of, _), _| *of != conn);
        self.waiting.retain(|one| one.conn != conn);
        self.aside.remove(&conn);
    }

    /// Whether the sums are those of the tables.
    pub(crate) fn check(&self) -> Result<(), String> {
        let counts = self.admitted.iter().filter(|((conn, _), _)| !self.aside.contains(conn));
        let sizes: BTreeMap<ObjectId, u64> =
            counts.flat_map(|(_, arguments)| arguments.iter().copied()).collect();
        let bytes: u64 = sizes.values().sum();
        if bytes != self.bytes || sizes.len() != self.counted.len() {
            return Err(format!("{} bytes of arguments are counted, {bytes} admitted", self.bytes));
        }
        Ok(())
    }

    /// **WHY-1** What the arguments of a task wait for, in a store of `store_size` bytes. `pid` names the
    /// process at the other end of a connection.
    pub(crate) fn why(
        &self,
        conn: Conn,
        request_id: u64,
        store_size: u64,
        pid: impl Fn(Conn) -> u32,
    ) -> String {
        let is_it = |one: &&Waiting| one.conn == conn && one.request_id == request_id;
        let Some(one) = self.waiting.iter().find(is_it) else {
            return "there is room for its arguments".to_owned();
        };
        let needed: u64 = one.arguments.iter().map(|(_, size)| size).sum();
        let (max, bytes) = (self.bytes_max, self.bytes);
        let before = self.waiting.iter().take_while(|other| !std::ptr::eq(*other, one)).count();
        let before = match before {
            0 => String::new(),
            1 => "; 1 task comes before it".to_owned(),
            n => format!("; {n} tasks come before it"),
        };
        format!(
            "it waits for room for its arguments: they have {needed} bytes; the arguments of running tasks may have {max} of the \
             object store's {store_size} and have {bytes}{}{before}",
            self.counted_by(pid),
        )
    }

    /// The processes whose running tasks have arguments, those with the most bytes first.
    fn counted_by(&self, pid: impl Fn(Conn) -> u32) -> String {
        let mut by: BTreeMap<Conn, u64> = BTreeMap::new();
        for ((conn, _), arguments) in &self.admitted {
            if !self.aside.contains(conn) {
                *by.entry(*conn).or_default() +=
                    arguments.iter().map(|(_, size)| size).sum::<u64>();
            }
        }
        let mut by: Vec<(u64, u32)> =
            by.into_iter().map(|(conn, bytes)| (bytes, pid(conn))).collect();
        by.sort_by_key(|(bytes, pid)| (u64::MAX - bytes, *pid));
        let said = by.iter().take(NAMED_MAX).map(|(bytes, pid)| format!("{bytes} of pid {pid}"));
        let said = said.collect::<Vec<_>>().join(", ");
        if said.is_empty() { said } else { format!(": {said}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Action;
    use crate::setup::Setup;
    use helio_proto::node::{NodeToClient, StoredArgument};

    fn request(request_id: u64, arguments: &[(u8, u64)]) -> AdmitArguments {
        let argument =
            |(n, size): &(u8, u64)| StoredArgument { object_id: ObjectId([*n; 28]), size: *size };
        AdmitArguments { request_id, arguments: arguments.iter().map(argument).collect() }
    }

    /// The requests that were admitted.
    fn admitted(ctx: &mut Context) -> Vec<(u64, u64)> {
        let one = |action| match action {
            Action::Send { conn, message: NodeToClient::ArgumentsAdmitted(admitted) } => {
                Some((conn.0, admitted.request_id))
            }
            _ => None,
        };
        ctx.finish().into_iter().filter_map(one).collect()
    }

    #[test]
    fn tasks_wait_until_those_before_them_are_over() {
        let (mut all, mut ctx) = (Arguments::new(100), Context::new(Setup::default(), 0));
        all.on_request(Conn(1), request(1, &[(1, 80)]), &mut ctx).unwrap();
        all.on_request(Conn(2), request(1, &[(2, 30)]), &mut ctx).unwrap();
        all.on_request(Conn(3), request(1, &[(3, 10)]), &mut ctx).unwrap();
        assert_eq!(admitted(&mut ctx), [(1, 1)], "a small request does not overtake a large one");
        all.on_release(Conn(1), &ReleaseArguments { request_id: 1 }, &mut ctx);
        assert_eq!(admitted(&mut ctx), [(2, 1), (3, 1)]);
        all.check().unwrap();
    }

    #[test]
    fn an_object_that_several_tasks_read_counts_once() {
        let (mut all, mut ctx) = (Arguments::new(100), Context::new(Setup::default(), 0));
        for conn in 1..=3 {
            all.on_request(Conn(conn), request(1, &[(1, 80), (1, 80)]), &mut ctx).unwrap();
        }
        assert_eq!(admitted(&mut ctx).len(), 3);
        all.check().unwrap();
    }

    #[test]
    fn a_worker_that_waits_for_other_work_does_not_count() {
        let (mut all, mut ctx) = (Arguments::new(100), Context::new(Setup::default(), 0));
        all.on_request(Conn(1), request(1, &[(1, 80)]), &mut ctx).unwrap();
        all.on_request(Conn(2), request(1, &[(2, 80)]), &mut ctx).unwrap();
        assert_eq!(admitted(&mut ctx), [(1, 1)]);
        all.on_blocked(Conn(1), true, &mut ctx);
        assert_eq!(admitted(&mut ctx), [(2, 1)]);
        all.on_client_gone(Conn(1), &mut ctx);
        all.on_client_gone(Conn(2), &mut ctx);
        all.check().unwrap();
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn a_request_number_is_used_once_at_a_time() {
        let (mut all, mut ctx) = (Arguments::new(100), Context::new(Setup::default(), 0));
        all.on_request(Conn(1), request(1, &[]), &mut ctx).unwrap();
        assert!(all.on_request(Conn(1), request(1, &[]), &mut ctx).is_err());
    }

    #[test]
    fn without_a_limit_everybody_is_admitted_and_nothing_is_counted() {
        let (mut all, mut ctx) = (Arguments::new(0), Context::new(Setup::default(), 0));
        all.on_request(Conn(1), request(1, &[(1, u64::MAX)]), &mut ctx).unwrap();
        assert_eq!((admitted(&mut ctx), all.len()), (vec![(1, 1)], 0));
    }
}

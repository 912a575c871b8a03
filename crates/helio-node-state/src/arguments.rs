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
use helio_types::ObjectId;

use crate::limits::ARGUMENTS_MAX;
use crate::{Conn, Node};

/// How many of the processes whose tasks have the largest arguments are named.
const NAMED_MAX: usize = 4;

#[derive(Debug)]
struct Waiting {
    conn: Conn,
    request_id: u64,
    arguments: Vec<(ObjectId, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// How many bytes they may have together; 0: any number.
    bytes_max: u64,
    waiting: VecDeque<Waiting>,
    admitted: BTreeMap<(Conn, u64), Vec<(ObjectId, u64)>>,
    /// Those that count, by how many admitted requests, and their sizes.
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
            entry.0 -= 1;
            if entry.0 == 0 {
                self.bytes -= entry.1;
                self.counted.remove(object_id);
            }
        }
    }

    /// How many bytes would count if these did, too.
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
            let max = if is_ahead { self.bytes_max / 2 } else { self.bytes_max };
            // What running tasks read already takes no more room.
            let has_room = bytes <= max || bytes == self.bytes || self.bytes == 0;
            if has_room || !is_ahead {
                found = has_room.then_some(place);
                break;
            }
        }
        let Waiting { conn, request_id, arguments } = self.waiting.remove(found?)?;
        if !self.aside.contains(&conn) {
            self.count(&arguments);
        }
        self.admitted.insert((conn, request_id), arguments);
        Some((conn, request_id))
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
}

impl Node {
    pub(crate) fn admit_arguments(&mut self, conn: Conn, request: AdmitArguments) {
        let AdmitArguments { request_id, arguments } = request;
        let arguments =
            arguments.into_iter().map(|argument| (argument.object_id, argument.size)).collect();
        let all = &mut self.arguments;
        if all.admitted.contains_key(&(conn, request_id)) {
            return self.violation(conn, "a request number that is in use");
        }
        if all.bytes_max == 0 || all.len() >= ARGUMENTS_MAX {
            // They are not counted.
            return self.send(conn, ArgumentsAdmitted { request_id });
        }
        all.waiting.push_back(Waiting { conn, request_id, arguments });
        self.admit_waiting();
    }

    pub(crate) fn release_arguments(&mut self, conn: Conn, released: &ReleaseArguments) {
        self.arguments.release(conn, released.request_id);
        self.admit_waiting();
    }

    /// A worker waits, or goes on. Who waits for room for what it makes is not about to let others run.
    pub(crate) fn set_arguments_aside(&mut self, conn: Conn, is_blocked: bool) {
        let is_aside = is_blocked && !self.waits_to_write(conn);
        self.arguments.set_aside(conn, is_aside);
        self.admit_waiting();
    }

    pub(crate) fn forget_arguments(&mut self, conn: Conn) {
        self.arguments.forget(conn);
        self.admit_waiting();
    }

    fn admit_waiting(&mut self) {
        while let Some((conn, request_id)) = self.arguments.admit() {
            self.send(conn, ArgumentsAdmitted { request_id });
        }
    }

    /// **WHY-1** What a task's arguments wait for.
    pub(crate) fn why_arguments(&self, conn: Conn, request_id: u64) -> String {
        let all = &self.arguments;
        let Some(one) =
            all.waiting.iter().find(|one| one.conn == conn && one.request_id == request_id)
        else {
            return "there is room for its arguments".to_owned();
        };
        let needed: u64 = one.arguments.iter().map(|(_, size)| size).sum();
        let (max, bytes) = (all.bytes_max, all.bytes);
        let before = all.waiting.iter().take_while(|other| !std::ptr::eq(*other, one)).count();
        let before = match before {
            0 => String::new(),
            1 => "; 1 task comes before it".to_owned(),
            n => format!("; {n} tasks come before it"),
        };
        format!(
            "it waits for room for its arguments: they have {needed} bytes; the arguments of running tasks may have {max} of the \
             object store's {} and have {bytes}{}{before}",
            self.objects.extents.size(),
            self.arguments_by(),
        )
    }

    /// Whose running tasks have how many bytes of arguments, the most first.
    fn arguments_by(&self) -> String {
        let all = &self.arguments;
        let mut by: BTreeMap<Conn, u64> = BTreeMap::new();
        for ((conn, _), arguments) in &all.admitted {
            if !all.aside.contains(conn) {
                *by.entry(*conn).or_default() +=
                    arguments.iter().map(|(_, size)| size).sum::<u64>();
            }
        }
        let mut by: Vec<(u64, u32)> =
            by.into_iter().map(|(conn, bytes)| (bytes, self.pid_of(conn))).collect();
        by.sort_by_key(|(bytes, pid)| (u64::MAX - bytes, *pid));
        let said = by.iter().take(NAMED_MAX).map(|(bytes, pid)| format!("{bytes} of pid {pid}"));
        let said = said.collect::<Vec<_>>().join(", ");
        if said.is_empty() { said } else { format!(": {said}") }
    }
}

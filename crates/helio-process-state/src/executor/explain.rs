//! **WHY-1** What a call that arrived here does, or waits for.

use helio_owner_state::time;
use helio_types::TaskId;

use super::Executor;
use super::work::Awaited;

impl<P: Clone> Executor<P> {
    /// A sentence on the call, and what it awaits. `room`: its request for room, if it waits for that; `pid`:
    /// this process.
    pub(crate) fn explain(
        &self,
        task: TaskId,
        room: Option<u64>,
        now: u64,
        pid: u32,
    ) -> (String, Awaited) {
        let Some(begun) = self.inbox.running().get(task) else {
            return self.explain_queued(task, room, now, pid);
        };
        if !begun.is_running {
            return (self.explain_place(task, now, pid), Awaited::Nothing);
        }
        let since = time(now.saturating_sub(begun.at));
        let text = format!("It has been running there for {since} (pid {pid}).");
        match self.waits.last() {
            Some((_, id)) => (text, Awaited::Get(*id)),
            None => (text, Awaited::Running),
        }
    }

    /// A call that was not handed out.
    fn explain_queued(
        &self,
        task: TaskId,
        room: Option<u64>,
        now: u64,
        pid: u32,
    ) -> (String, Awaited) {
        let Some((before, argument)) = self.inbox.place_of(task) else {
            let text = format!("The process (pid {pid}) does not have it any more, or not yet.");
            return (text, Awaited::Nothing);
        };
        let calls = match before {
            0 => String::new(),
            1 => ", behind 1 call that came before it".to_owned(),
            n => format!(", behind {n} calls that came before it"),
        };
        let running = self.inbox.begun_first().map_or_else(String::new, |begun| {
            let since = time(now.saturating_sub(begun.at));
            format!("; {} has been running there for {since}", self.identity.title(&begun.template))
        });
        if let Some(request) = room {
            let text = format!("It waits in the process (pid {pid}){calls}{running}.");
            return (text, Awaited::Room(request));
        }
        let fetched = argument.map_or_else(String::new, |id| {
            format!("; its argument ObjectRef({id}) is being brought to that node")
        });
        let text = format!("It waits in the process (pid {pid}){calls}{running}{fetched}.");
        // Only the first of the queue waits for its argument; the others wait for those before them.
        let awaited = argument.filter(|_| before == 0).map_or(Awaited::Nothing, Awaited::Argument);
        (text, awaited)
    }

    /// A call that was handed out and has found no place among those that run.
    fn explain_place(&self, task: TaskId, now: u64, pid: u32) -> String {
        let (running, before) = self.inbox.beside(task);
        let group =
            self.inbox.running().get(task).map(|begun| begun.template.concurrency_group.as_str());
        let group = match group.unwrap_or_default() {
            "" => String::new(),
            group => format!(" of the concurrency group {group:?}"),
        };
        let longest = running.iter().min_by_key(|one| one.at).map_or_else(String::new, |one| {
            let since = time(now.saturating_sub(one.at));
            format!(", {} for {since}", self.identity.title(&one.template))
        });
        let behind = match before {
            0 => String::new(),
            1 => "; 1 call comes before it".to_owned(),
            n => format!("; {n} calls come before it"),
        };
        let (all, are) = match running.len() {
            1 => ("the only place".to_owned(), "is"),
            n => (format!("all {n} places"), "are"),
        };
        format!("It waits in the process (pid {pid}): {all}{group} {are} taken{longest}{behind}.")
    }
}

//! **WHY-1** What something waits for: what the owner machine knows, and, where its knowledge ends,
//! what the daemon or the process says that knows more. Whoever asked gets one text.
//!
//! **LIMIT-1** [`OPEN_MAX`] questions are open at a time; the oldest is then answered with what is
//! known. An answer passes through [`HOPS`] processes at most.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helio_owner_state::{Next, Why, join, time};
use helio_proto::control::ActorSpec;
use helio_proto::group::GetGroup;
use helio_proto::peer::{Frame, Template};
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId, WorkerAddress, WorkerId};

use crate::runtime::Runtime;
use crate::state::{Asked, State};

/// How many questions to others are open at a time.
const OPEN_MAX: usize = 1_000;
/// Through how many processes a question goes.
pub(crate) const HOPS: u8 = 4;

/// What is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// An object, by a reference.
    Object(ObjectId),
    /// A call of this process.
    Task(TaskId),
    /// An actor that this process made or calls.
    Actor(ActorId),
    /// A call that this process runs for another.
    Running(TaskId),
}

/// Who asked.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A thread, by its question's number.
    Thread(u64),
    Peer(Arc<WorkerAddress>, u64),
    /// Our daemon.
    Node(u64),
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    /// What is known so far.
    text: String,
    /// Who was asked; `None`: a daemon.
    whom: Option<WorkerId>,
    /// Calls of this process that may be in the way, to be named if something is.
    running: String,
}

/// What there is to say of the actor that this process is.
#[derive(Debug, Default)]
pub(crate) struct Become {
    /// Its class; empty: no actor.
    class: String,
    /// Whether its calls run side by side.
    pub(crate) is_concurrent: bool,
}

impl Become {
    pub(crate) fn of(spec: &ActorSpec) -> Self {
        let groups = !spec.concurrency_groups.is_empty();
        let is_concurrent = spec.is_async || spec.max_concurrency > 1 || groups;
        Self { class: spec.class_name.clone(), is_concurrent }
    }

    /// A call by the name that users know.
    fn title(&self, template: &Template) -> String {
        match self.class.as_str() {
            "" => template.name.clone(),
            class => format!("{class}.{}", template.name),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Whys {
    open: BTreeMap<u64, Open>,
    answers: HashMap<u64, String>,
}

impl State {
    pub(crate) fn explain(&mut self, subject: Subject, hops: u8, asker: Asker) {
        let now = self.now();
        if let Subject::Object(id) = subject
            && let Some(group) = self.promised(id)
        {
            return self.explain_promise(group, asker);
        }
        let why = match subject {
            Subject::Object(id) => self.owner.why_object(id, now),
            Subject::Task(id) => self.owner.why_task(id, now),
            Subject::Actor(id) => self.owner.why_actor(id, now),
            Subject::Running(id) => self.why_running(id),
        };
        self.go_on(why, hops, asker);
    }

    /// The placement group whose news the object is to be.
    fn promised(&self, id: ObjectId) -> Option<PlacementGroupId> {
        self.asked.values().find_map(|asked| match asked {
            Asked::Promise(other, _, group) if *other == id => Some(*group),
            _ => None,
        })
    }

    fn explain_promise(&mut self, group_id: PlacementGroupId, asker: Asker) {
        let number = self.request();
        let text = format!("It is ready when placement group {group_id} is placed.");
        self.whys.open.insert(number, Open { asker, text, whom: None, running: String::new() });
        let get = GetGroup { group_id, ..GetGroup::default() };
        self.ask(get.into(), Asked::Why(number));
    }

    fn go_on(&mut self, mut why: Why, hops: u8, asker: Asker) {
        // A process that calls itself is asked at once.
        while let Some(Next::Executor { to, task }) = &why.next
            && to.worker_id == self.owner.address().worker_id
        {
            let more = self.why_running(*task);
            why = Why { text: join(why.text, &more.text), next: more.next };
            if matches!(&why.next, Some(Next::Executor { .. })) {
                why.next = None;
            }
        }
        let Some(next) = why.next.filter(|_| hops > 0) else {
            return self.because_of(asker, why.text);
        };
        let number = self.request();
        let mut whom = None;
        let mut running = String::new();
        match next {
            Next::Store { object, .. } if self.pins.contains_key(&object) => {
                return self.because_of(asker, why.text);
            }
            Next::Store { object, nodes } => {
                let ask = helio_proto::node::Why {
                    request_id: number,
                    object_id: object,
                    nodes,
                    ..helio_proto::node::Why::default()
                };
                self.tell_node(ask.into());
            }
            Next::Daemon { node, request, running: others } => {
                running = others;
                let conn = node.map_or(Some(self.node), |node| self.node_conn(node.node_id));
                let Some(conn) = conn else { return self.because_of(asker, why.text) };
                let ask = helio_proto::node::Why {
                    request_id: number,
                    lease_request_id: request,
                    ..helio_proto::node::Why::default()
                };
                self.send_node(conn, &ask.into());
            }
            Next::Home { node, actor } => {
                let Some(conn) = self.node_conn(node) else {
                    return self.because_of(asker, why.text);
                };
                let ask = helio_proto::node::Why {
                    request_id: number,
                    actor_id: actor,
                    ..helio_proto::node::Why::default()
                };
                self.send_node(conn, &ask.into());
            }
            // Who cannot be reached says nothing.
            Next::Owner { to, .. } | Next::Executor { to, .. } if self.peer(&to).is_none() => {
                self.perform();
                return self.because_of(asker, why.text);
            }
            Next::Owner { to, object } => {
                whom = Some(to.worker_id);
                self.send_frame(
                    &to,
                    &Frame::Why { number, object, is_executor: false, hops: hops - 1 },
                );
            }
            Next::Executor { to, task } => {
                whom = Some(to.worker_id);
                let object = task.object(1);
                self.send_frame(
                    &to,
                    &Frame::Why { number, object, is_executor: true, hops: hops - 1 },
                );
            }
        }
        self.whys.open.insert(number, Open { asker, text: why.text, whom, running });
        if self.whys.open.len() > OPEN_MAX
            && let Some((_, oldest)) = self.whys.open.pop_first()
        {
            self.because_of(oldest.asker, oldest.text);
        }
    }

    /// Who was asked has answered.
    pub(crate) fn because(&mut self, number: u64, more: &str) {
        let Some(open) = self.whys.open.remove(&number) else { return };
        let mut text = join(open.text, more);
        if !open.running.is_empty() && more.contains("waiting for other work") {
            text = join(text, &format!("This process has {} running.", open.running));
        }
        self.because_of(open.asker, text);
    }

    /// A process is gone and will not answer.
    pub(crate) fn no_answer_of(&mut self, worker: WorkerId) {
        let of_worker = |open: &Open| open.whom == Some(worker);
        let numbers = self.whys.open.iter().filter(|(_, open)| of_worker(open));
        for number in numbers.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.because(number, "");
        }
    }

    fn because_of(&mut self, asker: Asker, text: String) {
        match asker {
            Asker::Thread(number) => {
                self.whys.answers.insert(number, text);
                self.news = true;
            }
            Asker::Peer(to, number) => self.send_frame(&to, &Frame::Because { number, text }),
            Asker::Node(request_id) => self.answer_why(request_id, text),
        }
    }

    /// What a call that was sent here does, or waits for.
    fn why_running(&self, task: TaskId) -> Why {
        let now = self.now();
        let pid = std::process::id();
        if let Some(begun) = self.inbox.begun(task).filter(|begun| !begun.is_running) {
            return Why { text: self.why_beside(task, &begun.template, pid), next: None };
        }
        if let Some(begun) = self.inbox.begun(task) {
            let first = format!(
                "It has been running there for {} (pid {pid}).",
                time(now.saturating_sub(begun.at))
            );
            if let Some((object, size)) = self.creating() {
                let text = format!(
                    "{first} It waits for room in the object store, to write {size} bytes."
                );
                return Why { text, next: Some(Next::Store { object, nodes: Vec::new() }) };
            }
            let Some(awaited) = self.waits.last().map(|(_, id)| *id) else {
                return Why { text: first, next: None };
            };
            let inner = self.owner.why_object(awaited, now);
            let text = format!("{first} It waits in get for ObjectRef({awaited}).");
            return Why { text: join(text, &inner.text), next: inner.next };
        }
        let Some((before, awaited)) = self.inbox.place_of(task) else {
            let text = format!("The process (pid {pid}) does not have it any more, or not yet.");
            return Why { text, next: None };
        };
        let calls = match before {
            0 => String::new(),
            1 => ", behind 1 call that came before it".to_owned(),
            n => format!(", behind {n} calls that came before it"),
        };
        let running = self.inbox.begun_first().map_or_else(String::new, |begun| {
            let since = time(now.saturating_sub(begun.at));
            format!("; {} has been running there for {since}", self.actor.title(&begun.template))
        });
        let fetched = awaited.map_or_else(String::new, |id| {
            format!("; its argument ObjectRef({id}) is being brought to that node")
        });
        Why {
            text: format!("It waits in the process (pid {pid}){calls}{running}{fetched}."),
            next: awaited
                .filter(|_| before == 0)
                .map(|object| Next::Store { object, nodes: Vec::new() }),
        }
    }
}

impl State {
    /// A call that was handed out and has found no place among those that run.
    fn why_beside(&self, task: TaskId, template: &Template, pid: u32) -> String {
        let now = self.now();
        let (running, before) = self.inbox.beside(task);
        let group = match template.concurrency_group.as_str() {
            "" => String::new(),
            group => format!(" of the concurrency group {group:?}"),
        };
        let longest = running.iter().min_by_key(|one| one.at).map_or_else(String::new, |one| {
            let since = time(now.saturating_sub(one.at));
            format!(", {} for {since}", self.actor.title(&one.template))
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

    /// The object for which this process waits for room.
    fn creating(&self) -> Option<(ObjectId, u64)> {
        self.creating.values().next().copied()
    }
}

impl Runtime {
    /// Sentences on what something waits for; what could not be learnt within `timeout` is left out.
    #[must_use]
    pub fn why(&self, subject: Subject, timeout: Duration) -> String {
        let number = {
            let mut state = self.settled();
            let number = state.request();
            state.explain(subject, HOPS, Asker::Thread(number));
            self.changed(state);
            number
        };
        let deadline = Instant::now() + timeout;
        let mut never = || false;
        let answer =
            self.wait_until(Some(deadline), &mut never, |state| state.whys.answers.remove(&number));
        answer.unwrap_or_else(|_| {
            let mut state = self.state.lock();
            let asked = |open: &Open| matches!(open.asker, Asker::Thread(other) if other == number);
            let open = state.whys.open.iter().find(|(_, open)| asked(open)).map(|(n, _)| *n);
            let so_far = open.and_then(|open| state.whys.open.remove(&open)).map(|open| open.text);
            state.whys.answers.remove(&number).or(so_far).unwrap_or_default()
        })
    }
}

//! **WHY-1** What something waits for: what this process knows, continued by the daemon or the process
//! that knows more. The asker gets one text.
//!
//! **LIMIT-1** [`OPEN_MAX`] explanations wait for others at a time; beyond, the oldest is answered with
//! what is known. An explanation passes through [`HOPS_MAX`] processes at most.

use std::sync::Arc;

use helio_owner_state::{NextHop, Why, join};
use helio_proto::control::WAITS_FOR_OTHER_WORK;
use helio_proto::group::GetGroup;
use helio_proto::inspect::Answer as Rows;
use helio_proto::inspect::{Answered, Question};
use helio_proto::node::Why as AskWhy;
use helio_proto::peer::Frame;
use helio_proto::raw::Raw;
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId, WorkerAddress, WorkerId};

use super::Process;
use crate::executor::Awaited;
use crate::questions::{Asker, Explanation, Subject};
use crate::requests::{Answer, Pending};
use crate::value::Memory;

/// Maximum number of explanations that wait for others at a time.
const OPEN_MAX: usize = 1_000;
impl<M: Memory> Process<M> {
    pub(crate) fn explain(&mut self, subject: Subject, hops: u8, asker: Asker) {
        // This process owns the promise, but the control service alone knows what the group waits for.
        if let Subject::Object(id) = subject
            && let Some(group) = self.promised_group(id)
        {
            return self.explain_promise(group, asker);
        }
        let why = match subject {
            Subject::Object(id) => self.owner.why_object(id, self.now),
            Subject::Task(id) => self.owner.why_task(id, self.now),
            Subject::Actor(id) => self.owner.why_actor(id, self.now),
            Subject::Running(id) => self.why_running(id),
        };
        self.continue_explanation(why, hops, asker);
    }

    /// The thing that the daemon asks about, if this process knows best.
    pub(crate) fn subject_of(&self, question: &Question) -> Option<Subject> {
        if let Ok(task) = TaskId::try_from(&question.id[..]) {
            return self.owner.owns(task, None).then_some(Subject::Task(task));
        }
        if let Ok(actor) = ActorId::try_from(&question.id[..]) {
            return self.owner.made(actor).then_some(Subject::Actor(actor));
        }
        let id = ObjectId::try_from(&question.id[..]).ok()?;
        self.owner.owns(id.task(), Some(id)).then_some(Subject::Object(id))
    }

    /// The placement group whose state the object stands for.
    fn promised_group(&self, id: ObjectId) -> Option<PlacementGroupId> {
        self.requests.iter().find_map(|(_, pending)| match pending {
            Pending::Promise { object, group, .. } if *object == id => Some(*group),
            _ => None,
        })
    }

    fn explain_promise(&mut self, group_id: PlacementGroupId, asker: Asker) {
        if group_id.is_nil() {
            let text = "It is ready when a node joins, is gone, is to leave or stays after all.";
            return self.give_explanation(asker, text.to_owned());
        }
        let text = format!("It is ready when placement group {group_id} is placed.");
        let explanation = self.open_explanation(asker, text, None, String::new());
        let get = GetGroup { group_id, ..GetGroup::default() };
        self.ask_control(get, Pending::GroupExplanation { explanation });
    }

    fn open_explanation(
        &mut self,
        asker: Asker,
        text: String,
        asked: Option<WorkerId>,
        running: String,
    ) -> u64 {
        self.requests.begin(Pending::Explanation(Explanation { asker, text, asked, running }))
    }

    fn continue_explanation(&mut self, mut why: Why, hops: u8, asker: Asker) {
        let me = self.owner.address().worker_id;
        // A process that calls itself is asked at once.
        while let Some(NextHop::Executor { to, task }) = &why.next
            && to.worker_id == me
        {
            let more = self.why_running(*task);
            why = Why { text: join(why.text, &more.text), next: more.next };
            // A call that waits for itself would be asked after for ever.
            if matches!(&why.next, Some(NextHop::Executor { .. })) {
                why.next = None;
            }
        }
        let Some(next) = why.next.filter(|_| hops > 0) else {
            return self.give_explanation(asker, why.text);
        };
        match next {
            NextHop::Store { object, .. } if self.store.is_pinned(object) => {
                self.give_explanation(asker, why.text);
            }
            NextHop::Store { object, nodes } => {
                let ask = AskWhy { object_id: object, nodes, ..AskWhy::default() };
                self.ask_daemon(Some(self.links.own_node()), ask, asker, why.text, String::new());
            }
            NextHop::Arguments { request } => {
                let ask = AskWhy { arguments_request_id: request, ..AskWhy::default() };
                self.ask_daemon(Some(self.links.own_node()), ask, asker, why.text, String::new());
            }
            NextHop::Daemon { node, request, running } => {
                let node = node.map_or(self.owner.address().node_id, |node| node.node_id);
                let ask = AskWhy { lease_request_id: request, ..AskWhy::default() };
                self.ask_daemon(self.links.to_node(node), ask, asker, why.text, running);
            }
            NextHop::Home { node, actor } => {
                let ask = AskWhy { actor_id: actor, ..AskWhy::default() };
                self.ask_daemon(self.links.to_node(node), ask, asker, why.text, String::new());
            }
            NextHop::Owner { to, object } => {
                self.ask_process(&to, object, false, hops, asker, why.text);
            }
            NextHop::Executor { to, task } => {
                self.ask_process(&to, task.object(1), true, hops, asker, why.text);
            }
        }
        // **LIMIT-1** The oldest is answered with what is known so far.
        if let Some(oldest) = self.requests.surplus_explanation(OPEN_MAX) {
            self.explained(oldest, "");
        }
    }

    fn ask_daemon(
        &mut self,
        link: Option<u64>,
        ask: AskWhy,
        asker: Asker,
        text: String,
        running: String,
    ) {
        let Some(link) = link else { return self.give_explanation(asker, text) };
        let request_id = self.open_explanation(asker, text, None, running);
        self.links.send_node(link, &AskWhy { request_id, ..ask }.into());
    }

    fn ask_process(
        &mut self,
        to: &Arc<WorkerAddress>,
        object: ObjectId,
        is_executor: bool,
        hops: u8,
        asker: Asker,
        text: String,
    ) {
        // A process that cannot be reached says nothing: its link's end answers for it.
        let number = self.open_explanation(asker, text, Some(to.worker_id), String::new());
        self.send_frame(to, &Frame::Why { number, object, is_executor, hops: hops - 1 });
    }

    /// The process or daemon that was asked has answered.
    pub(crate) fn explained(&mut self, request: u64, more: &str) {
        if !matches!(self.requests.get(request), Some(Pending::Explanation(_))) {
            return;
        }
        let Some(Pending::Explanation(open)) = self.requests.close(request) else { return };
        let mut text = join(open.text, more);
        if !open.running.is_empty() && more.contains(WAITS_FOR_OTHER_WORK) {
            text = join(text, &format!("This process has {} running.", open.running));
        }
        self.give_explanation(open.asker, text);
    }

    /// The control service has said what a placement group waits for.
    pub(crate) fn group_explained(
        &mut self,
        explanation: u64,
        response: &helio_proto::control::ControlResponse,
    ) {
        use helio_proto::control::ControlResponse;
        let text = match response {
            ControlResponse::Group(info) => {
                let phase = info.phase.name();
                let reason = Some(&info.why).filter(|why| !why.is_empty());
                let reason = reason.map_or_else(String::new, |why| format!(": {why}"));
                format!("The group is {phase}{reason}.")
            }
            ControlResponse::Failed(failure) => helio_owner_state::sentence(&failure.message),
            _ => String::new(),
        };
        self.explained(explanation, &text);
    }

    /// A process is gone and answers no question.
    pub(crate) fn explainer_gone(&mut self, worker: WorkerId) {
        let open: Vec<u64> = self
            .requests
            .iter()
            .filter_map(|(request, pending)| match pending {
                Pending::Explanation(open) if open.asked == Some(worker) => Some(request),
                _ => None,
            })
            .collect();
        for request in open {
            self.explained(request, "");
        }
    }

    fn give_explanation(&mut self, asker: Asker, text: String) {
        match asker {
            Asker::Thread(request) => {
                self.requests.answer(request, Answer::Text(text));
                self.signals.news = true;
            }
            Asker::Peer(to, number) => self.send_frame(&to, &Frame::Because { number, text }),
            Asker::Node(request_id) => {
                let answer = Rows { why: text, ..self.signed_rows() };
                self.links.tell_node(Answered { request_id, answer: Raw::of(&answer) });
            }
        }
    }

    /// A thread does not wait for its explanation any more; what is known so far.
    pub fn take_explanation(&mut self, request: u64) -> String {
        if let Some(Answer::Text(text)) = self.requests.take(request) {
            return text;
        }
        let is_own = |pending: &Pending| {
            matches!(pending, Pending::Explanation(Explanation { asker: Asker::Thread(asked), .. })
                if *asked == request)
        };
        let open = self.requests.iter().find(|(_, pending)| is_own(pending)).map(|(open, _)| open);
        match open.and_then(|open| self.requests.close(open)) {
            Some(Pending::Explanation(open)) => open.text,
            _ => String::new(),
        }
    }

    /// Explains what a call that was sent here does, or waits for.
    fn why_running(&self, task: TaskId) -> Why {
        let room = self.executor.room_of(task);
        let room = room.filter(|request| {
            // The request is made even where nothing has to be fetched.
            matches!(self.requests.get(*request), Some(Pending::Arguments { fetches }) if !fetches.is_empty())
        });
        let (text, awaited) = self.executor.explain(task, room, self.now, self.pid);
        if matches!(awaited, Awaited::Running | Awaited::Get(_))
            && let Some((object, size)) = self.awaited_room()
        {
            let more = format!("It waits for room in the object store, to write {size} bytes.");
            let next = Some(NextHop::Store { object, nodes: Vec::new() });
            return Why { text: join(text, &more), next };
        }
        match awaited {
            Awaited::Nothing | Awaited::Running => Why { text, next: None },
            Awaited::Argument(object) => {
                Why { text, next: Some(NextHop::Store { object, nodes: Vec::new() }) }
            }
            Awaited::Room(request) => Why { text, next: Some(NextHop::Arguments { request }) },
            Awaited::Get(id) => {
                let inner = self.owner.why_object(id, self.now);
                let text = format!("{text} It waits in get for ObjectRef({id}).");
                Why { text: join(text, &inner.text), next: inner.next }
            }
        }
    }

    /// The object for which this process waits for room, the oldest request first.
    fn awaited_room(&self) -> Option<(ObjectId, u64)> {
        self.requests.iter().find_map(|(_, pending)| match pending {
            Pending::Grant { object, size, awaited: true } => Some((*object, *size)),
            _ => None,
        })
    }
}

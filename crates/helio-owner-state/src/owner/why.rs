//! **WHY-1** What a call, an object or an actor waits for, in sentences: what this process knows, and
//! whom to ask for the rest.

use helio_proto::control::{ActorPhase, WAITS_FOR_OTHER_WORK};
use helio_types::{ActorId, ObjectId, TaskId};

use super::Owner;
use crate::actors::Actor;
use crate::calls::{State, Task};
use crate::leases::Places;
use crate::spec::{Target, actor_of_handle};
use crate::value::Stored;
use crate::why::{NextHop, Why, join, sentence, time};

/// Number of steps that an explanation takes from argument to argument.
const DEPTH_MAX: u32 = 3;

fn calls(n: usize) -> String {
    if n == 1 { "1 call".to_owned() } else { format!("{n} calls") }
}

/// The time of an answer, and what was looked up once for many of them.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) now: u64,
    pub(super) places: Option<&'a Places>,
}

impl From<u64> for Asked<'_> {
    fn from(now: u64) -> Self {
        Self { now, places: None }
    }
}

impl Owner {
    /// Returns the reason why the object's value is not available, or the place where it is.
    #[must_use]
    pub fn why_object(&self, id: ObjectId, now: u64) -> Why {
        self.object_in_depth(id, now.into(), DEPTH_MAX)
    }

    /// Whether this process made the call or the object, and so knows best.
    #[must_use]
    pub fn owns(&self, task: TaskId, object: Option<ObjectId>) -> bool {
        let own = object.and_then(|id| self.objects.get(id)).map(|object| object.owner().is_none());
        own.unwrap_or_else(|| self.calls.contains(task) || self.history.find(task).is_some())
    }

    /// Whether this process made the actor, and so knows best.
    #[must_use]
    pub fn made(&self, actor: ActorId) -> bool {
        self.actors.get(actor).is_some_and(Actor::is_ours)
    }

    /// The function for which that lease request was made.
    #[must_use]
    pub fn name_of_request(&self, request: u64) -> Option<&str> {
        self.leases.name_of_request(request)
    }

    /// **WHY-1** Whether everything that waits can say for what; for tests and the simulator.
    ///
    /// # Errors
    /// The first thing that cannot, in a sentence.
    pub fn check_whys(&self, now: u64) -> Result<(), String> {
        for task in self.calls.in_order() {
            let id = task.spec().id;
            let why = self.why_task(id, now);
            let name = &self.title(task);
            let says_enough = match (task.state(), &task.spec().target) {
                (State::Waiting(_), _) => why.text.contains("waits for its argument"),
                // Somebody was asked for a worker or will be, or those that it has are busy.
                (State::Queued, Target::Class(_)) => {
                    matches!(why.next, Some(NextHop::Daemon { .. }))
                        || why.text.contains("busy")
                        || why.text.contains("asks again soon")
                }
                (State::Queued, Target::Actor(_)) => why.text.len() > name.len(),
                (State::OnLease(_) | State::OnActor, _) => {
                    matches!(why.next, Some(NextHop::Executor { .. }))
                }
                (State::Delayed(_), _) => why.text.contains("tried again"),
            };
            if !says_enough || !why.text.starts_with(name.as_str()) {
                return Err(format!("WHY-1: {id} ({:?}) says only {why:?}", task.state()));
            }
        }
        let mut actors: Vec<_> = self.actors.iter().collect();
        actors.sort_unstable_by_key(|(id, _)| *id);
        for (id, actor) in actors {
            if actor.phase() == ActorPhase::Pending && self.why_actor(id, now).text.is_empty() {
                return Err(format!("WHY-1: {id} is pending and says nothing"));
            }
        }
        Ok(())
    }

    fn object_in_depth(&self, id: ObjectId, asked: Asked<'_>, depth: u32) -> Why {
        if let Some(actor) = actor_of_handle(id) {
            return self.actor_asked(actor, asked);
        }
        let object = self.objects.get(id);
        match object.map(|object| (object.value(), object.owner())) {
            Some((Stored::Inline(_), _)) => Why::known("The value is ready."),
            Some((Stored::Error(bytes), _)) => {
                let times = match self.history.attempts(id.task()) {
                    0 | 1 => String::new(),
                    n => format!("It was tried {n} times."),
                };
                Why::known(join(error_text(bytes), &times))
            }
            Some((Stored::Stores { size, locations }, _)) => {
                let hosts: Vec<&str> = locations.iter().map(|at| at.host.as_str()).collect();
                Why {
                    text: format!(
                        "The value is ready: {size} bytes in the object store of node {}.",
                        hosts.join(", ")
                    ),
                    next: Some(NextHop::Store {
                        object: id,
                        nodes: locations.iter().map(|at| at.node_id).collect(),
                    }),
                }
            }
            Some((Stored::Pending, Some(owner))) => Why {
                text: format!(
                    "The value is not known here yet; the process that made the reference, on node {}, was asked for \
                     it.",
                    owner.host
                ),
                next: Some(NextHop::Owner { to: owner.clone(), object: id }),
            },
            // An item of a stream is no object before it is made.
            Some((Stored::Pending, None)) | None => {
                let task = id.task();
                if self.calls.contains(task) || object.is_none() {
                    return self.task_in_depth(task, asked, depth);
                }
                Why::known(
                    "Its value is to come, and the call that makes it has ended: it was a part of a stream.",
                )
            }
        }
    }

    /// Explains what a call of this process waits for.
    #[must_use]
    pub fn why_task(&self, id: TaskId, now: u64) -> Why {
        self.task_asked(id, now.into())
    }

    /// Explains what one of several calls waits for.
    pub(super) fn task_asked(&self, id: TaskId, asked: Asked<'_>) -> Why {
        self.task_in_depth(id, asked, DEPTH_MAX)
    }

    fn task_in_depth(&self, id: TaskId, asked: Asked<'_>, depth: u32) -> Why {
        let Some(task) = self.calls.get(id) else {
            return match self.history.find(id) {
                Some((at, target, name, None)) => {
                    let name = self.title_of_method(target, name);
                    Why::known(format!(
                        "{name} returned {} ago.",
                        time(asked.now.saturating_sub(at))
                    ))
                }
                Some((at, target, name, Some(error))) => {
                    let name = self.title_of_method(target, name);
                    let first =
                        format!("{name} failed {} ago.", time(asked.now.saturating_sub(at)));
                    Why::known(join(first, &sentence(error)))
                }
                None => {
                    Why::known("No reference to it is held here, and no call of it is under way.")
                }
            };
        };
        let mut why = match (task.state(), &task.spec().target) {
            (State::Waiting(missing), _) => self.waits_for_args(task, missing, asked, depth),
            (State::Delayed(until), _) => Why::known(format!(
                "{} is tried again in {}.",
                self.title(task),
                time(until.saturating_sub(asked.now))
            )),
            (State::Queued, Target::Class(_)) => self.waits_for_worker(id, task, asked),
            (State::Queued, Target::Actor(actor)) => {
                self.waits_for_actor(*actor, task, asked, depth)
            }
            (State::OnLease(_) | State::OnActor, _) => self.sent(task, asked.now),
        };
        if let Some(failure) = &task.past().earlier.failure {
            // One that is to be tried later still has the number of the attempt that ended.
            let ended = task.attempt() + u32::from(matches!(task.state(), State::Delayed(_)));
            let of = match task.spec().retry.max {
                max @ 0.. => format!(" of {}", max + 1),
                _ => String::new(),
            };
            let ended = format!("Attempt {}{of} ended: {failure}", ended.max(1));
            why.text = join(why.text, &sentence(&ended));
        }
        why
    }

    /// Returns the name that users know: a method with its class.
    pub(crate) fn title(&self, task: &Task) -> String {
        self.title_of(&task.spec().target, &task.spec().template.name)
    }

    pub(crate) fn title_of(&self, target: &Target, name: &str) -> String {
        match target {
            Target::Class(_) => name.to_owned(),
            Target::Actor(actor) => self.title_of_method(*actor, name),
        }
    }

    pub(crate) fn title_of_method(&self, actor: ActorId, name: &str) -> String {
        match self.actors.get(actor).map(Actor::class_name) {
            None | Some("") => name.to_owned(),
            Some(class) => format!("{class}.{name}"),
        }
    }

    fn waits_for_worker(&self, id: TaskId, task: &Task, asked: Asked<'_>) -> Why {
        let name_of = |id: TaskId| Some(self.title(self.calls.get(id)?));
        let place = match asked.places {
            Some(places) => places.of(id),
            None => self.leases.place(id),
        };
        self.leases.why(place, &task.spec().template.name, name_of)
    }

    fn waits_for_args(&self, task: &Task, missing: u32, asked: Asked<'_>, depth: u32) -> Why {
        let name = self.title(task);
        let pending = |id: &ObjectId| self.objects.is_pending(*id);
        // One argument is followed, not all: the answer is to be read by a person.
        let Some(dep) = task.spec().awaited().find(pending) else {
            return Why::known(format!("{name} waits for its arguments."));
        };
        let others = match missing {
            0 | 1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let maker = self.calls.get(dep.task()).map(|maker| self.title(maker));
        let made = maker.map_or_else(String::new, |maker| format!(", which {maker} makes"));
        let first = format!("{name} waits for its argument ObjectRef({dep}){made}{others}.");
        if depth == 0 {
            return Why::known(first);
        }
        self.object_in_depth(dep, asked, depth - 1).after(first)
    }

    fn sent(&self, task: &Task, now: u64) -> Why {
        let name = self.title(task);
        let Some(at) = task.at() else {
            return Why::known(format!("{name} was sent to a worker."));
        };
        let held = self.streams.get(task.spec().id).and_then(|stream| {
            // The daemon sees a call that runs; that it waits for its reader is known here alone.
            let unread = stream.arrived - stream.read;
            let bound = task.spec().template.backpressure;
            (bound > 0 && unread >= bound).then(|| {
                format!(
                    " It has made {} items of which {} were read, and makes no more than {bound} ahead: it waits for \
                     its reader.",
                    stream.arrived, stream.read
                )
            })
        });
        Why {
            text: format!(
                "{name} was sent to a process on node {} {} ago.{}",
                at.host,
                time(now.saturating_sub(task.sent())),
                held.unwrap_or_default()
            ),
            next: Some(NextHop::Executor { to: at.clone(), task: task.spec().id }),
        }
    }

    fn waits_for_actor(&self, actor: ActorId, task: &Task, asked: Asked<'_>, depth: u32) -> Why {
        let name = self.title(task);
        let Some(known) = self.actors.get(actor) else {
            return Why::known(format!("{name} waits for news of its actor."));
        };
        if known.is_killed() && known.phase() == ActorPhase::Alive {
            return Why::known(format!("{name} waits for news that its actor has been killed."));
        }
        if known.phase() == ActorPhase::Alive && !known.is_broken() {
            let place = known.place_of(task.spec().id).unwrap_or(0);
            let first = known.first_queued().filter(|first| *first != task.spec().id);
            let Some(first) = first.filter(|_| depth > 0) else {
                return Why::known(format!("{name} is about to be sent to its actor."));
            };
            let text =
                format!("{name} waits behind {} to its actor, made before it.", calls(place));
            return self.task_in_depth(first, asked, depth - 1).after(text);
        }
        self.actor_asked(actor, asked).after(format!("{name} waits for its actor."))
    }

    /// Explains what an actor waits for, or how it is.
    #[must_use]
    pub fn why_actor(&self, id: ActorId, now: u64) -> Why {
        self.actor_asked(id, now.into())
    }

    fn actor_asked(&self, id: ActorId, asked: Asked<'_>) -> Why {
        let Some(actor) = self.actors.get(id) else {
            return Why::known("This process knows no such actor.");
        };
        let name = actor.name();
        // The control service has not been asked for it yet: only this process knows what the constructor waits for.
        if let Some((missing, args)) = actor.awaited() {
            let pending = |id: &&ObjectId| self.objects.is_pending(**id);
            if let Some(dep) = args.iter().find(pending) {
                let more =
                    if missing > 1 { format!(" and {} more", missing - 1) } else { String::new() };
                let first = format!(
                    "The constructor of {name} waits for its argument ObjectRef({dep}){more}."
                );
                return self.object_in_depth(*dep, asked, 1).after(first);
            }
        }
        let reason = if actor.why().is_empty() {
            "the control service has not answered yet"
        } else {
            actor.why()
        };
        let next = actor.home().map(|node| NextHop::Home { node, actor: id });
        match actor.phase() {
            ActorPhase::Pending => {
                let text = format!("{name} is not there yet: {}.", reason.trim_end_matches('.'));
                let name_of = |id: TaskId| Some(self.title(self.calls.get(id)?));
                let running = match next {
                    // Its resources are in use, perhaps by calls of this process, which its user can do something
                    // about.
                    None if reason.contains(WAITS_FOR_OTHER_WORK) => {
                        self.leases.all_running(name_of)
                    }
                    _ => String::new(),
                };
                let running = match running.as_str() {
                    "" => running,
                    names => format!("This process has {names} running."),
                };
                Why { text: join(text, &running), next }
            }
            ActorPhase::Restarting => {
                let cause = format!("Its last process ended: {}", actor.cause().message);
                let first = format!("{name} is being restarted: {}.", reason.trim_end_matches('.'));
                Why { text: join(sentence(&cause), &first), next }
            }
            ActorPhase::Dead => {
                Why::known(join(format!("{name} is dead."), &sentence(&actor.cause().to_string())))
            }
            ActorPhase::Alive if actor.is_broken() => Why::known(format!(
                "The connection to {name} broke, and its node has not said yet whether it lives."
            )),
            ActorPhase::Alive => {
                let host =
                    actor.address().map_or_else(String::new, |at| format!(" on node {}", at.host));
                let pid = match actor.pid() {
                    0 => String::new(),
                    pid => format!(" (pid {pid})"),
                };
                let first = actor.first_sent().and_then(|id| self.calls.get(id));
                let first = first.map_or_else(String::new, |task| {
                    format!("; the first is {}", self.title(task))
                });
                let open = match actor.pending_calls() {
                    0 => String::new(),
                    1 => format!(" 1 call of this process to it has not ended{first}."),
                    n => format!(" {} of this process to it have not ended{first}.", calls(n)),
                };
                // Calls run in the order in which they were sent: whoever runs the first one knows what holds up the
                // others.
                let next = actor.first_sent().zip(actor.address());
                Why {
                    text: format!("{name} is alive{host}{pid}.{open}"),
                    next: next.map(|(task, to)| NextHop::Executor { to, task }),
                }
            }
        }
    }
}

fn error_text(bytes: &[u8]) -> String {
    match helio_proto::error::line(bytes).as_str() {
        "" => "It is ready, and reading it raises what its call raised.".to_owned(),
        line => sentence(&format!("It is ready, and reading it raises: {line}")),
    }
}

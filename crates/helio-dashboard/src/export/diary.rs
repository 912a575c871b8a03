//! From rows to events: each thing is told once when it is seen first, and then what has become of it.

use std::collections::{BTreeSet, HashMap};

use helio_report::Row;
use helio_report::rows::rfc3339;
use helio_types::base64;
use serde_json::{Value, json};

use super::events::{
    ActorDefinition, ActorLife, ActorTaskPart, ActorTransition, Body, CallDefinition, DeathInfo,
    Descriptor, ErrorInfo, Event, Extra, JobConfig, JobDefinition, JobLife, NodeDefinition,
    NodeLife, NodeTransition, Nothing, PROFILES, ProfileEvent, ProfileEvents, PythonFunction,
    TaskLife, TaskPart, TaskProfile, Transition,
};
use crate::events_route::camel_keys;

/// The rows of the cluster at one moment.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) nodes: Vec<Row>,
    pub(super) jobs: Vec<Row>,
    pub(super) actors: Vec<Row>,
    pub(super) tasks: Vec<Row>,
}

/// Told unless the variable says which.
const TYPES: [&str; 10] = [
    "NODE_DEFINITION_EVENT",
    "NODE_LIFECYCLE_EVENT",
    "DRIVER_JOB_DEFINITION_EVENT",
    "DRIVER_JOB_LIFECYCLE_EVENT",
    "ACTOR_DEFINITION_EVENT",
    "ACTOR_LIFECYCLE_EVENT",
    "TASK_DEFINITION_EVENT",
    "ACTOR_TASK_DEFINITION_EVENT",
    "TASK_LIFECYCLE_EVENT",
    PROFILES,
];

/// The record of the events that were told, so that each is told once.
#[derive(Debug)]
pub(super) struct Diary {
    session_name: String,
    /// The head's, in base64.
    node_id: String,
    types: BTreeSet<String>,
    /// The state of each.
    nodes: Known<String>,
    jobs: Known<String>,
    /// The state and the number of restarts.
    actors: Known<(String, u64)>,
    /// Number of exported state changes of each call, by the call's id and attempt.
    tasks: Known<usize>,
}

/// The rows of the last three readings. LIMIT-1: a row that has left the lists is forgotten soon after; not at once,
/// since a process that ends is silent for a moment.
#[derive(Debug)]
struct Known<T> {
    now: HashMap<String, T>,
    before: HashMap<String, T>,
    older: HashMap<String, T>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { now: HashMap::new(), before: HashMap::new(), older: HashMap::new() }
    }
}

impl<T> Known<T> {
    /// Begins another reading.
    fn turn(&mut self) {
        self.older = std::mem::take(&mut self.before);
        self.before = std::mem::take(&mut self.now);
    }

    /// Notes what is so now; what was so before.
    fn note(&mut self, key: String, value: T) -> Option<T> {
        let before = self.before.remove(&key).or_else(|| self.older.remove(&key));
        self.now.insert(key, value).or(before)
    }
}

impl Diary {
    pub(super) fn new(session_name: &str, node_id: &str, types: &str) -> Self {
        let wanted: BTreeSet<String> = types
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        let all = || TYPES.iter().map(|name| (*name).to_owned());
        let types = match wanted.contains("ALL") {
            true => all().collect(),
            // Profiles are only for timelines, and one for each call.
            false if wanted.is_empty() => all().filter(|name| name != PROFILES).collect(),
            false => wanted,
        };
        Self {
            session_name: session_name.to_owned(),
            node_id: bytes(node_id),
            types,
            nodes: Known::default(),
            jobs: Known::default(),
            actors: Known::default(),
            tasks: Known::default(),
        }
    }

    /// The events that this reading has and the ones before had not, in the order in which they are best read.
    pub(super) fn enter(&mut self, reading: &Reading, now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        self.enter_nodes(&reading.nodes, now_ms, &mut events);
        self.enter_jobs(&reading.jobs, now_ms, &mut events);
        self.enter_actors(&reading.actors, now_ms, &mut events);
        let hosts = reading.nodes.iter().map(|node| (text(node, "node_id"), text(node, "node_ip")));
        self.enter_tasks(&reading.tasks, &hosts.collect(), &mut events);
        events
    }

    fn enter_nodes(&mut self, rows: &[Row], now_ms: u64, events: &mut Vec<Event>) {
        self.nodes.turn();
        for node in rows {
            let (id, state) = (text(node, "node_id"), text(node, "state"));
            let before = self.nodes.note(id.to_owned(), state.to_owned());
            let id = bytes(id);
            let began = time(node, "start_time_ms").unwrap_or(now_ms);
            if before.is_none() {
                let body = Body::NodeDefinitionEvent(NodeDefinition {
                    node_id: id.clone(),
                    node_ip_address: node.get("node_ip").cloned(),
                    labels: node.get("labels").cloned(),
                    start_timestamp: rfc3339(began),
                    hostname: "",
                    node_name: node.get("node_name").cloned(),
                    instance_id: "",
                    instance_type_name: "",
                });
                self.tell(body, began, events);
            }
            if before.as_deref() == Some(state) {
                continue;
            }
            let is_dead = state == "DEAD";
            let at = if is_dead { time(node, "end_time_ms").unwrap_or(now_ms) } else { began };
            let message = text(node, "state_message");
            let reason = match message {
                "" => "EXPECTED_TERMINATION",
                _ => "UNEXPECTED_TERMINATION",
            };
            let death = || DeathInfo { reason, reason_message: message.to_owned() };
            let one = NodeTransition {
                state: state.to_owned(),
                timestamp: rfc3339(at),
                resources: match is_dead {
                    true => Some(json!({})),
                    false => node.get("resources_total").cloned(),
                },
                alive_sub_state: "UNSPECIFIED",
                death_info: is_dead.then(death),
            };
            let life = NodeLife { node_id: id, state_transitions: [one] };
            self.tell(Body::NodeLifecycleEvent(life), at, events);
        }
    }

    fn enter_jobs(&mut self, rows: &[Row], now_ms: u64, events: &mut Vec<Event>) {
        self.jobs.turn();
        for job in rows {
            // A submitted job whose driver has not connected yet has no number.
            let id = text(job, "job_id");
            if id.is_empty() {
                continue;
            }
            let state = match time(job, "end_time") {
                Some(_) => "FINISHED",
                None => "CREATED",
            };
            let before = self.jobs.note(id.to_owned(), state.to_owned());
            let id = bytes(id);
            let began = time(job, "start_time").unwrap_or(now_ms);
            let mut states = Vec::new();
            if before.is_none() {
                let body = Body::DriverJobDefinitionEvent(JobDefinition {
                    job_id: id.clone(),
                    driver_pid: job.get("driver_info").and_then(|info| info.get("pid")).cloned(),
                    driver_node_id: bytes(text(job, "driver_node_id")),
                    entrypoint: job.get("entrypoint").cloned(),
                    config: JobConfig {
                        serialized_runtime_env: json!(job.get("runtime_env")).to_string(),
                        metadata: job.get("metadata").cloned(),
                    },
                });
                self.tell(body, began, events);
                states.push(became("CREATED", began));
            }
            let mut at = began;
            if state == "FINISHED" && before.as_deref() != Some(state) {
                at = time(job, "end_time").unwrap_or(now_ms);
                states.push(became(state, at));
            }
            if !states.is_empty() {
                let life = JobLife { job_id: id, state_transitions: states };
                self.tell(Body::DriverJobLifecycleEvent(life), at, events);
            }
        }
    }

    fn enter_actors(&mut self, rows: &[Row], now_ms: u64, events: &mut Vec<Event>) {
        self.actors.turn();
        for actor in rows {
            let (id, state) = (text(actor, "actor_id"), text(actor, "state"));
            let restarts = actor.get("num_restarts").and_then(Value::as_u64).unwrap_or_default();
            let before = self.actors.note(id.to_owned(), (state.to_owned(), restarts));
            let id = bytes(id);
            if before.is_none() {
                let body = Body::ActorDefinitionEvent(Box::new(ActorDefinition {
                    actor_id: id.clone(),
                    job_id: bytes(text(actor, "job_id")),
                    is_detached: actor.get("is_detached").cloned(),
                    name: text(actor, "name").to_owned(),
                    ray_namespace: text(actor, "ray_namespace").to_owned(),
                    serialized_runtime_env: "{}",
                    class_name: text(actor, "class_name").to_owned(),
                    required_resources: actor.get("required_resources").cloned(),
                    placement_group_id: bytes(text(actor, "placement_group_id")),
                    label_selector: Nothing {},
                    call_site: "",
                    parent_id: "",
                    ref_ids: Nothing {},
                }));
                self.tell(body, now_ms, events);
            }
            let mut states = Vec::new();
            let restarted =
                before.as_ref().map_or(0, |(_, before)| restarts.saturating_sub(*before));
            let is_new = before.as_ref().is_none_or(|(before, _)| before != state);
            // One that was over between two readings.
            if restarted > 0 && state != "RESTARTING" {
                states.push(transition(actor, "RESTARTING", now_ms));
            }
            if is_new || restarted > 0 {
                states.push(transition(actor, state, now_ms));
            }
            if !states.is_empty() {
                let life = ActorLife { actor_id: id, state_transitions: states };
                self.tell(Body::ActorLifecycleEvent(life), now_ms, events);
            }
        }
    }

    fn enter_tasks(&mut self, rows: &[Row], hosts: &HashMap<&str, &str>, events: &mut Vec<Event>) {
        self.tasks.turn();
        for task in rows {
            let none = Vec::new();
            let way = task.get("events").and_then(Value::as_array).unwrap_or(&none);
            let Some(last) = way.last() else { continue };
            let attempt = task.get("attempt_number").and_then(Value::as_u64).unwrap_or_default();
            let key = format!("{}-{attempt}", text(task, "task_id"));
            let before = self.tasks.note(key, way.len());
            let at = moment(last);
            if before.is_none() {
                self.tell(definition(task, attempt), moment(&way[0]), events);
            }
            let told = before.unwrap_or_default();
            if way.len() <= told {
                continue;
            }
            let states = way[told..].iter().map(|one| Transition {
                state: one.get("state").cloned(),
                timestamp: rfc3339(moment(one)),
            });
            let error_type = text(task, "error_type");
            let error = || ErrorInfo {
                error_type: error_type.to_owned(),
                error_message: text(task, "error_message").to_owned(),
            };
            let body = Body::TaskLifecycleEvent(Box::new(TaskLife {
                task_id: bytes(text(task, "task_id")),
                task_attempt: attempt,
                job_id: bytes(text(task, "job_id")),
                state_transitions: states.collect(),
                node_id: bytes(text(task, "node_id")),
                worker_id: bytes(text(task, "worker_id")),
                worker_pid: task.get("worker_pid").and_then(Value::as_u64).unwrap_or_default(),
                ray_error_info: (!error_type.is_empty()).then(error),
            }));
            self.tell(body, at, events);
            if let Some(body) = profile(task, attempt, hosts) {
                self.tell(body, at, events);
            }
        }
    }

    fn tell(&self, body: Body, at_ms: u64, events: &mut Vec<Event>) {
        let (event_type, source_type) = body.kind();
        if !self.types.contains(event_type) {
            return;
        }
        let id: [u8; 28] = helio_env::random::bytes();
        events.push(Event {
            event_id: base64::encode(&id),
            source_type,
            event_type,
            timestamp: rfc3339(at_ms),
            severity: "INFO",
            session_name: self.session_name.clone(),
            node_id: self.node_id.clone(),
            message: "",
            body,
        });
    }
}

fn became(state: &str, at_ms: u64) -> Transition {
    Transition { state: Some(json!(state)), timestamp: rfc3339(at_ms) }
}

fn transition(actor: &Row, state: &str, now_ms: u64) -> ActorTransition {
    let is_alive = state == "ALIVE";
    let cause = actor.get("death_cause").filter(|cause| state == "DEAD" && !cause.is_null());
    let death_cause = cause.map(|cause| {
        let mut told = camel_keys(cause.clone());
        let died = &mut told["actorDiedErrorContext"];
        if let Some(id) = died.get("actorId").and_then(Value::as_str).map(bytes) {
            died["actorId"] = json!(id);
        }
        told
    });
    ActorTransition {
        state: state.to_owned(),
        timestamp: rfc3339(now_ms),
        node_id: if is_alive { bytes(text(actor, "node_id")) } else { String::new() },
        worker_id: "",
        repr_name: text(actor, "repr_name").to_owned(),
        pid: if is_alive { actor.get("pid").cloned() } else { Some(json!(0)) },
        port: 0,
        restart_reason: "ACTOR_FAILURE",
        death_cause,
    }
}

/// Returns what defines a call.
fn definition(task: &Row, attempt: u64) -> Body {
    let name = text(task, "func_or_class_name");
    let (class, function) = name.rsplit_once('.').unwrap_or(("", name));
    let descriptor = Descriptor {
        python_function_descriptor: PythonFunction {
            module_name: "",
            class_name: class.to_owned(),
            function_name: function.to_owned(),
            function_hash: "",
        },
    };
    let name = text(task, "name").to_owned();
    if text(task, "type") == "ACTOR_TASK" {
        let part = ActorTaskPart {
            actor_id: bytes(text(task, "actor_id")),
            actor_func: descriptor,
            actor_task_name: name,
        };
        return Body::ActorTaskDefinitionEvent(Box::new(call(task, attempt, part)));
    }
    let kind = text(task, "type").to_owned();
    let part = TaskPart { task_type: kind, task_func: descriptor, task_name: name };
    Body::TaskDefinitionEvent(Box::new(call(task, attempt, part)))
}

fn call<Part>(task: &Row, attempt: u64, part: Part) -> CallDefinition<Part> {
    CallDefinition {
        task_id: bytes(text(task, "task_id")),
        task_attempt: attempt,
        job_id: bytes(text(task, "job_id")),
        parent_task_id: bytes(text(task, "parent_task_id")),
        placement_group_id: bytes(text(task, "placement_group_id")),
        required_resources: task.get("required_resources").cloned(),
        serialized_runtime_env: "{}",
        language: "PYTHON",
        ref_ids: Nothing {},
        label_selector: Nothing {},
        is_detached_actor: false,
        part,
    }
}

/// Returns the event of a call's run, for timelines, once it has ended.
fn profile(task: &Row, attempt: u64, hosts: &HashMap<&str, &str>) -> Option<Body> {
    let (start, end) = (time(task, "start_us")?, time(task, "end_us")?);
    let name = text(task, "func_or_class_name");
    let host = hosts.get(text(task, "node_id")).copied().unwrap_or_default();
    let event = ProfileEvent {
        event_name: format!("task::{name}"),
        start_time: (start * 1000).to_string(),
        end_time: (end * 1000).to_string(),
        extra_data: json!(Extra { name, task_id: text(task, "task_id") }).to_string(),
    };
    Some(Body::TaskProfileEvents(Box::new(TaskProfile {
        task_id: bytes(text(task, "task_id")),
        attempt_number: attempt,
        job_id: bytes(text(task, "job_id")),
        profile_events: ProfileEvents {
            component_type: "worker",
            component_id: bytes(text(task, "worker_id")),
            node_ip_address: host.to_owned(),
            events: [event],
        },
    })))
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

/// A number that says when; 0 says never.
fn time(row: &Row, column: &str) -> Option<u64> {
    row.get(column).and_then(Value::as_u64).filter(|at| *at > 0)
}

fn moment(one: &Value) -> u64 {
    one.get("created_ms").and_then(Value::as_u64).unwrap_or_default()
}

/// An id, from hex to base64: so JSON carries what is bytes in Ray's messages.
fn bytes(hex: &str) -> String {
    let pair = |at: usize| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(pair).collect();
    bytes.map_or_else(String::new, |bytes| base64::encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(value: Value) -> Vec<Row> {
        vec![value.as_object().unwrap().clone()]
    }

    fn task(states: &[&str]) -> Vec<Row> {
        let events: Vec<Value> = states
            .iter()
            .zip(1000..)
            .map(|(state, at)| json!({ "state": state, "created_ms": at }))
            .collect();
        rows(json!({
            "task_id": "aa", "attempt_number": 0, "job_id": "01000000", "type": "NORMAL_TASK", "name": "f",
            "func_or_class_name": "f", "node_id": "0a", "events": events, "start_us": 7, "end_us": 9,
        }))
    }

    /// The entered events, as the collector reads them.
    fn entered(diary: &mut Diary, reading: &Reading, now_ms: u64) -> Vec<Value> {
        diary.enter(reading, now_ms).iter().map(|event| json!(event)).collect()
    }

    fn kinds(events: &[Value]) -> Vec<&str> {
        events.iter().filter_map(|event| event["eventType"].as_str()).collect()
    }

    #[test]
    fn each_state_is_told_once() {
        let mut diary = Diary::new("session_x", "0a", "ALL");
        let tasks = |states: &[&str]| Reading { tasks: task(states), ..Reading::default() };
        let first = entered(&mut diary, &tasks(&["PENDING_ARGS_AVAIL"]), 5);
        assert_eq!(kinds(&first)[..2], ["TASK_DEFINITION_EVENT", "TASK_LIFECYCLE_EVENT"]);
        assert_eq!(first[0]["timestamp"], "1970-01-01T00:00:01.000Z");
        assert_eq!(first[0]["taskDefinitionEvent"]["taskId"], "qg==");
        let next = entered(&mut diary, &tasks(&["PENDING_ARGS_AVAIL", "RUNNING", "FINISHED"]), 5);
        assert_eq!(kinds(&next), ["TASK_LIFECYCLE_EVENT", "TASK_PROFILE_EVENT"]);
        let states = &next[0]["taskLifecycleEvent"]["stateTransitions"];
        assert_eq!(states[0]["state"], "RUNNING");
        assert_eq!(states[1]["state"], "FINISHED");
        assert_eq!(
            entered(&mut diary, &tasks(&["PENDING_ARGS_AVAIL", "RUNNING", "FINISHED"]), 5),
            [] as [Value; 0]
        );
    }

    #[test]
    fn a_process_that_is_silent_for_a_moment_tells_nothing_twice() {
        let mut diary = Diary::new("session_x", "0a", "");
        let one = Reading { tasks: task(&["FINISHED"]), ..Reading::default() };
        assert_eq!(entered(&mut diary, &one, 5).len(), 2, "without profiles");
        assert!(entered(&mut diary, &Reading::default(), 5).is_empty());
        assert!(entered(&mut diary, &one, 5).is_empty());
    }

    #[test]
    fn an_actor_that_restarted_between_two_readings_has_a_restart() {
        let mut diary = Diary::new("session_x", "0a", "ACTOR_LIFECYCLE_EVENT");
        let actor = |state: &str, restarts: u64| Reading {
            actors: rows(json!({
                "actor_id": "bb", "state": state, "num_restarts": restarts, "node_id": "0a", "pid": 7,
                "death_cause": { "actor_died_error_context": { "error_message": "gone", "actor_id": "bb" } },
            })),
            ..Reading::default()
        };
        assert_eq!(entered(&mut diary, &actor("ALIVE", 0), 5).len(), 1);
        let events = entered(&mut diary, &actor("ALIVE", 1), 6);
        let states = events[0]["actorLifecycleEvent"]["stateTransitions"].as_array().unwrap();
        let names: Vec<&str> = states.iter().filter_map(|one| one["state"].as_str()).collect();
        assert_eq!(names, ["RESTARTING", "ALIVE"]);
        let events = entered(&mut diary, &actor("DEAD", 1), 7);
        let dead = &events[0]["actorLifecycleEvent"]["stateTransitions"][0];
        let context = &dead["deathCause"]["actorDiedErrorContext"];
        assert_eq!(
            (&context["errorMessage"], &context["actorId"]),
            (&json!("gone"), &json!("uw=="))
        );
    }

    #[test]
    fn jobs_and_nodes_begin_and_end() {
        let mut diary = Diary::new("session_x", "0a", "");
        let reading = |end: Value, state: &str| Reading {
            nodes: rows(
                json!({ "node_id": "0a", "state": state, "resources_total": { "CPU": 1.0 } }),
            ),
            jobs: rows(json!({ "job_id": "01000000", "start_time": 1000, "end_time": end })),
            ..Reading::default()
        };
        let events = entered(&mut diary, &reading(Value::Null, "ALIVE"), 5);
        assert_eq!(
            kinds(&events),
            [
                "NODE_DEFINITION_EVENT",
                "NODE_LIFECYCLE_EVENT",
                "DRIVER_JOB_DEFINITION_EVENT",
                "DRIVER_JOB_LIFECYCLE_EVENT"
            ]
        );
        let events = entered(&mut diary, &reading(json!(2000), "DEAD"), 6);
        assert_eq!(kinds(&events), ["NODE_LIFECYCLE_EVENT", "DRIVER_JOB_LIFECYCLE_EVENT"]);
        assert_eq!(
            events[1]["driverJobLifecycleEvent"]["stateTransitions"][0]["state"],
            "FINISHED"
        );
        assert!(entered(&mut diary, &reading(json!(2000), "DEAD"), 7).is_empty());
    }
}

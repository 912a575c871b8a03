//! The events that a collector gets, by the names of Ray's messages as JSON: ids in base64, times as in RFC 3339.

use serde::Serialize;
use serde_json::Value;

/// An event, as it is exported.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) event_id: String,
    pub(super) source_type: &'static str,
    pub(super) event_type: &'static str,
    pub(super) timestamp: String,
    pub(super) severity: &'static str,
    pub(super) session_name: String,
    pub(super) node_id: String,
    pub(super) message: &'static str,
    #[serde(flatten)]
    pub(super) body: Body,
}

/// The body of an event; the variant's name is the field's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Body {
    NodeDefinitionEvent(NodeDefinition),
    NodeLifecycleEvent(NodeLife),
    DriverJobDefinitionEvent(JobDefinition),
    DriverJobLifecycleEvent(JobLife),
    ActorDefinitionEvent(Box<ActorDefinition>),
    ActorLifecycleEvent(ActorLife),
    TaskDefinitionEvent(Box<CallDefinition<TaskPart>>),
    ActorTaskDefinitionEvent(Box<CallDefinition<ActorTaskPart>>),
    TaskLifecycleEvent(Box<TaskLife>),
    TaskProfileEvents(Box<TaskProfile>),
}

impl Body {
    /// The type of the event, and who tells it on Ray.
    pub(super) fn kind(&self) -> (&'static str, &'static str) {
        const CONTROL: &str = "GCS";
        const WORKER: &str = "CORE_WORKER";
        match self {
            Self::NodeDefinitionEvent(_) => ("NODE_DEFINITION_EVENT", CONTROL),
            Self::NodeLifecycleEvent(_) => ("NODE_LIFECYCLE_EVENT", CONTROL),
            Self::DriverJobDefinitionEvent(_) => ("DRIVER_JOB_DEFINITION_EVENT", CONTROL),
            Self::DriverJobLifecycleEvent(_) => ("DRIVER_JOB_LIFECYCLE_EVENT", CONTROL),
            Self::ActorDefinitionEvent(_) => ("ACTOR_DEFINITION_EVENT", CONTROL),
            Self::ActorLifecycleEvent(_) => ("ACTOR_LIFECYCLE_EVENT", CONTROL),
            Self::TaskDefinitionEvent(_) => ("TASK_DEFINITION_EVENT", WORKER),
            Self::ActorTaskDefinitionEvent(_) => ("ACTOR_TASK_DEFINITION_EVENT", WORKER),
            Self::TaskLifecycleEvent(_) => ("TASK_LIFECYCLE_EVENT", WORKER),
            Self::TaskProfileEvents(_) => (PROFILES, WORKER),
        }
    }
}

/// Events of profiles, which are told only where they are asked for, as on Ray.
pub(super) const PROFILES: &str = "TASK_PROFILE_EVENT";

/// A map that has nothing.
#[derive(Debug, Default, Serialize)]
pub(super) struct Nothing {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeDefinition {
    pub(super) node_id: String,
    pub(super) node_ip_address: Option<Value>,
    pub(super) labels: Option<Value>,
    pub(super) start_timestamp: String,
    pub(super) hostname: &'static str,
    pub(super) node_name: Option<Value>,
    pub(super) instance_id: &'static str,
    pub(super) instance_type_name: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeLife {
    pub(super) node_id: String,
    pub(super) state_transitions: [NodeTransition; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeTransition {
    pub(super) state: String,
    pub(super) timestamp: String,
    pub(super) resources: Option<Value>,
    pub(super) alive_sub_state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) death_info: Option<DeathInfo>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeathInfo {
    pub(super) reason: &'static str,
    pub(super) reason_message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobDefinition {
    pub(super) job_id: String,
    pub(super) driver_pid: Option<Value>,
    pub(super) driver_node_id: String,
    pub(super) entrypoint: Option<Value>,
    pub(super) config: JobConfig,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobConfig {
    pub(super) serialized_runtime_env: String,
    pub(super) metadata: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobLife {
    pub(super) job_id: String,
    pub(super) state_transitions: Vec<Transition>,
}

#[derive(Debug, Serialize)]
pub(super) struct Transition {
    pub(super) state: Option<Value>,
    pub(super) timestamp: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActorDefinition {
    pub(super) actor_id: String,
    pub(super) job_id: String,
    pub(super) is_detached: Option<Value>,
    pub(super) name: String,
    pub(super) ray_namespace: String,
    pub(super) serialized_runtime_env: &'static str,
    pub(super) class_name: String,
    pub(super) required_resources: Option<Value>,
    pub(super) placement_group_id: String,
    pub(super) label_selector: Nothing,
    pub(super) call_site: &'static str,
    pub(super) parent_id: &'static str,
    pub(super) ref_ids: Nothing,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActorLife {
    pub(super) actor_id: String,
    pub(super) state_transitions: Vec<ActorTransition>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActorTransition {
    pub(super) state: String,
    pub(super) timestamp: String,
    pub(super) node_id: String,
    pub(super) worker_id: &'static str,
    pub(super) repr_name: String,
    pub(super) pid: Option<Value>,
    pub(super) port: u16,
    pub(super) restart_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) death_cause: Option<Value>,
}

/// A call, with what tasks or calls of actors have alone.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallDefinition<Part> {
    pub(super) task_id: String,
    pub(super) task_attempt: u64,
    pub(super) job_id: String,
    pub(super) parent_task_id: String,
    pub(super) placement_group_id: String,
    pub(super) required_resources: Option<Value>,
    pub(super) serialized_runtime_env: &'static str,
    pub(super) language: &'static str,
    pub(super) ref_ids: Nothing,
    pub(super) label_selector: Nothing,
    pub(super) is_detached_actor: bool,
    #[serde(flatten)]
    pub(super) part: Part,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPart {
    pub(super) task_type: String,
    pub(super) task_func: Descriptor,
    pub(super) task_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActorTaskPart {
    pub(super) actor_id: String,
    pub(super) actor_func: Descriptor,
    pub(super) actor_task_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) python_function_descriptor: PythonFunction,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PythonFunction {
    pub(super) module_name: &'static str,
    pub(super) class_name: String,
    pub(super) function_name: String,
    pub(super) function_hash: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskLife {
    pub(super) task_id: String,
    pub(super) task_attempt: u64,
    pub(super) job_id: String,
    pub(super) state_transitions: Vec<Transition>,
    pub(super) node_id: String,
    pub(super) worker_id: String,
    pub(super) worker_pid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ray_error_info: Option<ErrorInfo>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorInfo {
    pub(super) error_type: String,
    pub(super) error_message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskProfile {
    pub(super) task_id: String,
    pub(super) attempt_number: u64,
    pub(super) job_id: String,
    pub(super) profile_events: ProfileEvents,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProfileEvents {
    pub(super) component_type: &'static str,
    pub(super) component_id: String,
    pub(super) node_ip_address: String,
    pub(super) events: [ProfileEvent; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProfileEvent {
    pub(super) event_name: String,
    /// Nanoseconds since 1970, as text.
    pub(super) start_time: String,
    pub(super) end_time: String,
    /// JSON: [`Extra`].
    pub(super) extra_data: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Extra<'a> {
    pub(super) name: &'a str,
    pub(super) task_id: &'a str,
}

//! The columns of every kind of row: the one table for the command line, the HTTP server and Python.
//!
//! `cargo xtask rows` writes `python/heliostat/util/state/rows.py` from it. Names, order and types are Ray's,
//! and what Ray does not have stands behind those. The task runner compiles this file, too, so it uses nothing of
//! the crate.

/// A column of a row.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The name of the column.
    pub name: &'static str,
    /// The type of its values in Python.
    pub python: &'static str,
    /// Whether the column is shown in detail only.
    pub is_detail: bool,
    /// Rows can be chosen by it.
    pub is_filter: bool,
    /// The form in which people read the column's values.
    pub form: Form,
}

/// The form in which people read the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The plain value, without a unit.
    Plain,
    /// Milliseconds since 1970 as a date and time.
    Time,
    /// A list of events, each with a date and time.
    Events,
    /// Resources, those that are bytes with units.
    Resources,
}

/// Shown always, and rows can be chosen by it.
const fn always(name: &'static str, python: &'static str) -> Column {
    Column { name, python, is_detail: false, is_filter: true, form: Form::Plain }
}

/// Shown always.
const fn shown(name: &'static str, python: &'static str) -> Column {
    Column { is_filter: false, ..always(name, python) }
}

/// Shown in detail only.
const fn detail(name: &'static str, python: &'static str) -> Column {
    Column { is_detail: true, ..shown(name, python) }
}

/// Shown in detail only, and rows can be chosen by it.
const fn detail_filter(name: &'static str, python: &'static str) -> Column {
    Column { is_filter: true, ..detail(name, python) }
}

/// A time in milliseconds since 1970, shown in detail only.
const fn time(name: &'static str) -> Column {
    Column { form: Form::Time, ..detail(name, "int | None") }
}

const RESOURCES: &str = "dict[str, float] | None";
const MAPPING: &str = "dict[str, Any] | None";
const LABELS: &str = "dict[str, str] | None";

/// The columns of calls.
pub const TASKS: &[Column] = &[
    always("task_id", "str"),
    always("attempt_number", "int"),
    always("name", "str"),
    always("state", "str"),
    always("job_id", "str"),
    always("actor_id", "str | None"),
    always("type", "str"),
    always("func_or_class_name", "str"),
    always("parent_task_id", "str | None"),
    always("node_id", "str | None"),
    always("worker_id", "str | None"),
    always("worker_pid", "int | None"),
    always("error_type", "str | None"),
    detail_filter("language", "str | None"),
    detail("required_resources", RESOURCES),
    detail("runtime_env_info", MAPPING),
    detail_filter("placement_group_id", "str | None"),
    Column { form: Form::Events, ..detail("events", "list[dict[str, Any]] | None") },
    detail("profiling_data", MAPPING),
    time("creation_time_ms"),
    time("start_time_ms"),
    time("end_time_ms"),
    detail("task_log_info", MAPPING),
    detail("error_message", "str | None"),
    detail_filter("is_debugger_paused", "bool | None"),
    detail("call_site", "str | None"),
    detail("label_selector", LABELS),
    detail("fallback_strategy", "Any"),
    detail("why", "str | None"),
];

/// The columns of references to objects.
pub const OBJECTS: &[Column] = &[
    always("object_id", "str"),
    always("object_size", "int"),
    always("task_status", "str"),
    always("attempt_number", "int"),
    always("reference_type", "str"),
    always("call_site", "str"),
    always("type", "str"),
    always("pid", "int"),
    always("ip", "str"),
];

/// The columns of processes that run or ran tasks or a driver.
pub const WORKERS: &[Column] = &[
    always("worker_id", "str"),
    always("is_alive", "bool"),
    always("worker_type", "str"),
    always("exit_type", "str | None"),
    always("node_id", "str"),
    always("ip", "str"),
    always("pid", "int"),
    detail("exit_detail", "str | None"),
    time("worker_launch_time_ms"),
    time("worker_launched_time_ms"),
    time("start_time_ms"),
    time("end_time_ms"),
    detail_filter("debugger_port", "int | None"),
    detail_filter("num_paused_threads", "int | None"),
    detail("job_id", "str | None"),
    detail("usage", "str | None"),
    detail("required_resources", RESOURCES),
    detail("runtime_env", "str | None"),
];

/// The columns of actors.
pub const ACTORS: &[Column] = &[
    always("actor_id", "str"),
    always("class_name", "str"),
    always("state", "str"),
    always("job_id", "str"),
    always("name", "str | None"),
    always("node_id", "str | None"),
    always("pid", "int | None"),
    always("ray_namespace", "str | None"),
    detail("serialized_runtime_env", "str | None"),
    detail("required_resources", RESOURCES),
    detail("death_cause", MAPPING),
    detail("is_detached", "bool | None"),
    detail_filter("placement_group_id", "str | None"),
    detail_filter("repr_name", "str | None"),
    detail("num_restarts", "int | None"),
    detail("num_restarts_due_to_lineage_reconstruction", "int | None"),
    detail("num_restarts_due_to_node_preemption", "int | None"),
    detail("call_site", "str | None"),
    detail("label_selector", LABELS),
    detail("fallback_strategy", "Any"),
    detail("why", "str | None"),
    time("creation_time_ms"),
    time("end_time_ms"),
];

/// The columns of nodes.
pub const NODES: &[Column] = &[
    always("node_id", "str"),
    always("node_ip", "str"),
    always("is_head_node", "bool"),
    always("state", "str"),
    shown("state_message", "str | None"),
    always("node_name", "str"),
    Column { form: Form::Resources, ..shown("resources_total", "dict[str, Any]") },
    shown("labels", "dict[str, str]"),
    time("start_time_ms"),
    time("end_time_ms"),
];

/// The columns of jobs.
pub const JOBS: &[Column] = &[
    always("job_id", "str | None"),
    always("submission_id", "str | None"),
    shown("entrypoint", "str"),
    always("type", "str"),
    always("status", "str"),
    shown("message", "str | None"),
    shown("error_type", "str | None"),
    shown("driver_info", "Any"),
    detail("start_time", "int | None"),
    detail("end_time", "int | None"),
    detail("metadata", LABELS),
    detail("runtime_env", MAPPING),
    detail("driver_agent_http_address", "str | None"),
    detail("driver_node_id", "str | None"),
    detail("driver_exit_code", "int | None"),
];

/// The columns of placement groups.
pub const GROUPS: &[Column] = &[
    always("placement_group_id", "str"),
    always("name", "str"),
    always("creator_job_id", "str"),
    always("state", "str"),
    detail("bundles", "list[dict[str, Any]] | None"),
    detail_filter("is_detached", "bool | None"),
    detail("stats", MAPPING),
    detail("topology_strategy", MAPPING),
    detail("topology_assignments", MAPPING),
    detail("why", "str | None"),
    time("creation_time_ms"),
];

/// The columns of runtime environments on nodes.
pub const ENVS: &[Column] = &[
    always("runtime_env", "dict[str, Any]"),
    always("success", "bool"),
    Column { form: Form::Time, ..shown("creation_time_ms", "float | None") },
    always("node_id", "str"),
    detail("ref_cnt", "int | None"),
    detail_filter("error", "str | None"),
    detail("starts", "int | None"),
    detail("size", "int | None"),
];

/// The columns of failures.
pub const EVENTS: &[Column] = &[
    always("severity", "str"),
    shown("time", "str"),
    always("source_type", "str"),
    shown("message", "str"),
    always("event_id", "str"),
    detail("custom_fields", MAPPING),
];

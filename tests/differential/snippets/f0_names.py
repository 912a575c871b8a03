"""F0.01: signatures of functions, and the members of classes, as programs use them."""

from __future__ import annotations

import importlib
import inspect
import pickle
from importlib.util import find_spec
from typing import Any

import ray
from kit import outcome, plain, snippet

# By module: functions whose parameters programs name.
FUNCTIONS = {
    "ray": """
        available_resources cancel cluster_resources get get_actor get_gpu_ids
        get_runtime_context init is_initialized kill method nodes put remote shutdown
        timeline wait
    """,
    "ray.util": """
        as_completed deregister_serializer disable_log_once_globally
        enable_periodic_logging get_current_placement_group get_node_instance_id
        get_node_ip_address get_placement_group inspect_serializability
        list_named_actors log_once map_unordered placement_group_table
        register_serializer remove_placement_group
    """,
    "ray.util.placement_group": """
        get_current_placement_group get_placement_group placement_group
        placement_group_table remove_placement_group
    """,
    "ray.util.state": """
        get_actor get_job get_log get_node get_objects get_placement_group get_task
        get_worker list_actors list_cluster_events list_jobs list_logs list_nodes
        list_objects list_placement_groups list_runtime_envs list_tasks list_workers
        summarize_actors summarize_objects summarize_tasks
    """,
    "ray.util.joblib": """
        register_ray
    """,
    "ray.util.check_serialize": """
        inspect_serializability
    """,
    "ray.actor": """
        exit_actor method
    """,
    "ray.runtime_context": """
        get_runtime_context
    """,
}

# By class: Ray's public members, without those of its own wire formats.
MEMBERS = {
    "ray.ActorID": """
        binary from_binary from_hex from_random hex is_nil job_id nil of size
    """,
    "ray.JobID": """
        binary from_binary from_hex from_int hex int is_nil nil size
    """,
    "ray.NodeID": """
        binary from_binary from_hex from_random hex is_nil nil size
    """,
    "ray.ObjectRef": """
        as_future binary call_site from_binary from_hex from_random future hex is_nil
        job_id nil owner_address size task_id
    """,
    "ray.ObjectRefGenerator": """
        aclose asend athrow close completed is_finished next_ready send throw
    """,
    "ray.PlacementGroupID": """
        binary from_binary from_hex from_random hex is_nil nil of size
    """,
    "ray.TaskID": """
        actor_id binary from_binary from_hex hex is_nil job_id nil size
    """,
    "ray.UniqueID": """
        binary from_binary from_hex from_random hex is_nil nil size
    """,
    "ray.WorkerID": """
        binary from_binary from_hex from_random hex is_nil nil size
    """,
    "ray.LoggingConfig": """
        encoding from_dict log_level to_dict
    """,
    "ray.util.ActorPool": """
        get_next get_next_unordered has_free has_next map map_unordered pop_idle push
        submit
    """,
    "ray.util.queue.Queue": """
        empty full get get_async get_nowait get_nowait_batch put put_async put_nowait
        put_nowait_batch qsize shutdown size
    """,
    "ray.util.metrics.Counter": """
        inc info set_default_tags
    """,
    "ray.util.metrics.Gauge": """
        info set set_default_tags
    """,
    "ray.util.metrics.Histogram": """
        info observe set_default_tags
    """,
    "ray.util.multiprocessing.Pool": """
        apply apply_async close imap imap_unordered join map map_async starmap
        starmap_async terminate
    """,
    "ray.util.placement_group.PlacementGroup": """
        bundle_count bundle_specs empty is_empty ready wait
    """,
    "ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy": """
    """,
    "ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy": """
    """,
    "ray.util.scheduling_strategies.NodeLabelSchedulingStrategy": """
    """,
    "ray.runtime_context.RuntimeContext": """
        actor_id current_actor current_placement_group_id gcs_address get
        get_accelerator_ids get_actor_id get_actor_name get_assigned_resources
        get_job_id get_node_id get_node_labels get_placement_group_id get_resource_ids
        get_runtime_env_string get_session_name get_task_function_name get_task_id
        get_task_name get_temp_dir get_worker_id is_canceled job_id namespace node_id
        runtime_env should_capture_child_tasks_in_placement_group task_id
        was_current_actor_reconstructed
    """,
    "ray.cluster_utils.Cluster": """
        add_node address connect gcs_address list_all_nodes remaining_processes_alive
        remove_node shutdown wait_for_nodes
    """,
    "ray.util.state.StateApiClient": """
        get get_address get_version list summary
    """,
    "ray.actor.ActorMethod": """
        bind options remote
    """,
    "ray.remote_function.RemoteFunction": """
        bind options
    """,
    "ray.job_config.JobConfig": """
        ensure_logging_config from_json set_default_actor_lifetime set_metadata
        set_py_logging_config set_ray_namespace set_runtime_env
    """,
    "ray.exceptions.RayTaskError": """
        add_note args as_instanceof_cause make_dual_exception_instance with_traceback
    """,
    "ray.exceptions.RayActorError": """
        actor_init_failed add_note args preempted with_traceback
    """,
    "ray.exceptions.ActorDiedError": """
        actor_init_failed add_note args preempted with_traceback
    """,
    "ray.exceptions.ObjectLostError": """
        add_note args with_traceback
    """,
    "ray.exceptions.GetTimeoutError": """
        add_note args characters_written errno filename filename2 strerror
        with_traceback
    """,
    "ray.exceptions.TaskCancelledError": """
        add_note args with_traceback
    """,
}


def parameters(function: Any) -> Any:
    """Names, kinds and defaults; whether a method's ``self`` has a name is nobody's business."""
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "no signature"
    return [
        [one.name, one.kind.name, "none" if one.default is one.empty else plain(one.default)]
        for one in known
        if one.name != "self"
    ]


@snippet("F0.01", cluster=None)
def functions() -> Any:
    return {
        f"{module}.{name}": parameters(getattr(importlib.import_module(module), name, None))
        for module, names in FUNCTIONS.items()
        for name in names.split()
    }


def member(cls: type, name: str) -> Any:
    try:
        raw = inspect.getattr_static(cls, name)
    except AttributeError:
        return "missing"
    if isinstance(raw, property) or inspect.isdatadescriptor(raw):
        return "property"
    found = getattr(cls, name)
    return parameters(found) if callable(found) else "value"


@snippet("F0.01", "F0.14", "F0.23", cluster=None)
def members() -> Any:
    found = {}
    for path, names in MEMBERS.items():
        module, _, name = path.rpartition(".")
        cls = getattr(importlib.import_module(module), name)
        found[path] = {name: member(cls, name) for name in names.split()}
    return found


@snippet("F0.01", cluster=None)
def probing() -> Any:
    def has(name: str) -> bool:
        try:
            return find_spec(name) is not None
        except ModuleNotFoundError:
            return False

    def error(statement: str) -> Any:
        return outcome(lambda: exec(statement, {}))["raises"]

    return {
        "version": ray.__version__,
        "there": {name: has(name) for name in ("ray.data", "ray.train", "ray.util.queue")},
        "not there": {name: has(name) for name in ("ray.nonsense", "ray.util.nonsense")},
        "attribute": [hasattr(ray, name) for name in ("nonsense", "remote", "util", "data")],
        "errors": {
            statement: error(statement)
            for statement in (
                "from ray import nonsense",
                "import ray.nonsense",
                "from ray.util import nonsense",
                "import ray.util.nonsense",
                "from ray.nonsense import x",
                "import ray; ray.nonsense",
                "import ray.util; ray.util.nonsense",
                "from ray.exceptions import Nonsense",
            )
        },
        "pickled": [
            pickle.loads(pickle.dumps(thing)) is thing
            for thing in (ray.ObjectRef, ray.exceptions.GetTimeoutError, ray.util.queue.Queue)
        ],
    }

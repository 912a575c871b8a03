"""The context of the running driver, task or actor."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat
from heliostat.core import session
from heliostat.core.calls.cross_language import SCRIPT_MODE, WORKER_MODE
from heliostat.core.platform.annotations import RayDeprecationWarning
from heliostat.core.runtime_env.document import RuntimeEnv, of_user

if TYPE_CHECKING:
    from heliostat.core.calls.actor_handle import ActorHandle

_WORKERS_ONLY = "This method is only available when the process is a worker."


class Process:
    """The kind of this process, for programs that ask ``get_runtime_context().worker``."""

    @property
    def mode(self) -> int | None:
        """``SCRIPT_MODE`` in a driver, ``WORKER_MODE`` in a worker, ``None`` without a session."""
        if not _heliostat.is_connected():
            return None
        return SCRIPT_MODE if _heliostat.current().is_driver else WORKER_MODE


class RuntimeContext:
    """Ids, names and resources of whoever asks. Ids are hex; ``None`` where there is none.

    Examples:
        >>> import ray
        >>> @ray.remote(num_cpus=0.5)
        ... def who():
        ...     context = ray.get_runtime_context()
        ...     return context.get_task_name(), context.get_assigned_resources()
        >>> ray.get(who.remote())
        ('who', {'CPU': 0.5})
    """

    # --- where ---

    def get_job_id(self) -> str:
        """The id of the caller's job.

        Raises:
            RaySystemError: There is no session.
        """
        return _heliostat.session()["job_id"]

    def get_node_id(self) -> str:
        """The id of the caller's node.

        Raises:
            RuntimeError: There is no session.
        """
        if not _heliostat.is_connected():
            raise RuntimeError("The node id is known once Ray has been initialized.")
        return _heliostat.session()["node_id"]

    def get_worker_id(self) -> str:
        """The id of this process.

        Raises:
            RaySystemError: There is no session.
        """
        return _heliostat.session()["worker_id"]

    def get_session_name(self) -> str:
        """The name of the session, which is its folder's name.

        Raises:
            RaySystemError: There is no session.
        """
        return _heliostat.session()["session_name"]

    def get_temp_dir(self) -> str:
        """The folder of all sessions."""
        return _heliostat.session()["temp_dir"]

    def get_node_labels(self) -> dict[str, str]:
        """The node's labels."""
        return dict(_heliostat.session()["labels"])

    @property
    def gcs_address(self) -> str:
        """The control service, as ``host:port``."""
        return _heliostat.session()["control_address"]

    @property
    def namespace(self) -> str:
        """The namespace in which named actors are looked up."""
        return _heliostat.current().namespace

    # --- what runs ---

    def get_task_id(self) -> str | None:
        """The id of the running task or call; ``None`` in a driver."""
        return _current().task_id

    def get_task_name(self) -> str | None:
        """The name of the running task or call; ``None`` in a driver."""
        return _current().task_name

    def get_task_function_name(self) -> str | None:
        """The name of the function that runs; ``None`` in a driver."""
        return _current().function_name

    def get_actor_id(self) -> str | None:
        """The id of the actor that this process is; ``None`` where it is none."""
        return _current().actor_id

    def get_actor_name(self) -> str | None:
        """The actor's name; empty where it has none."""
        return _current().actor_name

    def get_placement_group_id(self) -> str | None:
        """The placement group that the call runs in."""
        return _current().placement_group_id

    def is_canceled(self) -> bool:
        """Whether somebody has cancelled the running call.

        Raises:
            RuntimeError: The caller is a driver.
        """
        now = _current()
        if now.is_driver:
            raise RuntimeError(_WORKERS_ONLY)
        return now.is_canceled

    @property
    def current_actor(self) -> ActorHandle:
        """A handle to the actor that this process is.

        Raises:
            RuntimeError: This process is not an actor.
        """
        if _current().actor_id is None:
            raise RuntimeError("This method is only available in an actor.")
        handle: ActorHandle = _heliostat.deserialize(_heliostat.current_actor_handle())
        return handle

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the actor's process is not its first."""
        now = _current()
        if now.actor_id is None:
            raise AssertionError(_WORKERS_ONLY)
        return now.reconstructed

    # --- with what ---

    def get_assigned_resources(self) -> dict[str, float]:
        """The resources that the running task or actor holds: amounts by name.

        Raises:
            AssertionError: The caller is a driver.
        """
        _workers_only()
        return dict(_current().resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The devices of the running task or actor by their kind; empty lists for kinds without any."""
        return _current().accelerator_ids

    def get_runtime_env_string(self) -> str:
        """The runtime environment as JSON."""
        return json.dumps(of_user(_current().runtime_env))

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment."""
        return RuntimeEnv.deserialize(_current().runtime_env)

    @property
    def worker(self) -> Process:
        """This process; its ``mode`` says whether it is a driver."""
        return _process

    # --- older names ---

    def get(self) -> dict[str, Any]:
        """Everything at once, as ids."""
        _deprecated("get()", "the single getters")
        now = _current()
        found: dict[str, Any] = {
            "job_id": self._job_id(),
            "node_id": self._node_id(),
            "namespace": self.namespace,
        }
        if now.task_id is not None:
            found["task_id"] = _heliostat.TaskID.from_hex(now.task_id)
        if now.actor_id is not None:
            found["actor_id"] = _heliostat.ActorID.from_hex(now.actor_id)
        return found

    @property
    def job_id(self) -> Any:
        """The job, as an id. Deprecated: use ``get_job_id()``."""
        _deprecated("job_id", "get_job_id()")
        return self._job_id()

    @property
    def node_id(self) -> Any:
        """The node, as an id. Deprecated: use ``get_node_id()``."""
        _deprecated("node_id", "get_node_id()")
        return self._node_id()

    @property
    def task_id(self) -> Any:
        """The task, as an id. Deprecated: use ``get_task_id()``."""
        _deprecated("task_id", "get_task_id()")
        _workers_only()
        found = self.get_task_id()
        return _heliostat.TaskID.from_hex(found) if found else None

    @property
    def actor_id(self) -> Any:
        """The actor, as an id. Deprecated: use ``get_actor_id()``."""
        _deprecated("actor_id", "get_actor_id()")
        _workers_only()
        found = self.get_actor_id()
        return _heliostat.ActorID.from_hex(found) if found else None

    @property
    def current_placement_group_id(self) -> Any:
        """The placement group, as an id. Deprecated: use ``get_placement_group_id()``."""
        found = self.get_placement_group_id()
        kind = _heliostat.PlacementGroupID
        return kind.from_hex(found) if found else kind.nil()

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what is submitted here goes into the caller's placement group."""
        return _current().capture_children

    def get_resource_ids(self) -> dict[str, list[str]]:
        """As ``get_accelerator_ids``. Deprecated."""
        _deprecated("get_resource_ids()", "get_accelerator_ids()")
        return self.get_accelerator_ids()

    def _job_id(self) -> Any:
        return _heliostat.JobID.from_hex(self.get_job_id())

    def _node_id(self) -> Any:
        return _heliostat.NodeID.from_hex(self.get_node_id())


def _current() -> _heliostat.Current:
    return _heliostat.current()


def _workers_only() -> None:
    if _current().is_driver:
        raise AssertionError(_WORKERS_ONLY)


def _deprecated(what: str, instead: str) -> None:
    warnings.warn(
        f"RuntimeContext.{what} is deprecated. Use {instead} instead.",
        RayDeprecationWarning,
        stacklevel=3,
    )


_context = RuntimeContext()
_process = Process()


def get_runtime_context() -> RuntimeContext:
    """The caller's context; what it knows of a session is asked when it is read.

    Examples:
        >>> import ray
        >>> ray.get_runtime_context().get_node_id() == ray.nodes()[0]["NodeID"]
        True
    """
    if session.begins_by_itself():
        session.ensure()
    return _context

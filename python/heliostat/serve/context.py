"""The context of a replica, and of a call's request."""

from __future__ import annotations

import contextvars
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.gang import GangContext
from heliostat.serve.specs import ACTOR_VARIABLE, NAMESPACE, DeploymentID, deployment_actor_name

if TYPE_CHECKING:
    from heliostat.serve.models import ReplicaRank

__all__ = ["DeploymentActorContext", "GangContext", "ReplicaContext", "ReplicaID"]


class RequestContext(NamedTuple):
    """The values that go with a request from deployment to deployment."""

    request_id: str = ""
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    trace: tuple[str, str] = ("", "")  # W3C's traceparent and tracestate of the span above


# The same, as it crosses to another process.
RequestRow = tuple[str, str, str, str, tuple[str, str]]

_NO_REQUEST = RequestContext()
request_context: contextvars.ContextVar[RequestContext] = contextvars.ContextVar(
    "serve_request", default=_NO_REQUEST
)
# By Ray's name, for programs that read the request's id.
_serve_request_context = request_context


# The ids of a process's requests begin alike, at random, and end with a count: a draw for each would cost
# as much as the rest of a call's bookkeeping. A forked process draws its own.
def _draw() -> None:
    digits = os.urandom(16).hex()
    begin = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-"
    serving.seed_request_ids(begin, int(digits[20:], 16))


_draw()
os.register_at_fork(after_in_child=_draw)
new_request_id = serving.new_request_id


class ReplicaID(NamedTuple):
    """A replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """``app#deployment#id``."""
        return f"{self.deployment_id.key}#{self.unique_id}"

    @classmethod
    def is_full_id_str(cls, full_id_str: str) -> bool:
        """Whether that text is what ``to_full_id_str`` gives."""
        return len(full_id_str.split("#")) == 3

    @classmethod
    def from_full_id_str(cls, full_id_str: str) -> ReplicaID:
        """The id that ``to_full_id_str`` made that text of. Raises ``ValueError`` for any other."""
        if not cls.is_full_id_str(full_id_str):
            raise ValueError(f"{full_id_str!r} is not the id of a replica: app#deployment#id.")
        app, deployment, unique = full_id_str.split("#")
        return cls(unique, DeploymentID(app, deployment))


@dataclass
class ReplicaContext:
    """The context of a replica.

    ``world_size``: how many replicas the deployment is to have. It and ``rank`` are of the moment: they
    change as replicas come and go. ``gang_context``: where ``gang_scheduling_config`` is given;
    ``code_version``: changes when replicas have to be started anew.
    """

    replica_id: ReplicaID
    servable_object: Any
    max_ongoing_requests: int = 5
    world_size: int = 1
    ranks: tuple[int, int, int] = (0, 0, 0)  # those of `rank`
    gang_context: GangContext | None = None
    code_version: str | None = None

    @property
    def rank(self) -> ReplicaRank:
        """The replica's rank among all, its node's rank, and its rank within the node, each from 0 on."""
        from heliostat.serve.models import ReplicaRank

        rank, node_rank, local_rank = self.ranks
        return ReplicaRank(rank=rank, node_rank=node_rank, local_rank=local_rank)

    @property
    def app_name(self) -> str:
        """The application."""
        return self.replica_id.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.replica_id.deployment_id.name

    @property
    def replica_tag(self) -> str:
        """The replica's id within its deployment."""
        return self.replica_id.unique_id


@dataclass
class DeploymentActorContext:
    """The context of an actor of ``deployment_actors``."""

    deployment_id: DeploymentID
    actor_name: str
    code_version: str | None = None

    @property
    def app_name(self) -> str:
        """The application."""
        return self.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.deployment_id.name


_replica: ReplicaContext | None = None


def own_node() -> str:
    """The node of this process, as 56 hex digits."""
    return str(ray.get_runtime_context().get_node_id())


def set_replica_context(context: ReplicaContext) -> None:
    """Note that this process is a replica."""
    global _replica
    _replica = context


def get_replica_context() -> ReplicaContext:
    """Return what this replica knows of itself.

    Raises:
        RayServeException: This process is not a replica.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def who(_):
        ...     return serve.get_replica_context().deployment
        >>> handle = serve.run(who.bind(), name="who", route_prefix=None)
        >>> handle.remote(None).result()
        'who'
        >>> serve.delete("who")
    """
    if _replica is None:
        raise RayServeException(
            "`serve.get_replica_context()` may only be called from within a replica."
        )
    return _replica


def get_deployment_actor(actor_name: str) -> Any:
    """Return a handle to one of the ``deployment_actors`` of this replica's deployment.

    One that ends is started again: calls of an older handle raise ``RayActorError`` then.

    Args:
        actor_name: Its name.

    Raises:
        RayServeException: This process is not a replica.
        ValueError: It is being started again.

    Examples:
        >>> import ray
        >>> from ray import serve
        >>> from ray.serve.config import DeploymentActorConfig
        >>> @ray.remote
        ... class Count:
        ...     def __init__(self):
        ...         self.n = 0
        ...     def add(self):
        ...         self.n += 1
        ...         return self.n
        >>> @serve.deployment(deployment_actors=[DeploymentActorConfig(name="count", actor_class=Count)])
        ... class Front:
        ...     async def __call__(self):
        ...         return await serve.get_deployment_actor("count").add.remote()
        >>> handle = serve.run(Front.bind(), name="counting", route_prefix=None)
        >>> handle.remote().result(), handle.remote().result()
        (1, 2)
        >>> serve.delete("counting")
    """
    if _replica is None:
        raise RayServeException(
            "`serve.get_deployment_actor()` may only be called from within a replica."
        )
    version = _replica.code_version or ""
    name = deployment_actor_name(_replica.replica_id.deployment_id, version, actor_name)
    return ray.get_actor(name, namespace=NAMESPACE)


def get_deployment_actor_context() -> DeploymentActorContext:
    """Return what this deployment actor knows of itself.

    Raises:
        RayServeException: This process is not a deployment actor.

    Returns:
        Its name, its deployment and its application.

    Examples:
        >>> import ray
        >>> from ray import serve
        >>> from ray.serve.config import DeploymentActorConfig
        >>> @ray.remote(num_cpus=0)
        ... class Shared:
        ...     def name(self):
        ...         context = serve.get_deployment_actor_context()
        ...         return context.app_name, context.deployment, context.actor_name
        >>> @serve.deployment(deployment_actors=[DeploymentActorConfig(name="memory", actor_class=Shared)])
        ... class Front:
        ...     async def __call__(self):
        ...         return await serve.get_deployment_actor("memory").name.remote()
        >>> serve.run(Front.bind(), name="sharing", route_prefix=None).remote().result()
        ('sharing', 'Front', 'memory')
        >>> serve.delete("sharing")
    """
    told = os.environ.get(ACTOR_VARIABLE)
    if not told:
        raise RayServeException(
            "`serve.get_deployment_actor_context()` may only be called from within a deployment actor."
        )
    app, deployment, name, version = json.loads(told)
    return DeploymentActorContext(DeploymentID(app, deployment), name, version)


def _get_internal_replica_context() -> ReplicaContext | None:
    """Return what ``get_replica_context`` does, ``None`` outside of a replica: programs use Ray's name."""
    return _replica


def get_servable() -> Any:
    """The instance that this replica serves."""
    return get_replica_context().servable_object


def in_replica() -> bool:
    """Whether this process is a replica."""
    return _replica is not None


def __getattr__(name: str) -> Any:
    if name == "ReplicaRank":
        from heliostat.serve.models import ReplicaRank

        return ReplicaRank
    if name == "RayServegRPCContext":
        from heliostat.serve.grpc_util import RayServegRPCContext

        return RayServegRPCContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

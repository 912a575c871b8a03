"""What a replica knows of itself, and a call of its request."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import heliostat as ray
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.specs import DeploymentID

if TYPE_CHECKING:
    from heliostat.serve.models import ReplicaRank

__all__ = ["ReplicaContext", "ReplicaID"]


class RequestContext(NamedTuple):
    """What goes with a request from deployment to deployment."""

    request_id: str = ""
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    trace: tuple[str, str] = ("", "")  # W3C's traceparent and tracestate of the span above


_NO_REQUEST = RequestContext()
request_context: contextvars.ContextVar[RequestContext] = contextvars.ContextVar(
    "serve_request", default=_NO_REQUEST
)


class ReplicaID(NamedTuple):
    """A replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """``app#deployment#id``."""
        return f"{self.deployment_id.key}#{self.unique_id}"


@dataclass
class ReplicaContext:
    """What a replica knows of itself.

    ``world_size``: how many replicas the deployment is to have. It and ``rank`` are of the moment: they
    change as replicas come and go.
    """

    replica_id: ReplicaID
    servable_object: Any
    max_ongoing_requests: int = 5
    world_size: int = 1
    ranks: tuple[int, int, int] = (0, 0, 0)  # those of `rank`

    @property
    def rank(self) -> ReplicaRank:
        """Its rank among all replicas, that of its node, and its rank within the node, each from 0 on."""
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


_replica: ReplicaContext | None = None


def own_node() -> str:
    """The node of this process, as 56 hex digits."""
    return str(ray.get_runtime_context().get_node_id())


def set_replica_context(context: ReplicaContext) -> None:
    """This process is a replica."""
    global _replica
    _replica = context


def get_replica_context() -> ReplicaContext:
    """What this replica knows of itself; raises ``RayServeException`` outside of one."""
    if _replica is None:
        raise RayServeException(
            "`serve.get_replica_context()` may only be called from within a replica."
        )
    return _replica


def get_servable() -> Any:
    """The instance that this replica serves."""
    return get_replica_context().servable_object


def in_replica() -> bool:
    """Whether this process is a replica."""
    return _replica is not None

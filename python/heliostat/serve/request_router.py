"""The bases of a user's own routing, which chooses the replica for a handle's call.

A deployment with ``request_router_config=RequestRouterConfig(request_router_class=…)`` has one object of that
class in each process with handles to it. Its ``choose_replicas`` runs on an event loop of its own thread, and
returns ranks of replicas, of which the first with room takes the call. See :class:`RequestRouter`.
"""

from __future__ import annotations

import abc
import asyncio
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heliostat import ObjectRef, ObjectRefGenerator
from heliostat.serve.context import ReplicaID
from heliostat.serve.specs import DeploymentID, ReplicaPlace

__all__ = [
    "FIFOMixin",
    "LocalityMixin",
    "MultiplexMixin",
    "PendingRequest",
    "ReplicaID",
    "RequestMetadata",
    "RequestRouter",
    "RunningReplica",
]

# The argument of `on_request_routed`: the reference of the answer, or the generator of answers.
ReplicaResult = ObjectRef | ObjectRefGenerator

# How long a replica may take to say how many requests it has, in seconds.
_ANSWER_S = 0.1


@dataclass
class RequestMetadata:
    """The facts of a call besides its arguments."""

    request_id: str
    internal_request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    call_method: str = "__call__"
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_streaming: bool = False


@dataclass
class RequestRoutingContext:
    """The earlier tries of a call; the mixins keep it."""

    multiplexed_start_matching_time: float | None = None
    tried_fewest_multiplexed_models: bool = False
    tried_first_multiplexed_models: bool = False
    tried_same_node: bool = False
    tried_same_az: bool = False
    should_backoff: bool = False


@dataclass(eq=False)
class PendingRequest:
    """A call that waits for a replica. ``args`` and ``kwargs`` are those of ``handle.remote``."""

    args: list[Any]
    kwargs: dict[str, Any]
    metadata: RequestMetadata
    created_at: float = field(default_factory=time.time)
    routing_context: RequestRoutingContext = field(default_factory=RequestRoutingContext)
    resolved: bool = True


class RunningReplica:
    """A replica that takes calls, as a router sees it."""

    def __init__(self, place: ReplicaPlace, deployment: DeploymentID, most: int) -> None:
        self._place = place
        self._id = ReplicaID(place.id, deployment)
        self._most = most

    def update(self, place: ReplicaPlace, most: int) -> None:
        """The controller has told more of it."""
        self._place, self._most = place, most

    @property
    def replica_id(self) -> ReplicaID:
        """The id of the replica."""
        return self._id

    @property
    def actor_id(self) -> Any:
        """The replica's actor."""
        return self._place.actor._actor_id

    @property
    def actor_handle(self) -> Any:
        """A handle to its actor."""
        return self._place.actor

    @property
    def node_id(self) -> str:
        """The replica's node, as 56 hex digits."""
        return self._place.node

    @property
    def availability_zone(self) -> str | None:
        """None: nodes' zones are not known."""
        return None

    @property
    def multiplexed_model_ids(self) -> set[str]:
        """The models of ``@serve.multiplexed`` that it has loaded, as it last told."""
        return set(self._place.models)

    @property
    def routing_stats(self) -> dict[str, Any]:
        """The result of the deployment's last ``record_routing_stats``; ``{}`` before."""
        return self._place.stats

    @property
    def max_ongoing_requests(self) -> int:
        """The number of calls that the replica takes at a time."""
        return self._most

    @property
    def is_cross_language(self) -> bool:
        """Whether the replica runs another language than Python: never."""
        return False

    async def get_queue_len(self, *, deadline_s: float = _ANSWER_S) -> int:
        """The number of the replica's requests of all routers; ``TimeoutError`` where it does not answer."""
        asked = self._place.actor.ongoing.remote()
        return int(await asyncio.wait_for(_value(asked), deadline_s))

    def __repr__(self) -> str:
        return f"RunningReplica({self._id.to_full_id_str()!r})"


async def _value(ref: Any) -> Any:
    return await ref


class RequestRouter(abc.ABC):
    """Chooses replicas for calls. A subclass writes ``choose_replicas``, and what else it needs.

    It is made once in each process that has handles to the deployment, on the event loop on which all its
    methods run, so that they need no locks. A subclass with an ``__init__`` passes all arguments on.
    """

    max_num_routing_tasks_cap = 50
    """How many calls of a process are looked for a replica at a time; the others wait in order."""

    def __init__(
        self,
        deployment_id: DeploymentID,
        self_node_id: str = "",
        initial_backoff_s: float = 0.025,
        backoff_multiplier: float = 2.0,
        max_backoff_s: float = 0.5,
        prefer_local_node_routing: bool = False,
        **_: Any,
    ) -> None:
        self._deployment_id = deployment_id
        self._self_node_id = self_node_id
        self._prefer_local_node_routing = prefer_local_node_routing
        self.initial_backoff_s = initial_backoff_s
        self.backoff_multiplier = backoff_multiplier
        self.max_backoff_s = max_backoff_s
        self._replicas: dict[ReplicaID, RunningReplica] = {}
        self._replica_id_set: set[ReplicaID] = set()
        self._replicas_list: list[RunningReplica] = []
        self._ongoing: dict[ReplicaID, int] = {}  # calls of this process

    def initialize_state(self, **kwargs: Any) -> None:  # noqa: B027 # a subclass need not have one
        """Called once with ``request_router_kwargs``, before the first call."""

    @property
    def app_name(self) -> str:
        """The application of the deployment."""
        return self._deployment_id.app_name

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        """The replicas that take calls."""
        return self._replicas

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas take calls from now on; an override calls this one."""
        self._replicas = {one.replica_id: one for one in replicas}
        self._replica_id_set = set(self._replicas)
        self._replicas_list = list(replicas)
        self._ongoing = {one: self._ongoing.get(one, 0) for one in self._replica_id_set}

    def select_available_replicas(
        self, candidates: list[RunningReplica] | None = None
    ) -> list[RunningReplica]:
        """Return the candidates, by default all replicas, that may take another call of this
        process.
        """
        asked = self._replicas_list if candidates is None else candidates
        return [
            one for one in asked if self._ongoing.get(one.replica_id, 0) < one.max_ongoing_requests
        ]

    @abc.abstractmethod
    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Ranks of replicas, the best first; of the first with room the one with the fewest calls is taken.

        Where none has room it is asked again: when a call ends or the replicas change, and after a pause that
        grows from ``initial_backoff_s`` to ``max_backoff_s``. What it raises is the call's error.
        """

    def on_request_routed(  # noqa: B027 # likewise
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """A call went to that replica; ``result``: the reference, or the generator, of its answer."""

    def on_request_completed(  # noqa: B027 # likewise
        self, replica_id: ReplicaID, internal_request_id: str
    ) -> None:
        """A call of that replica has ended, well or not."""

    def on_request_cancelled(self, internal_request_id: str) -> None:  # noqa: B027 # likewise
        """A call was cancelled, or failed, before it went to a replica."""

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Called when a replica has died; an override calls this one."""
        self._replicas.pop(replica_id, None)
        self._replica_id_set.discard(replica_id)
        self._replicas_list = list(self._replicas.values())


class LocalityMixin:
    """Knows which replicas are on the node of this process."""

    _replicas_list: list[RunningReplica]
    _replica_id_set: set[ReplicaID]
    _self_node_id: str
    _prefer_local_node_routing: bool

    def _here(self) -> set[ReplicaID]:
        return {one.replica_id for one in self._replicas_list if one.node_id == self._self_node_id}

    def apply_locality_routing(
        self, pending_request: PendingRequest | None = None
    ) -> set[ReplicaID]:
        """The replicas of this node, once for each call, where handles prefer them; then all."""
        if pending_request is None:
            return self._replica_id_set
        routing, here = pending_request.routing_context, self._here()
        if self._prefer_local_node_routing and not routing.tried_same_node and here:
            routing.tried_same_node, routing.should_backoff = True, False
            return here
        routing.should_backoff = True
        return self._replica_id_set

    def rank_replicas_via_locality(
        self, replicas: list[RunningReplica]
    ) -> list[list[RunningReplica]]:
        """Three ranks: replicas of this node, of this zone (none: zones are not known), all others."""
        here = self._here()
        return _ranks(replicas, here, set())


class MultiplexMixin:
    """Knows which replicas have loaded which models of ``@serve.multiplexed``."""

    _replicas_list: list[RunningReplica]
    _replica_id_set: set[ReplicaID]

    def _having(self, model: str) -> set[ReplicaID]:
        return {one.replica_id for one in self._replicas_list if model in one.multiplexed_model_ids}

    def _with_fewest(self) -> set[ReplicaID]:
        counts = {one.replica_id: len(one.multiplexed_model_ids) for one in self._replicas_list}
        least = min(counts.values(), default=0)
        return {one for one, count in counts.items() if count == least}

    def apply_multiplex_routing(
        self, pending_request: PendingRequest | None = None
    ) -> set[ReplicaID]:
        """The replicas that have a call's model; where none has it or those are full, those with the fewest
        models; then all."""
        if pending_request is None:
            return self._replica_id_set
        routing = pending_request.routing_context
        routing.should_backoff = True
        if not routing.tried_first_multiplexed_models:
            routing.tried_first_multiplexed_models = True
            if having := self._having(pending_request.metadata.multiplexed_model_id):
                return having
        if not routing.tried_fewest_multiplexed_models:
            routing.tried_fewest_multiplexed_models = True
            return self._with_fewest()
        return self._replica_id_set

    def rank_replicas_via_multiplex(
        self, replicas: list[RunningReplica], multiplexed_model_id: str
    ) -> list[list[RunningReplica]]:
        """Three ranks: replicas that have the model, those with the fewest models, all others."""
        return _ranks(replicas, self._having(multiplexed_model_id), self._with_fewest())


class FIFOMixin:
    """A replica that was chosen for one call takes the call that has waited longest.

    One with the same model goes first where :class:`MultiplexMixin` is there, too. Without this class a
    replica takes the call for which it was chosen.
    """


def _ranks(
    replicas: Iterable[RunningReplica], first: set[ReplicaID], second: set[ReplicaID]
) -> list[list[RunningReplica]]:
    ranks: list[list[RunningReplica]] = [[], [], []]
    for one in replicas:
        ranks[0 if one.replica_id in first else 1 if one.replica_id in second else 2].append(one)
    return ranks

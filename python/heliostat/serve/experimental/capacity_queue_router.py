"""Calls go where a queue that all processes share has a place for them."""

from __future__ import annotations

import asyncio
from typing import Any

import heliostat as ray
from heliostat.exceptions import RayActorError
from heliostat.serve import specs
from heliostat.serve.context import ReplicaID
from heliostat.serve.request_router import (
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)
from heliostat.util import list_named_actors

__all__ = ["CapacityQueueRouter"]


class CapacityQueueRouter(LocalityMixin, MultiplexMixin, RequestRouter):
    """Asks a ``CapacityQueue`` among the deployment's ``deployment_actors`` for a place at a replica.

    ``request_router_kwargs``: ``capacity_queue_actor_name``, the queue's name there; ``max_fault_retries``:
    how often in a row a queue that cannot be reached is asked for a call, before that goes to the replica
    with the fewest calls of this process (default 3). Raises ``ValueError`` without the name.
    """

    _places: dict[str, str]  # replicas, by the call that has a place there

    def initialize_state(
        self, capacity_queue_actor_name: str = "", max_fault_retries: int = 3, **_: object
    ) -> None:
        """Takes what is said above."""
        if not capacity_queue_actor_name:
            raise ValueError(
                "CapacityQueueRouter needs `capacity_queue_actor_name` in `request_router_kwargs`: the name "
                "of a CapacityQueue in the deployment's `deployment_actors`."
            )
        self._name, self._retries = capacity_queue_actor_name, max_fault_retries
        self._queue: Any = None
        self._places = {}

    def _found(self) -> Any:
        """The queue of whatever version of the deployment has one. Raises ``ValueError`` where none has."""
        if self._queue is None:
            before = specs.deployment_actor_name(self._deployment_id, "", "")[:-2]
            names = [
                row["name"]
                for row in list_named_actors(all_namespaces=True)
                if row["namespace"] == specs.NAMESPACE
                and row["name"].startswith(before)
                and row["name"].endswith(f"::{self._name}")
            ]
            if not names:
                raise ValueError(f"{self._deployment_id} has no actor {self._name!r}.")
            self._queue = ray.get_actor(names[-1], namespace=specs.NAMESPACE)
        return self._queue

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The replica that the queue names; none where it has no place."""
        if pending_request is None:
            return [candidate_replicas]
        call = pending_request.metadata.internal_request_id
        # This process knows that its place was of no use.
        self._give_back(call)
        for fault in range(self._retries):
            try:
                named = await self._found().acquire.remote()
            except (RayActorError, ValueError):
                self._queue = None
                await asyncio.sleep(self.initial_backoff_s * self.backoff_multiplier**fault)
                continue
            if named is None:
                return []
            self._places[call] = named
            return [[one for one in candidate_replicas if one.replica_id.unique_id == named]]
        return [candidate_replicas]

    def _give_back(self, call: str) -> None:
        replica = self._places.pop(call, None)
        if replica is not None and self._queue is not None:
            self._queue.release.remote(replica)

    def on_request_cancelled(self, internal_request_id: str) -> None:
        """Give back the place of a call that was cancelled."""
        self._give_back(internal_request_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The call's place is free."""
        self._give_back(internal_request_id)

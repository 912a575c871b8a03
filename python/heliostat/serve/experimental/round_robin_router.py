"""Calls go to one replica after the other."""

from __future__ import annotations

import random

from heliostat.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)

__all__ = ["RoundRobinRouter"]


class RoundRobinRouter(FIFOMixin, MultiplexMixin, RequestRouter):
    """By turns: a replica that is full is passed over. Each process begins at any of them.

    Calls with a multiplexed model take turns among the replicas that have loaded it, each model its own.
    """

    _turns: dict[str, int]

    def initialize_state(self, **_: object) -> None:
        """Takes no ``request_router_kwargs``."""
        self._turns = {}

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Each replica is a rank of its own."""
        model = ""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
            wanted = pending_request.metadata.multiplexed_model_id
            if wanted:
                having = self._having(wanted)
                chosen = self.apply_multiplex_routing(pending_request)
                model = wanted if chosen == having else ""
                candidate_replicas = [one for one in candidate_replicas if one.replica_id in chosen]
        if not candidate_replicas:
            return []
        turn = self._turns.setdefault(model, random.randrange(1 << 31))
        self._turns[model] += 1
        first = turn % len(candidate_replicas)
        return [[one] for one in candidate_replicas[first:] + candidate_replicas[:first]]

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas take calls from now on."""
        super().update_replicas(replicas)
        loaded = {"", *(name for one in replicas for name in one.multiplexed_model_ids)}
        self._turns = {name: turn for name, turn in self._turns.items() if name in loaded}

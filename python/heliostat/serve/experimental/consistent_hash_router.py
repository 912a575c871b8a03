"""Calls of a session go to the same replica, in whatever process they are made."""

from __future__ import annotations

import bisect
import hashlib

from heliostat.serve.request_router import PendingRequest, RequestRouter, RunningReplica

__all__ = ["ConsistentHashRouter"]


class ConsistentHashRouter(RequestRouter):
    """A ring on which each replica has many places: a session belongs to the next one of them.

    ``handle.options(session_id=…)`` says the session; a call without one is a session of its own. Replicas
    that come or go take few sessions along. ``request_router_kwargs``: ``num_virtual_nodes``, the places of a
    replica (default 100); ``num_fallback_replicas``, how many replicas behind the first one may take a call
    while that is full (default 2; 0: it waits). Raises ``ValueError`` for other numbers.
    """

    _places: int
    _others: int
    _ring: list[tuple[int, RunningReplica]]

    def initialize_state(
        self, num_virtual_nodes: int = 100, num_fallback_replicas: int = 2, **_: object
    ) -> None:
        """Takes the numbers above."""
        for name, given, least in (
            ("num_virtual_nodes", num_virtual_nodes, 1),
            ("num_fallback_replicas", num_fallback_replicas, 0),
        ):
            number: object = given  # whatever the user has written
            if type(number) is not int or number < least:
                raise ValueError(f"`{name}` must be an integer from {least} on, not {given!r}.")
        self._places, self._others = num_virtual_nodes, num_fallback_replicas
        self._ring = []

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas take calls from now on."""
        super().update_replicas(replicas)
        self._ring = sorted(
            (
                (_hash(f"{one.replica_id.unique_id}:{place}"), one)
                for one in replicas
                for place in range(self._places)
            ),
            key=lambda row: row[0],
        )

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The session's replica, then those that follow it on the ring."""
        if pending_request is None:
            return [candidate_replicas]
        told = pending_request.metadata
        there = {one.replica_id for one in candidate_replicas}
        first = bisect.bisect(
            self._ring, _hash(told.session_id or told.internal_request_id), key=lambda row: row[0]
        )
        ranks: dict[str, list[RunningReplica]] = {}
        for _, one in self._ring[first:] + self._ring[:first]:
            if one.replica_id in there:
                ranks.setdefault(one.replica_id.unique_id, [one])
                if len(ranks) > self._others:
                    break
        return list(ranks.values())


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")

"""The driver's side: a keeper on each node that has workers, and what they hold after a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import heliostat as ray
from heliostat.train.memory.keeper import Keeper
from heliostat.train.memory.versions import MemoryOffer, Part, latest_whole
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# A keeper that does not answer in so many seconds is gone with its node.
_ANSWER_S = 5.0


class Keepers:
    """The keepers of one run."""

    def __init__(self) -> None:
        self._actors: dict[str, Any] = {}

    def offer(self) -> MemoryOffer | None:
        """Return the copies that a restart can take from memory; keepers that are gone are
        forgotten.
        """
        asked = {actor.parts.remote(): node for node, actor in self._actors.items()}
        if not asked:
            return None
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)
        parts: list[Part] = []
        living = set()
        for ref in answered:
            with contextlib.suppress(ray.exceptions.RayError):
                parts += ray.get(ref)
                living.add(asked[ref])
        for node in set(self._actors) - living:
            _end(self._actors.pop(node))
        return latest_whole(parts)

    def open(self, node_ids: list[str]) -> dict[str, list[Any]]:
        """Have a keeper on each node; returns by node its keeper and that of another node, if any."""
        nodes = list(dict.fromkeys(node_ids))
        spare = []
        if len(nodes) == 1:
            spare = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeID"] != nodes[0]][:1]
        places = nodes + spare
        for node in places:
            if node not in self._actors:
                self._actors[node] = _start(node)
        return {
            node: [self._actors[n] for n in dict.fromkeys((node, places[(i + 1) % len(places)]))]
            for i, node in enumerate(nodes)
        }

    def leave(self, node_ids: Collection[str]) -> None:
        """End the keepers on these nodes, which wait for what runs there."""
        for node in set(self._actors) & set(node_ids):
            _end(self._actors.pop(node))

    def close(self) -> None:
        """Let everything go."""
        while self._actors:
            _end(self._actors.popitem()[1])


def _start(node: str) -> Any:
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(Keeper).options(num_cpus=0, scheduling_strategy=where).remote()


def _end(actor: Any) -> None:
    with contextlib.suppress(Exception):
        ray.kill(actor)

"""Nodes that join, die, or will be taken away, as the control service tells of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.core.platform import membership


@dataclass(frozen=True)
class Leaving:
    """A node that takes no new work, and goes."""

    node_id: str
    host: str
    # In milliseconds since 1970; 0: when what runs there has ended.
    deadline_ms: int
    reason: str


class NodeWatch:
    """The state of the nodes, and one wait for the next change."""

    def __init__(self) -> None:
        self._seen = 0
        # Ready when something has changed.
        self.pending: Any = None
        self._leaving: dict[str, Leaving] = {}
        self._alive: set[str] = set()

    def look(self) -> None:
        """See how things are, and wait for what changes from now on."""
        self._seen, rows = membership.members()
        self._alive = {row["node_id"] for row in rows if row["alive"]}
        self._leaving = {
            row["node_id"]: Leaving(
                row["node_id"], row["host"], row["drain_deadline_ms"], row["drain_reason"]
            )
            for row in rows
            if row["alive"] and row["is_draining"]
        }
        self.pending = membership.next_change_of_members(self._seen)

    def changed(self) -> None:
        """``pending`` is ready."""
        ref, self.pending = self.pending, None
        try:
            ray.get(ref)
        finally:
            self.look()

    def leaving(self, node_ids: Iterable[str]) -> list[Leaving]:
        """Return those of these nodes that will be taken away."""
        wanted = set(node_ids)
        return [leaving for node_id, leaving in self._leaving.items() if node_id in wanted]

    def stays(self, node_id: str) -> bool:
        """Whether the node is in the cluster, and is not to leave."""
        return node_id in self._alive and node_id not in self._leaving

    def is_alive(self, node_id: str) -> bool:
        """Whether the node is in the cluster."""
        return node_id in self._alive

    def all_leaving(self) -> list[str]:
        """Every node of the cluster that will be taken away."""
        return list(self._leaving)

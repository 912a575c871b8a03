"""Ranks from places: workers of one node get consecutive ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ranks:
    """The ranks of one worker."""

    world_rank: int
    local_rank: int
    local_world_size: int
    node_rank: int


def order_by_node(node_ids: Sequence[str], previous: Sequence[int | None]) -> list[int]:
    """Return the positions in rank order.

    A new worker takes a rank that is vacant, so that survivors keep theirs; then the workers of
    each node are brought together, nodes in the order of the lowest rank on them.
    """
    vacant = iter(sorted(set(range(len(node_ids))) - {p for p in previous if p is not None}))
    wanted = [p if p is not None else next(vacant, len(node_ids)) for p in previous]
    first: dict[str, int] = {}
    for node, rank in zip(node_ids, wanted, strict=True):
        first[node] = min(first.get(node, rank), rank)
    return sorted(range(len(node_ids)), key=lambda i: (first[node_ids[i]], wanted[i], i))


def ranks_of(node_ids: Sequence[str]) -> list[Ranks]:
    """The ranks of workers that are in rank order already."""
    nodes: dict[str, int] = {}
    local: dict[str, int] = {}
    rows = []
    for node in node_ids:
        nodes.setdefault(node, len(nodes))
        rows.append((node, local.get(node, 0)))
        local[node] = local.get(node, 0) + 1
    return [Ranks(i, lr, local[node], nodes[node]) for i, (node, lr) in enumerate(rows)]

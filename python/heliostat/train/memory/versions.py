"""The choice of a whole copy of a run's state, and of the holders of its parts. Pure.

Invariant **TRAIN-MEMORY-1**: state is taken from memory only when the part of every rank of that
attempt and step is there; of several such states the one of the latest step is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Version(NamedTuple):
    """The state after ``step`` steps, as attempt ``attempt`` had it. Later steps are greater."""

    step: int
    attempt: int


@dataclass(frozen=True)
class Part:
    """The part of a version that one rank held, as one keeper has it.

    Attributes:
        version: Of which state.
        rank, world_size: Whose part, of how many.
        node_id: The node in whose object store it lies.
        header: What the bytes mean; only workers read it.
        data: ``[reference]`` of the bytes.
    """

    version: Version
    rank: int
    world_size: int
    node_id: str
    header: bytes
    data: list[Any]


@dataclass
class MemoryOffer:
    """A state that can be taken from memory: by rank, the copies of its part."""

    version: Version
    parts: dict[int, list[Part]] = field(default_factory=dict)


def latest_whole(parts: Iterable[Part]) -> MemoryOffer | None:
    """The latest version of which every rank's part is among ``parts``."""
    offers: dict[Version, MemoryOffer] = {}
    sizes: dict[Version, int] = {}
    for part in parts:
        offer = offers.setdefault(part.version, MemoryOffer(part.version))
        offer.parts.setdefault(part.rank, []).append(part)
        sizes[part.version] = part.world_size
    whole = [v for v, offer in offers.items() if set(offer.parts) == set(range(sizes[v]))]
    return offers[max(whole)] if whole else None


class Progress:
    """The newest version that all ranks of an attempt have handed over, as they say one by one."""

    def __init__(self) -> None:
        self._kept: dict[Version, set[int]] = {}
        self.whole: Version | None = None

    def kept(self, version: Version, rank: int, world_size: int) -> Version | None:
        """The part of ``rank`` is kept; returns the latest version that is whole."""
        ranks = self._kept.setdefault(version, set())
        ranks.add(rank)
        if len(ranks) == world_size and (self.whole is None or version > self.whole):
            self.whole = version
            self._kept = {v: r for v, r in self._kept.items() if v > version}
        return self.whole

"""The messages between the members of a quorum and the coordinator. Plain data.

A *replica group* is a set of workers that holds one copy of the model; with ``size`` workers in each,
rank ``r`` is shard ``r % size`` of group ``r // size``. A *quorum* is the set of groups that average
their gradients together, numbered from 1. A *round* is one average, numbered through the whole run.
An *edge* is the moment between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Seat:
    """The place of a worker among the replica groups."""

    group: int
    shard: int
    size: int
    # How many groups there are at most.
    groups: int
    # How often the group has been replaced.
    incarnation: int
    # The meeting point of process groups: (host, port). It lives in no worker.
    store: tuple[str, int]
    # "gloo" or "nccl".
    backend: str
    timeout_s: float
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Vote:
    """The result of a round that every member knows once the round is complete.

    Attributes:
        round: Its number, from 1.
        edge: Somebody waits to be let in: all members go to the edge after this step.
        weights: By group of the quorum, what it has brought; 0 where it brought nothing.
        used: How many ranks had a gradient, by parameter.
    """

    round: int
    edge: bool
    weights: dict[int, int]
    used: tuple[int, ...] = ()


@dataclass(frozen=True)
class Progress:
    """The progress of a member: its last complete round, and the vote of it."""

    round: int
    vote: Vote | None = None


@dataclass(frozen=True)
class Formation:
    """A new quorum, made within a step from those that are left.

    A member whose own count of rounds is behind ``progress.round`` by one takes the round that it was
    in as complete, since some member has seen it complete; one that is in a later round begins it anew.
    """

    quorum: int
    groups: tuple[int, ...]
    addresses: dict[int, Any]
    progress: Progress
    # Somebody waits for the next edge.
    awaited: bool = False


@dataclass(frozen=True)
class Admission:
    """The answer to whoever came to the edge, or asked to be let in."""

    quorum: int
    groups: tuple[int, ...]
    addresses: dict[int, Any]
    step: int
    round: int
    # The group whose state the newcomers take; None when there are none.
    donor: int | None = None
    newcomers: tuple[int, ...] = ()
    # Reports and collectives that the members have made.
    counts: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Arrival:
    """A member at the edge, and how many steps and rounds it has behind it."""

    step: int
    round: int = 0
    counts: tuple[int, int] = (0, 0)
    # The announcement comes since the training is over: the group waits for groups that are being replaced.
    last: bool = False


# ---- what the coordinator has to do for the quorum ----


@dataclass(frozen=True)
class Abort:
    """Tell a rank to give up a quorum, and to answer how far it has come."""

    rank: int
    quorum: int


@dataclass(frozen=True)
class Form:
    """Tell a rank of a new quorum."""

    rank: int
    formation: Formation


@dataclass(frozen=True)
class Announce:
    """Tell a rank that somebody waits for an edge, to enter after this quorum."""

    rank: int
    quorum: int


@dataclass(frozen=True)
class Admit:
    """Answer a rank that waits at the edge or to be let in."""

    rank: int
    admission: Admission


@dataclass(frozen=True)
class Refuse:
    """Answer a rank with an error."""

    rank: int
    text: str


@dataclass(frozen=True)
class End:
    """Tell a rank that waits to be let in that it is not needed any more."""

    rank: int


@dataclass(frozen=True)
class Dissolve:
    """Too few groups are left: the run falls back to its last checkpoint."""

    text: str


Action = Abort | Form | Announce | Admit | Refuse | End | Dissolve


@dataclass(frozen=True)
class Join:
    """A rank that wants to be let in."""

    # (name, shape, type) of each parameter.
    signature: tuple[tuple[str, tuple[int, ...], str], ...] = ()
    # Where its process group can be reached; opaque here.
    address: Any = None


@dataclass
class Waiting:
    """The ranks of a group that have asked to be let in."""

    ranks: dict[int, Join] = field(default_factory=dict)

"""Gangs as the machine sees them: replicas that it starts and stops together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from heliostat.serve.gang import GangContext
from heliostat.serve.specs import DeploymentID

R = TypeVar("R", bound=Any)


class Gang(NamedTuple):
    """A gang and its replicas, by rank."""

    id: str
    members: tuple[str, ...]

    def seen_by(self, key: DeploymentID, replica: str) -> GangContext:
        """Return the context of one of its members."""
        return GangContext(
            self.id,
            self.members.index(replica),
            len(self.members),
            list(self.members),
            self.group_of(key),
        )

    def group_of(self, key: DeploymentID) -> str:
        """The name of its placement group."""
        return f"SERVE_GANG::{key.app_name}_{key.name}_{self.id}"


def units(replicas: Iterable[R]) -> list[list[R]]:
    """The replicas by gang, in the order of the first of each; one that is in none is alone."""
    found: dict[str, list[R]] = {}
    for one in replicas:
        name = one.id if one.gang is None else f"gang {one.gang.id}"
        found.setdefault(name, []).append(one)
    return list(found.values())


def first_of(chosen: Iterable[list[R]], number: int) -> list[R]:
    """Whole units, in order, that are no more than that many replicas together."""
    taken: list[R] = []
    for unit in chosen:
        if len(taken) + len(unit) > number:
            break
        taken += unit
    return taken


def with_others(replicas: list[R], there: Iterable[R]) -> list[R]:
    """The replicas, and of those that are ``there`` the others of their gangs."""
    gangs = {one.gang.id for one in replicas if one.gang is not None}
    chosen = {one.id for one in replicas}
    others = [
        one
        for one in there
        if one.gang is not None and one.gang.id in gangs and one.id not in chosen
    ]
    return [*replicas, *others]

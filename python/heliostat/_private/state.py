"""``ray._private.state``: rows of the cluster's tables in the shape that they have there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import heliostat
from heliostat import _heliostat
from heliostat._private import missing
from heliostat.core import session
from heliostat.core.calls.placement import table_of
from heliostat.core.state import available_resources, cluster_resources, nodes, timeline

if TYPE_CHECKING:
    from heliostat.core.native_types import ActorRow

__all__ = [
    "GlobalState",
    "actors",
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "nodes",
    "state",
    "timeline",
    "total_resources_per_node",
]


def actors(
    actor_id: str | None = None,
    job_id: heliostat.JobID | None = None,
    actor_state_name: str | None = None,
) -> dict[str, Any]:
    """The actor of this hex id (``{}``: there is none), else those of the job and the state by hex id.

    A row has the keys ``ActorID``, ``ActorClassName``, ``IsDetached``, ``Name``, ``JobID``,
    ``Address`` (``IPAddress`` and ``NodeID``, empty while it has no place), ``State``,
    ``NumRestarts``, ``DeathCause`` and ``Pid``.
    """
    session.require()
    hosts = {row["node_id"]: row["host"] for row in _heliostat.list_nodes()}
    rows = _heliostat.list_actors()
    if actor_id is not None:
        return next((_actor(row, hosts) for row in rows if row["actor_id"] == actor_id), {})
    job = job_id.hex() if job_id is not None else None
    return {
        row["actor_id"]: _actor(row, hosts)
        for row in rows
        if job in (None, row["job_id"]) and actor_state_name in (None, row["state"])
    }


def _actor(row: ActorRow, hosts: dict[str, str]) -> dict[str, Any]:
    return {
        "ActorID": row["actor_id"],
        "ActorClassName": row["class_name"],
        "IsDetached": row["detached"],
        "Name": row["name"],
        "JobID": row["job_id"],
        "Address": {"IPAddress": hosts.get(row["node_id"], ""), "NodeID": row["node_id"]},
        "State": row["state"],
        "NumRestarts": row["restarts"],
        "DeathCause": row["death_cause"],
        "Pid": row["pid"],
    }


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the free resources of each living node, by its hex id; those that are used up are left
    out.
    """
    session.require()
    return {
        row["node_id"]: {name: free for name, free in row["available"].items() if free > 0}
        for row in _heliostat.list_nodes()
        if row["alive"]
    }


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the resources of each living node, by its hex id."""
    session.require()
    return {row["node_id"]: row["total"] for row in _heliostat.list_nodes() if row["alive"]}


class GlobalState:
    """The same tables as methods, which is how ``ray._private.state.state`` offers them."""

    def placement_group_table(
        self, placement_group_id: heliostat.PlacementGroupID | None = None
    ) -> dict[str, Any]:
        """As ``ray.util.placement_group_table``, by id."""
        session.require()
        return table_of(placement_group_id)

    def actor_table(self, actor_id: str | None = None) -> dict[str, Any]:
        """As :func:`actors`."""
        return actors(actor_id)

    def node_table(self) -> list[dict[str, Any]]:
        """As ``ray.nodes()``."""
        return nodes()

    def available_resources_per_node(self) -> dict[str, dict[str, float]]:
        """As the function of that name."""
        return available_resources_per_node()

    def total_resources_per_node(self) -> dict[str, dict[str, float]]:
        """As the function of that name."""
        return total_resources_per_node()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(missing(f"ray._private.state.state.{name}"))


state = GlobalState()


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.state.{name}"))

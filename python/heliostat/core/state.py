"""The cluster's nodes and resources."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat
from heliostat.core import session
from heliostat.core.driver.daemon import NODE_SOCKET
from heliostat.core.errors import RaySystemError

if TYPE_CHECKING:
    from heliostat._heliostat import ObjectRef
    from heliostat.core.native_types import NodeRow


def _require() -> None:
    if not _heliostat.is_connected():
        raise RaySystemError(
            "Ray has not been started yet. Trying to use state API before ray.init() has been called."
        )


def nodes() -> list[dict[str, Any]]:
    """Every node that is or was in the cluster.

    Returns:
        A dictionary for each: ``NodeID``, ``Alive``, ``NodeManagerAddress``, ``Resources``, ``Labels``
        and others.

    Raises:
        RaySystemError: There is no session.

    Examples:
        >>> import ray
        >>> [node["Alive"] for node in ray.nodes()]
        [True]
    """
    _require()
    return [_as_node(row) for row in _heliostat.list_nodes()]


def _as_node(row: NodeRow) -> dict[str, Any]:
    sockets = f"{row['session_dir']}/{NODE_SOCKET}"
    return {
        "NodeID": row["node_id"],
        "Alive": row["alive"],
        "NodeManagerAddress": row["host"],
        "NodeManagerHostname": row["hostname"],
        "NodeManagerPort": row["port"],
        "ObjectManagerPort": row["port"],
        "ObjectStoreSocketName": sockets,
        "RayletSocketName": sockets,
        "MetricsExportPort": (row["metrics_port"] if row["alive"] else 0) or -1,
        "MetricsAgentPort": -1,
        "DashboardAgentListenPort": -1,
        "NodeName": row["name"] or row["host"],
        "RuntimeEnvAgentPort": 0,
        "DeathReason": 0,
        "DeathReasonMessage": row["cause"],
        "alive": row["alive"],
        "Resources": row["total"] if row["alive"] else {},
        "Labels": {"ray.io/node-id": row["node_id"], **row["labels"]},
    }


def cluster_resources() -> dict[str, float]:
    """Return the resources of the living nodes, together: amounts by name, memory in bytes.

    Raises:
        RaySystemError: There is no session.

    Examples:
        >>> import ray
        >>> ray.cluster_resources()["CPU"]
        4.0
    """
    _require()
    return _sum([row["total"] for row in _living()])


def available_resources() -> dict[str, float]:
    """Return the resources that nobody uses just now, together: amounts by name. Those that are
    used up are left out.

    Raises:
        RaySystemError: There is no session.

    Examples:
        >>> import ray
        >>> "memory" in ray.available_resources()
        True
    """
    _require()
    return _sum([row["available"] for row in _living()])


def _living() -> list[NodeRow]:
    return [row for row in _heliostat.list_nodes() if row["alive"]]


def _sum(several: list[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for quantities in several:
        for name, quantity in quantities.items():
            total[name] = round(total.get(name, 0.0) + quantity, 4)
    return {name: quantity for name, quantity in total.items() if quantity > 0}


def members() -> tuple[int, list[NodeRow]]:
    """The number of the latest change of who the nodes are, and what is known of each."""
    return _heliostat.list_members()


def next_change_of_members(seen: int) -> ObjectRef:
    """A reference that is ready once a node has joined, is gone, is to leave or stays after all.

    ``seen`` is the number that :func:`members` has given: what happened since then counts.
    """
    return _heliostat.await_members(seen)


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return the calls that ran, as the events of a Chrome trace.

    Open the file in ``chrome://tracing`` or Perfetto. A task of each process that still lives is there if it
    is under way or among the latest 10,000 that ended, and so are some that ended processes have made (see
    ``list_tasks``).

    Args:
        filename: Where the events are written as JSON. ``None``: nowhere; they are returned.

    Returns:
        The events; times are microseconds since 1970. ``None`` with a ``filename``.

    Raises:
        RuntimeError: There is no session.

    Examples:
        >>> import json, pathlib, tempfile
        >>> import ray
        >>> @ray.remote
        ... def square(x):
        ...     return x * x
        >>> ray.get(square.remote(3))
        9
        >>> path = pathlib.Path(tempfile.mkdtemp(), "trace.json")
        >>> ray.timeline(str(path))
        >>> any(event["ph"] == "X" for event in json.loads(path.read_text()))
        True
    """
    if not _heliostat.is_connected():
        raise RuntimeError(
            "Ray has not been started yet. Timeline requires Ray to be initialized first."
        )
    text = _heliostat.trace(time.time_ns() // 1000)
    if filename is not None:
        Path(filename).write_text(text)
        return None
    events: list[dict[str, Any]] = json.loads(text)
    return events


def node_ip_address(address: str | None = None) -> str:
    """The address of this node, as the others reach it.

    Args:
        address: An address of another machine, ``host:port``: the answer is how this machine reaches
            it. Default: that of the session, where there is one.

    Returns:
        An IP address.

    Examples:
        >>> import ray
        >>> ray.util.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]  # there is one node
        True
    """
    from heliostat.core.driver.address import local_ip

    if address is None and _heliostat.is_connected():
        return _heliostat.session()["host"]
    return local_ip(address)


def named_actors(all_namespaces: bool = False) -> list[Any]:
    """List the living actors that have names.

    Args:
        all_namespaces: Those of all namespaces. Default: of the job's.

    Returns:
        Names; with ``all_namespaces``, dictionaries with ``name`` and ``namespace``.

    Examples:
        >>> import ray
        >>> @ray.remote(num_cpus=0)
        ... class Registry:
        ...     pass
        >>> registry = Registry.options(name="registry").remote()
        >>> "registry" in ray.util.list_named_actors()
        True
        >>> ray.kill(registry)
    """
    session.ensure()
    found = _heliostat.list_named_actors(bool(all_namespaces))
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for name, namespace in found]
    return [name for name, _ in found]

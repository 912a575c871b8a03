"""The choice of the cluster that an address means."""

from __future__ import annotations

import re
from pathlib import Path

from heliostat.core.driver import daemon
from heliostat.core.driver.daemon import NodeAddress
from heliostat.core.platform import settings

_NONE_RUNNING = (
    "Could not find any running Ray instance. Please specify the one to connect to by setting "
    "`--address` flag or `RAY_ADDRESS` environment variable, or start one here with `ray start --head`."
)


def resolve(address: str | None, temp_dir: Path) -> NodeAddress | None:
    """The local daemon of the cluster that ``address`` means; ``None``: start a cluster.

    ``None`` looks at RAY_ADDRESS and at the latest cluster and starts one if there is none;
    ``"auto"`` does the same, makes do with a cluster that another driver began, and raises where there is
    none; ``"local"`` starts one; ``host:port`` is that cluster.
    Raises ``ConnectionError``, and ``ValueError`` for what is not an address.
    """
    variable = settings.text("ADDRESS") or None
    wanted = address if address is not None else variable
    if wanted == "local":
        return None
    if wanted in (None, "auto"):
        named = variable if wanted == "auto" else None
        if named not in (None, "auto", "local"):
            return connect_to(str(named), temp_dir)
        found = _latest(temp_dir)
        if found is None and wanted == "auto":
            found = next(daemon.running(temp_dir), None)
        if found is None and wanted == "auto":
            raise ConnectionError(_NONE_RUNNING)
        return found
    return connect_to(str(wanted), temp_dir)


def _latest(temp_dir: Path) -> NodeAddress | None:
    """The cluster that ``heliostat start`` made last on this machine, if it still runs."""
    path = temp_dir / settings.CURRENT_CLUSTER_FILE
    try:
        named = path.read_text().strip() if settings.is_own(path) else ""
    except OSError:
        return None
    return _local_daemon(named, temp_dir) if named else None


def connect_to(address: str, temp_dir: Path) -> NodeAddress:
    """The local daemon of the cluster whose control service is at ``host:port``."""
    match = re.fullmatch(r"(?P<host>[^:\s/]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})", address)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"Invalid address format: {address}")
    found = _local_daemon(address, temp_dir)
    if found is not None:
        return found
    if _listens(match["host"].strip("[]"), int(match["port"])):
        # The session may lie in another folder; the cluster knows in which.
        return daemon.locate(address)
    raise ConnectionError(
        f"Failed to connect to Ray cluster at {address}: nothing answers there. "
        "`heliostat start --head` starts a cluster."
    )


def _local_daemon(address: str, temp_dir: Path) -> NodeAddress | None:
    """The head if it is on this machine, else any node of the cluster."""
    same = [node for node in daemon.running(temp_dir) if is_same(node.control_address, address)]
    return next((node for node in same if node.is_head), same[0] if same else None)


def is_same(one: str, other: str) -> bool:
    """Whether two addresses name one port, as seen from this machine."""
    if one == other:
        return True
    (one_host, _, one_port), (host, _, port) = one.rpartition(":"), other.rpartition(":")
    return one_port == port and not _addresses(one_host).isdisjoint(_addresses(host))


def _addresses(host: str) -> set[str]:
    import socket

    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return {host}
    # A cluster that listens on every address is at the loopback address too.
    own = {"127.0.0.1", "::1", "0.0.0.0", local_ip()}
    return found | own if found & own else found


def _listens(host: str, port: int) -> bool:
    import socket

    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def local_ip(towards: str | None = None) -> str:
    """The address that other machines reach this one at; no packet is sent."""
    import socket

    host, _, port = (towards or "8.8.8.8:53").rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
        except OSError:
            pass
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"

"""The choice of the cluster that is asked for rows: this process's, or another one through the
command line's binary.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import heliostat
from heliostat import _heliostat
from heliostat.core.driver import daemon
from heliostat.core.platform import settings
from heliostat.util.http import Server
from heliostat.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER
from heliostat.util.state.exception import RayStateApiException, ServerUnavailable

_SILENT = re.compile(r"(\d+) processes or nodes did not answer in time")
# The binary waits no longer than 10 s for those it asks.
_BINARY_S_MAX = 30


@dataclass(frozen=True)
class Found:
    """Rows, and how many processes or nodes did not answer."""

    rows: list[dict[str, Any]]
    silent: int = 0


def rows(resource: str, address: str | None, limit: int | None = None) -> Found:
    """The rows of a resource, in the columns of the core; the first ``limit``, if one is given."""
    address = meant(address)
    if is_ours(address):
        text, silent, _ = _heliostat.state_rows(resource, limit)
        return Found(json.loads(text), silent)
    if is_url(address):
        return _from_server(str(address), resource, limit)
    most = str(RAY_MAX_LIMIT_FROM_API_SERVER if limit is None else limit)
    command = ["list", resource, "--format", "json", "--detail", "--limit", most]
    out, silent = _outside(command, address)
    return Found(json.loads(out), silent)


def summary(resource: str, address: str | None) -> tuple[str, int]:
    """Counts as JSON, and how many did not answer."""
    address = meant(address)
    if is_ours(address):
        return _heliostat.state_summary(resource)
    if is_url(address):
        found = _told(Server(str(address)), f"/api/v0/{resource}/summarize")
        counts = found["result"]["node_id_to_summary"]["cluster"]
        return json.dumps(counts), _silent(found["partial_failure_warning"])
    return _outside(["summary", resource, "--format=json"], address)


def own_address() -> str:
    """The cluster of this process; empty: it has none."""
    return heliostat.get_runtime_context().gcs_address if _heliostat.is_connected() else ""


def meant(address: str | None) -> str | None:
    """The address; where none is given and this process has no cluster, the URL of the environment.

    It stands in RAY_API_SERVER_ADDRESS or in RAY_ADDRESS.
    """
    if address not in (None, "auto") or is_ours(address):
        return address
    named = settings.text("API_SERVER_ADDRESS") or settings.text("ADDRESS")
    return named if is_url(named) else address


def is_ours(address: str | None) -> bool:
    """Whether an address means the cluster of this process."""
    return _heliostat.is_connected() and (address in (None, "auto") or address == own_address())


def _outside(command: list[str], address: str | None) -> tuple[str, int]:
    """Return the output of the binary, asked without a session."""
    where = [] if address in (None, "auto") else ["--address", str(address)]
    try:
        done = subprocess.run(
            [str(daemon.binary()), *command, *where],
            capture_output=True,
            text=True,
            timeout=_BINARY_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RayStateApiException(f"The cluster did not answer: {error}") from error
    said = done.stderr.strip()
    if done.returncode:
        text = said.removeprefix("ConnectionError: ")
        raise ConnectionError(text) if text != said else ServerUnavailable(said)
    return done.stdout, _silent(said)


def _silent(said: str) -> int:
    found = _SILENT.search(said)
    return int(found[1]) if found else 0


def is_url(address: str | None) -> bool:
    """Whether an address is that of a head's HTTP server."""
    return address is not None and address.startswith(("http://", "https://"))


def _from_server(address: str, resource: str, limit: int | None) -> Found:
    """The rows that a head's HTTP server has, page by page."""
    server, after, silent = Server(address), None, 0
    rows: list[dict[str, Any]] = []
    while True:
        left = RAY_MAX_LIMIT_FROM_API_SERVER if limit is None else limit - len(rows)
        asked = {"detail": 1, "why": 1, "limit": min(left, RAY_MAX_LIMIT_FROM_API_SERVER)}
        query = urlencode(asked | ({} if after is None else {"next": after}))
        page = _told(server, f"/api/v0/{resource}?{query}")
        rows += page["result"]
        silent = max(silent, _silent(page["partial_failure_warning"]))
        after = page["next"]
        if after is None or (limit is not None and len(rows) >= limit):
            return Found(rows, silent)


def _told(server: Server, path: str) -> Any:
    answer = server.ask("GET", path)
    said = answer.json()
    if answer.status != 200:
        raise RayStateApiException(str(said["msg"]))
    return said["data"]["result"]

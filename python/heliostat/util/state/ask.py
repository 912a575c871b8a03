"""Who is asked for rows: this process's cluster, or another one through the command line's binary."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any

import heliostat
from heliostat import _heliostat
from heliostat.core import daemon
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
    if _is_ours(address):
        text, silent, _ = _heliostat.state_rows(resource, limit)
        return Found(json.loads(text), silent)
    most = str(RAY_MAX_LIMIT_FROM_API_SERVER if limit is None else limit)
    command = ["list", resource, "--format", "json", "--detail", "--limit", most]
    out, silent = _outside(command, address)
    return Found(json.loads(out), silent)


def summary(resource: str, address: str | None) -> tuple[str, int]:
    """Counts as JSON, and how many did not answer."""
    if _is_ours(address):
        return _heliostat.state_summary(resource)
    return _outside(["summary", resource], address)


def own_address() -> str:
    """The cluster of this process; empty: it has none."""
    return heliostat.get_runtime_context().gcs_address if _heliostat.is_connected() else ""


def _is_ours(address: str | None) -> bool:
    return _heliostat.is_connected() and address in (None, "auto", own_address())


def _outside(command: list[str], address: str | None) -> tuple[str, int]:
    """What the binary prints, asked without a session."""
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
    silent = _SILENT.search(said)
    return done.stdout, int(silent[1]) if silent else 0

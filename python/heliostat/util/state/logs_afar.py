"""Log files of a cluster that this process has not joined: its head reads them, over HTTP."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from heliostat.util.http import Server, server_url
from heliostat.util.state import ask
from heliostat.util.state.exception import RayStateApiException


def server(address: str | None) -> Server | None:
    """Return the server that is asked for the logs of a cluster; None: this process reads them by
    tasks.

    Args:
        address: The URL of a head's server, or a cluster's address. None and "auto": this process's cluster,
            else the URL that RAY_API_SERVER_ADDRESS or RAY_ADDRESS has.

    Raises:
        ConnectionError: No such cluster is known on this machine.
    """
    wanted = ask.meant(address)
    if ask.is_url(wanted):
        return Server(str(wanted))
    return None if wanted in (None, "auto") or ask.is_ours(wanted) else Server(server_url(wanted))


def names(
    where: Server, node_id: str | None, node_ip: str | None, pattern: str, timeout: float
) -> dict[str, list[str]]:
    """The files of a node by kind."""
    fields = _given({"node_id": node_id, "node_ip": node_ip, "glob": pattern})
    answer = where.ask("GET", f"/api/v0/logs?{urlencode(fields)}", timeout=timeout)
    said = answer.json()
    if not said.get("result"):
        raise RayStateApiException(str(said.get("msg") or f"the server says {answer.status}"))
    found: dict[str, list[str]] = said["data"]["result"]
    return found


def parts(
    where: Server,
    which: Mapping[str, Any],
    *,
    follow: bool,
    timeout: float,
    decode: tuple[str, str] | None,
) -> Iterator[Any]:
    """A file, part by part, as the server sends it.

    Raises:
        RayStateApiException: The server's sentence: there is no such file.
        ConnectionError: Nothing answers.
    """
    path = f"/api/v0/logs/{'stream' if follow else 'file'}?{urlencode(_given(which))}"
    # A part may end within a character.
    reader = codecs.getincrementaldecoder(decode[0])(decode[1]) if decode is not None else None
    try:
        # The command is a program, too, which Python would warn of if this package had it before.
        from heliostat.util.state import logs_command

        for part in logs_command.parts(where, path, None if follow else timeout):
            text: Any = part if reader is None else reader.decode(part)
            if text:
                yield text
    except RuntimeError as error:
        raise RayStateApiException(str(error)) from error
    if reader is not None and (last := reader.decode(b"", True)):
        yield last


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

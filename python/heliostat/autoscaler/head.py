"""The head of a cluster, as an autoscaler asks it over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from heliostat.autoscaler.model import State, parse

# How long an answer may take, in seconds.
_ANSWER_S = 20.0


class HttpHead:
    """The head whose dashboard is at ``address``, ``host:port``; ``token`` is the cluster's.

    Every method raises ``OSError`` where nobody answers, or answers something else.
    """

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._token = token

    def state(self) -> State:
        """Return the state of the cluster, and the demands that wait."""
        try:
            return parse(json.loads(self._ask("GET", "state")))
        except (KeyError, TypeError, ValueError) as error:
            raise OSError(f"the head says something that cannot be read: {error!r}") from error

    def drain(self, node_id: str, reason: str) -> None:
        """Have a node leave when what runs there has ended."""
        self._ask("POST", "drain", {"node_id": node_id, "reason": reason})

    def report(self, report: Mapping[str, Any]) -> None:
        """Keep that for people to read."""
        self._ask("PUT", "report", report)

    def _ask(self, method: str, name: str, body: Mapping[str, Any] | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        link = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_S)
        try:
            link.request(method, f"/api/autoscaler/{name}", data, headers)
            answer = link.getresponse()
            said = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self._host}:{self._port}: {error!r}") from error
        finally:
            link.close()
        if answer.status != 200:
            text = said.decode(errors="replace")
            raise OSError(f"{self._host}:{self._port}: {answer.status}: {text}")
        return said

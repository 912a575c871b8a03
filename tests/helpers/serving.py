"""Asking an application of Serve over HTTP."""

from __future__ import annotations

import http.client
import os
from typing import Any

from tests.helpers.answers import Answer

# A deadline against a hang.
ANSWER_S = 60


class Client:
    """Asks Serve's HTTP server, each time on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> Answer:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            link.request(method, path, body=body, headers=headers or {})
            answer = link.getresponse()
            return Answer(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            link.close()

    def get(self, path: str, headers: Any = None) -> Answer:
        return self.ask("GET", path, None, headers)


def ingress_pid() -> int:
    """The process of Serve's HTTP server, of this session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"serve-ingress" in words and session_dir().encode() in words:
                return int(entry)
    raise AssertionError("there is no ingress")


def session_dir() -> str:
    """The folder of this session."""
    from heliostat import _heliostat

    return _heliostat.session()["session_dir"]

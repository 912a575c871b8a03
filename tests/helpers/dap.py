"""A client of the Debug Adapter Protocol, as small as the tests need: what VS Code says to debugpy."""

from __future__ import annotations

import json
import re
import socket
from types import TracebackType
from typing import Any

# A deadline against a hang.
ANSWER_WITHIN_S = 60.0


def endpoints(output: str) -> list[tuple[str, int]]:
    """The addresses at which the workers of a driver say that they wait."""
    found = re.findall(r"waits for a debugger at ([0-9.]+):(\d+)", output)
    return [(host, int(port)) for host, port in found]


class Client:
    """A connection to a worker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_WITHIN_S)
        self._stream = self._socket.makefile("rwb")
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def attach(self, *, uncaught: bool = False) -> None:
        """Shake hands, with the break at uncaught exceptions that VS Code has on."""
        self.ask("initialize", clientID="test", adapterID="debugpy", pathFormat="path")
        attached = self.send("attach", justMyCode=False)
        self.event("initialized")
        filters = ["uncaught"] if uncaught else []
        self.ask("setExceptionBreakpoints", filters=filters)
        self.ask("configurationDone")
        self.answer(attached)

    def leave(self) -> None:
        """Detach; the debugger may close the connection before it answers."""
        self.send("disconnect", terminateDebuggee=False)
        while self._stream.read(4096):
            pass

    def stopped(self) -> tuple[int, dict[str, Any], dict[str, Any]]:
        """Wait for a stop: the thread, its innermost frame, and what the event says."""
        body = self.event("stopped")["body"]
        frames = self.ask("stackTrace", threadId=body["threadId"])["stackFrames"]
        return body["threadId"], frames[0], body

    def evaluate(self, expression: str, frame: dict[str, Any]) -> str:
        """The value of an expression in a frame, as text."""
        asked = self.ask("evaluate", expression=expression, frameId=frame["id"], context="repl")
        return str(asked["result"])

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        return self.answer(self.send(command, **arguments))

    def send(self, command: str, **arguments: Any) -> int:
        self._number += 1
        message = {"seq": self._number, "type": "request", "command": command}
        body = json.dumps({**message, "arguments": arguments}).encode()
        self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._stream.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """The body of the answer to that request; events that come before are kept."""
        while True:
            message = self._read()
            if message["type"] == "event":
                self._events.append(message)
            elif message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                body: dict[str, Any] = message.get("body") or {}
                return body

    def event(self, name: str) -> dict[str, Any]:
        """The next event of that name."""
        for index, message in enumerate(self._events):
            if message["event"] == name:
                return self._events.pop(index)
        while True:
            message = self._read()
            if message["type"] == "event" and message["event"] == name:
                return message

    def _read(self) -> dict[str, Any]:
        length = 0
        while line := self._stream.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the debugger has closed the connection"
        message: dict[str, Any] = json.loads(self._stream.read(length))
        return message

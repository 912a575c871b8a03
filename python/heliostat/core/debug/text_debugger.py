"""``pdb`` over a socket: the side of the worker. ``ray debug`` is the other side.

The worker leaves its address and a secret in the cluster's key-value store, which only holders of the
cluster's token can read; a client that does not begin with the secret is turned away.
"""

from __future__ import annotations

import contextlib
import hmac
import pdb
import secrets
import socket
from types import FrameType, TracebackType
from typing import Any

from heliostat import _heliostat
from heliostat.core.debug import debugger
from heliostat.core.platform import settings

NAMESPACE = "debugger"

# A client has so long for its first line, which `ray debug` sends at once.
_GREETING_S = 20.0
# A cancellation is seen between two waits.
_LOOK_EVERY_S = 0.5
_SECRET_BYTES = 16


def stop(frame: FrameType, what: str) -> None:
    """Wait for a client, and stop in ``frame``."""
    _Session(_wait_for_client(what)).set_trace(frame)


def post_mortem(trace: TracebackType, what: str) -> None:
    """Wait for a client, and show it the frames of an error until it goes on."""
    session = _Session(_wait_for_client(what))
    session.reset()
    session.interaction(None, trace)
    session.detach()


def _wait_for_client(what: str) -> socket.socket:
    secret = secrets.token_hex(_SECRET_BYTES)
    with socket.create_server((settings.text("DEBUGGER_HOST"), 0)) as listener:
        host, port = listener.getsockname()[:2]
        key = secrets.token_hex(8).encode()
        found = debugger.describe(host, port, secret, what)
        _heliostat.kv_put(key, found, namespace=NAMESPACE)
        debugger.say(
            f"{what} waits for a debugger at {host}:{port}. Run `ray debug` on this machine."
        )
        try:
            listener.settimeout(_LOOK_EVERY_S)
            while True:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                if _knows(connection, secret):
                    return connection
                connection.close()
        finally:
            _heliostat.kv_del(key, namespace=NAMESPACE)


def _knows(connection: socket.socket, secret: str) -> bool:
    """Whether the client begins with the secret."""
    connection.settimeout(_GREETING_S)
    said = b""
    try:
        # Byte by byte: what comes behind the line is for the debugger.
        while len(said) <= 2 * _SECRET_BYTES and not said.endswith(b"\n"):
            if not (more := connection.recv(1)):
                return False
            said += more
    except OSError:
        return False
    connection.settimeout(None)
    return hmac.compare_digest(said, secret.encode() + b"\n")


class _Session(pdb.Pdb):
    """A client's connection. When it ends, in whatever way, the call goes on as without a breakpoint."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection: socket.socket | None = connection
        # Two streams: one that reads and writes forgets, at a write, what it has read ahead.
        typed = connection.makefile("r", encoding="utf-8", errors="backslashreplace")
        shown = connection.makefile("w", encoding="utf-8", errors="backslashreplace")
        super().__init__(completekey="", stdin=typed, stdout=shown, nosigint=True, readrc=False)

    def detach(self) -> None:
        """Let the client go, and trace no more."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self.stdout.flush()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._connection = None
        self.clear_all_breaks()
        super().set_continue()

    def set_continue(self) -> None:
        super().set_continue()
        if not self.breaks:
            self.detach()

    def do_quit(self, arg: str) -> bool:
        """Detach; the call goes on."""
        self.detach()
        return True

    do_q = do_exit = do_EOF = do_quit

    def interaction(self, *args: Any, **options: Any) -> None:
        try:
            super().interaction(*args, **options)
        except (OSError, ValueError):  # the client is gone: ValueError is a closed stream
            self.detach()

    def message(self, msg: str, *args: Any, **options: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().message(msg, *args, **options)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        super().user_return(frame, return_value)
        if frame.f_back is None:  # the call ends here; the next one on this thread is another's
            self.detach()

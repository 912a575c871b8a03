"""Debugging of what runs in a worker: ``breakpoint()``, and errors that nothing catches.

The setting ``DEBUG`` says how. ``1``: the worker listens with debugpy, the debugger of VS Code, and
waits for a client at each breakpoint. ``legacy``: it serves a text debugger, to which ``ray debug``
connects. ``0``: breakpoints are passed. With ``DEBUG_POST_MORTEM`` a call also stops at the error that
it ends with, before its caller is told.

A debugger runs whatever its client sends. So the worker listens at loopback unless ``DEBUGGER_HOST``
names another address.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType, ModuleType, TracebackType
from typing import Any

from heliostat import _heliostat
from heliostat.core.platform import settings

_NO_DEBUGPY = (
    "{what} is passed: debugpy cannot be imported where this worker runs ({error}). Install it there "
    "(pip install 'heliostat[debug]'), or set RAY_DEBUG=legacy for a text debugger that `ray debug` "
    "connects to."
)

_WAITS = (
    "{what} waits for a debugger at {host}:{port} (pid {pid}). In VS Code, attach with "
    '{{"type": "debugpy", "request": "attach", "connect": {{"host": "{host}", "port": {port}}}}}.'
    "{elsewhere}"
)

_TUNNEL = " From another machine, first: ssh -L {port}:{host}:{port} {node}."

_DISABLE_WARNING = "PYDEVD_DISABLE_FILE_VALIDATION"

# The address at which debugpy listens in this process; it can do so once.
_endpoint: tuple[str, int] | None = None
_lock = threading.Lock()


def on_breakpoint(frame: FrameType) -> None:
    """Stop in the frame that called ``breakpoint()`` in a worker."""
    what = f"breakpoint() in {_place(frame)}"
    kind = settings.text("DEBUG")
    if kind == "legacy":
        _text_debugger().stop(frame, what)
    elif kind == "1" and _wait_for_client(what):
        importlib.import_module("pydevd").settrace(
            suspend=True,
            trace_only_current_thread=True,
            patch_multiprocessing=False,
            stop_at_frame=frame,
        )


def on_error(error: BaseException) -> None:
    """A call ends with ``error``: stop where it was raised, if the user has asked for that.

    Whatever fails here is told, and the call ends with its own error.
    """
    trace = error.__traceback__
    if trace is None or not _wants_post_mortem():
        return
    try:
        _post_mortem(error, trace)
    except Exception as failure:
        say(f"The debugger could not stop at {error!r}: {failure!r}")


def _wants_post_mortem() -> bool:
    return settings.flag("DEBUG_POST_MORTEM")


def _post_mortem(error: BaseException, trace: TracebackType) -> None:
    last = trace
    while last.tb_next is not None:
        last = last.tb_next
    what = f"{type(error).__name__} in {_place(last.tb_frame, last.tb_lineno)}"
    kind = settings.text("DEBUG")
    if kind == "legacy":
        _text_debugger().post_mortem(trace, what)
    elif kind == "1" and _wait_for_client(what):
        _stop_at_error(error, trace)


def _stop_at_error(error: BaseException, trace: TracebackType) -> None:
    """Have the client see the error as one that nothing has caught, with the frames it came through."""
    pydevd = importlib.import_module("pydevd")
    debugger = pydevd.get_global_debugger()
    thread = threading.current_thread()
    info = debugger.set_additional_thread_info(thread)
    info.is_tracing += 1  # what runs here is not itself debugged
    try:
        pydevd.stop_on_unhandled_exception(debugger, thread, info, (type(error), error, trace))
    finally:
        info.is_tracing -= 1


def _wait_for_client(what: str) -> bool:
    """Whether a client of debugpy is here; without debugpy there is none, which is told."""
    try:
        with _quiet_imports():
            debugpy = importlib.import_module("debugpy")
    except ImportError as error:
        say(_NO_DEBUGPY.format(what=what, error=error))
        return False
    host, port = _listen(debugpy)
    if not debugpy.is_client_connected():
        node = _heliostat.session()["host"]
        local = host in ("127.0.0.1", "localhost", "::1")
        elsewhere = _TUNNEL.format(port=port, host=host, node=node) if local else ""
        say(_WAITS.format(what=what, host=host, port=port, pid=os.getpid(), elsewhere=elsewhere))
        debugpy.wait_for_client()
    return True


def _listen(debugpy: ModuleType) -> tuple[str, int]:
    global _endpoint
    with _lock:
        if _endpoint is None:
            builtin, hook = builtins.breakpoint, sys.breakpointhook
            _endpoint = debugpy.listen((settings.text("DEBUGGER_HOST"), 0))
            # debugpy has taken both: its own hook would pass a breakpoint once its client is gone.
            builtins.breakpoint = builtin
            sys.breakpointhook = sys.__breakpointhook__ = hook
        return _endpoint


@contextlib.contextmanager
def _quiet_imports() -> Iterator[None]:
    """Import the debugger without its warning about frozen modules, in which nobody stops."""
    if _DISABLE_WARNING in os.environ:
        yield
        return
    os.environ[_DISABLE_WARNING] = "1"
    try:
        yield
    finally:
        os.environ.pop(_DISABLE_WARNING, None)


def _text_debugger() -> Any:
    from heliostat.core.debug import text_debugger

    return text_debugger


def _place(frame: FrameType, line: int | None = None) -> str:
    code = frame.f_code
    return f"{code.co_name}, {code.co_filename}:{line or frame.f_lineno}"


def say(text: str) -> None:
    """Tell the user, by the worker's output, which the driver shows."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def describe(host: str, port: int, secret: str, what: str) -> bytes:
    """Return the entry by which ``ray debug`` finds a text debugger that waits."""
    node = _heliostat.session()["host"]
    found = {"host": host, "port": port, "secret": secret, "what": what, "pid": os.getpid()}
    return json.dumps({**found, "node": node}).encode()

"""A worker process: serve calls until told to end."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import io
import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from heliostat import _heliostat
from heliostat.core.debug import stacks
from heliostat.core.platform import settings
from heliostat.core.worker import children, preparation

if TYPE_CHECKING:
    from heliostat.core.errors.task import CallPlace

# Starts a line that says whose the lines after it are; the daemon takes it out.
_NAME_MARK = "\x01:name:"

# Ends a line that has no end of its own, so that it is shown; the daemon takes it out, too.
_END_MARK = "\x01:end:"

# Starts a line that says which call the lines after it are of; the daemon takes it out, too.
_TASK_MARK = "\x01:task:"

# The exit code after a SIGTERM, as shells count it.
_TERMINATED = 128 + signal.SIGTERM

# This process's name in the log once it is an actor.
_actor_name: str | None = None

# The folder of the process's environment, if that has one; it stays the first on `sys.path`.
working_dir: str | None = None

# The process's output and error output, whatever user code puts into their place.
_outputs: tuple[_NamedOutput, ...] = ()


class _NamedOutput(io.TextIOWrapper):
    """Standard output or error: says whose line it is when that has changed since the last one."""

    _said = ""
    _task = ""
    _at_line_start = True

    def write(self, text: str) -> int:
        if not text:
            return 0
        name = _actor_name or _heliostat._display_name()
        if name != self._said:
            self.say(name)
        task = _heliostat._printing_task()
        if task != self._task:
            self._task = task
            self._mark(f"{_TASK_MARK}{task}")
        self._at_line_start = text.endswith("\n")
        if not self._at_line_start:
            _heliostat._line_is_open()
        return super().write(text)

    def say(self, name: str) -> None:
        """Lines from here on are of that name."""
        self._said = name
        self._mark(f"{_NAME_MARK}{_one_line(name)}")

    def end_line(self) -> None:
        """Have the last line shown, though more of it may come."""
        if not self._at_line_start:
            self._at_line_start = True
            super().write(f"{_END_MARK}\n")

    def _mark(self, line: str) -> None:
        self.end_line()
        super().write(f"{line}\n")


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _named(stream: TextIO) -> _NamedOutput:
    stream.flush()
    buffer = io.BufferedWriter(io.FileIO(stream.fileno(), "wb", closefd=False))
    return _NamedOutput(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def main() -> NoReturn:
    """Serve; never returns."""
    if niceness := settings.whole("worker_niceness"):
        os.nice(niceness)
    global _outputs
    _outputs = (_named(sys.stdout), _named(sys.stderr))
    sys.stdout, sys.stderr = _outputs
    if setup := os.environ.pop(preparation.VARIABLE, None):
        preparation.lead_a_session()
        # The hook may put files of its own in the place of the outputs.
        preparation.apply(setup)
    _listen_to_sigterm()
    stacks.open_stacks()
    if "PYTHONBREAKPOINT" not in os.environ:  # it names a debugger of the user's
        sys.breakpointhook = _on_breakpoint
    code = -2
    try:
        code = _heliostat.run_worker()
    except SystemExit as told:  # the signal came between two calls
        code = told.code if isinstance(told.code, int) else 1
    except BaseException:
        traceback.print_exc()
    _end(code)


def _listen_to_sigterm() -> None:
    """SIGTERM ends this process as `sys.exit()` does, so that an actor's hooks run.

    The calls that an async or threaded actor runs finish first; a second signal cuts them short.

    What user code forks is ended by it as any program is. A signal that comes while it is forked
    waits: the interpreter would forget it in the copy.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)
    before = threading.local()

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def release_copy() -> None:
        if signal.getsignal(signal.SIGTERM) is _on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_copy)


def _on_sigterm(number: int, _: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    if not _heliostat._ask_to_leave(_TERMINATED):
        raise SystemExit(_TERMINATED)


def _end(code: int) -> NoReturn:
    """End with `code`; a negative one, minus one, is the code of an end without `atexit`.

    The interpreter is not torn down: threads that user code has left behind may hold it up for ever.
    """
    try:
        if code >= 0:
            _heliostat._end_in_time(code)
            _end_actor()
            children.end_with_multiprocessing()
            atexit._run_exitfuncs()
            children.kill_direct()
        sys.stdout.flush()
        sys.stderr.flush()
        if code == _TERMINATED:
            os.kill(os.getpid(), signal.SIGTERM)  # so that who looks on sees what it was
    finally:
        os._exit(code if code >= 0 else -1 - code)


def _end_actor() -> None:
    """Say goodbye to the actor, if this is one: `__ray_shutdown__`, then `__del__`."""
    actor = _heliostat.current_actor()
    if (shutdown := getattr(type(actor), "__ray_shutdown__", None)) is not None:
        # The user's own code: whatever it does, the process ends.
        try:
            last = shutdown(actor)
            if inspect.iscoroutine(last):
                from heliostat.core.aio import async_actor

                async_actor.run(last)
        except BaseException:
            traceback.print_exc()
    del actor
    _heliostat._drop_actor()


def name_output(name: str) -> None:
    """A function runs here for the first time: also what its children print is its own."""
    if _actor_name is None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _NamedOutput):
                stream.say(name)


def actor_is_made() -> None:
    """The constructor has returned: name what the actor prints from now on."""
    global _actor_name
    actor = _heliostat.current_actor()
    _actor_name = type(actor).__name__
    if getattr(type(actor), "__repr__", None) is not object.__repr__:
        # The user's own code: whatever it does, the actor lives.
        try:
            _actor_name = repr(actor)
        except Exception:
            traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _NamedOutput):
            stream.say(_actor_name)


def end_lines() -> None:
    """A call is over: show what it has printed."""
    for stream in _outputs:
        with contextlib.suppress(OSError, ValueError):  # closed by user code
            stream.end_line()


def start_pool_thread(group: str) -> None:
    """Start one more thread for a concurrency group."""
    name = f"heliostat-{group or 'pool'}"
    threading.Thread(target=_serve_pool, args=(group,), name=name, daemon=True).start()


def _serve_pool(group: str) -> None:
    try:
        _heliostat._serve_pool(group)
    except BaseException:
        # Not a call's error, which goes to its caller: the thread is broken, and so is the actor.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def dynamic_refs(refs: list[Any]) -> Any:
    """The one value of a call with ``num_returns="dynamic"``."""
    from heliostat.core.calls.dynamic_returns import DynamicObjectRefGenerator

    return DynamicObjectRefGenerator(refs)


def task_error(error: BaseException, function_name: str, name: str) -> BaseException:
    """The ``RayTaskError`` that stands for what a call raised."""
    from heliostat.core.errors import RayError
    from heliostat.core.errors import task as errors

    current = _heliostat.current()
    actor = _heliostat.current_actor()
    title = name if actor is None else current.task_name or f"{current.actor_class}.{name}"
    # An error that comes without a traceback was not raised here: an argument holds it.
    from_argument = error.__traceback__ is None and isinstance(error, RayError)
    _debug(error)
    make = errors.make_dependency_error if from_argument else errors.make_task_error
    of_actor = {"actor_id": current.actor_id, "actor_repr": None if actor is None else _repr(actor)}
    return make(error, _place(function_name, title, **of_actor))


def argument_error(error: BaseException, name: str) -> BaseException:
    """The error of a call that was never sent: an argument holds ``error``."""
    from heliostat.core.errors import task as errors

    return errors.make_dependency_error(error, _place(name, name))


def _on_breakpoint(*_: object, **__: object) -> None:
    """Stop in the debugger."""
    from heliostat.core.debug import (
        debugger,  # `init` waits for workers, and few of them stop anywhere
    )

    debugger.on_breakpoint(sys._getframe(1))


def _debug(error: BaseException) -> None:
    """A call ends with ``error``: the user may want to look at it first."""
    from heliostat.core.debug import debugger  # as above

    debugger.on_error(error)


def init_error(error: BaseException, function_name: str, name: str) -> BaseException:
    """The ``RayTaskError`` that stands for what a constructor raised."""
    from heliostat.core.errors import task as errors

    _debug(error)
    place = _place(function_name, f"{name}.__init__", actor_id=_heliostat.current().actor_id)
    return errors.make_task_error(error, place)


def _place(function_name: str, title: str, **of_actor: str | None) -> CallPlace:
    """The place of a call of this process."""
    from heliostat.core.errors.task import CallPlace

    host = _heliostat.session()["host"]
    return CallPlace(function_name, f"ray::{title}", os.getpid(), host, **of_actor)


def _repr(actor: Any) -> str:
    try:
        return repr(actor)
    except Exception:
        return object.__repr__(actor)

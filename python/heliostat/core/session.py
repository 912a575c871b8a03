"""The session of this process: the one module that holds it.

A driver's session begins with :func:`begin` and ends with :func:`end`; a worker's is made by the
runtime before any user code runs, and nothing here touches it.

A driver outside its clusters may have several: one is the process's, and others are beside it, each the
present one of the threads that have chosen it (:func:`chosen`).
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat
from heliostat.core.driver import daemon, submission
from heliostat.core.driver.daemon import (
    CODE_ARCHIVES,
    CODE_FOLDERS,
    Daemon,
    NodeAddress,
    NodeOptions,
)
from heliostat.core.driver.job import JobConfig
from heliostat.core.platform import auth, preload, settings
from heliostat.core.worker import warm_up

if TYPE_CHECKING:
    from heliostat.core.driver.logs import LogPrinter
    from heliostat.core.errors import RaySystemError

FLUSH_S = 2.0
DAEMON_ENDS_S = 5.0
WORKERS_AHEAD = 2  # for a task, and for an actor while that task still holds its own
AHEAD_S_MAX = 1.0  # `init` waits no longer for them

logger = logging.getLogger("heliostat")


@dataclass
class Session:
    """A driver's connection to a cluster."""

    address: NodeAddress
    job: JobConfig
    daemon: Daemon | None = None  # when this driver started it
    printer: LogPrinter | None = None
    epoch: int = 0
    pid: int = field(default_factory=os.getpid)

    def close(self) -> None:
        """Show what workers have printed, leave, and wait for a daemon of our own to end."""
        if self.pid != os.getpid():
            return  # a fork of the driver: the connection is the parent's
        with chosen(self.epoch):
            if self.printer is not None:
                self.printer.drain(FLUSH_S)
            _heliostat.shutdown()
        if (aio := sys.modules.get("heliostat.core.aio.futures")) is not None:
            aio.forget(self.epoch)
        if self.printer is not None:
            self.printer.join(FLUSH_S)
        if self.daemon is not None and not self.daemon.wait(DAEMON_ENDS_S):
            logger.warning("The node daemon did not end by itself; see %s", self.daemon.log)
            self.daemon.stop()
        if self.daemon is not None:
            self._remove_code()

    def _remove_code(self) -> None:
        """The session is over: its copies of the job's code go."""
        copies = [
            os.path.join(self.address.session_dir, name) for name in (CODE_ARCHIVES, CODE_FOLDERS)
        ]
        if any(map(os.path.lexists, copies)):
            import shutil  # it loads libraries of compression: most drivers end without

            for each in copies:
                shutil.rmtree(each, ignore_errors=True)


_lock = threading.RLock()
# This driver's sessions by their epochs: the process's, and those beside it.
_sessions: dict[int, Session] = {}
_thread = threading.local()


def current() -> Session | None:
    """The driver's present session, if there is one."""
    return _sessions.get(_heliostat.session_epoch())


def afar() -> list[Session]:
    """Return the sessions that lead into a cluster of which this machine is not a part."""
    return [one for one in list(_sessions.values()) if one.address.entrance is not None]


@contextlib.contextmanager
def chosen(epoch: int) -> Iterator[None]:
    """For this thread the session of that epoch is the present one, as long as it lasts; 0: the process's."""
    before = _heliostat.choose_session(epoch)
    try:
        yield
    finally:
        _heliostat.choose_session(before)


def info() -> dict[str, Any]:
    """The addresses that this process is connected to, for ``RayContext.address_info``."""
    here = _heliostat.session()
    control, folder = here["control_address"], here["session_dir"]
    socket = f"{folder}/{daemon.NODE_SOCKET}"
    host = here["host"]
    present = current()
    url = present.address.webui_url if present is not None else ""
    node = here["node_id"]
    return daemon.described(
        NodeAddress(folder, here["session_name"], node, host, 0, control, socket, False, url)
    )


def is_initialized() -> bool:
    """Whether this process is connected to a cluster.

    Examples:
        >>> import ray
        >>> if not ray.is_initialized():
        ...     ray.init()
        >>> ray.is_initialized()
        True
    """
    return _heliostat.is_connected()


def begin(
    node: NodeAddress | NodeOptions, job: JobConfig, log_to_driver: bool, beside: bool = False
) -> Session:
    """Connect to a daemon, or start one and connect to it; ``beside`` the session that the process has."""
    with _lock, chosen(0):
        if not beside and _heliostat.is_connected():
            raise BegunTwiceError
        own: Daemon | None = None
        if isinstance(node, NodeOptions):
            token = auth.token_of_a_session() if node.head else auth.token(create=False)
            own = daemon.start(node, token, meanwhile=_load_the_rest)
            address = own.address
        else:
            token = auth.token_of(node.session_dir)
            address = node
        try:
            _connect(address, job, token, log_to_driver, owned=own is not None, beside=beside)
        except BaseException:
            if own is not None:
                own.stop()
            raise
        submission.tell_of_driver(job, _heliostat.session()["job_id"])
        session = Session(address, job, own, epoch=_heliostat.session_epoch())
        if log_to_driver:
            from heliostat.core.driver.logs import LogPrinter

            # Records that say whose they are need no prefix.
            session.printer = LogPrinter(prefixed=job.py_logging_config is None)
            session.printer.start()
        _sessions[session.epoch] = session
        _end_with_the_process()
        return session


def _load_the_rest() -> None:
    """Load the modules that every driver uses after ``init``."""
    names = (
        "actor",
        "exceptions",
        "remote_function",
        "core.driver.logs",
        "core.api",
        "core.driver.context",
    )
    for name in (*names, "cloudpickle"):
        importlib.import_module(f"heliostat.{name}")


def _connect(
    address: NodeAddress,
    job: JobConfig,
    token: str,
    log_to_driver: bool,
    owned: bool,
    beside: bool,
) -> None:
    code = job.code()
    records = dataclasses.asdict(job.py_logging_config) if job.py_logging_config else None
    environment = _environment(job, address.session_dir, records)
    _heliostat.connect(
        node_socket=address.node_socket,
        token=token,
        namespace=job.ray_namespace or "",
        entrypoint=code.entrypoint,
        log_to_driver=log_to_driver,
        owns_cluster=owned,
        sys_path=code.sys_path,
        cwd=code.cwd,
        runtime_env=environment,
        script=code.script,
        entrance=address.entrance or 0,
        beside=beside,
    )
    # The first call comes at once, mostly; and who makes it where everything has just been started
    # takes the time for that of a call.
    wait = AHEAD_S_MAX if owned else None
    if ((job.runtime_env or {}).get("config") or {}).get("eager_install", True):
        _heliostat.expect(environment, WORKERS_AHEAD, preload.expected(), wait)
    if owned:
        warm_up.calling()


def _environment(job: JobConfig, session_dir: str, records: Mapping[str, Any] | None) -> str:
    """The environment of the job's workers, as it goes over the wire."""
    if not job.runtime_env and records is None:
        return ""
    from heliostat.core.runtime_env.document import to_json  # most drivers have none

    return to_json(_packaged(job.runtime_env, session_dir), records)


def _packaged(env: Mapping[str, Any] | None, session_dir: str) -> Mapping[str, Any] | None:
    """The job's environment with its code as that is now."""
    if not env or not (env.get("working_dir") or env.get("py_modules")):
        return env
    from heliostat.core.runtime_env import code_packages

    return code_packages.packaged(env, session_dir)


def end() -> None:
    """End the driver's present session, with that of the process those beside it; there may be none."""
    with _lock:
        present = current()
        is_one_of_several = present is not None and is_beside(present.epoch)
        ended = [present] if present and is_one_of_several else list(_sessions.values())
        for session in ended:
            del _sessions[session.epoch]
            session.close()
        if (
            not _sessions
            and (tracing := sys.modules.get("heliostat.core.debug.tracing")) is not None
        ):
            tracing.end()


def is_beside(epoch: int) -> bool:
    """Whether that session is not the process's, but one that threads choose."""
    with chosen(0):
        return _heliostat.session_epoch() != epoch


_registered = False
# The handler that was registered first runs last.
atexit.register(_heliostat._process_ends, True)


def _end_with_the_process() -> None:
    global _registered
    if _registered:
        return
    _registered = True
    atexit.register(_end_at_exit)
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)


def _end_at_exit() -> None:
    _heliostat._process_ends(False)
    with chosen(0):
        end()


def _leave(number: int, _: object) -> None:
    """End on SIGTERM as at the end of the program: exit handlers run, and nothing is left behind."""
    sys.exit(number)


def begin_unless_begun(**options: Any) -> None:
    """Have a session: begin one with these options of ``init`` unless there is one.

    Threads that need one at the same time get the same one.
    """
    if _heliostat.is_connected():
        return
    with _lock:
        if not _heliostat.is_connected():
            from heliostat.core.driver.init import init

            init(**options)


def begins_by_itself() -> bool:
    """Whether whatever needs a session may begin one."""
    return settings.flag("ENABLE_AUTO_CONNECT")


def ensure() -> None:
    """Begin a session unless there is one.

    Raises:
        RaySystemError: The setting, or this thread, forbids to begin one.
    """
    if _heliostat.is_connected():
        return
    with _lock:
        if _heliostat.is_connected():
            return
        if not begins_by_itself() or getattr(_thread, "begins_none", False):
            raise not_started()
        begin_unless_begun()


@contextlib.contextmanager
def begins_none() -> Iterator[None]:
    """Have this thread begin no session: for threads of ours that may outlive the program's session."""
    before = getattr(_thread, "begins_none", False)
    _thread.begins_none = True
    try:
        yield
    finally:
        _thread.begins_none = before


def require() -> None:
    """Raise unless there is a session."""
    if not _heliostat.is_connected():
        raise not_started()


class BegunTwiceError(Exception):
    """A session was to begin while there is one: another thread was quicker."""


def begun_twice() -> RuntimeError:
    """Return the error where a session begins while there is one."""
    return RuntimeError(
        "Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
        "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'."
    )


def not_started() -> RaySystemError:
    """Return the error where a session is needed and none begins by itself."""
    from heliostat.core.errors import RaySystemError

    return RaySystemError("Ray has not been started yet. You can start Ray with 'ray.init()'.")


def default_actor_lifetime() -> str | None:
    """The lifetime that the job of this driver gives its actors."""
    session = current()
    return session.job.default_actor_lifetime if session is not None else None

"""The zygote: a single-threaded Python from which workers are forked in milliseconds.

The node daemon starts it with one end of a SOCK_SEQPACKET pair and talks to it in datagrams of JSON:

    to the zygote     {"worker_id": hex, "job_id": hex, "env": {..}, "cwd": path or null}, with two
                      descriptors: the worker's stdout and stderr
                      {"load": [module, ..]}: import these before the next fork
    from the zygote   {"worker_id": hex, "pid": n} or {"worker_id": hex, "error": text}
                      {"exited": pid, "status": n}, as waitpid reports it
                      {"loaded": [module, ..]}: those that could be imported

It ends when the daemon's end hangs up: with the daemon gone, killed perhaps, the workers and the
sockets of the session go, too. Nothing here may start a thread: a fork copies only the thread that
forks, and what the others held stays locked for ever. Should there be one all the same, workers are
started afresh instead, as ``zygote.py worker``, which takes longer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
from typing import Any, NoReturn

# Started as a script: its own folder must not shadow top-level modules, and the package's has to be
# found even where it is not installed.
_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE_PATH = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))

_MESSAGE_MAX = 1 << 20

# Seconds without a request for a worker before modules are loaded that workers are likely to load.
_LATER_MS = 1_500
_VARIABLE = re.compile(r"\$\{(\w+)\}")

# The last argument of a worker that is started afresh: it leaves room for the worker's title.
_TITLE_ROOM = " " * 128

# The variable that carries a worker's working directory; `preparation` knows the name, too.
_CWD = "HELIOSTAT_WORKER_CWD"


class Zygote:
    """Serves the daemon until it hangs up; in a child, :meth:`serve` returns."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.daemon = os.getppid()
        self.children: set[int] = set()
        self.later: list[str] = []
        self.has_forked = False
        # A signal's handler runs between two bytecodes of whatever is being done; here it only fills
        # this pipe, and the loop reaps when it comes round.
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        # Ctrl-C reaches the whole foreground group; when the daemon ends it hangs up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> dict[str, Any]:
        """Fork as told. Returns in a child, with its request; the parent never returns."""
        poll = select.poll()
        poll.register(self.channel, select.POLLIN)
        poll.register(self.wake_read, select.POLLIN)
        while True:
            has_time = self.later and self.has_forked
            ready = [fd for fd, _ in poll.poll(_LATER_MS if has_time else None)]
            if not ready:
                self.load([self.later[0]], self.later[1:])
            if self.wake_read in ready:
                self.reap()
            if self.channel.fileno() in ready:
                request = self.receive()
                if request is not None:
                    return request

    def reap(self) -> None:
        """Tell of the children that have ended."""
        while True:
            try:
                if not os.read(self.wake_read, 4096):
                    break
            except BlockingIOError:
                break
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.children.discard(pid)
            self.send({"exited": pid, "status": status})

    def receive(self) -> dict[str, Any] | None:
        """Take one request; in the child, return it."""
        try:
            data, fds, _, _ = socket.recv_fds(self.channel, _MESSAGE_MAX, 2)
        except ConnectionError:
            data, fds = b"", []
        if not data:
            self.end()
        request: dict[str, Any] = json.loads(data)
        if (modules := request.get("load")) is not None:
            self.load(modules)
            return None
        try:
            # A fork of several threads would be a gamble; then a fresh interpreter has to do.
            single = len(os.listdir("/proc/self/task")) == 1
            pid = os.fork() if single else _start_afresh(request, fds)
        except OSError as error:
            self.send({"worker_id": request["worker_id"], "error": str(error)})
            pid = -1
        if pid == 0:
            self.become_worker(request, fds)
            return request
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self.children.add(pid)
            self.has_forked = True
            self.send({"worker_id": request["worker_id"], "pid": pid})
        return None

    def load(self, modules: list[str], later: list[str] | None = None) -> None:
        """Import modules for all workers to come, and `later` when there is time."""
        from heliostat.core.worker import loading

        loaded = loading.load(modules)
        self.later = loading.later(loaded) if later is None else later
        self.send({"loaded": loaded})

    def send(self, message: dict[str, Any]) -> None:
        """Answer; a daemon that is gone needs no answer."""
        try:
            self.channel.send(json.dumps(message).encode())
        except OSError:
            self.end()

    def end(self) -> NoReturn:
        """The daemon is gone. Had it ended in good order there would be nothing left to do."""
        for pid in self.children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            # The worker leads a group once it has work.
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        session = os.environ["HELIOSTAT_SESSION_DIR"]
        if self.is_taken_up(session):
            os._exit(0)
        for folder in (os.path.join(session, "sockets"), os.path.join(session, "spill")):
            with contextlib.suppress(OSError):
                for entry in os.scandir(folder):
                    os.unlink(entry.path)
                os.rmdir(folder)
        os._exit(0)

    def is_taken_up(self, session: str) -> bool:
        """Whether another daemon has the session by now: a head that was started again at once."""
        try:
            with open(os.path.join(session, "node.pid")) as file:
                return file.read().strip() != str(self.daemon)
        except OSError:
            return False

    def become_worker(self, request: dict[str, Any], fds: list[int]) -> None:
        """Turn the copy into a process of its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.channel.close()
        os.close(self.wake_read)
        os.close(self.wake_write)
        os.dup2(fds[0], 1)
        os.dup2(fds[1], 2)
        for fd in fds:
            os.close(fd)
        environment = _environment(request)
        os.environ.update(environment)
        # This interpreter read it long ago.
        added = environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[0:0] = [path for path in added if path]
        # Copies of one generator would all give the same numbers.
        if (random := sys.modules.get("random")) is not None:
            random.seed()
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed()


def _environment(request: dict[str, Any]) -> dict[str, str]:
    given: dict[str, str] = dict(request.get("env") or {})
    # `${NAME}` stands for what the node has there.
    environment = {
        name: _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value)
        for name, value in given.items()
    }
    environment["HELIOSTAT_WORKER_ID"] = request["worker_id"]
    environment["HELIOSTAT_WORKER_JOB"] = request["job_id"]
    if cwd := request.get("cwd"):
        environment[_CWD] = cwd
    return environment


def _start_afresh(request: dict[str, Any], fds: list[int]) -> int:
    moves = [(os.POSIX_SPAWN_DUP2, fds[0], 1), (os.POSIX_SPAWN_DUP2, fds[1], 2)]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, os.path.abspath(__file__), "worker", _TITLE_ROOM],
        {**os.environ, **_environment(request)},
        file_actions=moves,
        setsigdef=[signal.SIGINT, signal.SIGCHLD],
    )


def _work() -> None:
    """Run as a worker, in the copy or in a process started afresh."""
    # A line is seen when it is written, though the stream is a pipe.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr] # both wrap a file
    setup, cwd = os.environ.get("HELIOSTAT_WORKER_SETUP", ""), os.environ.get(_CWD, "")
    if setup or "://" in cwd:
        from heliostat.core.worker import preparation

        preparation.start_clock()
        if cwd:
            cwd = preparation.enter(cwd)
    elif cwd:
        os.chdir(cwd)
    if setup and any(f'"{field}"' in setup for field in preparation.OTHER_PROGRAM):
        preparation.change_python([os.path.abspath(__file__), "worker", _TITLE_ROOM])
    os.environ.pop(_CWD, None)
    from heliostat.core.worker import main_loop

    if cwd:
        sys.path.insert(0, cwd)
        main_loop.working_dir = cwd
    main_loop.main()


def _ignore(_signum: int, _frame: object) -> None:
    pass


def _preload() -> None:
    try:
        from heliostat import (
            _heliostat,
            cloudpickle,  # noqa: F401 - for the forks
        )
        from heliostat.core.platform import network_interfaces
        from heliostat.core.worker import loading, main_loop, warm_up  # noqa: F401 - `main_loop` is for the forks

        network_interfaces.choose_for_workers()
        warm_up.pickled()
        _heliostat._prepare_copies()
        loading.load(loading.preloaded())
        loading.freeze()
    except Exception:
        # Each worker tries again and shows the reason in its own log.
        import traceback

        traceback.print_exc()


def _offer_programs() -> None:
    """Let workers find the programs of their environment, whether or not it was activated."""
    programs = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", os.defpath)
    if programs and programs not in path.split(os.pathsep):
        os.environ["PATH"] = f"{programs}{os.pathsep}{path}"


def main() -> None:
    """Run the zygote and, in each child, the worker."""
    if sys.path and os.path.abspath(sys.path[0] or ".") == _HERE:
        del sys.path[0]
    other = "HELIOSTAT_NODE_PYTHON" in os.environ  # started by an environment that has its own
    if _PACKAGE_PATH not in sys.path:
        # Around the package other packages may lie, which that Python has in versions of its own.
        sys.path.insert(len(sys.path) if other else 0, _PACKAGE_PATH)
    if other:
        from heliostat.core.worker import preparation

        preparation.check_python()
    if sys.argv[1] == "worker":
        sys.argv = ["heliostat-worker"]
        _work()
        return
    # The socket came as standard input.
    channel = socket.socket(fileno=os.dup(int(sys.argv[1])))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    sys.argv = ["heliostat-worker"]
    _offer_programs()
    _preload()
    Zygote(channel).serve()
    _work()


if __name__ == "__main__":
    main()

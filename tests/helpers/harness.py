"""Helpers of all tests that are not fixtures: waiting, driver scripts, and the view from /proc.

Nothing here imports ``ray``: the helpers look at a session from outside, the way an operator would.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Between two looks at what a test waits for, once it has waited for long.
LONGEST_PAUSE_S = 0.2

# The same files run on Heliostat and on Ray, which is the oracle for what they assert.
IS_HELIOSTAT = find_spec("heliostat") is not None

# The environment of a script that imports `tests`: only such a one has this entry in the variable.
FINDS_TESTS = {"PYTHONPATH": str(Path(__file__).parents[2])}

# A longer wait is a hang: the deadline of a driver's end, of a condition, of a session that is to vanish.
# A slow machine beside other work takes ten times what an idle one does.
HANG_S = 300.0


def wait_until(
    probe: Callable[[], T | None], *, within: float = HANG_S, what: str = "", every: float = 0.02
) -> T:
    """Call ``probe`` until it returns something true, and return that; fail after ``within`` s.

    The pauses between two calls grow with the time that it takes: what comes late is not asked for all
    the time, as others want the CPU.
    """
    began = time.monotonic()
    deadline = began + within
    while True:
        value = probe()
        if value:
            return value
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not within {within} s: {what or probe}; last value {value!r}")
        time.sleep(max(every, min((now - began) / 10, LONGEST_PAUSE_S)))


def once(folder: str, name: str) -> bool:
    """Whether ``name`` happens for the first time; also among processes that ask at once."""
    try:
        os.close(os.open(Path(folder, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# Below those that the system gives to whoever asks for any: none is taken between two lines of a test.
_PORTS = range(20_000, 32_000)
_next_port = itertools.count(random.SystemRandom().randrange(len(_PORTS)))


def free_port() -> int:
    """A TCP port that nobody listens on just now, and that this process was not given before."""
    for number in _next_port:
        port = _PORTS[number % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable")


def clean_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child that must not find this test's cluster by accident."""
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in {"RAY_ADDRESS", "RAY_NAMESPACE", "CUDA_VISIBLE_DEVICES", "HELIOSTAT_SESSION"}
        and not k.startswith("RAY_JOB_")
    }
    env["PYTHONUNBUFFERED"] = "1"
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    env.update(extra or {})
    return env


@dataclass
class Finished:
    """A driver that has ended."""

    rc: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    def check(self) -> Finished:
        assert self.rc == 0, f"driver ended with {self.rc}\n{self.report()}"
        return self

    def report(self) -> str:
        return f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"

    def value(self, key: str) -> str:
        """The text that the driver printed as ``key=value`` on a line of its own."""
        for line in self.stdout.splitlines():
            name, eq, value = line.partition("=")
            if eq and name == key:
                return value
        raise AssertionError(f"the driver printed no {key}=...\n{self.report()}")


@dataclass
class Driver:
    """A Python process with its output in files, so that an orphan of it cannot block a reader."""

    process: subprocess.Popen[bytes]
    stdout_path: Path
    stderr_path: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def stdout(self) -> str:
        return self.stdout_path.read_text(errors="replace")

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def wait_line(self, key: str, within: float = HANG_S) -> str:
        """The value of the line ``key=value`` once the driver has printed it."""

        def probe() -> str | None:
            for line in self.stdout().splitlines(keepends=True):
                name, eq, value = line.partition("=")
                if eq and name == key and value.endswith("\n"):
                    return value.rstrip("\n") or " "
            if self.process.poll() is not None:
                raise AssertionError(
                    f"driver ended with {self.process.returncode} before it printed {key}=...\n"
                    f"{self.stdout()}\n{self.stderr()}"
                )
            return None

        return wait_until(probe, within=within, what=f"line {key}=... of the driver").strip()

    def wait_file(self, path: Path, within: float = HANG_S) -> None:
        """Wait until the driver, or what it started, has made the file."""

        def probe() -> bool:
            assert self.process.poll() is None, (
                f"the driver ended\n{self.stdout()}\n{self.stderr()}"
            )
            return path.exists()

        wait_until(probe, within=within, what=f"{path}; the driver wrote {self.stderr()}")

    def finish(self, timeout: float = HANG_S) -> Finished:
        # On a machine of namespaces it is nsenter: that stops itself when the script is stopped with its
        # machine, and is not woken up with it.
        self.process.send_signal(signal.SIGCONT)
        try:
            rc = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler prints where it stands
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(60)
            raise AssertionError(
                f"driver did not finish in {timeout} s\n--- stdout\n{self.stdout()}\n"
                f"--- stderr\n{self.stderr()}"
            ) from None
        return Finished(rc, self.stdout(), self.stderr())

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)


def start_driver(
    directory: Path,
    source: str | Path,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    name: str = "driver",
    python: str | Path = sys.executable,
) -> Driver:
    """Run a script, given as text or as a path, in a new process and process group."""
    if isinstance(source, Path):
        script = source
    else:
        script = directory / f"{name}.py"
        script.write_text(textwrap.dedent(source))
    out, err = directory / f"{name}.stdout", directory / f"{name}.stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [python, "-X", "faulthandler", str(script), *args],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=clean_env(env),
            cwd=cwd or directory,
            start_new_session=True,
            # A shell that starts the tests in the background has its children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    return Driver(process, out, err)


@dataclass(frozen=True)
class Proc:
    """A process as /proc shows it."""

    pid: int
    cmdline: str

    def __str__(self) -> str:
        return f"{self.pid} {self.cmdline[:160]}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def is_alive(pid: int) -> bool:
    """Whether the process exists and is more than an entry that its parent has not collected."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


def kill_daemon(session: Path) -> None:
    """Kill the daemon of a session, and wait until it is gone: the next one needs what it has locked."""
    daemon = int((session / "node.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not is_alive(daemon), what="the end of the daemon")


def listening_ports(pids: Iterable[int]) -> set[int]:
    """The TCP ports on which these processes listen."""
    inodes = {
        target[8:-1]
        for pid in pids
        for target in _links(f"/proc/{pid}/fd")
        if target.startswith("socket:[")
    }
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _read(table).decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _links(directory: str) -> Iterator[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"{directory}/{name}")
        except OSError:
            continue


@dataclass(frozen=True)
class Session:
    """A session's processes, files and ports on this machine, found from outside."""

    directory: Path
    drivers: frozenset[int] = field(default_factory=lambda: frozenset({os.getpid()}))

    @property
    def name(self) -> str:
        return self.directory.name

    def processes(self) -> list[Proc]:
        """Every living process of the session except its drivers."""
        mark = f"HELIOSTAT_SESSION={self.name}".encode()
        found = []
        for pid in all_processes():
            if pid in self.drivers or not is_alive(pid):
                continue
            cmdline = _read(f"/proc/{pid}/cmdline")
            environ = _read(f"/proc/{pid}/environ").split(b"\0")
            if mark in environ or str(self.directory).encode() in cmdline:
                found.append(Proc(pid, cmdline.replace(b"\0", b" ").decode(errors="replace")))
        return found

    def pids(self) -> list[int]:
        return [proc.pid for proc in self.processes()]

    def daemons(self) -> list[int]:
        """The node daemon: the process that runs the binary ``heliostat``."""
        return [pid for pid in self.pids() if _executable(pid) == "heliostat"]

    def shared_memory(self) -> set[str]:
        """Named shared-memory files that processes of the session hold open or mapped."""
        paths = set()
        for pid in [*self.pids(), *self.drivers]:
            maps = _read(f"/proc/{pid}/maps").decode(errors="replace").splitlines()
            names = [line.split(maxsplit=5)[5] for line in maps if line.count("/")]
            paths |= {n for n in [*names, *_links(f"/proc/{pid}/fd")] if n.startswith("/dev/shm/")}
        return {path for path in paths if not path.endswith("(deleted)")}

    def sockets(self) -> list[Path]:
        """The socket files in the session's directory."""
        return [
            Path(root, name)
            for root, _, names in os.walk(self.directory)
            for name in names
            if _is_socket(Path(root, name))
        ]

    def ports(self) -> set[int]:
        return listening_ports(self.pids())

    def logs(self) -> str:
        """Every log file of the session in one text."""
        return "\n".join(
            path.read_text(errors="replace")
            for path in sorted((self.directory / "logs").rglob("*"))
            if path.is_file()
        )

    def assert_gone(self, shared_memory: set[str], within: float = HANG_S) -> None:
        """Nothing of the session is left after ``within`` seconds."""

        def rest() -> list[str]:
            return [
                *(str(proc) for proc in self.processes()),
                *(path for path in shared_memory if os.path.exists(path)),
                *(str(path) for path in self.sockets() if IS_HELIOSTAT),
            ]

        deadline = time.monotonic() + within
        left = rest()
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = rest()
        assert not left, f"left {within} s after the end of {self.name}:\n" + "\n".join(left)


def _executable(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
    except OSError:
        return ""


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def session_of(context: Any, drivers: Iterable[int] = ()) -> Session:
    """The session behind what ``ray.init`` returned, or behind a directory as text."""
    directory = context if isinstance(context, str) else context.address_info["session_dir"]
    return Session(Path(directory).resolve(), frozenset(drivers) or frozenset({os.getpid()}))

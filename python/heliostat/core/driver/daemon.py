"""Starting a node's daemon, and finding those that run on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliostat.core.platform import settings

START_S_MAX = 60.0
STOP_S_MAX = 10.0
# In a session's folder: archives of code that workers need, and the folders that these become.
CODE_ARCHIVES, CODE_FOLDERS = "packages", "working_dirs"
NODE_SOCKET = "sockets/node.sock"  # in a session's folder
_LOG_TAIL_BYTES = 4000


def _sleep_until_end(child: int, seconds: float) -> None:
    """Sleep until the child ends, where the kernel says so; `Popen.wait` looks after growing pauses."""
    with contextlib.suppress(AttributeError, OSError):
        number = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(number, select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            os.close(number)


@dataclass(frozen=True)
class NodeOptions:
    """The options of a daemon; ``None``: it finds out for itself."""

    head: bool = True
    address: str | None = None  # the head's `host:port`, for the other nodes
    gateway: str | None = None  # of the head, for a driver's machine outside the cluster
    owned: bool = False  # it ends with the driver that started it
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    object_store_memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    node_ip_address: str | None = None
    node_name: str | None = None
    metrics_export_port: int | None = None
    dashboard: str | None = None  # `host:port` of the HTTP server, on the head
    dashboard_port_moves: bool = False  # to the next free port, if that one is taken
    temp_dir: Path = field(default_factory=settings.temp_dir)
    spill_dir: Path | None = None  # for objects that the store has no room for
    env: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """The command line, after ``heliostat node``."""
        if self.gateway is not None:
            given = ["--gateway", self.gateway, "--python-version", platform.python_version()]
        else:
            given = ["--head"] if self.head else ["--address", self.address or ""]
        if self.owned:
            given.append("--owner-driver")
        if self.dashboard_port_moves:
            given.append("--dashboard-port-moves")
        optional = {
            "--num-cpus": self.num_cpus,
            "--num-gpus": self.num_gpus,
            "--memory": self.memory,
            "--object-store-memory": self.object_store_memory,
            "--port": self.port,
            "--host": self.node_ip_address,
            "--node-name": self.node_name,
            "--metrics-export-port": self.metrics_export_port,
            "--dashboard": self.dashboard,
            "--resources": json.dumps(dict(self.resources)) if self.resources else None,
            "--labels": json.dumps(dict(self.labels)) if self.labels else None,
            "--temp-dir": self.temp_dir,
            "--object-spilling-directory": self.spill_dir,
            "--python": sys.executable,
        }
        for name, value in optional.items():
            if value is not None:
                given += [name, f"{value:g}" if isinstance(value, float) else str(value)]
        return given


@dataclass(frozen=True)
class NodeAddress:
    """The facts that a daemon told when it was ready."""

    session_dir: str
    session_name: str
    node_id: str
    host: str
    port: int
    control_address: str
    node_socket: str
    is_head: bool
    webui_url: str = ""  # of the HTTP server: `host:port`; empty: this daemon has none
    gateway_address: str | None = None  # for drivers outside the cluster: `host:port`
    tracing_startup_hook: str | None = None  # that drivers of this node trace with
    entrance: int | None = (
        None  # the port that leads into the cluster, where this machine is outside of it
    )

    @classmethod
    def from_json(cls, text: str | bytes) -> NodeAddress:
        """From the daemon's line; raises ``ValueError`` or ``KeyError`` for others."""
        absent = {"gateway_address": None, "entrance": None, "tracing_startup_hook": None}
        found = {"webui_url": "", **absent, **json.loads(text)}
        return cls(**{name: found[name] for name in cls.__dataclass_fields__})


class Daemon:
    """A daemon that this process has started."""

    def __init__(self, process: subprocess.Popen[bytes], address: NodeAddress) -> None:
        self.process = process
        self.address = address

    @property
    def log(self) -> Path:
        """The daemon's log."""
        return Path(self.address.session_dir) / "logs" / "node.log"

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Whether it ends within the time."""
        deadline = time.monotonic() + seconds
        if self.is_alive():
            _sleep_until_end(self.process.pid, seconds)
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, seconds: float = STOP_S_MAX) -> None:
        """Ask it to end, then insist."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_alive():
                break
            self.process.send_signal(number)
            self.wait(seconds)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


def binary() -> Path:
    """The program ``heliostat``."""
    named = settings.text("BINARY")
    path = Path(named) if named else Path(__file__).resolve().parents[2] / "bin" / "heliostat"
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"heliostat: no executable at {path}. Reinstall the package, or run `make dev` in a "
            "checkout; HELIOSTAT_BINARY names another."
        )
    return path


def start(
    options: NodeOptions, token: str, meanwhile: Callable[[], object] | None = None
) -> Daemon:
    """Start a daemon, do something meanwhile, and wait until it is ready.

    Raises ``ConnectionError`` with what it said, ``AuthenticationError`` where the cluster refused the token.
    """
    name = session_name()
    reader, writer = os.pipe()
    # The daemon's output until it is ready; from then on it writes to its own log files.
    said = os.memfd_create("heliostat-daemon")
    ready = ["--session-name", name, "--ready-fd", str(writer)]
    environment = {
        **os.environ,
        **options.env,
        "HELIOSTAT_AUTH_TOKEN": token,
        "HELIOSTAT_SESSION": name,  # whoever looks for a session's processes finds the daemon too
    }
    try:
        process = subprocess.Popen(
            [str(binary()), "node", *options.arguments(), *ready],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment,
            pass_fds=[writer],
            start_new_session=True,
            cwd="/",
        )
        os.close(writer)
        writer = -1
        try:
            if meanwhile is not None:
                meanwhile()
            return Daemon(process, _ready(process, reader, said))
        except BaseException:
            process.kill()
            process.wait()
            # The daemon never served anybody; all that it knew is in the error.
            import shutil

            shutil.rmtree(options.temp_dir / name, ignore_errors=True)
            raise
    finally:
        for descriptor in (reader, writer, said):
            if descriptor >= 0:
                os.close(descriptor)


def session_name() -> str:
    """A new one: the time, and which process began it."""
    now = time.time_ns()
    seconds = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now // 10**9))
    return f"session_{seconds}_{now % 10**9 // 1000:06}_{os.getpid()}"


_ANOTHER_FOLDER = ". Name another folder with RAY_TMPDIR, or with `ray.init(_temp_dir=...)`."


def _ready(process: subprocess.Popen[bytes], reader: int, output: int) -> NodeAddress:
    deadline = time.monotonic() + START_S_MAX
    said = b""
    while not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            raise ConnectionError(
                f"The node daemon was not ready within {START_S_MAX:g} s.{_tail(output)}"
            )
        part = os.read(reader, 65536)
        if not part:
            break
        said += part
    if not said:
        code = process.wait()
        raise ConnectionError(
            f"The node daemon ended with {code} before it was ready.{_tail(output)}"
        )
    answer = json.loads(said)
    if "error" in answer:
        advice = _ANOTHER_FOLDER if answer["is_of_folder"] else ""
        from heliostat.core.errors import unwelcome

        text = f"The node daemon could not start: {answer['error']}{advice}"
        raise unwelcome(answer["refusal"], text)
    return NodeAddress.from_json(said)


def _tail(output: int) -> str:
    size = os.fstat(output).st_size
    start = max(0, size - _LOG_TAIL_BYTES)
    text = os.pread(output, size - start, start).decode(errors="replace").strip()
    return f" It said:\n{text}" if text else ""


def running(temp_dir: Path) -> Iterator[NodeAddress]:
    """This user's daemons on this machine that say that they are ready, the latest first."""
    found: list[tuple[float, Path]] = []
    for path in temp_dir.glob(f"session_*/{settings.READY_FILE}"):
        with contextlib.suppress(OSError):
            # A daemon whose folder lies elsewhere leaves a link; whoever made it, only own sessions count.
            if settings.is_own(path.parent.resolve()):
                found.append((path.stat().st_mtime, path))
    for _, path in sorted(found, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            address = NodeAddress.from_json(path.read_bytes())
            if _answers(address.node_socket):
                yield address


def locate(address: str) -> NodeAddress:
    """The daemon of this machine in the cluster at ``host:port``, as that cluster names it.

    Raises ``ConnectionError`` with the reason when there is none.
    """
    command = [str(binary()), "locate", "--address", address]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S_MAX, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("ConnectionError: ")
        raise ConnectionError(f"Failed to connect to Ray cluster at {address}: {said}")
    return NodeAddress.from_json(done.stdout)


def _answers(path: str) -> bool:
    import socket

    folder, name = os.path.split(path)
    try:
        # An address of a socket holds about a hundred bytes; the folder's descriptor is always shorter.
        handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            probe.connect(f"/proc/self/fd/{handle}/{name}")
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def described(address: NodeAddress) -> dict[str, Any]:
    """For ``RayContext.address_info``."""
    return {
        "node_ip_address": address.host,
        "redis_address": None,
        "object_store_address": address.node_socket,
        "raylet_socket_name": address.node_socket,
        "webui_url": address.webui_url,
        "session_dir": address.session_dir,
        "metrics_export_port": -1,
        "gcs_address": address.control_address,
        "address": address.control_address,
        "dashboard_agent_listen_port": -1,
        "node_id": address.node_id,
    }

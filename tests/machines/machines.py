"""Machines made of namespaces: each has a network, processes, /tmp, /dev/shm and HOME of its own.

All machines of a field hang on one bridge. A link can fail as links do: cut like a pulled cable (no
connection is closed), in one direction only, or slow. A machine can lose its power or hang. Root only.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.helpers import harness

NET = "10.77.0"
NET6 = "fd77"
PORT = 6379
TOKEN = "the token of machines made of namespaces"
# Packets to this address leave the machine, and nobody takes them.
NOBODY = "02:00:00:00:00:99"
HELIOSTAT = Path(sys.executable).with_name("heliostat")


def why_not() -> str:
    """Why this process cannot make machines; empty when it can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = f"hs{secrets.token_hex(3)}probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made here: {made.stderr.strip()}"
    bridge = ["ip", "-n", probe, "link", "add", "br0", "type", "bridge"]
    bridged = subprocess.run(bridge, capture_output=True, text=True)
    _ip("netns", "del", probe, check=False)
    return f"bridges cannot be made here: {bridged.stderr.strip()}" if bridged.returncode else ""


def _ip(*args: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(args)}: {done.stderr.strip()}")


class Machine:
    """One machine; made by `Machines`."""

    def __init__(self, field: Machines, index: int) -> None:
        self.field, self.index = field, index
        self.name, self.ip = f"{field.prefix}m{index}", f"{NET}.{index + 1}"
        self.ip6 = f"{NET6}::{index + 1}"
        self.link = f"{field.prefix}l{index}"
        self.directory = field.directory / f"m{index}"
        for folder in ("tmp", "shm", "home"):
            (self.directory / folder).mkdir(parents=True)
        _ip("netns", "add", self.name)
        _ip("-n", field.bridge, "link", "add", self.link, "type", "veth", "peer", "eth0")
        _ip("-n", field.bridge, "link", "set", "eth0", "netns", self.name)
        _ip("-n", field.bridge, "link", "set", self.link, "master", "br0", "up")
        _ip("-n", self.name, "addr", "add", f"{self.ip}/24", "dev", "eth0")
        # Nobody else can have the address, so it need not be asked for.
        _ip("-n", self.name, "addr", "add", f"{self.ip6}/64", "dev", "eth0", "nodad")
        _ip("-n", self.name, "link", "set", "eth0", "up")
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.init = self._start_init()
        self.pid = harness.wait_until(self._child_of_init, what=f"the init of {self.name}")

    def _start_init(self) -> subprocess.Popen[str]:
        """The process that holds the machine's namespaces; all processes of it end with this one."""
        # What lies in the caller's /tmp (a checkout, its interpreter) stays visible at its place.
        seen = sorted({str(path) for path in _needed() if str(path).startswith("/tmp/")})
        mounts = [f"mkdir -p {self.directory}{path}" for path in seen]
        mounts += [f"mount --rbind {path} {self.directory}{path}" for path in seen]
        script = "; ".join(
            [
                f"hostname machine{self.index}",
                *mounts,
                f"mount --bind {self.directory}/shm /dev/shm",
                f"mount --rbind {self.directory}/tmp /tmp",
                "mount -t proc proc /proc",
                "echo ready",
                "while :; do sleep 1000 & wait $!; done",
            ]
        )
        unshare = ["unshare", "-p", "-m", "-u", "-f", "--kill-child", "bash", "-c", script]
        init = subprocess.Popen(
            ["ip", "netns", "exec", self.name, *unshare], stdout=subprocess.PIPE, text=True
        )
        assert init.stdout is not None
        with init.stdout:
            line = init.stdout.readline()
        assert line == "ready\n", f"{self.name} did not start"
        return init

    def _child_of_init(self) -> int:
        children = Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def command(self, argv: Iterable[str], env: Mapping[str, str] | None = None) -> list[str]:
        """The command line that runs ``argv`` on this machine."""
        variables = {
            "HOME": str(self.directory / "home"),
            "HELIOSTAT_AUTH_TOKEN": TOKEN,
            **(env or {}),
        }
        enter = ["nsenter", "-t", str(self.pid), "-n", "-p", "-m", "-u", f"--wd={self.directory}"]
        return [*enter, "env", *(f"{name}={value}" for name, value in variables.items()), *argv]

    def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        within: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which comes within so many seconds."""
        done = subprocess.run(
            self.command(argv, env),
            capture_output=True,
            text=True,
            timeout=within,
            env=harness.clean_env(),
        )
        if check and done.returncode:
            raise AssertionError(f"machine {self.index}: {argv}: {done.stdout}\n{done.stderr}")
        return done

    def start_head(self, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.run(
            str(HELIOSTAT), "start", "--head", f"--port={PORT}", *self.common(*options), env=env
        )

    def join(self, head: Machine, *options: str, env: Mapping[str, str] | None = None) -> None:
        address = f"--address={head.ip}:{PORT}"
        self.run(str(HELIOSTAT), "start", address, *self.common(*options), env=env)

    def common(self, *options: str) -> list[str]:
        """The options of `start` for this machine."""
        defaults = {
            "--node-ip-address": self.ip,
            "--object-store-memory": str(200 << 20),
            "--num-cpus": "2",
            "--resources": f'{{"m{self.index}": 100}}',
        }
        given = {option.partition("=")[0] for option in options}
        return [
            *(f"{name}={value}" for name, value in defaults.items() if name not in given),
            *options,
        ]

    def start_script(
        self,
        source: str,
        *,
        name: str = "driver",
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
    ) -> harness.Driver:
        """Run a Python script on this machine, with ``RAY_ADDRESS`` of its cluster."""
        script = self.directory / f"{name}.py"
        script.write_text(textwrap.dedent(source))
        out, err = self.directory / f"{name}.stdout", self.directory / f"{name}.stderr"
        argv = [sys.executable, "-X", "faulthandler", str(script), *args]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                self.command(argv, {"RAY_ADDRESS": "auto", **(env or {})}),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=harness.clean_env(),
                start_new_session=True,
            )
        return harness.Driver(process, out, err)

    def cut(self) -> None:
        """Pull the cable: nothing comes or goes, and no connection is closed."""
        _ip("-n", self.field.bridge, "link", "set", self.link, "down")

    def heal(self) -> None:
        """Undo `cut`, `stop_sending_to` and `slow_down`."""
        _ip("-n", self.field.bridge, "link", "set", self.link, "up")
        for other in self.field.all:
            if other is not self and other.is_on:
                _ip("-n", self.name, "neigh", "del", other.ip, "dev", "eth0", check=False)
        with contextlib.suppress(RuntimeError):
            self._shape("del")

    def stop_sending_to(self, *others: Machine) -> None:
        """One direction: what this machine sends to the others is lost; theirs still comes."""
        for other in others:
            neighbour = ["neigh", "replace", other.ip, "lladdr", NOBODY, "dev", "eth0"]
            _ip("-n", self.name, *neighbour, "nud", "permanent")

    def slow_down(self, megabits: int) -> None:
        """Bound what this machine sends a second."""
        shape = ["rate", f"{megabits}mbit", "burst", "256k", "latency", "100ms"]
        self._shape("add", "tbf", *shape)

    def _shape(self, verb: str, *what: str) -> None:
        done = subprocess.run(
            ["tc", "-n", self.name, "qdisc", verb, "dev", "eth0", "root", *what],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def sent(self) -> int:
        """How many bytes the machine has sent."""
        show = ["ip", "-n", self.field.bridge, "-j", "-s", "link", "show", "dev", self.link]
        shown = subprocess.run(show, capture_output=True, text=True, check=True)
        received: int = json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"]
        return received

    @property
    def is_on(self) -> bool:
        return self.init.poll() is None

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the machine but its init."""
        enter = ["nsenter", "-t", str(self.pid), "-p", "-m"]
        subprocess.run([*enter, "bash", "-c", f"kill -{int(number)} -1"], check=False)

    def hang(self) -> None:
        """Every process stops as in a machine that is suspended; its network still answers."""
        self.signal_all(signal.SIGSTOP)

    def wake_up(self) -> None:
        self.signal_all(signal.SIGCONT)

    def power_off(self) -> None:
        """Every process ends at once, the link first: no goodbye reaches anybody."""
        self.cut()
        os.kill(self.pid, signal.SIGKILL)
        self.init.wait(170)

    def processes(self) -> list[str]:
        """The command lines of what runs on the machine."""
        listed = self.run("ps", "-ww", "-eo", "pid,args", "--no-headers").stdout.splitlines()
        own = ("ps -ww", "sleep 1000", "mount --bind")
        return [line for line in listed if not any(word in line for word in own)]

    def logs(self) -> str:
        """The logs of the machine's sessions."""
        folder = self.directory / "tmp" / "ray"
        logs = sorted(path for path in folder.glob("session_2*/logs/*") if path.is_file())
        return "\n".join(f"{path.name}\n{path.read_text(errors='replace')}" for path in logs)


class Machines:
    """A field of machines on one bridge: ``with Machines(3) as (head, a, b): …``."""

    def __init__(self, count: int) -> None:
        # The names of network interfaces are short.
        self.prefix = f"hs{secrets.token_hex(3)}"
        # Outside /tmp, which every machine has to itself.
        self.directory = Path(tempfile.mkdtemp(prefix="machines", dir="/var/tmp"))
        self.bridge = f"{self.prefix}br"
        self.all: list[Machine] = []
        try:
            _ip("netns", "add", self.bridge)
            _ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
            _ip("-n", self.bridge, "link", "set", "br0", "up")
            for index in range(count):
                self.all.append(Machine(self, index))
        except BaseException:
            self.close()
            raise

    def partition(self, one: Iterable[Machine], other: Iterable[Machine]) -> None:
        """Nothing passes between the two groups, in either direction."""
        one, other = list(one), list(other)
        for machine in one:
            machine.stop_sending_to(*other)
        for machine in other:
            machine.stop_sending_to(*one)

    def replace(self, machine: Machine) -> Machine:
        """A new machine with the address of one that was powered off, and nothing of what it had."""
        assert not machine.is_on, f"{machine.name} still has its power"
        # The end of a namespace takes its time; the new link has the same name.
        _ip("-n", self.bridge, "link", "del", machine.link)
        _ip("netns", "del", machine.name)
        shutil.rmtree(machine.directory, ignore_errors=True)
        for other in self.all:
            if other is not machine and other.is_on:
                _ip("-n", other.name, "neigh", "del", machine.ip, "dev", "eth0", check=False)
        made = self.all[machine.index] = Machine(self, machine.index)
        return made

    def close(self) -> None:
        for machine in self.all:
            if machine.is_on:
                os.kill(machine.pid, signal.SIGKILL)
                machine.init.wait(170)
            _ip("netns", "del", machine.name, check=False)
        _ip("netns", "del", self.bridge, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> list[Machine]:
        return self.all

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for machine in self.all:
                sys.stderr.write(f"== machine {machine.index}\n{machine.logs()[-4000:]}\n")
        self.close()


def _needed() -> list[Path]:
    """Folders that the programs under test are read from."""
    checkout = Path(__file__).parents[2]
    return [checkout, Path(sys.prefix), Path(sys.base_prefix)]

"""``ray start``, ``status`` and ``stop``, as an operator types them.

The command is ``ray`` beside the running Python, or what ``RAY_CLI`` names. RAY_TMPDIR gives each
test a place of its own, so that no other cluster of the machine is found by its file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import CLI, ran
from tests.helpers.harness import Session, clean_env, free_port, is_alive, wait_until
from tests.helpers.shared import cluster as shared

BIN = Path(sys.executable).parent
AUTO = Path(__file__).parent.parent / "reference" / "scripts" / "s002_address_auto.py"

# Keeps Ray's dashboard away; Heliostat takes the same flag.
QUIET = ("--include-dashboard=false", "--disable-usage-stats")


@dataclass
class Shell:
    """Runs the command with one environment, and knows what it started."""

    env: dict[str, str]
    home: Path
    port: int = field(default_factory=free_port)

    def run(self, *args: str, timeout: float = 60, cli: str = CLI) -> Result:
        """The command reads nothing and has no terminal."""
        done = ran(
            [cli, *args],
            env=self.env,
            within=timeout,
        )
        return Result(done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout), args)

    def start_head(self, *args: str) -> Result:
        return self.run("start", "--head", f"--port={self.port}", "--num-cpus=2", *QUIET, *args)

    def sessions(self) -> list[Session]:
        found = [path.resolve() for path in self.home.rglob("session_*") if path.is_dir()]
        return [Session(path, frozenset({os.getpid()})) for path in sorted(set(found))]

    def processes(self) -> list[str]:
        return [str(proc) for session in self.sessions() for proc in session.processes()]


@dataclass
class Result:
    rc: int
    output: str
    args: Sequence[str]

    def ok(self) -> Result:
        assert self.rc == 0, f"{self.args} ended with {self.rc}\n{self.output}"
        return self

    def failed(self) -> Result:
        assert self.rc != 0, f"{self.args} should have failed\n{self.output}"
        return self

    def says(self, *parts: str) -> Result:
        for part in parts:
            assert part in self.output, f"{part!r} is not in what {self.args} says:\n{self.output}"
        return self

    @property
    def address(self) -> str:
        """The address that a further node is told to use."""
        found = re.search(r"--address='([^']+)'", self.output)
        assert found, self.output
        return found.group(1)


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A fresh place; what was started in it is stopped."""
    shared.stop()
    home = Path(tempfile.mkdtemp(prefix="cli", dir="/tmp"))
    shell = Shell(clean_env({"RAY_TMPDIR": str(home)}), home)
    yield shell
    shell.run("stop", "--force")
    wait_until(lambda: not shell.processes(), what="everything stopped")
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.contract("F6.01", "F6.03", "F6.04", "F0.04", "F0.07")
def test_start_use_and_stop(shell: Shell, run_driver: Any) -> None:
    """The guide's whole story: head, second node, status, a driver with ``auto``, stop."""
    head = shell.start_head().ok()
    head.says("Local node IP: ", "Ray runtime started.", "Next steps")
    address = head.address
    assert address.endswith(f":{shell.port}")
    assert f"Local node IP: {address.rpartition(':')[0]}" in head.output

    shell.run("start", f"--address={address}", "--num-cpus=3").ok().says("Ray runtime started.")

    def both() -> bool:
        return "/5.0 CPU" in shell.run("status", "--address", address).output

    wait_until(both, every=0.3, what="the status shows five CPUs")
    status = shell.run("status").ok()
    status.says("Autoscaler status", "Node status", "Resources", "Usage", "0.0/5.0 CPU")
    status.says("(no resource demands)")
    assert re.search(r"={8} Autoscaler status: \d{4}-\d{2}-\d{2}", status.output)

    done = run_driver(AUTO, env={"RAY_TMPDIR": str(shell.home)}, cwd=AUTO.parent).check()
    assert done.value("setting") == "0"
    assert done.value("cpus") == "5.0"

    assert shell.processes()
    shell.run("stop").ok()
    wait_until(lambda: not shell.processes())


@pytest.mark.contract("F6.01")
def test_a_taken_port_is_named_with_the_remedy(shell: Shell) -> None:
    address = shell.start_head().ok().address
    again = shell.start_head().failed()
    again.says("already running", address, "different port")
    assert "Ray runtime started." not in again.output
    # The first one is unharmed.
    assert shell.run("status", "--address", address).ok()


@pytest.mark.contract("F6.01")
@pytest.mark.heliostat_only("Ray does not name a port that another program holds")
def test_a_port_of_another_program(shell: Shell) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = shell.run("start", "--head", f"--port={port}", *QUIET).failed()
    refused.says(str(port), "port")
    assert not shell.processes()


@pytest.mark.contract("F6.02")
def test_neither_head_nor_address(shell: Shell) -> None:
    shell.run("start").failed().says(
        "`--address` is a required flag unless starting a head node with `--head`."
    )


@pytest.mark.contract("F6.02")
@pytest.mark.parametrize("flag", ["--port=6380", "--include-dashboard=true"])
def test_flags_of_the_head_only(shell: Shell, flag: str) -> None:
    name = flag.partition("=")[0]
    shell.run("start", "--address=127.0.0.1:1", flag).failed().says(name, "--head")


@pytest.mark.contract("F6.01", "F6.11")
@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--nonsense",), "--nonsense"),
        (("--num-cpus=many",), "many"),
        (("--port=seventy",), "seventy"),
        (("--resources={broken",), "resources"),
        (('--resources={"CPU": 1}',), "CPU"),
    ],
    ids=lambda value: str(value),
)
def test_bad_flags_are_named_and_start_nothing(
    shell: Shell, args: tuple[str, ...], named: str
) -> None:
    shell.run("start", "--head", *args).failed().says(named)
    assert not shell.processes()


@pytest.mark.contract("F6.03")
def test_stop_with_nothing_to_stop(shell: Shell) -> None:
    shell.run("stop").ok()
    shell.run("stop", "--force").ok()


@pytest.mark.contract("F6.04")
def test_status_without_a_cluster(shell: Shell) -> None:
    shell.run("status").failed()


@pytest.mark.contract("F6.02")
@pytest.mark.heliostat_only("Ray tries for a minute")
def test_a_node_without_a_head_gives_up(shell: Shell) -> None:
    address = f"127.0.0.1:{free_port()}"
    shell.env["HELIOSTAT_JOIN_WAIT_S"] = "1"
    shell.run("start", f"--address={address}").failed().says(address)
    assert not shell.processes()


@pytest.mark.contract("F6.04")
def test_status_shows_use_and_demands(shell: Shell, start_driver: Any) -> None:
    address = shell.start_head("--num-gpus=1", '--resources={"X": 2}').ok().address
    driver = start_driver(
        """
        import sys
        import ray

        ray.init(address=sys.argv[1])

        @ray.remote(num_cpus=1, num_gpus=1, resources={"X": 1})
        class Holder:
            def ready(self):
                return True

        holder = Holder.remote()
        ray.get(holder.ready.remote())
        too_much = Holder.options(num_cpus=7).remote()
        print("held=yes")
        ray.get(too_much.ready.remote())
        """,
        args=[address],
    )
    assert driver.wait_line("held") == "yes"

    def status() -> str:
        text = shell.run("status", "--address", address).output
        lines = {line.strip() for line in text.splitlines()}
        used = {"1.0/2.0 CPU", "1.0/1.0 GPU", "1.0/2.0 X"}
        return text if used <= lines and "'CPU': 7.0" in text else ""

    wait_until(status, every=0.3, what="use and pending demands in the status")


@pytest.mark.contract("F6.12", "F6.03")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_block_stays_until_it_is_told_to_go(shell: Shell, how: signal.Signals) -> None:
    output = shell.home / "block.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [CLI, "start", "--head", "--block", f"--port={shell.port}", "--num-cpus=1", *QUIET],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=shell.env,
            start_new_session=True,
        )
    wait_until(lambda: "Ray runtime started." in output.read_text())
    assert process.poll() is None
    process.send_signal(how)
    process.wait(40)
    assert not is_alive(process.pid)
    wait_until(lambda: not shell.processes())


@pytest.mark.contract("F6.13", "F0.01")
def test_version(shell: Shell) -> None:
    import ray

    shell.run("--version").ok().says(ray.__version__)


@pytest.mark.contract("F6.01")
def test_help_names_the_commands(shell: Shell) -> None:
    shell.run("--help").ok().says("start", "stop", "status")
    shell.run("start", "--help").ok().says("--head", "--port", "--address", "--block")


@pytest.mark.contract("F6.01", "F6.03", "F6.04")
@pytest.mark.heliostat_only("the command under its own name")
def test_both_names_are_one_command(shell: Shell) -> None:
    own = str(BIN / "heliostat")
    address = (
        shell.run("start", "--head", f"--port={shell.port}", "--num-cpus=2", *QUIET, cli=own)
        .ok()
        .address
    )
    shell.run("status", "--address", address).ok().says("/2.0 CPU")
    shell.run("stop", cli=own).ok()
    wait_until(lambda: not shell.processes())


@pytest.mark.contract("F6.03", "F5.08")
def test_stop_ends_actors_and_drivers_get_to_know(shell: Shell, start_driver: Any) -> None:
    address = shell.start_head().ok().address
    driver = start_driver(
        """
        import sys, time
        import ray

        ray.init(address=sys.argv[1])

        @ray.remote
        class Forever:
            def ready(self):
                return True
            def sleep(self):
                time.sleep(1000)

        forever = Forever.options(name="f", lifetime="detached").remote()
        ray.get(forever.ready.remote())
        print("ready=yes")
        try:
            ray.get(forever.sleep.remote())
        except Exception as error:
            print(f"error={type(error).__name__}")
        """,
        args=[address],
    )
    driver.wait_line("ready")
    shell.run("stop").ok()
    wait_until(lambda: not shell.processes())
    wait_until(lambda: driver.process.poll() is not None)


@pytest.mark.contract("F6.01")
def test_the_address_may_be_a_hosts_name(shell: Shell, run_driver: Any) -> None:
    shell.start_head("--node-ip-address=localhost").ok().says("127.0.0.1")
    done = run_driver(AUTO, env=shell.env)
    assert done.rc == 0, done.report()
    if shell.run("--version").output.count("heliostat"):
        address = f"--address=localhost:{shell.port}"
        other = shell.run("start", address, "--node-ip-address=no such host").failed()
        other.says("--node-ip-address", "no such host")

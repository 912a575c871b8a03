"""The disk under the head's session folder is full: what must be kept is refused, the rest goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import CLI, ran
from tests.helpers.harness import Driver, clean_env, free_port, is_alive, kill_daemon, wait_until
from tests.helpers.shared import cluster as shared


def _why_not(folder: Path) -> str:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "only root mounts a small disk"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
    )
    return f"no disk of memory can be mounted here: {done.stderr}" if done.returncode else ""


class Head:
    """A head whose sessions lie on a small disk."""

    def __init__(self, disk: Path) -> None:
        self.disk, self.port = disk, free_port()
        self.env = clean_env({"RAY_TMPDIR": str(disk)})

    def run(self, *args: str) -> str:
        done = ran(
            [CLI, *args],
            env=self.env,
            within=60,
        )
        assert done.returncode == 0, done.stdout + self.log()
        return done.stdout

    def start(self) -> None:
        store = f"--object-store-memory={100 << 20}"
        quiet = ("--include-dashboard=false", "--num-cpus=4", store)
        self.run("start", "--head", f"--port={self.port}", *quiet)

    @property
    def session(self) -> Path:
        return (self.disk / "ray" / "session_latest").resolve()

    def daemon(self) -> int:
        return int((self.session / "node.pid").read_text())

    def log(self) -> str:
        path = self.session / "logs" / "node.log"
        return path.read_text() if path.exists() else ""

    def fill(self) -> None:
        """Take what is left of the disk, to the last byte."""
        with (self.disk / "filling").open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def empty(self) -> None:
        (self.disk / "filling").unlink()


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    shared.stop()
    disk = tmp_path / "disk"
    disk.mkdir()
    if reason := _why_not(disk):
        pytest.skip(reason)
    head = Head(disk)
    try:
        head.start()
        yield head
        with contextlib.suppress(FileNotFoundError):
            head.empty()
        head.run("stop", "--force")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


PROGRAM = """
import os, signal, sys, time
import ray

ray.init(address=sys.argv[1], namespace="n", log_to_driver=False)

@ray.remote
class Actor:
    def pid(self):
        return os.getpid()

    def large(self):
        return bytes(2_000_000)

@ray.remote
def square(x):
    return x * x

def wait_for(name):
    while not os.path.exists(os.path.join(sys.argv[2], name)):
        time.sleep(0.01)

there = Actor.options(name="there", max_restarts=1, max_task_retries=-1).remote()
other = Actor.options(name="other").remote()
ray.get([there.pid.remote(), other.pid.remote(), square.remote(2)])
print("made=yes", flush=True)
wait_for("full")

def goes_on(x):
    @ray.remote
    def fresh(x):
        return x + 1

    assert ray.get([square.remote(i) for i in range(50)]) == [i * i for i in range(50)]
    assert ray.get(fresh.remote(x)) == x + 1, "a function that nobody has run yet"
    assert len(ray.get(there.large.remote())) == 2_000_000
    assert ray.get(ray.get_actor("there").pid.remote()) == ray.get(there.pid.remote())
    assert ray.get(ray.put(bytes(3_000_000))) == bytes(3_000_000)
    assert len(ray.nodes()) == 1

def refusal(make):
    try:
        make()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace(chr(10), " ")
    return "nothing"

goes_on(1)
print("goes_on=yes", flush=True)
print("actor=" + refusal(lambda: ray.get(Actor.remote().pid.remote(), timeout=60)), flush=True)
print("named=" + refusal(lambda: ray.get(Actor.options(name="x").remote().pid.remote(), timeout=60)))
group = lambda: ray.get(ray.util.placement_group([{"CPU": 1}]).ready(), timeout=60)
print("group=" + refusal(group), flush=True)
goes_on(2)
ray.kill(other)
print("refused=yes", flush=True)
wait_for("empty")
deadline = time.monotonic() + 60
while True:
    try:
        again = Actor.options(name="again").remote()
        assert ray.get(again.pid.remote(), timeout=60) > 0
        break
    except ray.exceptions.RayError:
        assert time.monotonic() < deadline
ray.get(ray.util.placement_group([{"CPU": 1}]).ready(), timeout=60)
goes_on(3)
os.kill(ray.get(there.pid.remote()), signal.SIGKILL)
assert ray.get(there.pid.remote(), timeout=60) > 0, "it was made again"
print("recovered=yes", flush=True)
wait_for("end")
"""

SENTENCE = "the disk of the cluster's head has no room left"


@pytest.mark.contract("F5.01", "F5.10")
@pytest.mark.heliostat_only("Ray's head fails in other ways")
def test_a_full_disk_under_the_head(head: Head, start_driver: Any, tmp_path: Path) -> None:
    daemon = head.daemon()
    address = f"127.0.0.1:{head.port}"
    driver: Driver = start_driver(PROGRAM, args=[address, str(tmp_path)], env=head.env)
    driver.wait_line("made")
    head.fill()
    (tmp_path / "full").touch()
    assert driver.wait_line("goes_on") == "yes"
    for what in ("actor", "named", "group"):
        assert SENTENCE in driver.wait_line(what), driver.stdout()
    assert driver.wait_line("refused") == "yes"
    late = start_driver(
        f"import ray; ray.init(address={address!r})", env=head.env, name="late"
    ).finish()
    assert late.rc != 0
    assert SENTENCE in late.stderr, late.report()
    assert is_alive(daemon)
    head.empty()
    (tmp_path / "empty").touch()
    assert driver.wait_line("recovered", within=120) == "yes"
    wait_until(lambda: "the disk has room again" in head.log(), what="the log tells of it")
    (tmp_path / "end").touch()
    driver.finish().check()
    assert head.daemon() == daemon
    assert is_alive(daemon)


@pytest.mark.contract("F5.10")
@pytest.mark.heliostat_only("Ray's head fails in other ways")
def test_what_was_acknowledged_outlives_a_full_disk_and_a_restart(
    head: Head, start_driver: Any, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{head.port}"
    source = """
        import os, sys
        import ray

        ray.init(address=sys.argv[1], namespace="n")

        @ray.remote(num_cpus=0)
        class Actor:
            def one(self):
                return 1

        def make(n):
            made = Actor.options(name=str(n), lifetime="detached", max_restarts=-1).remote()
            return ray.get(made.one.remote(), timeout=60)

        refused = 0
        for n in range(12):
            if n == 4:
                with open(os.path.join(sys.argv[2], "filling"), "ab", buffering=0) as file:
                    try:
                        while file.write(bytes(1 << 20)):
                            pass
                    except OSError:
                        pass
            if n == 8:
                os.unlink(os.path.join(sys.argv[2], "filling"))
            try:
                make(n)
                print("kept", n)
            except ray.exceptions.RayError:
                refused += 1
        print(f"refused={refused}")
    """
    done = start_driver(source, args=[address, str(head.disk)], env=head.env).finish().check()
    kept = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("kept ")]
    assert kept[:4] == ["0", "1", "2", "3"]
    assert int(done.value("refused")) >= 3
    kill_daemon(head.session)
    head.start()
    after = start_driver(
        """
        import sys
        import ray
        from ray.util import list_named_actors

        ray.init(address=sys.argv[1], namespace="n")
        print("names=" + ",".join(sorted(list_named_actors())))
        """,
        args=[address],
        env=head.env,
        name="after",
    ).finish()
    assert set(kept) <= set(after.check().value("names").split(","))

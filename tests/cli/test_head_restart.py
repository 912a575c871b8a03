"""The head's daemon is killed and started again: what was acknowledged is still there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import clean_env, free_port, is_alive, wait_until
from shared import cluster as shared

CLI = os.environ.get("RAY_CLI", str(Path(sys.executable).parent / "ray"))

pytestmark = [
    pytest.mark.contract("F2.17", "F6.01"),
    pytest.mark.heliostat_only("Ray needs an external Redis for this"),
]

DRIVER = """
import sys
import ray

ray.init(address=sys.argv[1], namespace="n")

@ray.remote(num_cpus=0, max_restarts=-1)
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count

if sys.argv[2] == "create":
    far = Counter.options(name="far", lifetime="detached", resources={"far": 0.1}).remote()
    near = Counter.options(name="near", lifetime="detached", resources={"near": 0.1}).remote()
else:
    far, near = ray.get_actor("far"), ray.get_actor("near")
print("far=%d" % ray.get(far.add.remote(), timeout=30))
print("near=%d" % ray.get(near.add.remote(), timeout=30))
print("job=%s" % ray.get_runtime_context().get_job_id())
"""


@pytest.fixture
def run() -> Iterator[Any]:
    """The command in a place of its own."""
    shared.stop()
    home = Path(tempfile.mkdtemp(prefix="head", dir="/tmp"))
    env = clean_env({"RAY_TMPDIR": str(home)})

    def run(*args: str) -> str:
        done = subprocess.run(
            [CLI, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    run.home = home  # type: ignore[attr-defined]
    yield run
    run("stop", "--force")
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.timeout(120)
def test_a_killed_head_goes_on_where_it_was(run: Any, run_driver: Any) -> None:
    port = free_port()
    head = ("start", "--head", f"--port={port}", "--num-cpus=1", '--resources={"near": 1}')
    run(*head)
    address = f"127.0.0.1:{port}"
    run("start", f"--address={address}", "--num-cpus=1", '--resources={"far": 1}')
    wait_until(lambda: "/2.0 CPU" in run("status", "--address", address))
    first = run_driver(DRIVER, args=[address, "create"]).check()
    assert (first.value("far"), first.value("near")) == ("1", "1")

    latest = (run.home / "ray" / "session_latest").resolve()
    pid = int((latest / "node.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    assert latest.name in run(*head)

    second = run_driver(DRIVER, args=[address, "find"]).check()
    assert second.value("far") == "2", "its process went on meanwhile"
    assert second.value("near") == "1", "its process died with the head and was made again"
    assert second.value("job") != first.value("job")

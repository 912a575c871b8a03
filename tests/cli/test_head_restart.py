"""The head's daemon is killed and started again: what was acknowledged is still there."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import web
from tests.helpers.harness import free_port, is_alive, kill_daemon, wait_until

pytestmark = [
    pytest.mark.contract("F2.17", "F6.01"),
    pytest.mark.heliostat_only("Ray needs an external Redis for this"),
]

BEGIN = """
import sys
import ray

ray.init(address=sys.argv[1], namespace="n")

# An actor may still be restarting when the next driver calls it.
@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count
"""

DRIVER = (
    BEGIN
    + """
if sys.argv[2] == "create":
    far = Counter.options(name="far", lifetime="detached", resources={"far": 0.1}).remote()
    near = Counter.options(name="near", lifetime="detached", resources={"near": 0.1}).remote()
else:
    far, near = ray.get_actor("far"), ray.get_actor("near")
print("far=%d" % ray.get(far.add.remote(), timeout=30))
print("near=%d" % ray.get(near.add.remote(), timeout=30))
print("job=%s" % ray.get_runtime_context().get_job_id())
"""
)


@pytest.fixture
def run() -> Iterator[web.Shell]:
    with web.shell() as run:
        yield run


def headless(run: web.Shell, run_driver: Any, program: str) -> tuple[str, Any]:
    """Kill the head of two nodes and start it again; its address, and the run of the first driver."""
    port = free_port()
    head = ("start", "--head", f"--port={port}", "--num-cpus=1", '--resources={"near": 1}')
    run(*head)
    address = f"127.0.0.1:{port}"
    run("start", f"--address={address}", "--num-cpus=1", '--resources={"far": 1}')
    wait_until(lambda: "/2.0 CPU" in run("status", "--address", address))
    first = run_driver(program, args=[address, "create"]).check()
    assert (first.value("far"), first.value("near")) == ("1", "1")
    latest = run.session
    kill_daemon(latest)
    assert latest.name in run(*head)
    return address, first


def test_a_killed_head_goes_on_where_it_was(run: web.Shell, run_driver: Any) -> None:
    address, first = headless(run, run_driver, DRIVER)
    second = run_driver(DRIVER, args=[address, "find"]).check()
    assert second.value("far") == "2", "its process went on meanwhile"
    assert second.value("near") == "1", "its process died with the head and was made again"
    assert second.value("job") != first.value("job")


def test_what_the_killed_head_left_does_not_harm_the_next(run: web.Shell) -> None:
    """A zygote that is slow to see its daemon's end leaves the sockets of the next one alone."""
    head = ("start", "--head", f"--port={free_port()}", "--num-cpus=1", "--include-dashboard=false")
    run(*head)
    latest = run.session
    pid = int((latest / "node.pid").read_text())
    children = Path(f"/proc/{pid}/task/{pid}/children")
    zygotes = wait_until(lambda: [int(child) for child in children.read_text().split()])
    for zygote in zygotes:
        os.kill(zygote, signal.SIGSTOP)
    kill_daemon(latest)
    assert latest.name in run(*head)
    for zygote in zygotes:
        # It may have ended: the kernel wakes and hangs up what is stopped in a group without a parent.
        with contextlib.suppress(ProcessLookupError):
            os.kill(zygote, signal.SIGCONT)
    wait_until(lambda: not any(map(is_alive, zygotes)), what="the end of the old zygotes")
    assert (latest / "sockets" / "node.sock").exists()
    assert "1 node_" in run("status")


GROUPS = (
    BEGIN
    + """
from ray.util import get_placement_group, placement_group, placement_group_table
from ray.util import remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

def inside(group):
    return PlacementGroupSchedulingStrategy(group, 0)

if sys.argv[2] == "create":
    placed = {}
    for where in ("far", "near"):
        group = placement_group([{where: 0.5}], name=where, lifetime="detached")
        assert group.wait(20)
        Counter.options(
            name=where, lifetime="detached", resources={where: 0.1}, scheduling_strategy=inside(group)
        ).remote()
    both = placement_group([{"far": 0.1}, {"near": 0.1}], name="both", lifetime="detached")
    assert both.wait(20)
    later = placement_group([{"late": 1}], name="later", lifetime="detached")
    assert not later.wait(0.1)
    mine = placement_group([{"far": 0.1}], name="mine")
    assert mine.wait(20)
    removed = placement_group([{"far": 0.1}], name="removed", lifetime="detached")
    remove_placement_group(removed)
else:
    for name in ("far", "near", "both"):
        group = get_placement_group(name)
        assert group.wait(40), placement_group_table(group)
    assert placement_group_table(get_placement_group("later"))["state"] == "PENDING"
    for name in ("mine", "removed"):
        try:
            get_placement_group(name)
        except ValueError:
            continue
        raise AssertionError(name)
for where in ("far", "near"):
    print("%s=%d" % (where, ray.get(ray.get_actor(where).add.remote(), timeout=40)))
if sys.argv[2] != "create":
    for name in ("far", "near", "both", "later"):
        remove_placement_group(get_placement_group(name))
"""
)


@pytest.mark.contract("F4.12", "F4.13")
def test_groups_outlive_a_killed_head(run: web.Shell, run_driver: Any) -> None:
    address, _ = headless(run, run_driver, GROUPS)
    second = run_driver(GROUPS, args=[address, "find"]).check()
    assert second.value("far") == "2", "its bundle and its process went on meanwhile"
    assert second.value("near") == "1", "its bundle was lost with the head and placed anew"
    wait_until(lambda: "0.0/1.0 far" in run("status", "--address", address).replace("_group", "?"))

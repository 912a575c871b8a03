"""Machines that leave in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machine

pytestmark = [
    pytest.mark.heliostat_only("the machines run the command heliostat"),
]

Make = Callable[..., list[Machine]]

SCRIPT = """
    import time
    import numpy as np
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(logging_level="error")
    nodes = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes()}
    leaving = nodes[LEAVES]
    there = {"resources": {"m1": 1}, "num_cpus": 0}

    @ray.remote(num_cpus=0, resources={"m0": 1})
    class Count:
        def __init__(self):
            self.runs = 0
        def add(self):
            self.runs += 1
        def total(self):
            return self.runs

    count, begun = Count.remote(), Count.remote()

    @ray.remote
    def make(n, megabytes):
        ray.get(count.add.remote())
        return np.full(megabytes << 17, n, dtype=np.uint64)

    @ray.remote(max_retries=0)
    def last(seconds):
        ray.get(begun.add.remote())
        time.sleep(seconds)
        return np.full(1 << 17, 99, dtype=np.uint64)

    @ray.remote(num_cpus=0, max_restarts=1)
    class Lives:
        def node(self):
            return ray.get_runtime_context().get_node_id()

    once = [make.options(max_retries=0, **there).remote(n, 1 + n) for n in range(20)]
    again = [make.options(max_retries=3, **there).remote(n, 1 + n) for n in range(20)]
    ray.wait(once + again, num_returns=40, fetch_local=False)
    soft = NodeAffinitySchedulingStrategy(leaving, soft=True)
    actor = Lives.options(scheduling_strategy=soft).remote()
    assert ray.get(actor.node.remote()) == leaving
    running = last.options(**there).remote(3)
    while not ray.get(begun.total.remote()):
        time.sleep(0.05)
    print("node=" + leaving, flush=True)

    def is_there():
        return any(node["NodeID"] == leaving and node["Alive"] for node in ray.nodes())

    while is_there():
        time.sleep(0.1)
    assert int(ray.get(running)[-1]) == 99
    for refs in (once, again):
        for n, ref in enumerate(refs):
            assert (ray.get(ref) == n).all()
    assert ray.get(count.total.remote()) == 40, "nothing ran twice"
    assert ray.get(actor.node.remote()) not in (leaving, "")
    print("done=1")
"""


@pytest.mark.contract("F5.11")
def test_a_drained_machine_loses_nothing(make_machines: Make) -> None:
    """What its tasks made, what runs there, and its actor."""
    head, leaves, _ = make_machines(3, f"--object-store-memory={600 << 20}")
    driver = head.start_script(SCRIPT.replace("LEAVES", repr(leaves.ip)))
    node_id = driver.wait_line("node")
    drain(head, node_id)
    driver.finish().check()
    harness.wait_until(lambda: not daemons(leaves), what="the end of the drained daemon")


@pytest.mark.contract("F5.11", "F6.03")
def test_a_machine_that_is_stopped_loses_nothing(make_machines: Make) -> None:
    """``stop`` drains where the cluster goes on; the actor has no restart to spare afterwards."""
    head, leaves, _ = make_machines(3, f"--object-store-memory={600 << 20}")
    driver = head.start_script(SCRIPT.replace("LEAVES", repr(leaves.ip)))
    node_id = driver.wait_line("node")
    done = leaves.run(str(HELIOSTAT), "stop", "--grace-period", "60")
    assert f"The node {node_id} takes no new work" in done.stdout
    assert "Stopped all 1 Ray processes" in done.stdout
    assert not daemons(leaves)
    driver.finish().check()


@pytest.mark.contract("F5.11", "F6.03")
def test_a_machine_without_its_head_is_stopped_at_once(make_machines: Make) -> None:
    head, member = make_machines(2)
    head.run(str(HELIOSTAT), "stop", "--force")
    done = member.run(str(HELIOSTAT), "stop")
    assert "ends at once" in done.stdout, done.stdout
    assert not daemons(member)


@pytest.mark.contract("F5.11")
def test_what_cannot_be_drained_is_said(make_machines: Make) -> None:
    head, _ = make_machines(2)
    refused = [
        (["--node-id", "ab" * 28], "is alive"),
        (["--node-id", "no id"], "hexadecimal"),
        ([], "the head cannot be drained"),
    ]
    for options, why in refused:
        done = head.run(*command("", *options), check=False)
        assert done.returncode == 1, done.stdout
        assert why in done.stderr, done.stderr


def command(message: str, *options: str) -> list[str]:
    reason = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", message]
    return [str(HELIOSTAT), "drain-node", *reason, *options]


def drain(machine: Machine, node_id: str) -> None:
    machine.run(*command("its disk is replaced", "--node-id", node_id))


def daemons(machine: Machine) -> list[str]:
    return [line for line in machine.processes() if "heliostat" in line and " node " in line]

"""Machines that reach each other through one port each."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, PORT, Machine

pytestmark = [
    pytest.mark.heliostat_only("Ray opens a port for each of its processes"),
]

Make = Callable[[int], list[Machine]]

# From every machine to every other: tasks, streams, actors that keep references, large objects.
EVERYTHING = """
    import numpy as np
    import ray

    ray.init()
    MIB = 1 << 20

    @ray.remote(num_cpus=0)
    def square(x):
        return x * x

    @ray.remote(num_cpus=0)
    def count_up(n):
        for i in range(n):
            yield np.full(MIB, i, dtype=np.uint8)

    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self, box):
            self.kept = box[0]
            return int(ray.get(self.kept).sum())
        def again(self):
            return int(ray.get(self.kept).sum())
        def make(self, fill):
            return ray.put(np.full(4 * MIB, fill, dtype=np.uint8))
        def call(self, other, box):
            return ray.get(other.keep.remote(box))

    names = [name for name in ray.cluster_resources() if name[:1] == "m" and name[1:].isdigit()]
    on = [{"resources": {name: 1}} for name in sorted(names)]
    assert [ray.get(square.options(**o).remote(i)) for i, o in enumerate(on)] == [
        i * i for i in range(len(on))
    ]
    for o in on:
        assert [int(ray.get(item)[0]) for item in count_up.options(**o).remote(3)] == [0, 1, 2]
    keepers = [Keeper.options(**o).remote() for o in on]
    ours = ray.put(np.ones(4 * MIB, dtype=np.uint8))
    assert ray.get([k.keep.remote([ours]) for k in keepers]) == [4 * MIB] * len(on)
    del ours
    assert ray.get([k.again.remote() for k in keepers]) == [4 * MIB] * len(on)
    for i, one in enumerate(keepers):
        theirs = ray.get(one.make.remote(i + 1))
        for other in keepers[:i] + keepers[i + 1 :]:
            # What one made, another reads for a third that calls it.
            assert ray.get(one.call.remote(other, [theirs])) == (i + 1) * 4 * MIB
    print(f"machines={len(on)}")
"""


def listening(machine: Machine) -> int:
    """The sockets of the machine that listen on TCP."""
    lines = [
        line
        for table in ("tcp", "tcp6")
        for line in machine.run("cat", f"/proc/net/{table}").stdout.splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    return len(lines)


@pytest.mark.contract("F6.02")
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_everything_goes_through_one_port(make_machines: Make, family: str) -> None:
    """And a machine that is closed but for that port and the measurements' loses nothing."""
    head, one, two = make_machines(3)
    if family == "ipv6":
        for machine in (head, one, two):
            machine.run(str(HELIOSTAT), "stop", "--force")
        head.start_head(f"--node-ip-address={head.ip6}")
        for machine in (one, two):
            machine.run(
                *(str(HELIOSTAT), "start", f"--address=[{head.ip6}]:{PORT}"),
                *machine.common(f"--node-ip-address={machine.ip6}"),
            )
    drivers = [machine.start_script(EVERYTHING) for machine in (head, one)]
    for driver in drivers:
        assert driver.finish().check().value("machines") == "3"
    for machine in (head, one, two):
        # The head has two more: the dashboard's, and that for drivers outside the cluster.
        assert listening(machine) == (4 if machine is head else 2)


@pytest.mark.contract("F6.02", "F6.28")
def test_a_node_that_the_head_does_not_reach_is_told_both_ends(make_machines: Make) -> None:
    head, one = make_machines(2)
    one.run(str(HELIOSTAT), "stop", "--force")
    nowhere = "10.77.0.99"
    argv = [str(HELIOSTAT), "start", f"--address={head.ip}:{PORT}"]
    done = one.run(*argv, *one.common(f"--node-ip-address={nowhere}"), check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    for part in (f"{head.ip}:{PORT}", nowhere, "--node-ip-address", "firewall"):
        assert part in said, said
    harness.wait_until(lambda: nowhere in head.logs(), what="the head's log has a line, too")
    one.join(head)


@pytest.mark.contract("F6.02")
def test_the_port_is_the_one_that_was_named(make_machines: Make) -> None:
    head, one = make_machines(2)
    one.run(str(HELIOSTAT), "stop", "--force")
    one.join(
        head, "--node-manager-port=7001", "--object-manager-port=7002", "--min-worker-port=8000"
    )
    script = """
        import ray
        ray.init()
        print(f"ports={sorted(n['NodeManagerPort'] for n in ray.nodes() if n['Alive'])}")
        @ray.remote(num_cpus=0, resources={"m1": 1})
        def one():
            return 1
        assert ray.get(one.remote()) == 1
    """
    done = head.start_script(script).finish().check()
    # That of the node that was stopped may be there still.
    assert {PORT, 7001} <= set(json.loads(done.value("ports")))

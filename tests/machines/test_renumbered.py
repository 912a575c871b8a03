"""A head that comes back at another address is found by its name, as a pod's is by that of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, NET, PORT, Machine, Machines, _ip

pytestmark = [
    pytest.mark.heliostat_only("needs the head's durable state without a store beside it"),
]

NAME = "head.cluster"

# Calls an actor on its own machine and a task on the head's, again and again, until the file is there.
CALLS = """
    import os, time
    import ray

    stop = os.environ["STOP"]
    ray.init()

    @ray.remote(num_cpus=0, resources={"m1": 1})
    class Counter:
        def __init__(self):
            self.calls = 0
        def count(self):
            self.calls += 1
            return self.calls

    @ray.remote(num_cpus=0, resources={"m0": 1}, max_retries=-1)
    def square(number):
        return number * number

    counter, calls = Counter.remote(), 0
    while not os.path.exists(stop):
        calls += 1
        assert ray.get(counter.count.remote()) == calls
        assert ray.get(square.remote(calls)) == calls * calls
        print(f"calls={calls}", flush=True)
        time.sleep(0.02)
    print(f"alive={sum(node['Alive'] for node in ray.nodes())}")
    print("addresses=" + ",".join(sorted(n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"])))
"""


def name_head(machine: Machine, ip: str) -> None:
    """From now on the machine finds the head at that address."""
    hosts = machine.directory / "hosts"
    is_new = not hosts.exists()
    # In place: the file is mounted.
    hosts.write_text(f"127.0.0.1 localhost\n{ip} {NAME}\n")
    if is_new:
        machine.run("mount", "--bind", str(hosts), "/etc/hosts")


@pytest.mark.contract("F5.06")
def test_a_head_that_comes_back_at_another_address_is_found_by_its_name() -> None:
    with Machines(2) as (head, worker):
        moved = f"{NET}.77"
        for machine in (head, worker):
            name_head(machine, head.ip)
        head.start_head()
        worker.run(str(HELIOSTAT), "start", f"--address={NAME}:{PORT}", *worker.common())
        env = {"STOP": str(worker.directory / "stop")}
        driver = worker.start_script(CALLS, name="calls", env=env)
        driver.wait_line("calls")

        head.run("bash", "-c", "kill -KILL $(cat /tmp/ray/session_latest/node.pid)")
        _ip("-n", head.name, "addr", "del", f"{head.ip}/24", "dev", "eth0")
        _ip("-n", head.name, "addr", "add", f"{moved}/24", "dev", "eth0")
        for machine in (head, worker):
            name_head(machine, moved)
        head.start_head(f"--node-ip-address={moved}")

        seen = len(driver.stdout().splitlines())
        harness.wait_until(
            lambda: len(driver.stdout().splitlines()) > seen + 20,
            what="calls that go on",
        )
        Path(env["STOP"]).touch()
        done = driver.finish().check()
        assert done.value("alive") == "2", done.report()
        assert done.value("addresses") == ",".join(sorted([moved, worker.ip])), done.report()
        # A new command finds the head by its name, too.
        listed = worker.run(str(HELIOSTAT), "status", f"--address={NAME}:{PORT}").stdout
        assert "2" in listed, listed

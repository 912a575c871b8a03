"""A daemon that dies while its workers are stopped takes them along, or the next command ends them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, PORT, Machine

pytestmark = [
    pytest.mark.contract("F5.02", "F5.08"),
    pytest.mark.heliostat_only("Ray stops no workers of a node that is cut off"),
]

Make = Callable[..., list[Machine]]

HOLD = """
    import os, time
    import ray

    ray.init(logging_level="error")

    @ray.remote(num_cpus=0, resources={"m1": 1})
    class Held:
        def pid(self):
            return os.getpid()

    @ray.remote(num_cpus=0, resources={"m1": 1}, max_retries=0)
    def endless(begun):
        open(begun, "w").close()
        while True:
            time.sleep(0.05)

    held = [Held.remote() for _ in range(2)]
    ray.get([one.pid.remote() for one in held])
    begun = os.environ["STOP"] + ".begun"
    running = endless.remote(begun)
    while not os.path.exists(begun):
        time.sleep(0.05)
    print("ready=1", flush=True)
    while not os.path.exists(os.environ["STOP"]):
        time.sleep(0.05)
    os._exit(0)  # what it waits for may be gone
"""


def workers(machine: Machine) -> dict[int, str]:
    """The states of the machine's Python processes, by their numbers: those that fork and those that work."""
    listed = machine.run("ps", "-ww", "-eo", "pid,stat,args", "--no-headers").stdout.splitlines()
    found = [line.split(maxsplit=2) for line in listed]
    return {
        int(pid): stat
        for pid, stat, args in found
        if "zygote.py" in args or args.startswith("ray::")
    }


def daemon(machine: Machine) -> int:
    listed = machine.run("ps", "-ww", "-eo", "pid,args", "--no-headers").stdout.splitlines()
    found = [line.split(maxsplit=1) for line in listed if "heliostat node " in line]
    assert len(found) == 1, listed
    return int(found[0][0])


def cut_off(head: Machine, other: Machine) -> harness.Driver:
    """A machine without its head, whose workers are stopped; who used them goes on."""
    stop = str(head.directory / "stop")
    driver = head.start_script(HOLD, name="hold", env={"STOP": stop})
    driver.wait_line("ready")
    other.cut()

    def are_stopped() -> bool:
        states = workers(other)
        return sum(stat.startswith("T") for stat in states.values()) >= 3

    harness.wait_until(are_stopped, every=0.2, what="the workers are stopped")
    return driver


def end(head: Machine, driver: harness.Driver) -> None:
    (head.directory / "stop").touch()
    driver.finish().check()


def test_stopped_workers_end_with_a_daemon_that_is_killed(make_machines: Make) -> None:
    head, other = make_machines(2)
    driver = cut_off(head, other)
    other.run("kill", "-KILL", str(daemon(other)))
    harness.wait_until(lambda: not workers(other), every=0.2, what="nothing is left")
    other.heal()
    other.join(head)
    assert workers(other)
    end(head, driver)


@pytest.mark.parametrize("command", ["stop", "start"])
def test_what_nobody_could_end_goes_with_the_next_command(
    make_machines: Make, command: str
) -> None:
    """Whoever would have ended the workers is stopped as well, by somebody else."""
    head, other = make_machines(2)
    driver = cut_off(head, other)
    left = workers(other)
    other.run("kill", "-STOP", *map(str, left))
    other.run("kill", "-KILL", str(daemon(other)))
    assert workers(other).keys() == left.keys()
    other.heal()
    if command == "stop":
        said = other.run(str(HELIOSTAT), "stop", "--force").stdout
    else:
        address = f"--address={head.ip}:{PORT}"
        said = other.run(str(HELIOSTAT), "start", address, *other.common()).stdout
    assert f"Ended {len(left)} processes" in said
    gone = harness.wait_until(
        lambda: not workers(other).keys() & left.keys(), every=0.2, what="they are gone"
    )
    assert gone
    end(head, driver)


def test_workers_go_on_once_the_head_is_heard(make_machines: Make) -> None:
    """Those that are asked for meanwhile begin then, and not before."""
    head, other = make_machines(2)
    driver = cut_off(head, other)
    assert len(workers(other)) >= 4, "somebody forks"
    other.heal()

    def go_on() -> bool:
        return not any(stat.startswith("T") for stat in workers(other).values())

    harness.wait_until(go_on, every=0.2, what="nothing is stopped any more")
    script = """
        import ray
        ray.init(logging_level="error")
        there = ray.remote(abs).options(resources={"m1": 1})
        print(f"sum={sum(ray.get([there.remote(-n) for n in range(9)]))}")
    """
    assert head.start_script(script, name="after").finish().check().value("sum") == "36"
    end(head, driver)

"""Links that fail, machines that hang: nobody who lives is buried, and who was buried comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machine

pytestmark = [
    pytest.mark.heliostat_only("a machine that Ray has declared dead never comes back"),
]

Make = Callable[[int], list[Machine]]

# An actor on each machine named in ACTORS, counting; waves of calls and of tasks on each of them until
# the file `stop` is there. Every answer is known: an actor counts its calls, a task squares its number.
WAVES = """
    import os, time
    import ray

    where = os.environ["WHERE"].split(",")
    stop = os.environ["STOP"]
    ray.init()

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.calls = 0
        def count(self):
            self.calls += 1
            return self.calls, ray.get_runtime_context().get_node_id()

    @ray.remote(num_cpus=0)
    def square(number):
        return number * number

    actors = [Counter.options(resources={name: 1}).remote() for name in where]
    begun, nodes = ray.get([actor.count.remote() for actor in actors]), None
    print("ready=1", flush=True)
    wave, slowest = 1, 0.0
    while not os.path.exists(stop):
        at = time.monotonic()
        wave += 1
        counted = ray.get([actor.count.remote() for actor in actors])
        assert [calls for calls, _ in counted] == [wave] * len(actors), counted
        assert [node for _, node in counted] == [node for _, node in begun]
        squares = [square.options(resources={name: 1}).remote(wave) for name in where]
        assert ray.get(squares) == [wave * wave] * len(where)
        slowest = max(slowest, time.monotonic() - at)
        time.sleep(0.02)
    print(f"waves={wave}")
    print(f"slowest={slowest:.1f}")
    print(f"alive={sum(node['Alive'] for node in ray.nodes())}")
    print(f"known={len(ray.nodes())}")
"""


def start_waves(machine: Machine, *where: Machine) -> harness.Driver:
    """Waves of calls from one machine to others; `finish_waves` ends them."""
    env = {
        "WHERE": ",".join(f"m{other.index}" for other in where),
        "STOP": str(machine.directory / "stop"),
    }
    driver = machine.start_script(WAVES, name="waves", env=env)
    driver.wait_line("ready")
    return driver


def finish_waves(machine: Machine, driver: harness.Driver) -> harness.Finished:
    (machine.directory / "stop").touch()
    return driver.finish().check()


def nodes(machine: Machine) -> dict[str, list[str]]:
    """Of each machine: the ids of its nodes that are alive, by the machine's address."""
    script = """
        import ray
        ray.init(logging_level="error")
        for node in ray.nodes():
            if node["Alive"]:
                print("node", node["NodeManagerAddress"], node["NodeID"])
    """
    found: dict[str, list[str]] = {}
    for line in machine.start_script(script, name="nodes").finish().check().stdout.splitlines():
        _, address, node_id = line.split()
        found.setdefault(address, []).append(node_id)
    return found


@pytest.mark.contract("F5.02", "F5.06")
@pytest.mark.parametrize("seconds", [8, 20])
def test_a_head_that_is_cut_off_costs_a_pause(make_machines: Make, seconds: int) -> None:
    """The machines beside it reach each other: the head, not they, is away."""
    head, one, two = make_machines(3)
    before = nodes(head)
    away = start_waves(one, one, two)
    here = start_waves(head, head, two)
    head.cut()
    time.sleep(seconds)  # the fault's length, nothing is waited for
    head.heal()
    for machine, driver in ((one, away), (head, here)):
        done = finish_waves(machine, driver)
        assert done.value("alive") == done.value("known") == "3", done.report()
    assert nodes(head) == before


@pytest.mark.contract("F5.02")
@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_a_machine_that_was_buried_joins_again(make_machines: Make, fault: str) -> None:
    head, one, two = make_machines(3)
    waves = start_waves(head, head, one)
    before = nodes(head)
    held = two.start_script(
        """
        import ray
        ray.init()
        @ray.remote(num_cpus=0, resources={"m2": 1})
        class Old: pass
        old = Old.remote()
        ray.get(old.__ray_ready__.remote())
        print("ready=1", flush=True)
        import time
        time.sleep(1000)
        """,
        name="held",
    )
    held.wait_line("ready")
    (two.cut if fault == "cut" else two.hang)()
    harness.wait_until(lambda: two.ip not in nodes(head), what="the machine is declared dead")
    (two.heal if fault == "cut" else two.wake_up)()
    harness.wait_until(lambda: two.ip in nodes(head), what="the machine joins again")
    after = nodes(head)
    assert after[two.ip] != before[two.ip]
    assert {ip: after[ip] for ip in (head.ip, one.ip)} == {
        ip: before[ip] for ip in (head.ip, one.ip)
    }
    works = """
        import ray
        ray.init()
        @ray.remote(num_cpus=0, resources={"m2": 1})
        def where():
            return ray.util.get_node_ip_address()
        print(f"where={ray.get(where.remote())}")
    """
    assert head.start_script(works, name="works").finish().check().value("where") == two.ip
    assert not [line for line in two.processes() if "ray::Old" in line]
    held.kill()
    finish_waves(head, waves)


# A named actor that writes down each call of it; `calls` lies where every machine sees it.
NAMED = """
    import os, time
    import ray

    calls = os.environ["CALLS"]
    ray.init(namespace="links")

    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, resources={"movable": 1})
    class Only:
        def __init__(self):
            self.born = time.monotonic_ns()
        def call(self, caller):
            with open(calls, "a") as file:
                file.write(f"{self.born} {time.monotonic_ns()} {caller}\\n")
            return self.born
"""
MAKES = (
    NAMED
    + """
    only = Only.options(name="only", lifetime="detached").remote()
    print(f"born={ray.get(only.call.remote('maker'))}")
"""
)
CALLS = (
    NAMED
    + """
    only = ray.get_actor("only")
    print("ready=1", flush=True)
    while not os.path.exists(os.environ["STOP"]):
        print(f"born={ray.get(only.call.remote(os.environ['CALLER']))}", flush=True)
        time.sleep(0.05)
"""
)


@pytest.mark.contract("F2.05", "F5.05")
def test_no_two_actors_of_one_name(make_machines: Make) -> None:
    """The machine that has the actor is cut off, with a driver on it that goes on calling: no call of the
    old one runs once the new one lives, although the old one's process was never told."""
    head, one, two = make_machines(3)
    one.run(str(HELIOSTAT), "stop", "--force")
    two.run(str(HELIOSTAT), "stop", "--force")
    one.join(head, '--resources={"m1": 100, "movable": 1}')
    calls = head.directory / "calls"
    env = {"CALLS": str(calls), "STOP": str(head.directory / "stop")}
    head.start_script(MAKES, name="makes", env=env).finish().check()
    two.join(head, '--resources={"m2": 100, "movable": 1}')
    drivers = [
        machine.start_script(CALLS, name="calls", env={**env, "CALLER": f"m{machine.index}"})
        for machine in (head, one)
    ]
    for driver in drivers:
        driver.wait_line("ready")

    def births() -> list[str]:
        return sorted({line.split()[0] for line in calls.read_text().splitlines()})

    harness.wait_until(lambda: "m1" in calls.read_text(), what="a call on the actor's machine")
    one.cut()
    harness.wait_until(lambda: len(births()) == 2, what="the actor lives elsewhere")
    one.heal()
    harness.wait_until(lambda: one.ip in nodes(head), what="the machine joins again")
    (head.directory / "stop").touch()
    drivers[0].finish().check()
    drivers[1].kill()  # its node was declared dead, and it with it
    lines = [line.split() for line in calls.read_text().splitlines()]
    first, second = births()
    begun = min(int(at) for born, at, _ in lines if born == second)
    last = max(int(at) for born, at, _ in lines if born == first)
    assert last < begun, f"the old actor ran {(last - begun) / 1e9:.3f} s after the new one"


@pytest.mark.contract("F5.06")
def test_a_link_that_works_in_one_direction_only_loses_nothing(make_machines: Make) -> None:
    """The head does not hear a machine that others reach: it waits."""
    head, one, two = make_machines(3)
    before = nodes(head)
    waves = start_waves(two, one, two)
    one.stop_sending_to(head)
    time.sleep(9)  # the fault's length, nothing is waited for
    one.heal()
    done = finish_waves(two, waves)
    assert done.value("alive") == done.value("known") == "3", done.report()
    assert nodes(head) == before


@pytest.mark.contract("F5.02")
def test_a_machine_that_loses_its_power_is_known_to_be_dead(make_machines: Make) -> None:
    """Others do not reach it either, so nobody waits for it."""
    head, one, two = make_machines(3)
    one.power_off()
    harness.wait_until(lambda: one.ip not in nodes(head), what="it is declared dead")
    assert set(nodes(head)) == {head.ip, two.ip}
    assert "did not reach it either" in head.logs()


def test_the_end_of_a_script_whose_machine_slept_is_seen(make_machines: Make) -> None:
    (machine,) = make_machines(1)
    go = machine.directory / "go"
    driver = machine.start_script(
        f"""
        import pathlib, time
        print("ready=1", flush=True)
        while not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.1)
        """
    )
    driver.wait_line("ready")
    machine.hang()
    state = Path(f"/proc/{driver.process.pid}/stat")
    harness.wait_until(
        lambda: state.read_text().rpartition(") ")[2][0] == "T", what="nsenter stops as well"
    )
    machine.wake_up()
    go.touch()
    assert driver.finish().rc == 0

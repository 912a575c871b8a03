"""Drivers on a machine outside the cluster, which reaches one port of the head, and that through a relay.

The relay stands for what lies between a laptop and a cluster: a router that translates addresses, a
forwarded port. It ends connections as those do, whenever it is told to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machine, Machines, why_not

pytestmark = [
    pytest.mark.heliostat_only("Ray's client is another program than its driver"),
]

RELAY_PORT = 7001

# Forwards to the head's port for drivers. A line in the pipe `cuts` ends all connections; what is on
# its way is lost. With a file `slow` what a connection
# carries comes 100 ms later, and 125 KB a second at most.
RELAY = """
    import os, queue, select, socket, struct, sys, threading, time

    head = os.environ["HEAD"]
    pairs = set()

    def pump(source, sink):
        on_its_way = queue.Queue(1000)
        threading.Thread(target=deliver, args=(on_its_way, sink), daemon=True).start()
        try:
            while data := source.recv(4096):
                on_its_way.put((time.monotonic(), data))
        except OSError:
            pass
        on_its_way.put((time.monotonic(), b""))

    def deliver(on_its_way, sink):
        while True:
            sent, data = on_its_way.get()
            time.sleep(max(0, sent + 0.1 - time.monotonic()) + len(data) / 125_000)
            try:
                if not data:
                    break
                sink.sendall(data)
            except OSError:
                break
        try:
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def pump_at_once(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def serve(near):
        try:
            far = socket.create_connection((head, 10001))
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pairs.add((near, far))
        lead = pump if os.path.exists("slow") else pump_at_once
        threading.Thread(target=lead, args=(near, far), daemon=True).start()
        lead(far, near)
        pairs.discard((near, far))

    def cut():
        for pair in list(pairs):
            for end in pair:
                # What is on its way is lost, and both ends hear of it.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    listener = socket.create_server(("0.0.0.0", 7001))

    def accept():
        while True:
            near, _ = listener.accept()
            threading.Thread(target=serve, args=(near,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    os.path.exists("cuts") or os.mkfifo("cuts")
    print("ready=1", flush=True)
    while True:
        with open("cuts") as cuts:
            for line in cuts:
                cut()
                if line == "end\\n":
                    os._exit(0)
"""


@dataclass
class Afar:
    """A cluster of two machines, a laptop, and the relay between them."""

    field: Machines
    head: Machine
    node: Machine
    router: Machine
    laptop: Machine

    @property
    def address(self) -> str:
        return f"ray://{self.router.ip}:{RELAY_PORT}"

    def start(self, source: str, **env: str) -> harness.Driver:
        """A driver on the laptop."""
        return self.laptop.start_script(source, env={"RAY_ADDRESS": self.address, **env})

    def cut(self) -> None:
        """End the laptop's connections."""
        with (self.router.directory / "cuts").open("w") as cuts:
            cuts.write("cut\n")


@pytest.fixture
def afar() -> Iterator[Afar]:
    if reason := why_not():
        pytest.skip(f"machines of namespaces: {reason}")
    field = Machines(4)
    try:
        head, node, router, laptop = field.all
        field.partition([laptop], [head, node])
        head.start_head()
        node.join(head)
        relay = router.start_script(RELAY, name="relay", env={"HEAD": head.ip})
        relay.wait_line("ready")
        yield Afar(field, head, node, router, laptop)
        (router.directory / "cuts").write_text("end\n")
        relay.process.wait(60)
    finally:
        field.close()


EVERYTHING = """
    import os
    import time
    import numpy as np
    import ray
    from ray.util.state import list_actors, list_nodes

    os.mkdir("project")
    with open("project/of_the_project.py", "w") as module:
        module.write("WORD = 'travels'")
    context = ray.init(namespace="of the laptop", runtime_env={"working_dir": "project"})
    MIB = 1 << 20

    class OfTheLaptop:
        def __init__(self, x):
            self.x = x

    @ray.remote
    def square(x):
        return OfTheLaptop(x * x)

    @ray.remote(num_cpus=0)
    def where():
        return ray.get_runtime_context().get_node_id()

    assert [made.x for made in ray.get([square.remote(i) for i in range(20)])] == [
        i * i for i in range(20)
    ]
    nodes = {row["NodeID"] for row in ray.nodes()}
    assert len(nodes) == 2 and len(list_nodes()) == 2, "the laptop is no part of the cluster"
    assert ray.cluster_resources()["CPU"] == 4
    assert ray.get_runtime_context().get_node_id() not in nodes
    assert set(ray.get([where.remote() for _ in range(20)])) <= nodes
    spread = where.options(scheduling_strategy="SPREAD")
    assert set(ray.get([spread.remote() for _ in range(20)])) == nodes

    @ray.remote
    def word():
        import of_the_project
        return of_the_project.WORD
    assert ray.get([spread.remote(), word.remote()])[1] == "travels"

    large = ray.put(np.arange(3 * MIB, dtype=np.int64))
    @ray.remote
    def total(values):
        return int(values.sum())
    @ray.remote
    def ones(size):
        return np.ones(size, dtype=np.uint8)
    assert ray.get(total.remote(large)) == sum(range(3 * MIB))
    assert ray.get(total.remote(ones.remote(5 * MIB))) == 5 * MIB
    assert int(ray.get(ones.remote(7 * MIB)).sum()) == 7 * MIB

    @ray.remote
    def count_up(n):
        for i in range(n):
            yield np.full(MIB, i, dtype=np.uint8)
    assert [int(ray.get(item)[0]) for item in count_up.remote(4)] == [0, 1, 2, 3]

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0
        def add(self, n):
            self.count += n
            return self.count
        def fail(self):
            raise KeyError("of the laptop")
    counter = Counter.options(name="counter").remote()
    assert ray.get([counter.add.remote(1) for _ in range(50)])[-1] == 50
    assert ray.get(ray.get_actor("counter").add.remote(1)) == 51
    assert [row.name for row in list_actors()] == ["counter"]
    try:
        ray.get(counter.fail.remote())
        raise AssertionError("no error")
    except KeyError:
        pass
    ray.kill(counter)

    @ray.remote
    def sleep():
        time.sleep(1000)
    slow, quick = sleep.remote(), square.remote(2)
    assert ray.wait([slow, quick], num_returns=1, timeout=60) == ([quick], [slow])
    ray.cancel(slow, force=True)
    try:
        ray.get(slow)
        raise AssertionError("not cancelled")
    except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError):
        pass

    group = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    in_group = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    on = [where.options(num_cpus=1, scheduling_strategy=in_group(group, i)) for i in range(2)]
    assert set(ray.get([one.remote() for one in on])) == nodes
    ray.util.remove_placement_group(group)

    @ray.remote
    def say():
        print("a line of a worker")
    ray.get(say.remote())
    print("said=1", flush=True)
    while not os.path.exists("seen"):
        time.sleep(0.05)
    assert type(context).__name__ == "ClientContext" and ray.util.client.ray.is_connected()
    context.disconnect()
    assert not ray.is_initialized()
    print("done=1")
"""


@pytest.mark.contract("F8.01", "F8.02")
def test_everything_works_through_one_port_of_the_head(afar: Afar) -> None:
    driver = afar.start(EVERYTHING)
    driver.wait_line("said", within=150)
    harness.wait_until(
        lambda: "a line of a worker" in driver.stdout() + driver.stderr(),
        what="the line of the worker",
    )
    (afar.laptop.directory / "seen").touch()
    assert driver.finish().check().value("done") == "1"


# A counter whose calls may not run twice, objects of the laptop and of the cluster, until the file
# `stop` is there.
WAVES = """
    import os
    import numpy as np
    import ray

    ray.init()

    @ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
    class Counter:
        def __init__(self):
            self.calls = 0
        def count(self, number):
            self.calls += 1
            return self.calls, number
        def total(self, values):
            return int(values.sum())

    @ray.remote(num_cpus=0, max_retries=0)
    def ones(size):
        return np.ones(size, dtype=np.uint8)

    counter = Counter.remote()
    assert ray.get(counter.count.remote(1)) == (1, 1)
    kept = ray.put(np.ones(300_000, dtype=np.uint8))
    print("ready=1", flush=True)
    calls = 1
    while not os.path.exists("stop"):
        refs = [counter.count.remote(calls + i) for i in range(1, 11)]
        assert ray.get(refs) == [(calls + i, calls + i) for i in range(1, 11)]
        calls += 10
        fresh = ray.put(np.ones(150_000, dtype=np.uint8))
        sums = ray.get([counter.total.remote(kept), counter.total.remote(fresh)])
        assert sums == [300_000, 150_000]
        assert ray.get(ones.remote(2_000_000)).nbytes == 2_000_000
        open("wave", "w").write(str(calls))
    print(f"calls={calls}")
"""


def waves(laptop: Machine) -> int:
    wave = laptop.directory / "wave"
    return int(wave.read_text() or 0) if wave.exists() else 0


def await_wave(afar: Afar, driver: harness.Driver, before: int, within: float) -> None:
    """Until the driver has done more than that, or has ended."""
    harness.wait_until(
        lambda: waves(afar.laptop) > before or driver.process.poll() is not None,
        within=within,
        what="the next wave",
    )


def test_a_connection_that_ends_again_and_again_loses_no_call_put_or_result(afar: Afar) -> None:
    driver = afar.start(WAVES)
    driver.wait_line("ready")
    for pause in range(25):
        before = waves(afar.laptop)
        # In the middle of calls, of small objects and of large ones.
        time.sleep(0.013 * (pause % 5))
        afar.cut()
        await_wave(afar, driver, before, 60)
    (afar.laptop.directory / "stop").touch()
    assert int(driver.finish().check().value("calls")) > 25


def test_a_laptop_that_was_away_longer_than_any_node_may_be_goes_on(afar: Afar) -> None:
    driver = afar.start(WAVES)
    driver.wait_line("ready")
    afar.laptop.cut()
    # Longer than the silence after which a node of the cluster is dead.
    time.sleep(20)
    afar.laptop.heal()
    afar.field.partition([afar.laptop], [afar.head, afar.node])
    before = waves(afar.laptop)
    await_wave(afar, driver, before, 90)
    (afar.laptop.directory / "stop").touch()
    driver.finish().check()


ACTOR = """
    import os
    import ray

    ray.init()

    @ray.remote(num_cpus=0)
    class Sleeper:
        def ready(self):
            return os.getpid()

    sleeper = Sleeper.options(resources={"m1": 1}).remote()
    print(f"pid={ray.get(sleeper.ready.remote())}", flush=True)
    import time
    time.sleep(1000)
"""


def test_what_a_driver_ran_ends_with_it(afar: Afar) -> None:
    driver = afar.start(ACTOR)
    pid = driver.wait_line("pid")

    def runs() -> bool:
        return not afar.node.run("kill", "-0", pid, check=False).returncode

    assert runs()
    afar.laptop.run("pkill", "-KILL", "-f", "driver.py")
    driver.process.wait(60)
    harness.wait_until(lambda: not runs(), what="the end of the actor")
    listed = afar.head.run(str(HELIOSTAT), "list", "nodes").stdout
    assert listed.count("ALIVE") == 2


def test_a_laptop_that_was_asleep_longer_than_any_node_may_be_goes_on(afar: Afar) -> None:
    driver = afar.start(WAVES)
    driver.wait_line("ready")
    afar.laptop.hang()
    time.sleep(20)
    before = waves(afar.laptop)
    afar.laptop.wake_up()
    await_wave(afar, driver, before, 90)
    (afar.laptop.directory / "stop").touch()
    driver.finish().check()


SLOW = """
    import numpy as np
    import ray

    ray.init()

    @ray.remote(num_cpus=0)
    def size(values):
        return len(values)

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0
        def add(self):
            self.count += 1
            return self.count
        def up(self):
            print("a line of a worker", flush=True)
            for n in range(5):
                yield np.full(20_000, n, np.uint8)

    counter = Counter.remote()
    assert ray.get([counter.add.remote() for _ in range(200)]) == list(range(1, 201))
    assert ray.get([size.remote([n] * n) for n in range(50)]) == list(range(50))
    assert ray.get(size.remote(ray.put(np.ones(150_000, np.uint8)))) == 150_000
    up = counter.up.options(num_returns="streaming").remote()
    assert [int(ray.get(item)[0]) for item in up] == [0, 1, 2, 3, 4]
    print("done=1")
"""


@pytest.mark.contract("F8.01")
def test_a_link_of_100_ms_and_1_megabit_is_slow_and_nothing_worse(afar: Afar) -> None:
    (afar.router.directory / "slow").touch()
    finished = afar.start(SLOW).finish().check()
    assert finished.value("done") == "1"
    assert "a line of a worker" in finished.stdout + finished.stderr

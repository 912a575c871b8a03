"""``python -m chaos.heads``: the head that leads is killed again and again, under load.

One machine's workers, and a driver there, go on while heads take each other's place. The driver writes
down each thing that was acknowledged: keys, actors, calls. In the end all of it must be there, each call
counted once, and in the process of the beginning.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import stores
from harness import Driver, start_driver, wait_until
from stores import Machine

LOAD = """
import os, sys, time
import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

ray.init(address="auto", namespace="n")
stop, done = sys.argv[1], open(sys.argv[2], "a", buffering=1)

# Not on the machine of a head, which takes its actors along.
@ray.remote(num_cpus=0, resources={"work": 1})
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count, os.getpid()

@ray.remote
def twice(value):
    return 2 * value

counter = Counter.options(name="counter", lifetime="detached").remote()
count, pid = ray.get(counter.add.remote(), timeout=100)
print("process=%d" % pid, flush=True)
n, calls = 0, 1
while not os.path.exists(stop):
    n += 1
    _internal_kv_put("key %d" % n, "value %d" % n)
    done.write("key %d %f\\n" % (n, time.monotonic()))
    if n % 20 == 0:
        Counter.options(name="actor %d" % n, lifetime="detached").remote()
        done.write("actor %d %f\\n" % (n, time.monotonic()))
        if n > 200:
            ray.kill(ray.get_actor("actor %d" % (n - 200)))
            done.write("killed %d %f\\n" % (n - 200, time.monotonic()))
    count, same = ray.get(counter.add.remote(), timeout=100)
    calls += 1
    assert (count, same) == (calls, pid), (count, calls, same, pid)
    assert ray.get(twice.remote(n), timeout=100) == 2 * n

acknowledged = [line.split() for line in open(sys.argv[2])]
for kind, number, _ in acknowledged:
    if kind == "key":
        assert _internal_kv_get("key " + number) == b"value " + number.encode(), number
killed = {number for kind, number, _ in acknowledged if kind == "killed"}
for number in {number for kind, number, _ in acknowledged if kind == "actor"} - killed:
    assert ray.get(ray.get_actor("actor " + number).add.remote(), timeout=100)[0] == 1, number
print("keys=%d" % n)
print("calls=%d" % calls)
"""


def acknowledged(file: Path) -> Iterator[float]:
    """When each key was acknowledged."""
    for line in file.read_text().splitlines(keepends=True):
        if line.startswith("key ") and line.endswith("\n"):
            yield float(line.split()[2])


def newest(file: Path) -> float:
    return max(acknowledged(file), default=0.0)


class Run:
    """Heads, a machine that works, and a driver on it."""

    def __init__(self, store: stores.Redis, lease_ms: int, folder: Path) -> None:
        self.variables = {**store.variables, "HELIOSTAT_CONTROL_LEASE_MS": str(lease_ms)}
        self.folder, self.done = folder, folder / "acknowledged"
        self.done.touch()
        self.leader = Machine(self.variables)
        self.leader.head()
        self.worker = Machine(self.variables)
        work = ("--num-cpus=2", '--resources={"work": 1000}')
        self.worker.run("start", f"--address={self.leader.address}", *work)
        self.waiting = self.standby()
        arguments = [str(folder / "stop"), str(self.done)]
        self.driver: Driver = start_driver(folder, LOAD, args=arguments, env=self.worker.env)
        self.driver.wait_line("process")

    def standby(self) -> Machine:
        machine = Machine(self.variables)
        machine.standby()
        return machine

    def kill(self) -> float:
        """Kill the leader; the longest pause between two acknowledgements, in seconds."""
        began = newest(self.done)
        wait_until(self._goes_on(began), what="load")
        self.leader.kill()
        assert self.waiting.starts[0].wait(60) == 0
        wait_until(self._goes_on(time.monotonic()), within=120, what="load after the kill")
        times = sorted(at for at in acknowledged(self.done) if at >= began)
        took = max(after - before for before, after in itertools.pairwise(times))
        self.leader.close()
        self.leader, self.waiting = self.waiting, self.standby()
        return took

    def _goes_on(self, after: float) -> Callable[[], bool]:
        def probe() -> bool:
            code = self.driver.process.poll()
            assert code is None, f"the driver ended with {code}: {self.driver.stderr()}"
            return newest(self.done) > after

        return probe

    def finish(self) -> harness.Finished:
        (self.folder / "stop").touch()
        return self.driver.finish(300).check()

    def close(self) -> None:
        self.driver.process.kill()
        for machine in (self.worker, self.waiting, self.leader):
            machine.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.heads", description=__doc__)
    parser.add_argument("--store", choices=["redis", "etcd"], default="etcd")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="end earlier, after so long")
    parser.add_argument("--lease-ms", type=int, default=1000)
    args = parser.parse_args()
    if reason := stores.why_no_redis() if args.store == "redis" else stores.why_no_etcd():
        print(reason, file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="heads", dir="/tmp"))
    store = stores.Redis() if args.store == "redis" else stores.Etcd()
    run = Run(store, args.lease_ms, folder)
    took: list[float] = []
    try:
        end = time.monotonic() + 60 * args.minutes if args.minutes else None
        for number in range(1, args.kills + 1):
            took.append(run.kill())
            load, keys = os.getloadavg()[0], sum(1 for _ in acknowledged(run.done))
            print(
                f"kill {number}: {took[-1]:.2f} s, {keys} keys in the state, a load of {load:.0f}",
                flush=True,
            )
            if end is not None and time.monotonic() > end:
                break
        done = run.finish()
    except BaseException:
        print(
            f"after {len(took)} kills; the worker's machine said:\n{run.worker.log()[-8000:]}",
            flush=True,
        )
        print(f"the leader said:\n{run.leader.log()[-8000:]}", flush=True)
        raise
    finally:
        run.close()
        store.close()
    shutil.rmtree(folder, ignore_errors=True)
    took.sort()
    print(
        f"{args.store}, lease {args.lease_ms} ms: {len(took)} kills, {done.value('keys')} keys, "
        f"{done.value('calls')} calls, none lost, none twice; the pause between two acknowledgements: "
        f"median {statistics.median(took):.2f} s, 95 of 100 {took[len(took) * 95 // 100]:.2f} s, "
        f"longest {took[-1]:.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

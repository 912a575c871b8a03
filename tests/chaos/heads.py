"""``python -m tests.chaos.heads``: the head that leads is killed again and again, under load.

One machine's workers, and a driver there, go on while heads take each other's place. The driver writes
down each thing that was acknowledged: keys that were put and deleted, actors, calls. In the end all of it
must be there, and nothing that was deleted, each call counted once, and in the process of the beginning.

``--state KEYS`` gives the state so many entries more before the first kill.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.helpers import harness, stores
from tests.helpers.harness import Driver, start_driver, wait_until
from tests.helpers.stores import Machine

LOAD = """
import os, sys, time
import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

ray.init(address="auto", namespace="n")
stop, done, kept = sys.argv[1], open(sys.argv[2], "a", buffering=1), int(sys.argv[3])

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
    if n > kept:
        _internal_kv_del("key %d" % (n - kept))
        done.write("deleted %d %f\\n" % (n - kept, time.monotonic()))
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
deleted = {number for kind, number, _ in acknowledged if kind == "deleted"}
for kind, number, _ in acknowledged:
    if kind == "key":
        expect = None if number in deleted else b"value " + number.encode()
        assert _internal_kv_get("key " + number) == expect, number
killed = {number for kind, number, _ in acknowledged if kind == "killed"}
for number in {number for kind, number, _ in acknowledged if kind == "actor"} - killed:
    assert ray.get(ray.get_actor("actor " + number).add.remote(), timeout=100)[0] == 1, number
print("keys=%d" % n)
print("deleted=%d" % len(deleted))
print("calls=%d" % calls)
"""


# So many heads wait at a time.
WAITING = 2


class Keys:
    """When each key was acknowledged, as far as the file says it."""

    def __init__(self, file: Path) -> None:
        self.file, self.at, self.times = file, 0, [0.0]

    def read(self) -> list[float]:
        """All of them; what was read before is not read again."""
        with self.file.open() as file:
            file.seek(self.at)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                self.at += len(line)
                if line.startswith("key "):
                    self.times.append(float(line.split()[2]))
        return self.times


def fill(store: stores.Etcd, keys: int) -> None:
    """So many keys of the table that drivers write, put into the store itself: quicker than by a driver."""

    def b64(data: bytes) -> str:
        return base64.b64encode(data).decode()

    for start in range(0, keys, 100):
        puts = [
            {
                "request_put": {
                    "key": b64(b"heliostat/default/e/k/\0\0\0\0filled %d" % n),
                    "value": b64(b"\0value %d" % n),
                }
            }
            for n in range(start, min(keys, start + 100))
        ]
        body = json.dumps({"success": puts}).encode()
        with urllib.request.urlopen(f"http://{store.address}/v3/kv/txn", body, 60) as answer:
            assert json.load(answer)["succeeded"]


class Run:
    """Heads, a machine that works, and a driver on it."""

    def __init__(
        self, store: stores.Redis, lease_ms: int, folder: Path, kept: int, state: int
    ) -> None:
        self.variables = {**store.variables, "HELIOSTAT_CONTROL_LEASE_MS": str(lease_ms)}
        self.store, self.folder, self.done = store, folder, folder / "acknowledged"
        self.done.touch()
        self.keys = Keys(self.done)
        self.tidying: list[threading.Thread] = []
        self.waiting: list[tuple[Machine, Path]] = []
        self.leader, self.worker = Machine(self.variables), Machine(self.variables)
        self.driver: Driver | None = None
        self.kept, self.state = kept, state

    def start(self) -> None:
        """Start them; `close` ends what has been started, also after an error in here."""
        self.leader.head()
        if self.state:
            assert isinstance(self.store, stores.Etcd)
            fill(self.store, self.state)
        work = ("--num-cpus=2", '--resources={"work": 1000}')
        self.worker.run("start", f"--address={self.leader.address}", *work)
        for _ in range(WAITING):
            self.replace()
        arguments = [str(self.folder / "stop"), str(self.done), str(self.kept)]
        self.driver = start_driver(self.folder, LOAD, args=arguments, env=self.worker.env)
        self.driver.wait_line("process")

    def replace(self, gone: Machine | None = None) -> None:
        """One more head that waits, for one that is gone."""
        if gone is not None:
            gone.close()
        machine = Machine(self.variables)
        self.waiting.append((machine, machine.standby()))

    def kill(self) -> float:
        """Kill the leader; the longest pause between two acknowledgements, in seconds."""
        # Heads wait for days: one of them has had the time to copy the state.
        wait_until(self._has_copy, what="a copy")
        before = len(self.keys.read()) - 1
        began = self.keys.times[before]
        wait_until(self._goes_on(began), what="load")
        self.leader.kill()
        wait_until(self._is_led, what="the next head")
        wait_until(self._goes_on(time.monotonic()), what="load after the kill")
        return max(
            after - one for one, after in itertools.pairwise(self.keys.times[max(before, 1) :])
        )

    def _has_copy(self) -> bool:
        return any("has a copy" in said.read_text() for _, said in list(self.waiting))

    def _is_led(self) -> bool:
        for place in list(self.waiting):
            code = place[0].starts[0].poll()
            assert code in (None, 0), place[1].read_text()
            if code == 0:
                gone, self.leader = self.leader, place[0]
                self.waiting.remove(place)
                # What that takes does not hold up the next kill.
                self.tidying = [thread for thread in self.tidying if thread.is_alive()]
                self.tidying.append(threading.Thread(target=self.replace, args=(gone,)))
                self.tidying[-1].start()
                return True
        return False

    def _goes_on(self, after: float) -> Callable[[], bool]:
        def probe() -> bool:
            assert self.driver is not None
            code = self.driver.process.poll()
            assert code is None, f"the driver ended with {code}: {self.driver.stderr()}"
            return self.keys.read()[-1] > after

        return probe

    def finish(self) -> harness.Finished:
        (self.folder / "stop").touch()
        assert self.driver is not None
        return self.driver.finish().check()

    def close(self) -> None:
        if self.driver is not None:
            self.driver.process.kill()
        for thread in self.tidying:
            thread.join()
        for machine in (self.worker, *(place[0] for place in self.waiting), self.leader):
            machine.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.heads", description=__doc__)
    parser.add_argument("--store", choices=["redis", "etcd"], default="etcd")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="end earlier, after so long")
    parser.add_argument("--lease-ms", type=int, default=1000)
    parser.add_argument("--kept", type=int, default=20_000, help="older keys are deleted")
    parser.add_argument("--state", type=int, default=0, help="etcd: keys that are there already")
    args = parser.parse_args()
    if reason := stores.why_no_redis() if args.store == "redis" else stores.why_no_etcd():
        print(reason, file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="heads", dir="/tmp"))
    store = stores.Redis() if args.store == "redis" else stores.Etcd()
    run = Run(store, args.lease_ms, folder, args.kept, args.state)
    took: list[float] = []
    try:
        run.start()
        end = time.monotonic() + 60 * args.minutes if args.minutes else None
        for number in range(1, args.kills + 1):
            took.append(run.kill())
            load, keys = os.getloadavg()[0], len(run.keys.read()) - 1
            print(
                f"kill {number}: {took[-1]:.2f} s, {args.state + min(keys, args.kept)} keys in the "
                f"state, {keys} put, a load of {load:.0f}",
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
        f"{args.store}, lease {args.lease_ms} ms: {len(took)} kills, {done.value('keys')} keys "
        f"put, {done.value('deleted')} deleted, {done.value('calls')} calls, none lost, "
        "none twice; the pause between two acknowledgements: "
        f"median {statistics.median(took):.2f} s, 95 of 100 {took[len(took) * 95 // 100]:.2f} s, "
        f"longest {took[-1]:.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

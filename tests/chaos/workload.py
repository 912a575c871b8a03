"""The driver of a chaos run: keeps work of every kind going, and knows what each of it must give.

It runs as a script on the head's machine (``SEED``, ``MACHINES``, ``STOP`` and ``CALLS`` in the environment)
and writes one line of JSON for each loss, each wrong answer, and at its end what it counted and what is left.
"""

from __future__ import annotations

import gc
import json
import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import ray
from heliostat.util.explanation import why
from ray._private.state import available_resources_per_node
from ray.util.state import list_actors, list_nodes, list_objects, list_tasks

# Below and above what goes in a message, what goes into the store in one piece, and several pieces.
SIZES = (10, 90 << 10, 100 << 10, 110 << 10, 1 << 20, 5 << 20)
PENDING_MAX = 40
# How long the cluster may take until all is answered, and until nothing is left, once the faults are over.
ANSWERED_S = 150.0
LEFT_S = 90.0
FOREVER: dict[str, Any] = {"num_cpus": 0, "max_retries": -1, "retry_exceptions": False}
ONCE: dict[str, Any] = {"num_cpus": 0, "max_retries": 0}


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def blob(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def sum_of(number: int, size: int) -> int:
    return zlib.crc32(blob(number, size))


def on(machine: int) -> dict[str, Any]:
    return {"resources": {f"m{machine}": 1}}


@ray.remote
def make(number: int, size: int) -> bytes:
    return blob(number, size)


@ray.remote
def check(value: bytes) -> int:
    return zlib.crc32(value)


@ray.remote
def outer(numbers: list[int]) -> int:
    made = [check.options(**FOREVER).remote(blob(number, 1000)) for number in numbers]
    return sum(ray.get(made))


@ray.remote
def keep(number: int, size: int) -> list[Any]:
    return [ray.put(blob(number, size))]


@ray.remote
def call_only(name: str, caller: str) -> list[int]:
    return ray.get(ray.get_actor(name, namespace="chaos").call.remote(caller))


class Counting:
    """Counts its calls; an incarnation is named by when it began, by the clock that all machines share."""

    def __init__(self, calls: str = "") -> None:
        self.born, self.n, self.calls = time.monotonic_ns(), 0, calls

    def call(self, caller: str = "") -> list[int]:
        self.n += 1
        if self.calls:
            with open(self.calls, "a") as file:
                file.write(f"{self.born} {time.monotonic_ns()} {os.uname().nodename} {caller}\n")
        return [self.born, self.n]


CountingActor = ray.remote(Counting)


class Wrong(Exception):
    """An answer that is not the one that must come."""


class Calls:
    """The answers of one actor, in the order in which it was called."""

    def __init__(self, label: str) -> None:
        self.label, self.sent, self.since = label, 0, time.monotonic()
        self.replies: dict[int, list[int]] = {}

    def reader(self) -> Callable[[Any], None]:
        number, self.sent = self.sent, self.sent + 1

        def read(reply: Any) -> None:
            self.replies[number] = reply

        return read

    def judge(self) -> None:
        """Later calls are answered by the same incarnation, which has counted on, or by a later one."""
        last = [0, 0]
        for number in sorted(self.replies):
            reply = self.replies[number]
            if reply <= last:
                say(wrong=f"{self.label}: call {number} gave {reply} after {last}")
            last = reply


class Workload:
    def __init__(self, seed: int, machines: int, calls: str) -> None:
        self.drawn = random.Random(seed)
        self.machines = machines
        # Of each reference: what it is, who reads its value, on which machine it lives, since when.
        self.pending: dict[Any, tuple[str, Callable[[Any], None], int, float]] = {}
        # What is read later: what it is, a reference, its checksum, its machine, since when and when.
        self.held: list[tuple[str, Any, int, int, float, float]] = []
        self.done: Counter[str] = Counter()
        self.number = 0
        self.log: list[Calls] = []
        free: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        self.only_calls = self.calls_of("the named actor")
        self.only = CountingActor.options(
            name="only", lifetime="detached", scheduling_strategy="SPREAD", **free
        ).remote(calls)
        self.counters = [
            (
                CountingActor.options(scheduling_strategy="SPREAD", **free).remote(),
                self.calls_of(f"counter {n}"),
            )
            for n in range(3)
        ]
        self.pinned = [
            (CountingActor.options(**free, **on(n)).remote(), self.calls_of(f"pinned counter {n}"))
            for n in range(machines)
        ]
        self.mortals = [self.mortal(n) for n in range(machines)]
        self.kinds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]

    def calls_of(self, label: str) -> Calls:
        calls = Calls(label)
        self.log.append(calls)
        return calls

    def mortal(self, machine: int) -> tuple[Any, Calls]:
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
        actor = CountingActor.options(**options, **on(machine)).remote()
        self.number += 1
        return actor, self.calls_of(f"mortal {self.number} on machine {machine}")

    def expect(
        self,
        kind: str,
        ref: Any,
        read: Callable[[Any], None],
        machine: int = -1,
        since: float | None = None,
    ) -> None:
        """Read this in time. What may be lost with a machine says with which."""
        self.pending[ref] = (kind, read, machine, time.monotonic() if since is None else since)

    def expect_value(self, kind: str, ref: Any, value: Any) -> None:
        def read(given: Any) -> None:
            if given != value:
                raise Wrong(f"{kind}: {given} in place of {value}")

        self.expect(kind, ref, read)

    def expect_sum(
        self, kind: str, ref: Any, checksum: int, machine: int = -1, since: float | None = None
    ) -> None:
        def read(given: Any) -> None:
            if zlib.crc32(given) != checksum:
                raise Wrong(f"{kind}: {len(given)} bytes, not those that were made")

        self.expect(kind, ref, read, machine, since)

    def some(self) -> tuple[int, int, int]:
        self.number += 1
        return self.number, self.drawn.choice(SIZES), self.drawn.randrange(self.machines)

    def do_task(self) -> None:
        number, size, _ = self.some()
        ref = make.options(**FOREVER, scheduling_strategy="SPREAD").remote(number, size)
        self.expect_sum("task", ref, sum_of(number, size))

    def do_once(self) -> None:
        number, size, there = self.some()
        ref = make.options(**ONCE, **on(there)).remote(number, size)
        self.expect_sum("task without retries", ref, sum_of(number, size), there)

    def do_nested(self) -> None:
        number, _, there = self.some()
        numbers = [number * 100 + n for n in range(4)]
        ref = outer.options(**FOREVER, **on(there)).remote(numbers)
        self.expect_value("nested", ref, sum(sum_of(n, 1000) for n in numbers))

    def do_argument(self) -> None:
        """Put here, or made on one machine, and read on another."""
        number, size, there = self.some()
        if self.drawn.random() < 0.5:
            value = ray.put(blob(number, size))
        else:
            value = make.options(**FOREVER, **on(there)).remote(number, size)
        reader = check.options(**FOREVER, **on(self.drawn.randrange(self.machines)))
        self.expect_value("argument", reader.remote(value), sum_of(number, size))

    def do_hold(self) -> None:
        """Made on one machine, and read when it may have none of it any more."""
        number, size, there = self.some()
        again = self.drawn.random() < 0.5
        ref = make.options(**(FOREVER if again else ONCE), **on(there)).remote(number, size)
        label = "held" if again else "held without retries"
        self.hold(label, ref, sum_of(number, size), there, time.monotonic())

    def do_keep(self) -> None:
        """Put by a task: the worker owns it."""
        number, size, there = self.some()
        ref = keep.options(**FOREVER, **on(there)).remote(number, size)

        since = time.monotonic()

        def read(inner: Any) -> None:
            self.hold("put by a task", inner[0], sum_of(number, size), there, since)

        self.expect("keep", ref, read)

    def hold(self, kind: str, ref: Any, checksum: int, machine: int, since: float) -> None:
        due = time.monotonic() + self.drawn.uniform(0.0, 15.0)
        self.held.append((kind, ref, checksum, machine, since, due))

    def do_count(self) -> None:
        actor, calls = self.drawn.choice([*self.counters, *self.pinned])
        self.expect("counter", actor.call.remote(), calls.reader())

    def do_only(self) -> None:
        self.expect("named actor", self.only.call.remote("driver"), self.only_calls.reader())

    def do_only_elsewhere(self) -> None:
        _, _, there = self.some()
        caller = call_only.options(**FOREVER, **on(there))
        self.expect("named actor from a task", caller.remote("only", f"m{there}"), lambda _: None)

    def do_mortal(self) -> None:
        there = self.drawn.randrange(self.machines)
        actor, calls = self.mortals[there]
        read = calls.reader()

        def counted(reply: Any) -> None:
            read(reply)
            if reply[1] > calls.sent:
                raise Wrong(f"{calls.label}: {reply[1]} calls ran of {calls.sent}")

        self.expect("mortal actor", actor.call.remote(), counted, there, calls.since)

    def step(self) -> None:
        """Begin something unless much is under way, and read what has come."""
        if len(self.pending) < PENDING_MAX:
            self.drawn.choice(self.kinds)()
        self.read_held(time.monotonic())
        self.read(0.05)

    def read_held(self, now: float) -> None:
        due = [entry for entry in self.held if entry[-1] <= now]
        self.held = [entry for entry in self.held if entry[-1] > now]
        for kind, ref, checksum, machine, since, _ in due:
            self.expect_sum(kind, ref, checksum, machine, since)

    def read(self, timeout: float) -> None:
        if not self.pending:
            return
        refs = list(self.pending)
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=timeout)
        for ref in ready:
            kind, read, machine, since = self.pending.pop(ref)
            self.done[kind] += 1
            try:
                read(ray.get(ref, timeout=ANSWERED_S))
            except Wrong as wrong:
                say(wrong=str(wrong))
            except Exception as error:
                self.lost(kind, error, machine, since)

    def lost(self, kind: str, error: Exception, machine: int, since: float) -> None:
        text = str(error).strip().splitlines()
        say(
            loss=kind,
            error=type(error).__name__,
            machine=machine,
            since=since,
            at=time.monotonic(),
            text=" / ".join(text)[:400],
        )
        if kind == "mortal actor":
            for there, (actor, _) in enumerate(self.mortals):
                ready = [actor.__ray_ready__.remote()]
                if not ray.wait(ready, timeout=0)[0]:
                    continue
                try:
                    ray.get(ready)
                except ray.exceptions.ActorDiedError:
                    self.mortals[there] = self.mortal(there)
                except ray.exceptions.RayError:
                    continue

    def finish(self) -> None:
        """Everything answers, every answer is right, and nothing is left."""
        until = time.monotonic() + ANSWERED_S
        while (self.pending or self.held) and time.monotonic() < until:
            self.read_held(float("inf"))
            self.read(1.0)
        for ref, (kind, _, machine, since) in self.pending.items():
            waited = round(time.monotonic() - since, 1)
            reason = " / ".join(why(ref, timeout=10.0).splitlines())
            say(unanswered=kind, machine=machine, seconds=waited, ref=ref.hex(), why=reason)
        for calls in self.log:
            calls.judge()
        if self.pending:
            return
        actors = [self.only, *(actor for actor, _ in self.counters + self.pinned + self.mortals)]
        for actor in actors:
            ray.kill(actor)
        self.only = None
        self.counters, self.pinned, self.mortals = [], [], []


def left(machines: int) -> list[str]:
    """What a cluster still has that does nothing for anybody."""
    gc.collect()  # an error that was read keeps its frames, and they keep references
    has = {name: n for name, n in ray.cluster_resources().items() if not name.startswith("node:")}
    free = ray.available_resources()
    missing = [
        f"resource {n}: {free.get(n, 0)} of {has[n]}" for n in has if free.get(n, 0) != has[n]
    ]
    nodes = [node for node in list_nodes() if node.state == "ALIVE"]
    if missing:
        each = {node["NodeID"]: node for node in ray.nodes()}
        for node_id, has_free in available_resources_per_node().items():
            name, total = each[node_id]["NodeManagerAddress"], each[node_id]["Resources"]
            missing.append(f"{name}: {has_free} of {total}")
    return [
        *([f"{len(nodes)} nodes of {machines}"] if len(nodes) != machines else []),
        *missing,
        *(f"actor {row.class_name} {row.state}" for row in list_actors() if row.state != "DEAD"),
        *(f"object {row.object_id} {row.reference_type}" for row in list_objects()),
        *(
            f"task {row.name} {row.state}"
            for row in list_tasks(filters=[("state", "!=", "FINISHED")])
            if row.state != "FAILED"
        ),
    ]


def main() -> None:
    machines = int(os.environ["MACHINES"])
    ray.init(namespace="chaos", logging_level="error", log_to_driver=False)
    workload = Workload(int(os.environ["SEED"]), machines, os.environ["CALLS"])
    say(ready=1)
    print("ready=1", flush=True)
    told = time.monotonic()
    while not os.path.exists(os.environ["STOP"]):
        workload.step()
        if time.monotonic() - told > 10.0:
            told = time.monotonic()
            say(progress=sum(workload.done.values()), pending=len(workload.pending))
    say(stopping=len(workload.pending))
    workload.finish()
    answered = not workload.pending
    done = dict(workload.done)
    del workload
    if answered:
        until = time.monotonic() + LEFT_S
        while (rest := left(machines)) and time.monotonic() < until:
            time.sleep(0.5)
        for line in rest:
            say(left=line)
    say(done=done)
    print("ended=1", flush=True)


main()

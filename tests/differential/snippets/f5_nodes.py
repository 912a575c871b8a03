"""F5: nodes that end, or stop answering. Each snippet has a cluster of its own, on this machine."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from kit import outcome, snippet, until
from ray.cluster_utils import Cluster

STORE = 100 << 20


@contextmanager
def cluster(**head: Any) -> Iterator[Any]:
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE, **head}
    )
    ray.init(made.address, logging_level="error", log_to_driver=False)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def add(made: Any, **options: Any) -> tuple[Any, str]:
    """A new node and its id."""
    before = {n["NodeID"] for n in ray.nodes()}
    node = made.add_node(object_store_memory=STORE, **{"num_cpus": 1, **options})
    made.wait_for_nodes()
    (node_id,) = {n["NodeID"] for n in ray.nodes()} - before
    return node, node_id


def daemon(node: Any) -> int:
    """The process that speaks for the node: Ray calls it the raylet."""
    if not hasattr(node, "all_processes"):
        return int(node.pid)
    return int(node.all_processes["raylet"][0].process.pid)


def entry(node_id: str) -> Any:
    (found,) = [n for n in ray.nodes() if n["NodeID"] == node_id] or [None]
    return found


def dead(node_id: str, within: float = 90) -> Any:
    return until(lambda: entry(node_id) is not None and not entry(node_id)["Alive"], within)


def get(ref: Any, timeout: float = 90) -> Any:
    return ray.get(ref, timeout=timeout)


@ray.remote
class Resident:
    def __init__(self) -> None:
        self.n = 0

    def up(self) -> int:
        self.n += 1
        return self.n

    def where(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def pid(self) -> int:
        return os.getpid()


@ray.remote
def work(log: str, gate: str) -> str:
    node = str(ray.get_runtime_context().get_node_id())
    with open(log, "a") as out:
        out.write(node + "\n")
    while not os.path.exists(gate):
        time.sleep(0.02)
    return node


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _after_a_death(made: Any, end: Any) -> Any:
    """What becomes of what was on a node, once ``end(node)`` was done to it."""
    found: dict[str, Any] = {}
    doomed, doomed_id = add(made, resources={"doomed": 20, "home": 1}, num_cpus=4)
    with tempfile.TemporaryDirectory() as folder:
        log, gate = Path(folder) / "runs", Path(folder) / "gate"
        mortal = Resident.options(resources={"doomed": 1}).remote()
        found["lived there"] = get(mortal.where.remote()) == doomed_id
        pid = get(mortal.pid.remote())
        running = mortal.sleep.remote(600)
        phoenix = Resident.options(
            resources={"home": 1}, max_restarts=1, max_task_retries=-1, num_cpus=0
        ).remote()
        found["before"] = [get(phoenix.up.remote()), get(phoenix.where.remote()) == doomed_id]
        held = phoenix.sleep.remote(1)
        there = work.options(resources={"doomed": 1}, max_retries=0).remote(str(log), str(gate))
        until(lambda: log.exists() and log.read_text(), 60)
        add(made, resources={"home": 1, "doomed": 5}, num_cpus=2)
        again = work.options(resources={"doomed": 5}, max_retries=2).remote(str(log), str(gate))
        until(lambda: len(log.read_text().split()) == 2, 60)
        moves = log.read_text().split()[1] == doomed_id
        end(doomed)
        begun = time.monotonic()
        found["marked dead"] = dead(doomed_id)
        found["#noticed after"] = time.monotonic() - begun
        gate.touch()
        found["no retries"] = outcome(lambda: get(there), "node")
        found["retried"] = outcome(lambda: get(again) != doomed_id)
        found["runs"] = len(log.read_text().split()) == (3 if moves else 2)
    found["actor's running call"] = outcome(lambda: get(running))
    found["actor's next call"] = outcome(lambda: get(mortal.up.remote()), "node")
    found["restarted elsewhere"] = outcome(
        lambda: [get(held), get(phoenix.up.remote()), get(phoenix.where.remote()) != doomed_id]
    )
    found["resources"] = until(lambda: ray.cluster_resources().get("doomed") == 5)
    found["entry"] = {k: entry(doomed_id).get(k) for k in ("Alive", "Resources")}
    found["its workers ended"] = until(lambda: not alive(pid))
    found["the others"] = sorted(n["Alive"] for n in ray.nodes())
    return found


@snippet("F5.02", "F5.06", "F5.04", "F5.05", "F2.18", cluster=None, limit_s=300)
def node_dies() -> Any:
    with cluster() as made:
        return _after_a_death(made, lambda node: made.remove_node(node, allow_graceful=False))


@snippet("F5.02", "F5.06", cluster=None, limit_s=300)
def node_leaves() -> Any:
    with cluster() as made:
        doomed, doomed_id = add(made, resources={"doomed": 1})
        actor = Resident.options(resources={"doomed": 1}).remote()
        get(actor.up.remote())
        made.remove_node(doomed, allow_graceful=True)
        return {
            "marked dead": dead(doomed_id),
            "actor": outcome(lambda: get(actor.up.remote()), "node"),
            "error": _fields(actor),
            "head": [n["Alive"] for n in ray.nodes() if n["NodeID"] != doomed_id],
        }


def _fields(actor: Any) -> Any:
    try:
        get(actor.up.remote())
    except ray.exceptions.ActorDiedError as error:
        return [error.actor_init_failed, error.actor_id == actor._actor_id.hex()]
    return None


@snippet("F5.06", "F5.02", cluster=None, limit_s=300)
def node_hangs() -> Any:
    """Its daemon is stopped: the process is there, and answers nothing."""
    with cluster() as made:
        node, node_id = add(made, resources={"doomed": 2}, num_cpus=2)
        actor = Resident.options(resources={"doomed": 1}).remote()
        get(actor.up.remote())
        big = (
            ray.remote(lambda: b"x" * (8 << 20))
            .options(resources={"doomed": 1}, max_retries=0)
            .remote()
        )
        ray.wait([big], fetch_local=False, timeout=60)
        folder = Path(tempfile.mkdtemp())
        log, gate = folder / "runs", folder / "gate"
        there = work.options(resources={"doomed": 1}, max_retries=0).remote(str(log), str(gate))
        until(lambda: log.exists() and log.read_text(), 60)
        os.kill(daemon(node), signal.SIGSTOP)
        begun = time.monotonic()
        found: dict[str, Any] = {"at once": entry(node_id)["Alive"]}
        found["marked dead"] = dead(node_id)
        found["#noticed after"] = time.monotonic() - begun
        found["actor"] = outcome(lambda: get(actor.up.remote()), "node")
        found["error"] = _fields(actor)
        found["its task"] = outcome(lambda: get(there), "node")
        found["its object"] = outcome(lambda: len(get(big)))
        found["others work"] = get(ray.remote(lambda: 1).remote())
        found["resources"] = until(lambda: "doomed" not in ray.cluster_resources())
        with suppress(ProcessLookupError):
            os.kill(daemon(node), signal.SIGCONT)
        # It was declared dead while it slept: it has to end, and may not come back to life.
        found["ends"] = until(lambda: not alive(daemon(node)), 60)
        found["still dead"] = [entry(node_id)["Alive"], len(ray.nodes())]
        return found


@snippet("F5.02", "F5.03", "F3.13", cluster=None, limit_s=300)
def objects_of_a_node() -> Any:
    with cluster() as made:
        doomed, doomed_id = add(made, resources={"maker": 2}, num_cpus=2)

        @ray.remote(resources={"maker": 1})
        def make(size: int) -> Any:
            return b"x" * size

        @ray.remote
        class Holder:
            def put(self) -> Any:
                return [ray.put(b"y" * (2 << 20))]

        again, never = make.remote(8 << 20), make.options(max_retries=0).remote(8 << 20)
        ray.wait([again, never], num_returns=2, fetch_local=False, timeout=60)

        @ray.remote
        def size(data: bytes) -> int:
            return len(data)

        get(size.options(resources={"maker": 1}).remote(again))
        holder = Holder.options(resources={"maker": 1}).remote()
        (owned,) = get(holder.put.remote())
        add(made, resources={"maker": 2}, num_cpus=2)
        made.remove_node(doomed, allow_graceful=False)
        dead(doomed_id)
        return {
            "made again": outcome(lambda: len(get(again))),
            "no retries": outcome(lambda: len(get(never))),
            "owned there": outcome(lambda: len(get(owned))),
            "lineage": outcome(lambda: get(size.remote(again))),
        }

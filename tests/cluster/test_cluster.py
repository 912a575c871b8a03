"""Several nodes on this machine, each with its own daemon and its own store."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import (
    ActorDiedError,
    NodeDiedError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
    RayActorError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.helpers.harness import IS_HELIOSTAT, wait_until
from tests.helpers.shared import cluster as shared

MIB = 1024 * 1024
STORE = 200 * MIB

# How long the end of a node may stay unnoticed: Ray asks every few seconds.
NOTICED_S = 10 if IS_HELIOSTAT else 60


@ray.remote
def where() -> str:
    return str(ray.get_runtime_context().get_node_id())


@ray.remote
class Resident:
    """An actor that says where it lives."""

    def __init__(self) -> None:
        self.calls = 0

    def where(self) -> str:
        self.calls += 1
        return str(ray.get_runtime_context().get_node_id())

    def pid(self) -> int:
        return os.getpid()

    def count(self) -> int:
        return self.calls

    def checksum(self, box: list[Any]) -> int:
        return int(ray.get(box[0]).sum())

    def make(self, fill: int) -> Any:
        return np.full(8 * MIB, fill, dtype=np.uint8)


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """A head and two nodes with resources of their own, for tests that break nothing."""
    shared.stop()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE}
    )
    cluster.add_node(num_cpus=2, resources={"left": 2}, object_store_memory=STORE)
    cluster.add_node(num_cpus=2, resources={"right": 2}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@ray.remote
def note_node_and_wait(log: str, gate: str) -> str:
    node = str(ray.get_runtime_context().get_node_id())
    with open(log, "a") as out:
        out.write(node + "\n")
    while not os.path.exists(gate):
        time.sleep(0.02)
    return node


def node_with(resource: str) -> str:
    (node,) = [n["NodeID"] for n in ray.nodes() if n["Alive"] and resource in n["Resources"]]
    return str(node)


@pytest.mark.contract("F6.24", "F4.18", "F4.01")
def test_nodes_and_sums(three: Cluster) -> None:
    nodes = ray.nodes()
    assert [n["Alive"] for n in nodes] == [True] * 3
    assert len({n["NodeID"] for n in nodes}) == 3
    total = ray.cluster_resources()
    assert (total["CPU"], total["left"], total["right"]) == (5.0, 2.0, 2.0)
    wait_until(lambda: ray.available_resources().get("CPU") == 5.0, what="all CPUs free")


@pytest.mark.contract("F4.09", "F4.06", "F1.14")
def test_a_resource_pins_tasks_and_actors(three: Cluster) -> None:
    left, right = node_with("left"), node_with("right")
    on_left = [where.options(resources={"left": 1}).remote() for _ in range(6)]
    on_right = [where.options(resources={"right": 0.5}).remote() for _ in range(6)]
    assert set(ray.get(on_left)) == {left}
    assert set(ray.get(on_right)) == {right}
    resident = Resident.options(resources={"left": 1}).remote()
    assert ray.get(resident.where.remote()) == left


@pytest.mark.contract("F4.07", "F4.15", "F4.06")
def test_tasks_spill_over(three: Cluster, tmp_path: Path) -> None:
    """Five tasks that wait for each other fit only when every node takes its share."""

    @ray.remote
    def meet(directory: str, i: int) -> str:
        open(os.path.join(directory, str(i)), "w").close()
        deadline = time.monotonic() + 40
        while len(os.listdir(directory)) < 5:
            assert time.monotonic() < deadline, "the others never came"
            time.sleep(0.02)
        return str(ray.get_runtime_context().get_node_id())

    found = ray.get([meet.remote(str(tmp_path), i) for i in range(5)])
    assert sorted(found.count(node) for node in set(found)) == [1, 2, 2]


@pytest.mark.contract("F4.15")
def test_spread_uses_every_node(three: Cluster) -> None:
    """Right after other work one round may go to a single node, on Ray too; later ones do not."""

    @ray.remote(scheduling_strategy="SPREAD", num_cpus=0.1)
    def stay() -> str:
        time.sleep(0.3)  # so that no worker is free for the next one
        return str(ray.get_runtime_context().get_node_id())

    def nodes_of_a_round() -> int:
        return len(set(ray.get([stay.remote() for _ in range(9)])))

    wait_until(lambda: nodes_of_a_round() == 3, what="a round on every node")
    actors = [
        Resident.options(scheduling_strategy="SPREAD", num_cpus=0.1).remote() for _ in range(6)
    ]
    assert len(set(ray.get([a.where.remote() for a in actors]))) == 3


@pytest.mark.contract("F4.20", "F4.15", "F3.04")
def test_a_task_goes_to_its_large_argument(three: Cluster) -> None:
    left, right = node_with("left"), node_with("right")

    @ray.remote(num_cpus=0.1)
    def make() -> np.ndarray:
        return np.ones(8 * MIB, dtype=np.uint8)

    @ray.remote(num_cpus=0.1)
    def follow(array: np.ndarray) -> str:
        return str(ray.get_runtime_context().get_node_id())

    wait_until(lambda: ray.available_resources().get("CPU") == 5.0, what="all CPUs free")
    # Each of a kind of its own: a worker that is at hand for the kind would go before the argument.
    for side, node, cpus in (("left", left, 0.1), ("right", right, 0.2)):
        there = make.options(resources={side: 0.1}).remote()
        ray.wait([there], fetch_local=False, timeout=30)
        assert ray.get(follow.options(num_cpus=cpus).remote(there), timeout=30) == node


@pytest.mark.contract("F4.16")
def test_node_affinity(three: Cluster) -> None:
    right = node_with("right")
    there = NodeAffinitySchedulingStrategy(node_id=right, soft=False)
    assert ray.get(where.options(scheduling_strategy=there).remote()) == right
    resident = Resident.options(scheduling_strategy=there).remote()
    assert ray.get(resident.where.remote()) == right
    nowhere = NodeAffinitySchedulingStrategy(node_id="a" * 56, soft=False)
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="a" * 56):
        ray.get(where.options(scheduling_strategy=nowhere).remote(), timeout=30)
    with pytest.raises(ray.exceptions.ActorUnschedulableError, match="a" * 56):
        ray.get(Resident.options(scheduling_strategy=nowhere).remote().where.remote(), timeout=30)
    # The node is there, but can never hold it.
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match=right if IS_HELIOSTAT else ""):
        ray.get(where.options(scheduling_strategy=there, num_cpus=64).remote(), timeout=30)
    with pytest.raises(ValueError):
        NodeAffinitySchedulingStrategy(node_id="no hex", soft=False)
    elsewhere = NodeAffinitySchedulingStrategy(node_id="a" * 56, soft=True)
    assert ray.get(where.options(scheduling_strategy=elsewhere).remote(), timeout=30)


@pytest.mark.contract("F3.04", "F3.03", "F3.10")
def test_an_object_of_one_node_is_read_on_another(three: Cluster) -> None:
    @ray.remote
    def make(fill: int) -> np.ndarray:
        return np.arange(8 * MIB, dtype=np.uint8) * np.uint8(0) + np.uint8(fill)

    @ray.remote
    def checksum(array: np.ndarray) -> tuple[int, bool]:
        return int(array.sum()), bool(array.flags.writeable)

    there = make.options(resources={"left": 1}).remote(3)
    total, writeable = ray.get(checksum.options(resources={"right": 1}).remote(there))
    assert total == 3 * 8 * MIB
    assert not writeable
    here = ray.get(there)
    assert here.sum() == 3 * 8 * MIB
    from_driver = ray.put(np.ones(8 * MIB, dtype=np.uint8))
    sums = [
        checksum.options(resources={side: 1}).remote(from_driver)
        for side in ("left", "right", "left", "right")
    ]
    assert [s for s, _ in ray.get(sums)] == [8 * MIB] * 4


@pytest.mark.contract("F3.09", "F3.04")
def test_nested_refs_cross_nodes(three: Cluster) -> None:
    left = Resident.options(resources={"left": 1}).remote()
    right = Resident.options(resources={"right": 1}).remote()
    ref = left.make.remote(2)
    assert ray.get(right.checksum.remote([ref])) == 2 * 8 * MIB


@pytest.mark.contract("F2.24", "F4.06")
def test_actors_on_different_nodes_call_each_other(three: Cluster) -> None:
    @ray.remote
    class Caller:
        def ask(self, other: Any) -> tuple[str, str]:
            here = str(ray.get_runtime_context().get_node_id())
            return here, ray.get(other.where.remote())

    resident = Resident.options(resources={"left": 1}).remote()
    caller = Caller.options(resources={"right": 1}).remote()
    assert ray.get(caller.ask.remote(resident)) == (node_with("right"), node_with("left"))


@pytest.mark.contract("F1.05", "F4.06")
def test_nested_tasks_across_nodes(three: Cluster) -> None:
    @ray.remote(resources={"left": 1})
    def outer() -> tuple[str, str]:
        inner = where.options(resources={"right": 1}).remote()
        return str(ray.get_runtime_context().get_node_id()), ray.get(inner)

    assert ray.get(outer.remote()) == (node_with("left"), node_with("right"))


@pytest.mark.contract("F0.17", "F4.06")
def test_output_of_another_node_reaches_the_driver(three: Cluster, run_driver: Any) -> None:
    done = run_driver(
        """
        import sys
        import time
        import ray

        ray.init(address=sys.argv[1])

        @ray.remote(resources={"left": 1})
        def speak():
            print("from far away")

        ray.get(speak.remote())
        time.sleep(1.0)
        """,
        args=[three.address],
    ).check()
    assert "from far away" in done.output


@pytest.mark.contract("F4.06", "F4.02", "F4.03", "F4.07")
def test_gpus_of_several_nodes(make_cluster: Any) -> None:
    """Each node counts its own; who finds none free waits."""
    make_cluster({"num_cpus": 2, "num_gpus": 1}, {"num_cpus": 2, "num_gpus": 2})

    @ray.remote(num_gpus=1, num_cpus=0)
    class Holder:
        def gpus(self) -> tuple[str, list[int], str | None]:
            node = str(ray.get_runtime_context().get_node_id())
            return node, ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    holders = [Holder.remote() for _ in range(3)]
    found = ray.get([holder.gpus.remote() for holder in holders], timeout=60)
    assert sorted(ids for _, ids, _ in found) == [[0], [0], [1]]
    assert all(visible == str(ids[0]) for _, ids, visible in found)
    assert len({node for node, _, _ in found}) == 2
    fourth = Holder.remote()
    waiting = fourth.gpus.remote()
    assert ray.wait([waiting], timeout=0.5)[0] == []
    ray.kill(holders[0])
    assert ray.get(waiting, timeout=60)[:2] == found[0][:2]


@pytest.mark.contract("F6.24", "F4.07")
def test_a_new_node_takes_what_waited(make_cluster: Any) -> None:
    cluster = make_cluster()
    waiting = where.options(resources={"late": 1}).remote()
    actor = Resident.options(resources={"late": 1}).remote()
    call = actor.where.remote()
    assert ray.wait([waiting, call], timeout=0.5)[0] == []
    cluster.add_node(num_cpus=2, resources={"late": 2}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    late = node_with("late")
    assert ray.get([waiting, call], timeout=60) == [late, late]


@pytest.mark.contract("F5.02", "F5.06", "F6.24", "F4.18")
def test_a_removed_node_is_dead_and_its_actor_too(make_cluster: Any) -> None:
    cluster = make_cluster()
    node = cluster.add_node(num_cpus=2, resources={"doomed": 2}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    node_id = node_with("doomed")
    resident = Resident.options(resources={"doomed": 1}).remote()
    assert ray.get(resident.where.remote()) == node_id
    cluster.remove_node(node)

    def dead() -> bool:
        return [n["Alive"] for n in ray.nodes() if n["NodeID"] == node_id] in ([False], [])

    wait_until(dead, within=NOTICED_S, what="the node is dead", every=0.1)
    with pytest.raises(RayActorError):
        ray.get(resident.where.remote(), timeout=NOTICED_S)
    with pytest.raises(ActorDiedError) as caught:
        ray.get(resident.where.remote(), timeout=NOTICED_S)
    assert "node" in str(caught.value).lower()
    wait_until(lambda: ray.cluster_resources()["CPU"] == 1.0, within=NOTICED_S, every=0.1)


@pytest.mark.contract("F5.02", "F1.10", "F5.04")
def test_a_task_is_tried_again_on_another_node(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster({"num_cpus": 1, "resources": {"pool": 1}})
    doomed = cluster.add_node(
        num_cpus=1, resources={"pool": 1, "doomed": 1}, object_store_memory=STORE
    )
    cluster.wait_for_nodes()
    node_id = node_with("doomed")
    log, gate = tmp_path / "runs", tmp_path / "gate"

    work = note_node_and_wait.options(resources={"pool": 1}, max_retries=2)
    refs = [work.remote(str(log), str(gate)) for _ in range(2)]
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2)
    assert node_id in log.read_text().split()
    cluster.remove_node(doomed)
    gate.touch()
    found = ray.get(refs, timeout=NOTICED_S + 30)
    assert node_id not in found
    assert len(log.read_text().split()) == 3


@pytest.mark.contract("F5.06", "F5.02")
@pytest.mark.heliostat_only("the daemon is stopped by its pid")
def test_a_node_that_stops_answering_comes_back_as_another_one(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Its process is there, and says nothing: within seconds it counts as dead, and stays so. When it
    goes on its workers end, and it joins under a new id."""
    cluster = make_cluster({"num_cpus": 2, "resources": {"doomed": 2}})
    (doomed,) = cluster.worker_nodes
    node_id = node_with("doomed")
    resident = Resident.options(resources={"doomed": 1}).remote()
    pid = ray.get(resident.pid.remote())

    def is_alive(node: str) -> bool:
        (alive,) = [n["Alive"] for n in ray.nodes() if n["NodeID"] == node]
        return bool(alive)

    os.kill(doomed.pid, signal.SIGSTOP)
    wait_until(lambda: not is_alive(node_id), what="the node is dead", every=0.1)
    with pytest.raises(ActorDiedError, match="silent"):
        ray.get(resident.where.remote(), timeout=20)
    assert "doomed" not in ray.cluster_resources()
    os.kill(doomed.pid, signal.SIGCONT)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="its workers end")
    wait_until(lambda: "doomed" in ray.cluster_resources(), what="it joins again")
    assert not is_alive(node_id)
    assert doomed.is_alive()
    assert node_with("doomed") != node_id


@pytest.mark.contract("F0.11", "F5.06")
@pytest.mark.heliostat_only("the daemon is stopped by its pid")
def test_how_long_a_node_may_hang_is_a_setting_of_the_head(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_health_check_period_ms", "1500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "2")
    monkeypatch.setenv("RAY_health_check_timeout_ms", "500")
    cluster = make_cluster({"num_cpus": 1, "resources": {"doomed": 2}})
    (doomed,) = cluster.worker_nodes
    resident = Resident.options(resources={"doomed": 1}).remote()
    ray.get(resident.pid.remote())
    os.kill(doomed.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: "doomed" not in ray.cluster_resources(), what="it is dead")
        with pytest.raises(ActorDiedError, match=r"silent for \d+ s, and may be for 3\.5 s"):
            ray.get(resident.where.remote(), timeout=60)
    finally:
        os.kill(doomed.pid, signal.SIGCONT)


@pytest.mark.contract("F5.06", "F5.02")
@pytest.mark.heliostat_only("the daemon is stopped by its pid")
def test_what_runs_on_a_node_that_hangs_fails_or_runs_elsewhere(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """The worker lives on and even answers in the end; nobody waits for it."""
    cluster = make_cluster({"num_cpus": 2, "resources": {"doomed": 2}})
    (doomed,) = cluster.worker_nodes
    node_id = node_with("doomed")
    log, gate = tmp_path / "runs", tmp_path / "gate"

    needs: dict[str, Any] = {"resources": {"doomed": 1}}
    once = note_node_and_wait.options(**needs, max_retries=0).remote(str(log), str(gate))
    twice = note_node_and_wait.options(**needs, max_retries=1).remote(str(log), str(gate))
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2)
    cluster.add_node(num_cpus=2, resources={"doomed": 2}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    os.kill(doomed.pid, signal.SIGSTOP)
    with pytest.raises(NodeDiedError, match=node_id):
        ray.get(once, timeout=20)
    wait_until(lambda: len(log.read_text().split()) == 3)
    gate.touch()
    assert ray.get(twice, timeout=20) == log.read_text().split()[2] != node_id
    both = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    os.kill(doomed.pid, signal.SIGCONT)
    wait_until(
        lambda: len({node["NodeID"] for node in ray.nodes() if node["Alive"]} - both) == 1,
        what="it joins as another node",
    )


@pytest.mark.contract("F5.02", "F5.05", "F2.18")
def test_an_actor_restarts_on_another_node(make_cluster: Any) -> None:
    cluster = make_cluster()
    first = cluster.add_node(num_cpus=1, resources={"home": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    resident = Resident.options(resources={"home": 1}, max_restarts=1, max_task_retries=-1).remote()
    before = ray.get(resident.where.remote())
    cluster.add_node(num_cpus=1, resources={"home": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    cluster.remove_node(first)
    assert ray.get(resident.where.remote(), timeout=NOTICED_S + 30) != before


def lost_with_its_node(cluster: Any) -> Any:
    """The result of a task whose node is gone; another node could run the task again."""
    doomed = cluster.add_node(num_cpus=1, resources={"maker": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()

    @ray.remote(resources={"maker": 1})
    def make() -> np.ndarray:
        return np.full(8 * MIB, 5, dtype=np.uint8)

    ref = make.remote()
    ray.wait([ref], fetch_local=False, timeout=30)
    cluster.add_node(num_cpus=1, resources={"maker": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    cluster.remove_node(doomed)
    return ref


@pytest.mark.contract("F3.13", "F5.03")
def test_an_object_lost_with_its_node_is_made_again(make_cluster: Any) -> None:
    ref = lost_with_its_node(make_cluster())
    assert ray.get(ref, timeout=NOTICED_S + 30)[-1] == 5


@pytest.mark.contract("F15.09", "F5.03")
def test_what_is_remembered_of_tasks_has_a_limit(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_max_lineage_bytes", "1000")  # the driver reads it when it connects
    ref = lost_with_its_node(make_cluster())
    with pytest.raises(ray.exceptions.ObjectLostError):
        ray.get(ref, timeout=NOTICED_S + 30)


@pytest.mark.contract("F3.13", "F3.09", "F5.03")
def test_a_chain_lost_with_its_node_is_made_again_from_its_beginning(make_cluster: Any) -> None:
    """What lies between its ends takes no room meanwhile, and is made again in order."""
    away: dict[str, Any] = {"num_cpus": 1, "resources": {"maker": 1}}
    cluster = make_cluster()
    doomed = cluster.add_node(object_store_memory=STORE, **away)
    cluster.wait_for_nodes()

    @ray.remote(resources={"maker": 1})
    def more(array: np.ndarray) -> np.ndarray:
        return array + 1

    start = ray.put(np.zeros(8 * MIB, dtype=np.uint8))
    ref = more.remote(start)
    del start
    for _ in range(3):
        ref = more.remote(ref)
    ray.wait([ref], fetch_local=False, timeout=30)
    cluster.remove_node(doomed, allow_graceful=False)
    cluster.add_node(object_store_memory=STORE, **away)
    assert ray.get(ref, timeout=NOTICED_S + 60)[-1] == 4


@pytest.mark.contract("F3.13", "F3.14", "F3.03")
def test_what_cannot_be_made_again_says_why(make_cluster: Any) -> None:
    cluster = make_cluster()
    doomed = cluster.add_node(num_cpus=1, resources={"maker": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()

    @ray.remote(resources={"maker": 0.1}, max_retries=0)
    def once() -> np.ndarray:
        return np.full(8 * MIB, 5, dtype=np.uint8)

    @ray.remote(resources={"maker": 0.1})
    def puts() -> list[ray.ObjectRef]:
        return [ray.put(np.full(8 * MIB, 5, dtype=np.uint8))]

    of_task, of_put = once.remote(), ray.get(puts.remote())[0]
    ray.wait([of_task, of_put], num_returns=2, fetch_local=False, timeout=30)
    cluster.remove_node(doomed, allow_graceful=False)
    with pytest.raises(ObjectReconstructionFailedError, match="max_retries=0") as caught:
        ray.get(of_task, timeout=NOTICED_S + 30)
    assert of_task.hex() in str(caught.value)
    with pytest.raises(OwnerDiedError) as died:
        ray.get(of_put, timeout=NOTICED_S + 30)
    assert of_put.hex() in str(died.value)


@pytest.mark.contract("F6.24")
def test_connect_and_shutdown_of_the_helper() -> None:
    shared.stop()
    cluster = Cluster()
    head = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    other = cluster.add_node(num_cpus=2, object_store_memory=STORE)
    assert head is not other
    cluster.wait_for_nodes()
    assert len(cluster.list_all_nodes()) == 2
    cluster.connect()
    assert ray.cluster_resources()["CPU"] == 3.0
    host, _, port = cluster.address.rpartition(":")
    assert host
    assert int(port) > 0
    ray.shutdown()
    cluster.shutdown()
    assert not ray.is_initialized()


@pytest.mark.contract("F3.13")
@pytest.mark.heliostat_only("the daemon is stopped and killed by its pid")
def test_an_argument_that_is_lost_on_its_way_is_made_again(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The task and the actor's call that need it were sent to their worker already."""
    cluster = make_cluster({"num_cpus": 1, "resources": {"far": 1}})
    (far,) = cluster.worker_nodes

    @ray.remote(resources={"far": 1}, max_retries=2)
    def make() -> Any:
        return np.full(8 * MIB, 7, dtype=np.uint8)

    @ray.remote(num_cpus=0)
    def total(array: Any) -> int:
        return int(array.sum())

    class Adder:
        def total(self, array: Any) -> int:
            return int(array.sum())

    head = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    near = total.options(scheduling_strategy=head)
    adder = ray.remote(Adder).options(scheduling_strategy=head).remote()
    small = np.zeros(1, dtype=np.uint8)
    assert ray.get([near.remote(small), adder.total.remote(small)]) == [0, 0]
    array = make.remote()
    ray.wait([array], fetch_local=False)
    os.kill(far.pid, signal.SIGSTOP)
    sums = [near.remote(array), adder.total.remote(array)]
    assert ray.wait(sums, timeout=0.5)[0] == [], "its bytes cannot come"
    cluster.add_node(wait=False, num_cpus=1, resources={"far": 1}, object_store_memory=STORE)
    os.kill(far.pid, signal.SIGKILL)
    assert ray.get(sums, timeout=50) == [7 * 8 * MIB] * 2

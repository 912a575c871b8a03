"""Logical GPUs: which ids a task or an actor gets, and what it sees in CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import ray

from tests.helpers.harness import wait_until
from tests.helpers.samples import gpus

pytestmark = pytest.mark.usefixtures("ray_start")

CLUSTER = {"num_cpus": 4, "num_gpus": 4}


@ray.remote(num_cpus=0, num_gpus=1)
class Holder:
    def gpus(self) -> tuple[list[Any], str | None]:
        return gpus()

    def accelerators(self) -> dict[str, list[str]]:
        return dict(ray.get_runtime_context().get_accelerator_ids())

    def assigned(self) -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    def overwrite(self, value: str) -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = value


def all_free() -> bool:
    return bool(ray.available_resources().get("GPU") == 4.0)


@pytest.mark.contract("F0.05", "F4.01")
def test_num_gpus_is_a_claim_that_needs_no_device() -> None:
    assert ray.cluster_resources()["GPU"] == 4.0


@pytest.mark.contract("F4.02", "F4.03")
def test_each_actor_has_a_gpu_of_its_own() -> None:
    wait_until(all_free, what="all GPUs free")
    holders = [Holder.remote() for _ in range(4)]
    seen = ray.get([h.gpus.remote() for h in holders])
    assert sorted(ids[0] for ids, _ in seen) == [0, 1, 2, 3]
    for ids, visible in seen:
        assert visible == str(ids[0])
        assert isinstance(ids[0], int)


@pytest.mark.contract("F4.02", "F4.03", "F4.08")
def test_accelerator_ids_and_assigned_resources() -> None:
    wait_until(all_free, what="all GPUs free")
    holder = Holder.options(num_gpus=2).remote()
    ids, visible = ray.get(holder.gpus.remote())
    assert visible == ",".join(map(str, ids))
    assert ray.get(holder.accelerators.remote())["GPU"] == [str(i) for i in ids]
    assert ray.get(holder.assigned.remote()) == {"GPU": 2.0}


@pytest.mark.contract("F4.02", "F4.03")
def test_what_asks_for_no_gpu_sees_none() -> None:
    @ray.remote
    def without() -> tuple[list[Any], str | None]:
        return gpus()

    ids, visible = ray.get(without.remote())
    assert ids == []
    assert not visible
    actor = Holder.options(num_gpus=0).remote()
    assert ray.get(actor.gpus.remote())[0] == []


@pytest.mark.contract("F4.03")
def test_a_driver_has_no_gpu_ids_of_its_own() -> None:
    with pytest.raises(RuntimeError):
        ids = ray.get_gpu_ids()
        raise RuntimeError if ids == [] else AssertionError(ids)


@pytest.mark.contract("F2.09", "F4.02")
def test_an_actor_may_overwrite_what_it_sees() -> None:
    wait_until(all_free, what="all GPUs free")
    holder = Holder.remote()
    ids, _ = ray.get(holder.gpus.remote())
    ray.get(holder.overwrite.remote("0,1,2,3"))
    assert ray.get(holder.gpus.remote()) == (ids, "0,1,2,3")


@pytest.mark.contract("F1.04", "F4.02")
def test_tasks_wait_for_a_gpu_and_give_it_back() -> None:
    wait_until(all_free, what="all GPUs free")

    @ray.remote(num_cpus=0, num_gpus=1)
    def use() -> tuple[int, float, float]:
        started = time.time()
        time.sleep(0.05)
        (gpu,) = ray.get_gpu_ids()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == str(gpu)
        return int(gpu), started, time.time()

    spans = ray.get([use.remote() for _ in range(10)])
    by_gpu: dict[int, list[tuple[float, float]]] = {}
    for gpu, started, ended in spans:
        by_gpu.setdefault(gpu, []).append((started, ended))
    assert set(by_gpu) <= {0, 1, 2, 3}
    for own in by_gpu.values():
        own.sort()
        assert all(a[1] <= b[0] for a, b in zip(own, own[1:], strict=False)), own
    wait_until(all_free, what="every GPU is given back")


@pytest.mark.contract("F1.04", "F1.12")
def test_a_gpu_task_leaves_its_worker() -> None:
    """So that the memory that a framework holds on the device is free again."""

    @ray.remote(num_cpus=0, num_gpus=1)
    def pid() -> int:
        return os.getpid()

    pids = [ray.get(pid.remote()) for _ in range(3)]
    assert len(set(pids)) == 3


@pytest.mark.contract("F1.04", "F1.05", "F3.03")
def test_what_a_gpu_task_made_outlives_its_process() -> None:
    """Its calls may wait for the very GPUs that it had."""
    wait_until(all_free, what="all GPUs free")

    @ray.remote(num_cpus=0, num_gpus=4)
    def inner() -> int:
        return len(ray.get_gpu_ids())

    @ray.remote(num_cpus=0, num_gpus=4)
    def outer() -> list[Any]:
        return [ray.put("put"), inner.remote()]

    put, later = ray.get(outer.remote())
    assert ray.get(later, timeout=20) == 4
    assert ray.get(put) == "put"


@pytest.mark.contract("F4.09")
def test_fractions_share_one_gpu() -> None:
    wait_until(all_free, what="all GPUs free")
    holders = [Holder.options(num_gpus=0.5).remote() for _ in range(8)]
    ids = [gpu for (gpu,), _ in ray.get([h.gpus.remote() for h in holders])]
    assert sorted(ids) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.contract("F4.09")
@pytest.mark.parametrize("quantity", [1.5, 2.1])
def test_more_than_one_gpu_must_be_whole(quantity: float) -> None:
    with pytest.raises(ValueError):
        Holder.options(num_gpus=quantity).remote()


@pytest.mark.contract("F2.06", "F2.07")
def test_a_killed_actor_frees_its_gpu() -> None:
    wait_until(all_free, what="all GPUs free")
    holders = [Holder.remote() for _ in range(4)]
    ray.get([h.gpus.remote() for h in holders])
    waiting = Holder.remote()
    ref = waiting.gpus.remote()
    assert ray.wait([ref], timeout=0.2) == ([], [ref])
    (freed,), _ = ray.get(holders[2].gpus.remote())
    ray.kill(holders[2])
    assert ray.get(ref, timeout=20)[0] == [freed]


@pytest.mark.contract("F4.02", "F4.03")
def test_ids_follow_the_cuda_visible_devices_of_the_node(run_driver: Any) -> None:
    """Where the variable was set before the start, ids are its entries and arrive as text."""
    done = run_driver(
        """
        import os
        import ray

        ray.init(address="local", num_cpus=2, num_gpus=2, include_dashboard=False)

        @ray.remote(num_cpus=0, num_gpus=1)
        class Holder:
            def gpus(self):
                return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

        holders = [Holder.remote() for _ in range(2)]
        print("seen=" + repr(sorted(ray.get([h.gpus.remote() for h in holders]))))
        """,
        env={"CUDA_VISIBLE_DEVICES": "5,7"},
    ).check()
    assert done.value("seen") == "[(['5'], '5'), (['7'], '7')]"

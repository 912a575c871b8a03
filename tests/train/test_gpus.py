"""Which GPUs the workers of a group see. Most of it needs no GPU: the amounts are only counted."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest
from ray import train
from ray.train.backend import Backend, BackendConfig

pytestmark = pytest.mark.usefixtures("quiet")
CLUSTER = {"num_cpus": 4, "num_gpus": 4}


class Sharing(Backend):
    share_cuda_visible_devices = True


class SharingConfig(BackendConfig):
    @property
    def backend_cls(self) -> type[Backend]:
        return Sharing


def visible() -> list[Any]:
    """Every rank's own GPU and those that it sees, as rank 0 hears of them."""
    import ray
    from ray.train import collective

    context = train.get_context()
    own = [int(i) for i in ray.get_gpu_ids()]
    mine = [context.get_local_rank(), own, os.environ.get("CUDA_VISIBLE_DEVICES")]
    return [mine, collective.broadcast_from_rank_zero(mine)]


@pytest.mark.contract("F9.03", "F9.28")
@pytest.mark.parametrize(("workers", "each"), [(2, 1), (2, 2), (4, 1)])
def test_workers_of_a_node_see_each_others_gpus(fit: Any, workers: int, each: int) -> None:
    """`cuda:{local_rank}` is a worker's own GPU where each has one."""
    result = fit(
        visible,
        workers,
        scaling={"use_gpu": True, "resources_per_worker": {"GPU": each}},
        trainer={"backend_config": SharingConfig()},
    )
    (rank, own, seen), _ = result.return_value
    assert rank == 0
    assert len(own) == each
    assert sorted(seen.split(",")) == [str(i) for i in range(workers * each)]
    assert seen.split(",")[:each] == [str(i) for i in own]


@pytest.mark.contract("F9.28")
def test_without_sharing_each_sees_its_own(fit: Any) -> None:
    (_, own, seen), (_, zeros, _) = fit(visible, 2, scaling={"use_gpu": True}).return_value
    assert own == zeros
    assert seen == str(own[0])


def has_gpus(count: int) -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.device_count() >= count


@pytest.mark.gpu
@pytest.mark.contract("F9.26", "F9.27", "F9.28", "F9.29", "F9.33")
@pytest.mark.skipif(not has_gpus(1), reason="needs a GPU")
def test_a_model_on_a_gpu(ray_fresh: Any, fit: Any) -> None:
    ray_fresh(num_cpus=2)

    def loop() -> dict[str, Any]:
        import torch
        import torch.distributed as dist
        from ray.train.torch import get_device, prepare_model

        model = prepare_model(torch.nn.Linear(2, 2))
        return {
            "backend": dist.get_backend(),
            "device": str(get_device()),
            "current": torch.cuda.current_device(),
            "model": str(next(model.parameters()).device),
        }

    assert fit(loop, 1, torch=True, scaling={"use_gpu": True}).return_value == {
        "backend": "nccl",
        "device": "cuda:0",
        "current": 0,
        "model": "cuda:0",
    }

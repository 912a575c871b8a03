"""verl's single controller on CPUs: a group of workers, and batches that are dealt out and put together."""

import os

import ray
import torch
from proof import ran
from verl import DataProto
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray.base import (
    RayClassWithInitArgs,
    RayResourcePool,
    RayWorkerGroup,
    create_colocated_worker_cls,
)


@ray.remote
class Adder(Worker):
    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    @register(dispatch_mode=Dispatch.DP_COMPUTE_PROTO)
    def add(self, data):
        data.batch["y"] = data.batch["x"] + self.offset + 100 * self.rank
        data.meta_info["seen"] = True
        return data

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def who(self, word):
        return word, self.rank, self.world_size, os.getpid()

    @register(dispatch_mode=Dispatch.ALL_TO_ALL)
    def each(self, number):
        return number * 10 + self.rank


ray.init(num_cpus=6)
X = torch.arange(8, dtype=torch.float32).reshape(8, 1)


def batch():
    return DataProto.from_dict(tensors={"x": X.clone()}, meta_info={"seen": False})


def expected(offset):
    # Without Ray: the first half goes to rank 0, the second to rank 1.
    return X + offset + 100 * (torch.arange(8) >= 4).reshape(8, 1)


def check(group, offset):
    assert group.world_size == 2
    answers = group.who("hello")
    assert [answer[:3] for answer in answers] == [("hello", 0, 2), ("hello", 1, 2)]
    assert len({os.getpid(), *(answer[3] for answer in answers)}) == 3
    assert group.each([1, 2]) == [10, 21]
    done = group.add(batch())
    assert torch.equal(done.batch["y"], expected(offset))
    assert done.meta_info["seen"] is True


pool = RayResourcePool([2], use_gpu=False, max_colocate_count=1)
check(
    RayWorkerGroup(
        resource_pool=pool,
        ray_cls_with_init=RayClassWithInitArgs(cls=Adder, offset=10),
        device_name="cpu",
    ),
    offset=10,
)

# Two roles in the same processes, as its trainers do it.
shared = RayResourcePool([2], use_gpu=False, max_colocate_count=1)
roles = {
    "actor": RayClassWithInitArgs(cls=Adder, offset=1),
    "critic": RayClassWithInitArgs(cls=Adder, offset=2),
}
together = RayWorkerGroup(
    resource_pool=shared,
    ray_cls_with_init=create_colocated_worker_cls(class_dict=roles),
    device_name="cpu",
)
spawned = together.spawn(prefix_set=roles.keys())
check(spawned["actor"], offset=1)
check(spawned["critic"], offset=2)
assert spawned["actor"].who("x")[0][3] == spawned["critic"].who("x")[0][3]
assert ran()
print("compared=3")

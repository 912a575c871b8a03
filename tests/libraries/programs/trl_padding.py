"""TRL: its functions in tasks, which load it in their workers."""

import ray
import torch
from proof import on_the_cluster

ray.init(num_cpus=2)


@ray.remote
def padded(lengths):
    from trl.trainer.utils import pad

    return pad([torch.ones(n) for n in lengths], padding_value=0)


rows = ray.get(padded.remote([1, 3, 2]))
assert rows.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]
on_the_cluster("padded")

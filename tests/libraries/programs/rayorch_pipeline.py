"""RayOrch: a pipeline of two stages, each a pool of actors, with batches in flight."""

import ray
import rayorch
from proof import ran


class AddOne:
    def run(self, values):
        return [value + 1 for value in values]


class Twice(rayorch.Pipeline):
    def __init__(self):
        self.first = rayorch.RayModule(AddOne).ray_options(replicas=2, batch_size=8)
        self.second = rayorch.RayModule(AddOne).ray_options(replicas=2, batch_size=8)

    def forward(self, values):
        return self.second(self.first(values))


ray.init(num_cpus=4)
found = Twice().run([1, 2, 3], input_batch_size=2, max_active_input_batches=2)
assert list(found.outputs) == [3, 4, 5]
assert ran()
print("cluster=yes")

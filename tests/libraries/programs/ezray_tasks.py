"""ezRay: one call for many tasks of a function."""

import ray
from ezRay import MultiCoreExecutionTool
from proof import ran


def add(a, b):
    return a + b


ray.init(num_cpus=2)
tool = MultiCoreExecutionTool(instance_metadata={"num_cpus": 2, "num_gpus": 0, "address": None})
tool.update_data({n: {"a": n, "b": 2} for n in range(3)})
tool.run(add)
first = tool.get_results()
assert {key: found["result"] for key, found in first.items()} == {0: 2, 1: 3, 2: 4}
assert ran()
print("cluster=yes")

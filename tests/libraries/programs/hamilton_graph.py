"""Hamilton: a graph of functions, each node a task."""

import hamilton_nodes
import pandas as pd
import ray
from hamilton import base, driver, telemetry
from hamilton.plugins import h_ray
from proof import ran

telemetry.disable_telemetry()
ray.init(num_cpus=2)
adapter = h_ray.RayGraphAdapter(result_builder=base.DictResult())
found = driver.Driver({"x": pd.Series([1, 2, 3])}, hamilton_nodes, adapter=adapter).execute(
    ["total", "doubled"]
)
assert found["total"] == 18
assert found["doubled"].tolist() == [4, 6, 8]
assert ran()
print("cluster=yes")

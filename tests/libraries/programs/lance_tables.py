"""lance-ray: a dataset is written as a table of Lance and read again, with a filter."""

import os
import tempfile

import lance_ray
import ray
from proof import ran

ray.init(num_cpus=2)
path = os.path.join(tempfile.mkdtemp(), "table.lance")
rows = ray.data.range(100).map(lambda row: {"id": row["id"], "v": row["id"] * 2})
lance_ray.write_lance(rows, path)
table = lance_ray.read_lance(path)
assert table.count() == 100
assert table.sum("v") == 9900
assert lance_ray.read_lance(path, filter="id >= 90").count() == 10
assert ran()
print("cluster=yes")

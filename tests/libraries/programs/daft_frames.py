"""Daft: the same query with its Ray runner and with its own."""

import hashlib
import os

os.environ["DAFT_ANALYTICS_ENABLED"] = "0"

import daft
import ray
from daft import col
from proof import on_the_cluster

DATA = {"key": [i % 5 for i in range(20_000)], "x": [float(i) for i in range(20_000)]}


@daft.udf(return_dtype=daft.DataType.float64())
def half(column):
    return [value / 2 for value in column.to_pylist()]


def work():
    rows = daft.from_pydict(DATA).into_partitions(4)
    grouped = (
        rows.with_column("y", col("x") * 2)
        .with_column("half", half(col("x")))
        .where(col("y") > 10)
        .groupby("key")
        .agg(col("y").sum().alias("sum"), col("half").max(), col("x").count().alias("count"))
        .sort("key")
    )
    joined = rows.join(grouped, on="key").sort(["x", "key"]).limit(7)
    # About 1 MB: more than travels with a reply.
    return grouped.to_pydict(), joined.to_pydict(), rows.sort("x", desc=True).to_pydict()


if os.environ["RUNNER"] == "ray":
    ray.init(num_cpus=2)
    daft.set_runner_ray()
else:
    daft.set_runner_native()
results = work()
assert len(results[2]["x"]) == 20_000
if os.environ["RUNNER"] == "ray":
    on_the_cluster("RemoteFlotillaRunner")


print(f"results={hashlib.sha256(repr(results).encode()).hexdigest()}")

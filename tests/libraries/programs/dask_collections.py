"""Dask on Ray: arrays, frames and delayed functions, with and without `enable_dask_on_ray`."""

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import ray
from proof import on_the_cluster
from ray.util.dask import enable_dask_on_ray, ray_dask_get, ray_dask_get_sync

ray.init(num_cpus=2)
rng = np.random.default_rng(1)
ROWS = pd.DataFrame({"key": rng.integers(0, 9, 5_000), "x": rng.random(5_000)})


def frame():
    return dask.dataframe.from_pandas(ROWS, npartitions=5)


def array():
    return dask.array.random.RandomState(3).normal(size=(400, 300), chunks=(100, 100)) + 1


@dask.delayed
def increment(number):
    return number + 1


@dask.delayed
def total(numbers):
    return sum(numbers)


WORK = {
    "array": lambda: (array() @ array().T).mean(axis=0).compute(),
    "grouped": lambda: frame().groupby("key").x.agg(["mean", "sum"]).compute().sort_index(),
    "sorted": lambda: frame().set_index("x").compute(),
    "shuffled": lambda: frame().shuffle("key").map_partitions(len).compute().sum(),
    "joined": lambda: len(frame().merge(frame(), on="key").compute()),
    "delayed": lambda: total([increment(i) for i in range(20)]).compute(),
    "several": lambda: dask.compute(increment(1), [increment(2), 3], {"a": increment(3)}),
    "persisted": lambda: array().persist().sum().compute(),
}
for name, make in WORK.items():
    with enable_dask_on_ray():
        there = make()
    here = make()
    if isinstance(here, pd.DataFrame):
        pd.testing.assert_frame_equal(there, here)
    elif isinstance(here, tuple):
        assert there == here, name
    else:
        np.testing.assert_allclose(there, here, err_msg=name)

for scheduler in (ray_dask_get, ray_dask_get_sync):
    assert total([increment(i) for i in range(5)]).compute(scheduler=scheduler) == 15
on_the_cluster("dask:", "dask:total", "dask:increment")
print(f"compared={len(WORK)}")

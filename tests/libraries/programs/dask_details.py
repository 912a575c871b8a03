"""What `ray.util.dask` has beside schedulers: persisting, options, callbacks, errors."""

import os
import time

import dask
import numpy as np
import pytest
import ray
from ray.util.dask import (
    ProgressBarCallback,
    RayDaskCallback,
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
)

ray.init(num_cpus=4)


@dask.delayed
def increment(number):
    return number + 1


@dask.delayed
def held():
    return ray.get_runtime_context().get_assigned_resources()


@dask.delayed
def fail(_):
    raise ZeroDivisionError("here")


enable_dask_on_ray()

# What is persisted stays in the object store, also inside of containers, and is used from there.
kept = increment(np.ones(100_000)).persist()
(ref,) = dict(kept.__dask_graph__()).values()
assert isinstance(ref, ray.ObjectRef)
assert increment(kept).compute().sum() == 300_000
(one, two), three = dask.persist([increment(1), increment(kept)], 5)
assert dask.compute(one, two.sum(), three) == (2, 300_000.0, 5)
assert list(dict(increment(1).persist(scheduler="sync").__dask_graph__()).values()) == [2]

# Options: of the call, of the surroundings, of a layer.
assert held().compute(ray_remote_args={"num_cpus": 0.5}) == {"CPU": 0.5}
with dask.annotate(ray_remote_args={"num_cpus": 2}):
    annotated = held()
assert annotated.compute(ray_remote_args={"num_cpus": 1}) == {"CPU": 2.0}
with dask.annotate(ray_remote_args={"num_cpus": 3}):
    assert held().compute() == {"CPU": 3.0}
with pytest.raises(ValueError, match="ray_remote_args"):
    held().compute(resources={"a": 1})
with pytest.raises(ValueError, match="ray_remote_args"), dask.annotate(resources={"a": 1}):
    held().compute()

# Errors of a task are those of the user's function, also further down the graph.
with pytest.raises(ZeroDivisionError, match="here"):
    increment(fail(1)).compute()

# Callbacks.
here = os.getpid()


class Counting(RayDaskCallback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def _ray_presubmit(self, task, key, deps):
        self.seen.append("presubmit")
        if "increment" in key and not deps:
            return 40  # instead of the task
        return None

    def _ray_postsubmit(self, task, key, deps, object_ref):
        assert isinstance(object_ref, ray.ObjectRef)
        self.seen.append("postsubmit")

    def _ray_postsubmit_all(self, object_refs, dsk):
        self.seen.append("all")

    def _ray_finish(self, result):
        self.seen.append("finish")


counting = Counting()
with counting:
    assert increment(increment(1)).compute(optimize_graph=False) == 41
assert counting.seen == ["presubmit", "presubmit", "postsubmit", "all", "finish"]
assert increment(1).compute() == 2
assert counting.seen[5:] == []
counting.register()
assert increment(1).compute() == 40
counting.unregister()
assert increment(1).compute() == 2


def before(key, inputs):
    return os.getpid(), time.monotonic()


def after(key, result, state):
    pid, start = state
    assert pid == os.getpid() != here
    assert time.monotonic() >= start
    if result == 99:
        raise RuntimeError("the hook ran")


with RayDaskCallback(ray_pretask=before, ray_posttask=after):
    assert increment(1).compute() == 2
    with pytest.raises(RuntimeError, match="the hook ran"):
        increment(98).compute()
assert increment(1).compute(ray_callbacks=[counting]) == 40
with ProgressBarCallback():
    assert increment(increment(1)).compute() == 3

# Dask's own callbacks see every task.
from dask.callbacks import Callback  # noqa: E402

keys = []
with Callback(posttask=lambda key, *_: keys.append(key)):
    increment(increment(1)).compute(optimize_graph=False)
assert len(keys) == 2

disable_dask_on_ray()
assert dask.base.get_scheduler() is None
with enable_dask_on_ray():
    assert dask.base.get_scheduler() is ray_dask_get
assert dask.base.get_scheduler() is None
print("done=yes")

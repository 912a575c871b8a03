"""F4: resources, accelerators, strategies, the runtime context."""

from __future__ import annotations

import os
from typing import Any

import ray
from kit import driver, outcome, snippet, until


@ray.remote
def where() -> str:
    return ray.get_runtime_context().get_node_id()


@ray.remote
def gpus() -> Any:
    return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@snippet("F4.02", "F4.03", "F4.09", cluster={"num_cpus": 4, "num_gpus": 2})
def gpu_ids() -> Any:
    class A:
        def f(self) -> Any:
            return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def ids(self) -> Any:
            return ray.get_runtime_context().get_accelerator_ids()

    remote = ray.remote(A)
    one = remote.options(num_gpus=1).remote()
    other = remote.options(num_gpus=1).remote()
    ids = ray.get([one.f.remote(), other.f.remote()])
    accelerators = ray.get(one.ids.remote())
    plain = ray.get(remote.remote().f.remote())
    del one, other
    until(lambda: ray.available_resources().get("GPU") == 2)
    halves = [remote.options(num_gpus=0.5).remote() for _ in range(4)]
    shared = sorted(str(x[0]) for x in ray.get([h.f.remote() for h in halves]))
    del halves
    until(lambda: ray.available_resources().get("GPU") == 2)
    return {
        "actors": sorted(map(str, ids)),
        "accelerators": {k: len(v) for k, v in accelerators.items()},
        "kinds": {k: [type(x).__name__ for x in v] for k, v in accelerators.items()},
        "cpu actor": plain,
        "halves": shared,
        "task": ray.get(gpus.options(num_gpus=2).remote()),
        "cpu task": ray.get(gpus.remote()),
        "driver": outcome(ray.get_gpu_ids),
        "none": ray.get(gpus.options(num_gpus=0).remote()),
    }


@snippet("F4.02", "F15.03", cluster=None)
def visible_devices() -> Any:
    source = """
        import os, ray
        ray.init(num_cpus=2, num_gpus={n}, include_dashboard=False)
        @ray.remote(num_gpus=1)
        def f(): return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")
        @ray.remote
        def g(): return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")
        print(">", ray.get(f.remote()))
        print(">", ray.get(g.remote()))
        """
    return {
        "narrowed": driver(source.format(n=2), env={"CUDA_VISIBLE_DEVICES": "3,5"}),
        "too many": driver(
            source.format(n=3), env={"CUDA_VISIBLE_DEVICES": "3,5"}, show=["Attempting to start"]
        ),
        "not set": driver(
            source.format(n=1), env={"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
        ),
        "zero": driver(source.format(n=1), env={"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}),
    }


@snippet("F4.05", "F4.04", "F4.08")
def context() -> Any:
    def see() -> Any:
        c = ray.get_runtime_context()
        found = {
            name: type(getattr(c, name)()).__name__
            for name in (
                "get_job_id", "get_node_id", "get_worker_id", "get_task_id", "get_task_name",
                "get_task_function_name", "get_actor_id", "get_actor_name",
                "get_placement_group_id", "get_session_name", "get_temp_dir",
                "get_runtime_env_string",
            )
        }  # fmt: skip
        found["resources"] = outcome(c.get_assigned_resources)
        found["accelerators"] = sorted(c.get_accelerator_ids())
        found["labels"] = outcome(lambda: sorted(c.get_node_labels()))
        found["lengths"] = [len(c.get_job_id()), len(c.get_node_id()), len(c.get_worker_id())]
        found["namespace"] = type(c.namespace).__name__
        found["env"] = type(c.runtime_env).__name__
        found["gcs"] = type(c.gcs_address).__name__
        found["actor"] = outcome(lambda: type(c.current_actor).__name__, "actor")
        found["reconstructed"] = outcome(lambda: c.was_current_actor_reconstructed)
        found["canceled"] = outcome(c.is_canceled)
        found["ip"] = ray.util.get_node_ip_address().count(".")
        found["type"] = type(c).__name__
        found["get"] = outcome(lambda: sorted(c.get()))
        for name in ("job_id", "node_id", "task_id", "actor_id", "current_placement_group_id",
                     "should_capture_child_tasks_in_placement_group"):  # fmt: skip
            found[f".{name}"] = outcome(lambda n=name: type(getattr(c, n)).__name__)
        return found

    class A:
        def see(self) -> Any:
            return see()

    actor = ray.remote(A)
    return {
        "driver": see(),
        "task": ray.get(ray.remote(see).remote()),
        "named": ray.get(ray.remote(see).options(name="mine").remote()),
        "actor": ray.get(actor.remote().see.remote()),
        "named actor": ray.get(actor.options(name="known", num_cpus=1).remote().see.remote()),
        "same ip": ray.util.get_node_ip_address()
        == ray.get(ray.remote(lambda: ray.util.get_node_ip_address()).remote()),
        "same node": ray.get_runtime_context().get_node_id() == ray.get(where.remote()),
    }


@snippet("F4.07", cluster=None)
def infeasible() -> Any:
    return driver(
        """
        import ray, time
        ray.init(num_cpus=1, include_dashboard=False)
        @ray.remote(num_cpus=50)
        def f(): ...
        ref = f.remote()
        print(">", ray.wait([ref], timeout=8)[0])
        """,
        show=["50"],
    )


@snippet("F4.10", "F4.11", cluster={"num_cpus": 2, "_memory": 500_000_000})
def memory_and_kinds() -> Any:
    from ray.util import accelerators

    total = ray.cluster_resources()

    @ray.remote(memory=100_000_000)
    def f() -> Any:
        return ray.get_runtime_context().get_assigned_resources()

    names = [n for n in dir(accelerators) if n.isupper()]
    return {
        "memory": total["memory"],
        "assigned": ray.get(f.remote()),
        "store": total["object_store_memory"] > 0,
        "names": {n: getattr(accelerators, n) for n in names},
        "not by name": [
            outcome(lambda n=n: f.options(resources={n: 1}).remote(), n)
            for n in ("memory", "object_store_memory", "CPU", "GPU")
        ],
        "pending": [len(x) for x in ray.wait([f.options(memory=1e9).remote()], timeout=0.5)],
        "typed": [
            len(x) for x in ray.wait([f.options(accelerator_type="A100").remote()], timeout=0.5)
        ],
    }


@snippet("F4.15", "F4.16", "F4.19")
def strategies() -> Any:
    from ray.util import scheduling_strategies as s

    here = ray.get_runtime_context().get_node_id()
    dead = "ab" * 28
    affinity = s.NodeAffinitySchedulingStrategy
    actor = ray.remote(type("A", (), {"f": lambda self: 1}))

    def run(strategy: Any) -> Any:
        return outcome(
            lambda: (
                ray.get(where.options(scheduling_strategy=strategy).remote(), timeout=30) == here
            )
        )

    return {
        "default": run("DEFAULT"),
        "spread": run("SPREAD"),
        "here": run(affinity(here, soft=False)),
        "soft here": run(affinity(here, soft=True)),
        "soft dead": run(affinity(dead, soft=True)),
        "hard dead": run(affinity(dead, soft=False)),
        "hard dead actor": outcome(
            lambda: ray.get(
                actor.options(scheduling_strategy=affinity(dead, soft=False)).remote().f.remote(),
                timeout=30,
            )
        ),
        "missing soft": outcome(lambda: affinity(here)),
        "id object": outcome(lambda: affinity(ray.NodeID.from_hex(here), soft=False).node_id == here),
        "bad id": outcome(
            lambda: ray.get(
                where.options(scheduling_strategy=affinity("xyz", soft=False)).remote(), timeout=20
            )
        ),
        "text": outcome(lambda: where.options(scheduling_strategy="NOPE").remote(), "NOPE"),
        "names": [hasattr(s, n) for n in ("In", "NotIn", "Exists", "DoesNotExist",
                  "NodeLabelSchedulingStrategy", "PlacementGroupSchedulingStrategy")],
        "label": outcome(lambda: s.NodeLabelSchedulingStrategy(hard={"a": s.In("b")}) is not None),
        "label wrong": outcome(lambda: s.NodeLabelSchedulingStrategy(hard={"a": "b"})),
        "label none": outcome(lambda: s.NodeLabelSchedulingStrategy(hard={}) is not None),
        "in type": outcome(lambda: s.In(3)),
    }  # fmt: skip


@snippet("F4.18")
def blocked_cpus() -> Any:
    @ray.remote(num_cpus=4)
    def all_of_them() -> Any:
        return ray.available_resources().get("CPU", 0), ray.cluster_resources()["CPU"]

    return ray.get(all_of_them.remote())[1]


@snippet("F4.24", "F4.25", cluster=None)
def peripheral() -> Any:
    import importlib

    def has(module: str, name: str) -> bool:
        try:
            return hasattr(importlib.import_module(module), name)
        except ImportError:
            return False

    return {
        "get_resource_ids": hasattr(ray, "get_resource_ids"),
        "request_resources": has("ray.autoscaler.sdk", "request_resources"),
    }

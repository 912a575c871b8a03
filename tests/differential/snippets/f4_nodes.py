"""F4: several nodes. Each snippet starts a cluster of its own on this machine."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import ray
from kit import STORE, nodes, outcome, snippet, until
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)


def here() -> str:
    return ray.get_runtime_context().get_node_id()


@ray.remote
def where() -> str:
    return here()


@ray.remote
def gpus() -> Any:
    return here(), ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@ray.remote
class Place:
    def where(self) -> str:
        return here()

    def gpus(self) -> Any:
        return here(), ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    def make(self) -> Any:
        return ray.put(np.full(300_000, 3))


@snippet("F4.06", "F4.02", "F4.03", "F4.07", "F4.09", "F4.18", cluster=None, limit_s=180)
def placing() -> Any:
    with nodes(
        {"num_cpus": 1},
        {"num_cpus": 2, "resources": {"left": 2, "odd name-1.x": 1}},
        {"num_cpus": 2, "num_gpus": 2, "resources": {"right": 1}},
    ) as (_, ids):
        name = ids.index

        def listed(values: Any) -> Any:
            return [[name(node), *rest] for node, *rest in values]

        total = ray.cluster_resources()
        actors = [Place.options(num_gpus=1).remote() for _ in range(2)]
        on_gpus = sorted(listed(ray.get([a.gpus.remote() for a in actors])))
        third = Place.options(num_gpus=1).remote()
        waits = [len(x) for x in ray.wait([third.where.remote()], timeout=1)]
        ray.kill(actors[0])
        moved = name(ray.get(third.where.remote(), timeout=30))
        for actor in (actors[1], third):
            ray.kill(actor)
        until(lambda: ray.available_resources().get("GPU") == 2)
        ray.get([where.options(resources={"left": 0.1}).remote() for _ in range(2)])
        held = [Place.options(resources={"left": 1}, num_cpus=1).remote() for _ in range(2)]
        places = [name(x) for x in ray.get([a.where.remote() for a in held])]
        until(lambda: "left" not in ray.available_resources())
        free = {k: v for k, v in ray.available_resources().items() if k in ("left", "right")}
        for actor in held:
            ray.kill(actor)
        until(lambda: ray.available_resources().get("CPU") == 5)
        return {
            "total": {k: total.get(k) for k in ("CPU", "GPU", "left", "right", "odd name-1.x")},
            "task": name(ray.get(where.options(resources={"right": 0.5}).remote())),
            "odd name": name(ray.get(where.options(resources={"odd name-1.x": 1}).remote())),
            "actor": name(ray.get(Place.options(resources={"left": 1}).remote().where.remote())),
            "gpu task": listed([ray.get(gpus.options(num_gpus=2).remote())]),
            "gpu share": listed([ray.get(gpus.options(num_gpus=0.5).remote())]),
            "gpu actors": on_gpus,
            "third waits": waits,
            "third": moved,
            "held": places,
            "available": free,
            "spread": len(
                set(
                    ray.get(
                        [where.options(scheduling_strategy="SPREAD").remote() for _ in range(12)]
                    )
                )
            ),
            "spread actors": len(
                set(
                    ray.get(
                        [
                            Place.options(scheduling_strategy="SPREAD").remote().where.remote()
                            for _ in range(9)
                        ]
                    )
                )
            ),
            "too much for one": [
                len(x) for x in ray.wait([where.options(num_cpus=3).remote()], timeout=1)
            ],
            "nodes": next(sorted(n) for n in ray.nodes()),
            "alive": [n["Alive"] for n in ray.nodes()],
            "resources": sorted(
                sorted(k for k in n["Resources"] if not k.startswith(("node:", "accelerator")))
                for n in ray.nodes()
            ),
        }


@snippet("F4.06", "F4.16", "F4.18", cluster=None, limit_s=180)
def chosen_nodes() -> Any:
    with nodes({"num_cpus": 1}, {"num_cpus": 1}, {"num_cpus": 1}) as (cluster, ids):

        def on(node: str, **options: Any) -> Any:
            return NodeAffinitySchedulingStrategy(node, **options)

        def task(node: str, soft: bool, **options: Any) -> Any:
            chosen = where.options(scheduling_strategy=on(node, soft=soft), **options)
            return outcome(lambda: ids.index(ray.get(chosen.remote(), timeout=30)), "node")

        def actor(node: str, soft: bool, **options: Any) -> Any:
            chosen = Place.options(scheduling_strategy=on(node, soft=soft), **options)
            return outcome(
                lambda: ids.index(ray.get(chosen.remote().where.remote(), timeout=30)), "node"
            )

        found: dict[str, Any] = {
            "task": [task(node, False) for node in ids],
            "soft task": [task(node, True) for node in ids],
            "actor": [actor(node, False) for node in ids],
            "hard without": task(ids[1], False, resources={"none": 1}),
            "soft without": [
                len(x)
                for x in ray.wait(
                    [where.options(scheduling_strategy=on(ids[1], soft=True), num_cpus=2).remote()],
                    timeout=1,
                )
            ],
            "hard too large": task(ids[1], False, num_cpus=2),
            "hard too large actor": actor(ids[1], False, num_cpus=2),
        }
        holder = Place.options(num_cpus=1, scheduling_strategy=on(ids[1], soft=False)).remote()
        ray.get(holder.where.remote())
        hard = where.options(scheduling_strategy=on(ids[1], soft=False)).remote()
        soft = where.options(scheduling_strategy=on(ids[1], soft=True)).remote()
        found["hard waits"] = [len(x) for x in ray.wait([hard], timeout=1)]
        # A soft choice of a node that is only busy waits for it, or runs elsewhere.
        found["soft busy"] = [len(x) for x in ray.wait([soft], timeout=2)]
        ray.kill(holder)
        found["hard then"] = outcome(lambda: ids.index(ray.get(hard, timeout=30)))
        waiting = Place.options(num_cpus=1, scheduling_strategy=on(ids[2], soft=False)).remote()
        ray.get(waiting.where.remote())
        queued = where.options(scheduling_strategy=on(ids[2], soft=False), max_retries=0).remote()
        cluster.remove_node(next(n for n in cluster.worker_nodes if n.node_id == ids[2]))
        until(lambda: sum(n["Alive"] for n in ray.nodes()) == 2)
        found["dead"] = {
            "hard": task(ids[2], False),
            "soft": task(ids[2], True).keys(),
            "hard actor": actor(ids[2], False),
            "soft actor": actor(ids[2], True).keys(),
            "queued": outcome(lambda: ray.get(queued, timeout=30)),
            "its actor": outcome(lambda: ray.get(waiting.where.remote(), timeout=30), "node"),
            "alive": sorted(n["Alive"] for n in ray.nodes()),
            "resources": [n["Resources"] for n in ray.nodes() if not n["Alive"]],
            "keys": sorted(next(n for n in ray.nodes() if not n["Alive"])),
        }
        found["dead"]["soft"] = sorted(found["dead"]["soft"])
        found["dead"]["soft actor"] = sorted(found["dead"]["soft actor"])
        return found


@snippet("F4.06", "F4.12", "F4.14", cluster=None, limit_s=240)
def group_places() -> Any:
    with nodes({"num_cpus": 2}, {"num_cpus": 2, "num_gpus": 1}, {"num_cpus": 2}) as (cluster, ids):

        def place(bundles: Any, strategy: str, **options: Any) -> Any:
            pg = placement_group(bundles, strategy=strategy, **options)
            ready = pg.wait(3)
            if ready:
                used = set(placement_group_table(pg)["bundles_to_node_id"].values())
                given: Any = len(used)
            else:
                given = placement_group_table(pg)["state"]
            remove_placement_group(pg)
            until(lambda: ray.available_resources().get("CPU") == 6)
            return given

        cpu = {"CPU": 1}
        found: dict[str, Any] = {
            f"{strategy} {n}": place([cpu] * n, strategy)
            for strategy, ns in {
                "PACK": (2, 3, 6),
                "SPREAD": (2, 3, 5),
                "STRICT_PACK": (2, 3),
                "STRICT_SPREAD": (2, 3, 4),
            }.items()
            for n in ns
        }
        pg = placement_group([cpu, {"CPU": 1, "GPU": 1}, cpu], strategy="STRICT_SPREAD")
        ray.get(pg.ready(), timeout=30)
        table = placement_group_table(pg)

        def within(index: int, **options: Any) -> Any:
            return PlacementGroupSchedulingStrategy(
                pg, placement_group_bundle_index=index, **options
            )

        found["node of each bundle"] = [
            ray.get(where.options(scheduling_strategy=within(i)).remote(), timeout=30)
            == table["bundles_to_node_id"][i]
            for i in range(3)
        ]
        found["gpu bundle"] = [
            ids.index(ray.get(where.options(num_gpus=1, scheduling_strategy=within(-1)).remote())),
            ray.get(gpus.options(num_gpus=1, scheduling_strategy=within(1)).remote())[1:],
        ]

        @ray.remote
        def parent() -> Any:
            return sorted(ray.get([where.options(num_cpus=0.5).remote() for _ in range(3)]))

        captured = parent.options(
            num_cpus=0.5,
            scheduling_strategy=within(0, placement_group_capture_child_tasks=True),
        )
        found["captured"] = outcome(lambda: len(ray.get(captured.remote(), timeout=30)))
        found["table"] = {
            "bundles": table["bundles"],
            "strategy": table["strategy"],
            "keys": sorted(table["bundles_to_node_id"]),
            "name": table["name"],
            "stats": sorted(table["stats"]),
        }
        remove_placement_group(pg)
        until(lambda: ray.available_resources().get("CPU") == 6)
        # What waits for room becomes possible with a node that joins.
        later = placement_group([{"CPU": 4}], strategy="PACK")
        inside = where.options(scheduling_strategy=PlacementGroupSchedulingStrategy(later)).remote()
        found["later"] = [later.wait(0.5), placement_group_table(later)["state"]]
        node = cluster.add_node(num_cpus=4, object_store_memory=STORE)
        found["joined"] = [
            later.wait(30),
            outcome(lambda: ray.get(inside, timeout=30) == node.node_id),
            placement_group_table(later)["state"],
        ]
        # Its node goes: it waits again.
        cluster.remove_node(node)
        found["gone"] = until(
            lambda: (s := placement_group_table(later)["state"]) != "CREATED" and s
        )
        cluster.add_node(num_cpus=4, object_store_memory=STORE)
        found["back"] = until(lambda: placement_group_table(later)["state"] == "CREATED")
        return found


@snippet("F4.06", "F3.03", "F3.04", "F3.09", cluster=None, limit_s=180)
def objects_across() -> Any:
    with nodes(
        {"num_cpus": 1},
        {"num_cpus": 1, "resources": {"a": 1}},
        {"num_cpus": 1, "resources": {"b": 1}},
    ) as (_cluster, ids):

        @ray.remote
        def make(n: int) -> Any:
            return np.full(n, 7)

        @ray.remote
        def add(x: Any, y: Any = 0) -> Any:
            return int(x.sum()), bool(x.flags.writeable), here()

        @ray.remote
        def read(refs: Any) -> Any:
            return int(ray.get(refs[0]).sum())

        @ray.remote
        def put() -> Any:
            return [ray.put(np.full(300_000, 2))]

        at_a = make.options(resources={"a": 0.1}).remote(300_000)
        mine = ray.put(np.full(300_000, 5))
        found: dict[str, Any] = {
            "to the driver": int(ray.get(at_a).sum()),
            "a to b": ray.get(add.options(resources={"b": 0.1}).remote(at_a))[:2],
            "driver to a": ray.get(add.options(resources={"a": 0.1}).remote(mine))[:2],
            "nested": ray.get(read.options(resources={"b": 0.1}).remote([at_a])),
            "put there": int(ray.get(ray.get(put.options(resources={"b": 0.1}).remote())[0]).sum()),
        }
        # The data decide where a task runs that may run anywhere.
        big = make.options(resources={"b": 0.1}, num_cpus=0.1).remote(3_000_000)
        ray.wait([big], fetch_local=False)
        found["locality"] = ids.index(ray.get(add.options(num_cpus=0.2).remote(big))[2])
        holder = Place.options(resources={"a": 0.1}).remote()
        owned = ray.get(holder.make.remote())
        found["of an actor"] = int(ray.get(owned).sum())
        fresh = ray.get(holder.make.remote())
        ray.kill(holder)
        time.sleep(1)
        found["owner's death"] = outcome(lambda: ray.get(fresh, timeout=30), "owner")
        return found

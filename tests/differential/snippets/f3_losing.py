"""F3: objects that are lost with their node or process, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray
from kit import STORE, driver, nodes, outcome, snippet

AWAY = {"num_cpus": 1, "resources": {"away": 1}}


@ray.remote(num_cpus=0)
class Maker:
    def put(self) -> Any:
        return ray.put(np.full(300_000, 3))

    def result(self) -> Any:
        return np.full(300_000, 4)


@snippet("F3.13", "F3.14", "F3.03", "F5.03", cluster=None, limit_s=240)
def with_a_node() -> Any:
    with nodes({"num_cpus": 1}, AWAY) as (cluster, _):

        @ray.remote(resources={"away": 0.1})
        def make(n: int) -> Any:
            return np.full(300_000, n)

        @ray.remote(resources={"away": 0.1})
        def more(x: Any) -> Any:
            return x + 1

        @ray.remote(resources={"away": 0.1})
        def puts() -> Any:
            return [ray.put(np.full(300_000, 9))]

        @ray.remote(resources={"away": 0.1})
        def items(n: int, fails: bool = False) -> Any:
            for i in range(n):
                yield np.full(300_000, i)
            if fails:
                raise ValueError(n)

        @ray.remote(resources={"away": 0.1}, num_returns=2)
        def small_and_large() -> Any:
            return 1, np.full(300_000, 6)

        maker = Maker.options(resources={"away": 0.1}).remote()
        kept = Maker.options(resources={"away": 0.1}, max_restarts=-1, max_task_retries=-1).remote()
        small, large = small_and_large.remote()
        ray.get(small)
        del small
        of_actor = ray.get(maker.put.remote())
        start = ray.put(np.full(300_000, 1))
        refs = {
            "task": make.remote(1),
            "chain": more.remote(more.remote(make.remote(2))),
            "of a put": more.remote(start),
            "of a value": more.remote(np.full(300_000, 5)),
            "no retries": make.options(max_retries=0).remote(3),
            "put in a task": ray.get(puts.remote())[0],
            "put by an actor": of_actor,
            "result of an actor": maker.result.remote(),
            "result of an actor that restarts": kept.result.remote(),
            "beside a small one that is gone": large,
            **{f"item {i}": ref for i, ref in enumerate(items.remote(2))},
            **{f"item {i} of one that raises": ref for i, ref in enumerate(items.remote(1, True))},
            "item without retries": next(items.options(max_retries=0).remote(1)),
        }
        del start
        everything = list(refs.values())
        ready, _ = ray.wait(everything, num_returns=len(refs), fetch_local=False, timeout=30)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(object_store_memory=STORE, **AWAY)

        def read(ref: Any) -> Any:
            found = outcome(lambda: int(ray.get(ref, timeout=60)[5]), "max_retries=0", "owner")
            return {**found, "names it": ref.hex() in found.get("#message", ref.hex())}

        return {"ready": len(ready), **{name: read(ref) for name, ref in refs.items()}}


@snippet("F3.09", "F3.13", cluster=None)
def between_the_calls_of_a_chain() -> Any:
    """What was made on the way takes no room, although the end could be made again."""
    return driver(
        """
        import os, tempfile, numpy as np, ray
        folder = tempfile.mkdtemp()
        ray.init(num_cpus=1, object_store_memory=200 << 20, include_dashboard=False,
                 object_spilling_directory=folder)
        @ray.remote
        def more(x): return x + 1
        ref = ray.put(np.zeros(20 << 20, np.uint8))
        for _ in range(40):
            ref = more.remote(ref)
        print(">", int(ray.get(ref)[0]))
        sizes = [os.path.getsize(os.path.join(f, n)) for f, _, ns in os.walk(folder) for n in ns]
        print("> little on disk", sum(sizes) < 200 << 20)
        """
    )


@snippet("F3.04", "F3.06", "F3.10", cluster=None)
def reading_while_views_keep_the_store() -> Any:
    return driver(
        """
        import numpy as np, ray
        ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False)
        refs = [ray.put(np.full(20 << 20, i, np.uint8)) for i in range(10)]
        views = [ray.get(ref) for ref in refs]
        print(">", [int(view[-1]) for view in views], views[-1].flags.writeable)
        total = ray.remote(lambda x: int(x.sum()))
        print(">", ray.get(total.remote(refs[9])) == 9 * (20 << 20))
        del refs
        ray.shutdown()
        print(">", [int(view[-1]) for view in views])
        """,
        timeout=90,
    )

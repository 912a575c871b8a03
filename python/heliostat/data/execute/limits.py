"""Limits on the use of the cluster by an execution: bytes of the object store, and CPUs."""

from __future__ import annotations

import math
import time

import heliostat as ray
from heliostat.data.context import DataContext
from heliostat.util.state import list_actors
from heliostat.util.state.common import RAY_MAX_LIMIT_FROM_API_SERVER

BLOCKS_IN_STORE_MIN = 32  # a node's store holds at least that many blocks of the target size
LOOK_AGAIN_S = 0.5


class Limits:
    """Budgets of one execution, from the cluster as it is now."""

    def __init__(self, context: DataContext) -> None:
        options = context.execution_options
        there = ray.nodes()
        self.addresses: dict[str, str] = {n["NodeID"]: n["NodeManagerAddress"] for n in there}
        nodes = [n["Resources"] for n in there if n["Alive"]]
        stores = [n["object_store_memory"] for n in nodes if n.get("object_store_memory")]
        store = sum(stores) or 1e9
        self.resources: dict[str, float] = {}  # of all nodes together
        for node in nodes:
            for name, amount in node.items():
                self.resources[name] = self.resources.get(name, 0.0) + amount
        self.cpus = self.resources.get("CPU", 0.0)
        self.nodes = len(nodes)
        limit, excluded = options.resource_limits, options.exclude_resources
        self.store_bytes = _least(
            store * context.store_fraction - excluded.object_store_memory,
            limit.object_store_memory,
        )
        self._cpu_limit = _least(self.cpus - excluded.cpu, limit.cpu)
        self.gpus = _least(self.resources.get("GPU", 0.0) - excluded.gpu, limit.gpu)
        self.memory = _least(self.resources.get("memory", 0.0) - excluded.memory, limit.memory)
        smallest = min(stores, default=1e9)
        wanted = context.target_max_block_size
        fits = int(smallest / BLOCKS_IN_STORE_MIN)
        self.block_bytes: int | None = None if wanted is None else max(1, min(wanted, fits))
        self._looked = -math.inf
        self._free = self.cpus

    @property
    def cpus_counted(self) -> float:
        """The result of the last :meth:`free_cpus`; before, the number of CPUs that are allowed."""
        return min(self._free, self._cpu_limit)

    def free_cpus(self, mine: float) -> float:
        """CPUs that this execution can count on; its own actors hold ``mine`` of them.

        What is available at the moment says little: it lags behind, and has the CPUs of actors that
        only wait, which a task may begin on but not count on.
        """
        now = time.monotonic()
        if now - self._looked > LOOK_AGAIN_S:
            self._looked = now
            # Tasks of others end soon, and so does their hold on CPUs; only actors keep theirs.
            self._free = min(self.cpus, self.cpus - _cpus_of_actors() + mine)
        return min(self._free, self._cpu_limit)


def _cpus_of_actors() -> float:
    actors = list_actors(detail=True, limit=RAY_MAX_LIMIT_FROM_API_SERVER)
    living = [row for row in actors if row.state != "DEAD"]
    return sum((row.required_resources or {}).get("CPU", 0.0) for row in living)


def _least(amount: float, limit: float) -> float:
    return amount if math.isinf(limit) else min(amount, limit)

"""The iterator of each consumer of a ``streaming_split``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data import checks
from heliostat.data.context import DataContext
from heliostat.data.execute.stats import ExecutionStats
from heliostat.data.iterate.iterator import DataIterator
from heliostat.data.plan.operators import Bundle
from heliostat.data.split.coordinator import CALLS_PER_CONSUMER, Coordinator

if TYPE_CHECKING:
    from heliostat.actor import ActorHandle
    from heliostat.data.dataset import Dataset, Schema


class SplitIterator(DataIterator):
    """The blocks of one consumer, asked for from the coordinator, one in advance."""

    def __init__(
        self, coordinator: ActorHandle, consumer: int, n: int, context: DataContext
    ) -> None:
        self._coordinator, self._consumer = coordinator, consumer
        self._consumers, self._context = n, context

    def _epoch(self, execution: int | None = None) -> tuple[Iterator[Bundle], ExecutionStats, int]:
        begun = self._coordinator.begin.remote(self._consumer, execution)
        number, execution = ray.get(begun)
        stats = ExecutionStats(dataset="streaming_split", split=str(self._consumer))
        return self._bundles(number), stats, execution

    def _bundles(self, number: int) -> Iterator[Bundle]:
        request = self._coordinator.take.remote(self._consumer, number)
        while True:
            bundle: Bundle | None = ray.get(request)
            if bundle is None:
                return
            request = self._coordinator.take.remote(self._consumer, number)
            yield bundle

    def schema(self) -> Schema | None:
        """Return names and types of the columns."""
        from heliostat.data.dataset.schema import Schema

        found = ray.get(self._coordinator.schema.remote())
        return Schema(found) if found is not None else None

    def stats(self) -> str:
        """Return what the last epoch did for all consumers, in words."""
        text: str = ray.get(self._coordinator.stats.remote())
        return text

    def get_context(self) -> DataContext:
        """Return the settings of the dataset."""
        return self._context

    def world_size(self) -> int:
        """Return the number of consumers."""
        return self._consumers

    def __repr__(self) -> str:
        return f"DataIterator(consumer {self._consumer} of {self._consumers})"


def streaming_split(
    dataset: Dataset, n: int, equal: bool, locality_hints: list[str] | None
) -> list[DataIterator]:
    """Start the coordinator; returns an iterator for each consumer."""
    checks.integers(n=n)
    if n <= 0:
        raise ValueError(f"The number of splits must be positive, got {n}.")
    if locality_hints is not None and len(locality_hints) != n:
        raise ValueError(f"locality_hints has {len(locality_hints)} entries for {n} splits.")
    actor = ray.remote(Coordinator).options(
        num_cpus=0, max_concurrency=CALLS_PER_CONSUMER * n + 1, max_restarts=0
    )
    homes = list(locality_hints) if locality_hints else None
    coordinator = actor.remote([ray.put(dataset)], n, equal, homes)
    return [SplitIterator(coordinator, i, n, dataset.context) for i in range(n)]

"""The figures of executions that are over, kept for whoever in the cluster asks: ``list_stats_summaries``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data.execute.stats_summary import DatasetStatsSummary

if TYPE_CHECKING:
    from heliostat.actor import ActorHandle


NAME, NAMESPACE = "datasets_stats_summaries", "_heliostat_data"
KEPT_MAX = 10_000  # executions; the oldest go first


class _Summaries:
    def __init__(self) -> None:
        self._kept: list[DatasetStatsSummary] = []

    def keep(self, summary: DatasetStatsSummary) -> None:
        self._kept.append(summary)
        del self._kept[:-KEPT_MAX]

    def all(self) -> list[DatasetStatsSummary]:
        return self._kept


def _keeper() -> ActorHandle:
    made: ActorHandle = (
        ray.remote(_Summaries)
        .options(
            name=NAME, namespace=NAMESPACE, get_if_exists=True, lifetime="detached", num_cpus=0
        )
        .remote()
    )
    return made


def keep(summary: DatasetStatsSummary) -> None:
    """Keep the figures of an execution; they are listed from then on."""
    ray.get(_keeper().keep.remote(summary))


def list_stats_summaries() -> list[DatasetStatsSummary]:
    """Return the figures of the cluster's executions that have finished, in that order.

    They are kept where ``DataContext.enable_stats_summary_collection`` was set when the dataset was
    made: the newest 10,000, as :meth:`Dataset.get_stats_summary` gives them.

    Examples:
        >>> import ray
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.enable_stats_summary_collection = True
        >>> with ray.data.DataContext.current(context):
        ...     ds = ray.data.range(4).materialize()
        >>> len(ray.data.list_stats_summaries()) > 0
        True
    """
    found: list[DatasetStatsSummary] = ray.get(_keeper().all.remote())
    return found

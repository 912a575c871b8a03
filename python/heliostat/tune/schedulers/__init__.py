"""What decides which trials go on: FIFO, ASHA, the median stopping rule, population based training."""

from __future__ import annotations

from typing import Any

from heliostat.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from heliostat.tune.schedulers.median_stopping_rule import MedianStoppingRule
from heliostat.tune.schedulers.pbt import (
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
)
from heliostat.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

SCHEDULER_IMPORT: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": ASHAScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """Return the scheduler of that name, such as "asha"."""
    name = scheduler.lower()
    if name not in SCHEDULER_IMPORT:
        raise ValueError(
            f"The `scheduler` argument must be one of {list(SCHEDULER_IMPORT)}. Got: {scheduler}"
        )
    return SCHEDULER_IMPORT[name](**kwargs)


__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "TrialScheduler",
    "create_scheduler",
]

"""Schedulers: they decide which trials go on, and with which configuration and resources."""

from __future__ import annotations

import inspect
from typing import Any

from heliostat.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from heliostat.tune.schedulers.hyperband import HyperBandForBOHB, HyperBandScheduler
from heliostat.tune.schedulers.median_stopping_rule import MedianStoppingRule
from heliostat.tune.schedulers.pb2 import PB2
from heliostat.tune.schedulers.pbt import (
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
)
from heliostat.tune.schedulers.resource_changing_scheduler import ResourceChangingScheduler
from heliostat.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

SCHEDULER_IMPORT: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": ASHAScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "pb2": PB2,
    "resource_changing": ResourceChangingScheduler,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
}


def create_scheduler(scheduler: str, **kwargs: object) -> TrialScheduler:
    """Return the scheduler of that name.

    Args:
        scheduler: Such as ``"asha"``, ``"hyperband"``, ``"median_stopping_rule"`` or ``"pbt"``.
        **kwargs: Arguments; it gets those that it takes.

    Raises:
        ValueError: There is no such scheduler.

    Examples:
        >>> from ray import tune
        >>> type(tune.create_scheduler("asha", max_t=10)).__name__
        'AsyncHyperBandScheduler'
    """
    name = scheduler.lower()
    if name not in SCHEDULER_IMPORT:
        raise ValueError(
            f"The `scheduler` argument must be one of {list(SCHEDULER_IMPORT)}. Got: {scheduler}"
        )
    kind = SCHEDULER_IMPORT[name]
    taken = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in kwargs.items() if name in taken})


__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]

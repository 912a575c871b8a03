"""``wrap_function``: a function of a config as a class with steps, for those who drive it themselves."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from heliostat.tune import context
from heliostat.tune.aliases import Config, Report
from heliostat.tune.execution.placement_groups import PlacementGroupFactory
from heliostat.tune.trainable.function_run import FunctionRun
from heliostat.tune.trainable.spec import Spec
from heliostat.tune.trainable.trainable import Trainable
from heliostat.tune.trainable.util import check, name_of, resources_of


class FunctionTrainable(Trainable):
    """Runs a function to its next report with each step; it waits in between. See ``wrap_function``.

    ``save`` copies what the function reported last as a checkpoint, and ``restore`` lets the function begin
    with that as its ``tune.get_checkpoint()``.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.trainable import FunctionTrainable, wrap_function
        >>> def objective(config):
        ...     for step in range(2):
        ...         tune.report({"loss": config["x"] - step})
        >>> kind = wrap_function(objective)
        >>> issubclass(kind, FunctionTrainable)
        True
        >>> trainable = kind({"x": 5})
        >>> [trainable.train()["loss"] for _ in range(2)]
        [5, 4]
        >>> trainable.stop()
    """

    # Set by wrap_function; a tuner runs it without this class.
    function: ClassVar[Callable[..., object]]

    def setup(self, config: Config) -> None:
        self._run: FunctionRun | None = None
        self._begin_from: str | None = None
        self._folder = tempfile.mkdtemp(prefix="trial_")
        self._last: Report = {}

    def step(self) -> Report:
        """Return the function's next report; the last one again, as done, when it has ended.

        Raises:
            Exception: What the function raised.
        """
        is_first = self._run is None
        if self._run is None:
            self._run = FunctionRun(type(self).function, self._described())
            context.enter(self._run)
            self._run.begin()
        batch = self._run.next(None if is_first else "CONTINUE")
        if batch.end == "failed":
            raise pickle.loads(batch.error)
        if batch.results:
            # The counts and times are this object's own.
            self._last = {n: v for n, v in batch.results[-1].items() if n not in _COUNTED}
        return {**self._last, "done": batch.end is not None and not batch.results}

    def _described(self) -> Spec:
        if self._spec is not None:
            mine: Spec = self._spec
            return replace(mine, is_lockstep=True, checkpoint=self._begin_from)
        return Spec(
            trial_id=self.trial_id,
            trial_name=self.trial_name,
            experiment_name="",
            config=self.config,
            folder=self._folder,
            resources=resources_of(type(self).function, self.config),
            is_lockstep=True,
            checkpoint=self._begin_from,
        )

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        made = self._run.checkpoint if self._run is not None else self._begin_from
        if made is not None:
            shutil.copytree(made, checkpoint_dir, dirs_exist_ok=True)

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._end_run()
        self._begin_from = os.fspath(checkpoint)

    def reset_config(self, new_config: Config) -> bool:
        self._end_run()
        self._begin_from = None
        return True

    def cleanup(self) -> None:
        self._end_run()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.stop()
            context.leave()
            self._run = None

    @classmethod
    def default_resource_request(cls, config: Config) -> PlacementGroupFactory:
        return resources_of(cls.function, config)


# Values that Timing adds for each step.
_COUNTED = frozenset(
    (
        "done",
        "iterations_since_restore",
        "time_since_restore",
        "time_this_iter_s",
        "time_total_s",
        "training_iteration",
    )
)


def wrap_function(
    train_func: Callable[..., object], name: str | None = None
) -> type[FunctionTrainable]:
    """Return a class whose steps are the reports of a function of a config.

    Args:
        train_func: The function; it calls ``tune.report``.
        name: Of the class. Default: the function's.

    Raises:
        TuneError: ``train_func`` cannot be called.
        ValueError: It takes no config.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.trainable import wrap_function
        >>> def objective(config):
        ...     for step in range(2):
        ...         tune.report({"step": step})
        >>> trainable = wrap_function(objective)(config={})
        >>> trainable.train()["step"], trainable.train()["step"]
        (0, 1)
        >>> trainable.stop()
    """
    check(train_func)
    own = {"function": staticmethod(train_func)}
    return type(name or name_of(train_func), (FunctionTrainable,), own)


__all__ = ["FunctionTrainable", "wrap_function"]

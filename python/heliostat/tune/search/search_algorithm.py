"""``SearchAlgorithm``: what makes the trials of experiments, where one runs them without a tuner."""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heliostat.tune.aliases import Config, Report, State
from heliostat.tune.search.variant_generator import Path, experiment_tag
from heliostat.tune.state_files import newest_state

if TYPE_CHECKING:
    from heliostat.tune.experiment import Experiment
    from heliostat.tune.runner.trial import Trial


class SearchAlgorithm:
    """Base of what makes trials: experiments are added, ``next_trial`` makes their trials one by one.

    ``tune.TuneConfig(search_alg=)`` takes the two that are here, ``BasicVariantGenerator`` and
    ``SearchGenerator``, and any ``Searcher``.

    Examples:
        >>> from ray.tune.search import SearchAlgorithm
        >>> from ray.tune.search.basic_variant import BasicVariantGenerator
        >>> isinstance(BasicVariantGenerator(max_concurrent=2), SearchAlgorithm)
        True
    """

    # A file of Ray's name, of one session.
    CKPT_FILE_TMPL = "search_gen_state-{}.json"

    def __init__(self) -> None:
        self._experiments: list[Experiment] = []
        self._prefix = uuid.uuid4().hex[:5]
        self._number, self._total = 0, 0
        self._is_finished = False

    @property
    def metric(self) -> Any:
        """The metric that is optimized; None where nothing is."""
        return None

    @property
    def total_samples(self) -> int:
        """The number of trials of the experiments; ``sys.maxsize``: without end."""
        return self._total

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        """Take over what was not said at construction.

        Args:
            metric: What is optimized.
            mode: "min" or "max".
            config: The search space.
            **spec: More about the search.

        Returns:
            Whether it was taken.
        """
        return True

    def add_configurations(self, experiments: object) -> None:
        """Take in experiments, whose trials :meth:`next_trial` makes.

        Args:
            experiments: An ``Experiment``, a dict of names and specs, or a list of them.
        """
        from heliostat.tune.experiment import experiments_of

        for one in experiments_of(experiments):
            self._experiments.append(one)
            total = self._take(one)
            self._total = sys.maxsize if total is None else self._total + total

    def _take(self, experiment: Experiment) -> int | None:
        """Prepare the trials of an experiment: how many there are, None: without end."""
        raise NotImplementedError

    def next_trial(self) -> Trial | None:
        """Return the next trial; ``None``: not yet, or there is none. To be implemented."""
        raise NotImplementedError

    def _made(
        self,
        experiment: Experiment,
        config: Config,
        chosen: Mapping[Path, object],
        trial_id: str | None = None,
        tag: str | None = None,
    ) -> Trial:
        from heliostat.tune.runner.trial import Trial

        number, self._number = self._number, self._number + 1
        trial = Trial(
            experiment.run_identifier,
            config=config,
            trial_id=trial_id or f"{self._prefix}_{number:05d}",
            evaluated_params={"/".join(map(str, path)): value for path, value in chosen.items()},
            experiment_tag=tag or experiment_tag(number, chosen),
            local_experiment_path=experiment.path,
        )
        trial.folder = trial.default_folder()
        return trial

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """Called when a trial has reported.

        Args:
            trial_id: The trial.
            result: What it reported, with what is added to it.
        """

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        """Called when a trial has ended.

        Args:
            trial_id: The trial.
            result: Its last result, if there is one.
            error: The trial failed. Default False.
        """

    def is_finished(self) -> bool:
        """Return whether there are no more trials."""
        return self._is_finished or self._number >= self._total

    def set_finished(self) -> None:
        """Say that there are no more trials."""
        self._is_finished = True

    # --- going on later ---

    def get_state(self) -> State:
        """Return what ``set_state`` takes."""
        return {
            "prefix": self._prefix,
            "number": self._number,
            "is_finished": self._is_finished,
        }

    def set_state(self, state: State) -> None:
        """Go on from an earlier state, with the same experiments added.

        Args:
            state: What ``get_state`` returned.
        """
        self._prefix, self._number = state["prefix"], state["number"]
        self._is_finished = state["is_finished"]

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Write the state into a file of a folder.

        Args:
            dirpath: The folder.
            session_str: A part of the file's name. Default ``"default"``.
        """
        path = os.path.join(dirpath, self.CKPT_FILE_TMPL.format(session_str))
        with open(f"{path}.part", "wb") as file:
            pickle.dump(self.get_state(), file)
        os.replace(f"{path}.part", path)

    def has_checkpoint(self, dirpath: str) -> bool:
        """Return whether a folder has a state of this kind.

        Args:
            dirpath: The folder.
        """
        return newest_state(dirpath, self.CKPT_FILE_TMPL) is not None

    def restore_from_dir(self, dirpath: str) -> None:
        """Read what ``save_to_dir`` wrote last.

        Args:
            dirpath: The folder.

        Raises:
            RuntimeError: The folder has none.
        """
        found = newest_state(dirpath, self.CKPT_FILE_TMPL)
        if found is None:
            raise RuntimeError(f"There is no state of {type(self).__name__} in {dirpath}.")
        with open(found, "rb") as file:
            self.set_state(pickle.load(file))


__all__ = ["SearchAlgorithm"]

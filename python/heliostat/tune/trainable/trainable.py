"""The class whose steps a trial runs."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import time
from typing import Any

import heliostat as ray
from heliostat.train.checkpoint import Checkpoint
from heliostat.tune.aliases import Config, Report, State
from heliostat.tune.error import ArgumentError
from heliostat.tune.result import EPISODES_TOTAL, SHOULD_CHECKPOINT, TIMESTEPS_TOTAL
from heliostat.tune.trainable.timing import Timing

DICT_FILE = "_dict_checkpoint.pkl"
# The file with the iteration of an object that no trial runs; a trial's controller knows that of a trial.
TIMING_FILE = ".timing.json"


class Trainable:
    """Base of class trainables: ``setup`` once, then ``step`` until the trial ends.

    Attributes:
        config: The trial's configuration.
        storage: Has no effect.

    Examples:
        >>> from ray import tune
        >>> class Countdown(tune.Trainable):
        ...     def setup(self, config):
        ...         self.left = config["start"]
        ...     def step(self):
        ...         self.left -= 1
        ...         return {"left": self.left, "done": self.left == 0}
        ...     def save_checkpoint(self, checkpoint_dir):
        ...         return {"left": self.left}
        ...     def load_checkpoint(self, checkpoint):
        ...         self.left = checkpoint["left"]
        >>> run_config = tune.RunConfig(name="countdown", verbose=0)
        >>> results = tune.Tuner(Countdown, param_space={"start": 3}, run_config=run_config).fit()
        >>> results[0].metrics["left"], results[0].metrics["training_iteration"]
        (0, 3)
    """

    def __init__(self, config: Config | None = None, storage: object = None) -> None:
        self.config = config or {}
        self._spec: Any = None
        self._timing = Timing()
        self._last_result: Report = {}
        self.setup(dict(self.config))

    # --- what users write ---

    def setup(self, config: Config) -> None:
        """Prepare the first step. To be overridden.

        Args:
            config: The trial's configuration.
        """

    def step(self) -> Report:
        """Return the metrics of one step; ``"done": True`` among them ends the trial. To be implemented."""
        raise NotImplementedError

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Save the state. To be implemented where checkpoints are made.

        Args:
            checkpoint_dir: A folder that files may be written to.

        Returns:
            A dict of the state; ``None`` or the folder: the files are it.
        """
        raise NotImplementedError

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a saved state. To be implemented where checkpoints are made.

        Args:
            checkpoint: The dict, or the folder of files.
        """
        raise NotImplementedError

    def cleanup(self) -> None:
        """The trial has ended."""

    def reset_config(self, new_config: Config) -> bool:
        """Make this object fit for another trial. To be overridden.

        Args:
            new_config: The other trial's configuration.

        Returns:
            Whether that is done; False: a new object is made.
        """
        return False

    def log_result(self, result: Report) -> None:
        """Called with each result, in the trial's process.

        Args:
            result: The metrics.
        """

    def export_model(self, export_formats: object, export_dir: str | None = None) -> dict[str, str]:
        """Write the model in other formats; nothing by default.

        Args:
            export_formats: The formats.
            export_dir: The folder. Default: the trial's.

        Returns:
            The files by format.
        """
        return {}

    @classmethod
    def default_resource_request(cls, config: Config) -> Any:
        """Return a ``PlacementGroupFactory``, or None for one CPU.

        Args:
            config: The trial's configuration.
        """
        return None

    @classmethod
    def resource_help(cls, config: Config) -> str:
        """Return a hint for those who ask for resources.

        Args:
            config: The trial's configuration.
        """
        return ""

    # --- what is called ---

    def train(self) -> Report:
        """Run one step, and return its metrics with what is added to them.

        Raises:
            ValueError: ``step`` did not return a dict.
        """
        metrics = self.step()
        if not isinstance(metrics, dict):
            raise ArgumentError(f"step() needs to return a dict, not {type(metrics).__name__}.")
        result = self._timing.fill(dict(metrics), self.trial_id)
        if self._spec is None:
            result["config"] = self.config
        self._last_result = result
        self.log_result(result)
        return result

    def train_buffered(self, buffer_time_s: float, max_buffer_length: int = 1000) -> list[Report]:
        """Run steps for a time; their results.

        It ends earlier with a result that is done or asks for a checkpoint.

        Args:
            buffer_time_s: After so many seconds no further step begins.
            max_buffer_length: How many steps are run at most.

        Returns:
            Their results.
        """
        until = time.monotonic() + buffer_time_s
        results: list[Report] = []
        while True:
            result = self.train()
            results.append(result)
            is_last = result.get("done") or result.get(SHOULD_CHECKPOINT)
            if is_last or len(results) >= max_buffer_length or time.monotonic() >= until:
                return results

    def get_state(self) -> State:
        """Return how far it has come: counts, times in seconds, and the last result."""
        return {
            "iteration": self.iteration,
            "timesteps_total": self._timing.counts.get(TIMESTEPS_TOTAL),
            "time_total": self._timing.total_s,
            "episodes_total": self._timing.counts.get(EPISODES_TOTAL),
            "last_result": self._last_result,
            "ray_version": str(ray.__version__),  # type: ignore[attr-defined] # set as the package loads
        }

    def get_current_ip_pid(self) -> tuple[str, int]:
        """Return the address of the node, and the id of the process."""
        return ray.util.get_node_ip_address(), os.getpid()

    def is_actor(self) -> bool:
        """Return whether this object is in an actor."""
        return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None

    def save(self, checkpoint_dir: str | None = None) -> Checkpoint:
        """Save into a folder.

        Args:
            checkpoint_dir: The folder. Default: a new temporary one.

        Returns:
            The checkpoint.

        Raises:
            ValueError: ``save_checkpoint`` returned neither a dict nor the folder.
        """
        folder = checkpoint_dir or tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(folder, exist_ok=True)
        saved = self.save_checkpoint(folder)
        if isinstance(saved, dict):
            with open(os.path.join(folder, DICT_FILE), "wb") as file:
                pickle.dump(saved, file)
        elif saved is not None and os.path.abspath(str(saved)) != os.path.abspath(folder):
            raise ValueError(
                f"save_checkpoint() must return None, a dict or the folder {folder}, not {saved!r}."
            )
        if self._spec is None:
            with open(os.path.join(folder, TIMING_FILE), "w") as file:
                timing = self._timing
                came = {
                    "iteration": timing.iteration,
                    "total_s": timing.total_s,
                    "counts": timing.counts,
                }
                json.dump(came, file)
        return Checkpoint(folder)

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from what ``save`` wrote.

        Args:
            checkpoint_path: The checkpoint, or its folder.
        """
        folder = os.fspath(checkpoint_path)
        try:
            with open(os.path.join(folder, DICT_FILE), "rb") as file:
                self.load_checkpoint(pickle.load(file))
        except FileNotFoundError:
            self.load_checkpoint(folder)
        timing = os.path.join(folder, TIMING_FILE)
        if self._spec is None and os.path.exists(timing):
            with open(timing) as file:
                self._timing = Timing(**json.load(file))

    def reset(self, new_config: Config) -> bool:
        """Take over the configuration of another trial.

        Args:
            new_config: The configuration.

        Returns:
            Whether that is done.
        """
        self.config = new_config
        if not self.reset_config(dict(new_config)):
            return False
        self._timing = Timing()
        return True

    def stop(self) -> None:
        """End."""
        self.cleanup()

    def get_config(self) -> Config:
        """Return the configuration."""
        return self.config

    def get_auto_filled_metrics(self) -> Report:
        """Return what is added to each result."""
        return self._timing.fill({}, self.trial_id)

    @property
    def iteration(self) -> int:
        """The number of steps that the trial has made."""
        return self._timing.iteration

    training_iteration = iteration

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        return str(self._spec.trial_id) if self._spec else "default"

    @property
    def trial_name(self) -> str:
        """The trial's name."""
        return str(self._spec.trial_name) if self._spec else "default"

    @property
    def trial_resources(self) -> Any:
        """The ``PlacementGroupFactory`` of the trial."""
        return self._spec.resources if self._spec else None

    @property
    def logdir(self) -> str | None:
        """The trial's folder."""
        return str(self._spec.folder) if self._spec else None

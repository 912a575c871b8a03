"""The events of a search that a user's code hears."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from heliostat.tune.aliases import Report, State
from heliostat.tune.state_files import newest_state

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class Callback:
    """Base of callbacks; each method is called in the driver. What they raise ends the search.

    Examples:
        >>> from ray import tune
        >>> class Told(tune.Callback):
        ...     def on_trial_result(self, iteration, trials, trial, result, **info):
        ...         print(result["config"], result["score"])
        >>> def trial(config):
        ...     tune.report({"score": config["x"] ** 2})
        >>> tuner = tune.Tuner(
        ...     trial,
        ...     param_space={"x": 3},
        ...     run_config=tune.RunConfig(name="told", verbose=0, callbacks=[Told()]),
        ... )
        >>> _ = tuner.fit()
        {'x': 3} 9
    """

    def setup(
        self,
        stop: Mapping[str, object] | None = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: object,
    ) -> None:
        """The search begins; nothing else was called before.

        Args:
            stop: The bounds in ``RunConfig(stop=)``; empty where that is not a dict.
            num_samples: How many times the space is sampled; ``sys.maxsize``: without end.
            total_num_samples: How many trials that makes, with grids.
            info: Further facts, such as ``time_budget_s``.
        """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: object) -> None:
        """Called when a turn of the loop begins.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            **info: More, in later releases.
        """

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        """Called when a turn of the loop has ended.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            **info: More, in later releases.
        """

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial begins, or goes on in a new process.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_trial_restore(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial goes on from a checkpoint; after ``on_trial_start``.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_trial_save(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial has saved a checkpoint; after ``on_checkpoint``.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: Report, **info: object
    ) -> None:
        """Called when a trial has reported. What is changed in ``result`` counts for all that comes after.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            result: What it reported, with what is added to it.
            **info: More, in later releases.
        """

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial has ended well.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial has failed and is tried again.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        """Called when a trial has failed for good.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            **info: More, in later releases.
        """

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: object, **info: object
    ) -> None:
        """Called when a trial has a new checkpoint. What this raises is only warned of.

        Args:
            iteration: Turns of the loop so far.
            trials: All trials.
            trial: The trial.
            checkpoint: A ``tune.Checkpoint``.
            **info: More, in later releases.
        """

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        """Called when the search has ended.

        Args:
            trials: All trials.
            **info: More, in later releases.
        """

    def get_state(self) -> State | None:
        """Return what a restored search gives to ``set_state``."""
        return None

    def set_state(self, state: State) -> None:
        """Go on from an earlier state.

        Args:
            state: What ``get_state`` returned.
        """


class CallbackList(Callback):
    """Several callbacks as one, in their order."""

    # A file of Ray's name; one session writes one of them.
    CKPT_FILE_TMPL = "callback-states-{}.pkl"

    def __init__(self, callbacks: list[Callback]) -> None:
        self._callbacks = callbacks

    def setup(self, **info: Any) -> None:  # type: ignore[override] # as keywords only
        """The search begins. A callback with an older signature is called without arguments."""
        for callback in self._callbacks:
            try:
                callback.setup(**info)
            except TypeError as error:
                if "argument" not in str(error):
                    raise
                warnings.warn(
                    f"{type(callback).__qualname__}.setup was called without arguments ({error}). Let it "
                    "take `stop`, `num_samples`, `total_num_samples`, `**info`, as tune.Callback.setup does.",
                    FutureWarning,
                    stacklevel=2,
                )
                callback.setup()

    def get_state(self) -> dict[Any, Any] | None:
        """Return the callbacks' states by their place; None where none has one."""
        states = {place: callback.get_state() for place, callback in enumerate(self._callbacks)}
        return states if any(states.values()) else None

    def set_state(self, state: dict[Any, Any]) -> None:
        """Give each callback that had a state its own."""
        for place, callback in enumerate(self._callbacks):
            if state.get(place):
                callback.set_state(state[place])

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the states into a file of a folder; nothing where there are none."""
        from heliostat import cloudpickle

        state = self.get_state()
        if state is None:
            return
        path = os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str))
        with open(f"{path}.part", "wb") as file:
            cloudpickle.dump(state, file)
        os.replace(f"{path}.part", path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Take over the states that were written last.

        Raises:
            RuntimeError: The folder has none.
        """
        found = newest_state(checkpoint_dir, self.CKPT_FILE_TMPL)
        if found is None:
            raise RuntimeError(f"There are no states of callbacks in {checkpoint_dir}.")
        with open(found, "rb") as file:
            self.set_state(pickle.load(file))

    def can_restore(self, checkpoint_dir: str) -> bool:
        """Return whether a folder has states of callbacks."""
        return newest_state(checkpoint_dir, self.CKPT_FILE_TMPL) is not None

    def __len__(self) -> int:
        return len(self._callbacks)

    def __getitem__(self, place: int) -> Callback:
        return self._callbacks[place]

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)


def _for_each(hook: str) -> Any:
    def tell(self: CallbackList, **info: object) -> None:
        for callback in self:
            getattr(callback, hook)(**info)

    tell.__name__ = hook
    tell.__doc__ = getattr(Callback, hook).__doc__
    return tell


for _hook in [name for name in vars(Callback) if name.startswith("on_")]:
    setattr(CallbackList, _hook, _for_each(_hook))

"""What a user's code hears of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class Callback:
    """Base of callbacks; each method is called in the driver. What they raise ends the search."""

    def setup(self, stop: Any = None, num_samples: int | None = None, **info: Any) -> None:
        """The search begins."""

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """A turn of the loop begins."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """A turn of the loop has ended."""

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A trial begins."""

    def on_trial_restore(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A trial goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has saved a checkpoint."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A trial has ended well."""

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A trial has failed and is tried again."""

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """A trial has failed for good."""

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Any, **info: Any
    ) -> None:
        """A trial has a new checkpoint."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """The search has ended."""

    def get_state(self) -> dict[str, Any] | None:
        """Return what a restored search gives to ``set_state``."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""

"""The part that algorithms share which learn from recorded episodes."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.algorithms import metrics_names as names
from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.offline.offline_data import OfflineData


class OfflineAlgorithm(Algorithm):
    """Samples recorded data, and trains on it; environments are for evaluation alone.

    Attributes:
        offline_data: The data.
    """

    whole_episodes = False

    def setup(self, config: Any) -> None:
        """Make learners, and open the data."""
        super().setup(config)
        self.offline_data = OfflineData(self.config)

    def training_step(self) -> None:
        """Train on one train batch of the data, or as many as ``dataset_num_iters_per_learner`` says."""
        config = self.config
        size = config.total_train_batch_size
        for _ in range(config.dataset_num_iters_per_learner or 1):
            with self.metrics.log_time((names.TIMERS, "offline_sampling")):
                given: dict[str, Any] = (
                    {"episodes": self.offline_data.sample_episodes(size)}
                    if self.whole_episodes or config.uses_connectors
                    else {"batch": {self._module_id: self.offline_data.sample_steps(size)}}
                )
            self._timesteps += size
            self.learn(
                **given,
                num_epochs=config.num_epochs,
                minibatch_size=config.minibatch_size,
                shuffle_batch_per_epoch=config.shuffle_batch_per_epoch,
            )
        self.publish_weights()

    @property
    def _module_id(self) -> str:
        return str(next(iter(self.config.policies)))


def check(config: Any) -> None:
    """Fails where settings do not fit an algorithm that learns from recorded data.

    Raises:
        ValueError: The message says what to change.
    """
    kind = type(config).__name__.removesuffix("Config")
    if isinstance(config.input_, str) and config.input_ == "sampler":
        raise ValueError(
            f"{kind} learns from recorded episodes: set offline_data(input_=[paths]), as "
            "offline_data(output=...) of another algorithm wrote them."
        )
    if config.model_config.get("use_lstm"):
        raise ValueError(f"use_lstm=True is not built for {kind}: use PPO or IMPALA.")
    if config.is_multi_agent:
        raise ValueError(
            f"multi_agent(...) is not built for {kind}: recorded data is of one agent."
        )

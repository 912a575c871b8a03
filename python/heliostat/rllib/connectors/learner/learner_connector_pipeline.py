"""From episodes to train batches."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2


class LearnerConnectorPipeline(ConnectorPipelineV2):
    """The connectors between episodes and a learner's losses.

    Examples:
        >>> from ray.rllib.connectors.learner import ComputeReturnsToGo, LearnerConnectorPipeline
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a", observations=[0.0, 1.0, 2.0], actions=[1, 0], rewards=[1.0, 2.0], len_lookback_buffer=0
        ... )
        >>> pipeline = LearnerConnectorPipeline(connectors=[ComputeReturnsToGo(gamma=0.5)])
        >>> batch = pipeline(batch={}, episodes=[episode], rl_module=None)
        >>> batch["returns_to_go"]["a",][0].tolist()
        [2.0, 2.0]
    """

    def __call__(
        self,
        *,
        batch: Any = None,
        episodes: Any,
        explore: Any = False,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the train batch, by module id and column."""
        where = ("__all_modules__", "learner_connector_sum_episodes_length")
        if metrics is not None:
            metrics.log_value((where[0], f"{where[1]}_in"), sum(map(len, episodes)))
        found = super().__call__(
            batch=batch,
            episodes=episodes,
            explore=explore,
            metrics=metrics,
            metrics_prefix_key=("__all_modules__", "learner_connector"),
            **kwargs,
        )
        if metrics is not None:
            metrics.log_value((where[0], f"{where[1]}_out"), sum(map(len, episodes)))
        return found

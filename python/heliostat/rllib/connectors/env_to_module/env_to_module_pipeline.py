"""From episodes to what a module gets."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2


class EnvToModulePipeline(ConnectorPipelineV2):
    """The connectors between environments and the module's forward.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import (
        ...     AddObservationsFromEpisodesToBatch,
        ...     BatchIndividualItems,
        ...     EnvToModulePipeline,
        ... )
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> pipeline = EnvToModulePipeline(
        ...     connectors=[AddObservationsFromEpisodesToBatch(), BatchIndividualItems()]
        ... )
        >>> episode = SingleAgentEpisode(observations=[0.0, 0.5], actions=[1], rewards=[1.0])
        >>> pipeline(episodes=[episode], rl_module=None)["obs"].tolist()
        [0.5]
    """

    def __call__(
        self,
        *,
        batch: Any = None,
        episodes: Any,
        shared_data: Any = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the module's batch."""
        if metrics is not None:
            metrics.log_value("env_to_module_sum_episodes_length_in", sum(map(len, episodes)))
        found = super().__call__(
            batch=batch, episodes=episodes, shared_data=shared_data, metrics=metrics, **kwargs
        )
        if metrics is not None:
            metrics.log_value("env_to_module_sum_episodes_length_out", sum(map(len, episodes)))
        return found

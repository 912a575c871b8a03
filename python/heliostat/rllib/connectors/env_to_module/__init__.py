"""Connectors between environments and modules."""

from __future__ import annotations

from heliostat.rllib.connectors.common.add_observations_from_episodes_to_batch import (
    AddObservationsFromEpisodesToBatch,
)
from heliostat.rllib.connectors.common.add_states_from_episodes_to_batch import (
    AddStatesFromEpisodesToBatch,
)
from heliostat.rllib.connectors.common.add_time_dim_to_batch_and_zero_pad import (
    AddTimeDimToBatchAndZeroPad,
)
from heliostat.rllib.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from heliostat.rllib.connectors.common.batch_individual_items import BatchIndividualItems
from heliostat.rllib.connectors.common.flatten_observations import FlattenObservations
from heliostat.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from heliostat.rllib.connectors.env_to_module.env_to_module_pipeline import EnvToModulePipeline
from heliostat.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from heliostat.rllib.connectors.env_to_module.prev_actions_prev_rewards import (
    PrevActionsPrevRewards,
)
from heliostat.rllib.connectors.env_to_module.write_observations_to_episodes import (
    WriteObservationsToEpisodes,
)

__all__ = [
    "AddObservationsFromEpisodesToBatch",
    "AddStatesFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AgentToModuleMapping",
    "BatchIndividualItems",
    "EnvToModulePipeline",
    "FlattenObservations",
    "MeanStdFilter",
    "NumpyToTensor",
    "PrevActionsPrevRewards",
    "WriteObservationsToEpisodes",
]

"""Connectors between episodes and learners."""

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
from heliostat.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from heliostat.rllib.connectors.learner.add_columns_from_episodes_to_train_batch import (
    AddColumnsFromEpisodesToTrainBatch,
)
from heliostat.rllib.connectors.learner.add_infos_from_episodes_to_train_batch import (
    AddInfosFromEpisodesToTrainBatch,
)
from heliostat.rllib.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from heliostat.rllib.connectors.learner.add_one_ts_to_episodes_and_truncate import (
    AddOneTsToEpisodesAndTruncate,
)
from heliostat.rllib.connectors.learner.compute_returns_to_go import ComputeReturnsToGo
from heliostat.rllib.connectors.learner.general_advantage_estimation import (
    GeneralAdvantageEstimation,
)
from heliostat.rllib.connectors.learner.learner_connector_pipeline import LearnerConnectorPipeline

__all__ = [
    "AddColumnsFromEpisodesToTrainBatch",
    "AddInfosFromEpisodesToTrainBatch",
    "AddNextObservationsFromEpisodesToTrainBatch",
    "AddObservationsFromEpisodesToBatch",
    "AddOneTsToEpisodesAndTruncate",
    "AddStatesFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AgentToModuleMapping",
    "BatchIndividualItems",
    "ComputeReturnsToGo",
    "GeneralAdvantageEstimation",
    "LearnerConnectorPipeline",
    "NumpyToTensor",
]

"""Connectors between modules and environments."""

from __future__ import annotations

from heliostat.rllib.connectors.common.module_to_agent_unmapping import ModuleToAgentUnmapping
from heliostat.rllib.connectors.common.tensor_to_numpy import TensorToNumpy
from heliostat.rllib.connectors.module_to_env.get_actions import GetActions
from heliostat.rllib.connectors.module_to_env.listify_data_for_vector_env import (
    ListifyDataForVectorEnv,
)
from heliostat.rllib.connectors.module_to_env.module_to_env_pipeline import ModuleToEnvPipeline
from heliostat.rllib.connectors.module_to_env.normalize_and_clip_actions import (
    NormalizeAndClipActions,
)
from heliostat.rllib.connectors.module_to_env.remove_single_ts_time_rank_from_batch import (
    RemoveSingleTsTimeRankFromBatch,
)
from heliostat.rllib.connectors.module_to_env.unbatch_to_individual_items import (
    UnBatchToIndividualItems,
)

__all__ = [
    "GetActions",
    "ListifyDataForVectorEnv",
    "ModuleToAgentUnmapping",
    "ModuleToEnvPipeline",
    "NormalizeAndClipActions",
    "RemoveSingleTsTimeRankFromBatch",
    "TensorToNumpy",
    "UnBatchToIndividualItems",
]

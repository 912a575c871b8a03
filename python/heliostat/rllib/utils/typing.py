"""Names for annotations, as programs written for RLlib import them."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.env.multi_agent_episode import MultiAgentEpisode
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode

AgentID = Any
AlgorithmConfigDict = dict
DeviceType = Any
EnvID = int | str
EnvType = Any
EpisodeID = int | str
EpisodeType = SingleAgentEpisode | MultiAgentEpisode
ModuleID = str
MultiAgentDict = dict[Any, Any]
NetworkType = Any
Optimizer = Any
Param = Any
ParamDict = dict[Any, Any]
PolicyID = str
ResultDict = dict
StateDict = dict[str, Any]
TensorStructType = Any
TensorType = Any

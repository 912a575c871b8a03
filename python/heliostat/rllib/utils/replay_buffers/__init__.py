"""Replay buffers."""

from __future__ import annotations

from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import (
    EpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)
from heliostat.rllib.utils.replay_buffers.multi_agent_episode_buffer import (
    MultiAgentEpisodeReplayBuffer,
    MultiAgentPrioritizedEpisodeReplayBuffer,
)

__all__ = [
    "EpisodeReplayBuffer",
    "MultiAgentEpisodeReplayBuffer",
    "MultiAgentPrioritizedEpisodeReplayBuffer",
    "PrioritizedEpisodeReplayBuffer",
]

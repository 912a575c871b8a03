"""The module path from which programs import the class."""

from __future__ import annotations

from heliostat.rllib.utils.replay_buffers.multi_agent_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)

__all__ = ["MultiAgentPrioritizedEpisodeReplayBuffer"]

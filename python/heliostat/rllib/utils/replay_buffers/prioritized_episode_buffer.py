"""The module path from which programs import the class."""

from __future__ import annotations

from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import (
    PrioritizedEpisodeReplayBuffer,
)

__all__ = ["PrioritizedEpisodeReplayBuffer"]

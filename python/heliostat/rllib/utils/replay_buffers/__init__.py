"""Replay buffers."""

from __future__ import annotations

from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import (
    EpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)

__all__ = ["EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer"]

"""The replay buffer that settings describe."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import (
    EpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)
from heliostat.rllib.utils.replay_buffers.multi_agent_episode_buffer import (
    MultiAgentEpisodeReplayBuffer,
    MultiAgentPrioritizedEpisodeReplayBuffer,
)

# By name: for one agent, and for several.
_KINDS: dict[str, Any] = {
    "EpisodeReplayBuffer": EpisodeReplayBuffer,
    "PrioritizedEpisodeReplayBuffer": PrioritizedEpisodeReplayBuffer,
}
_SEVERAL: dict[str, Any] = {
    "MultiAgentEpisodeReplayBuffer": MultiAgentEpisodeReplayBuffer,
    "MultiAgentPrioritizedEpisodeReplayBuffer": MultiAgentPrioritizedEpisodeReplayBuffer,
}


def buffer_of(config: Any, n_step: Any = 1) -> Any:
    """The replay buffer that ``replay_buffer_config`` describes; with several agents one of several modules.

    Raises:
        ValueError: There is no such kind, or no such argument.
    """
    given = dict(config.replay_buffer_config)
    kind = given.pop("type", "PrioritizedEpisodeReplayBuffer")
    name = (kind if isinstance(kind, str) else kind.__name__).rsplit(".", 1)[-1]
    known = {**_KINDS, **_SEVERAL}
    found = known.get(name) if isinstance(kind, str) else kind
    if config.is_multi_agent and f"MultiAgent{name}" in _SEVERAL:
        found = _SEVERAL[f"MultiAgent{name}"]
    if found is None:
        from heliostat.core.platform.spelling import did_you_mean

        raise ValueError(
            f"replay_buffer_config has type={name!r}; there are {', '.join(known)}."
            f"{did_you_mean(name, known)}"
        )
    if name in _SEVERAL and not config.is_multi_agent:
        raise ValueError(
            f"replay_buffer_config has type={name!r}, and multi_agent(...) is not set: take "
            f"{name.removeprefix('MultiAgent')!r}."
        )
    return found(n_step=n_step, gamma=config.gamma, seed=config.seed, **given)

"""Replay buffers of several agents: one for each module."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.utils.replay_buffers.episode_replay_buffer import (
    EpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
    refused,
)


class MultiAgentEpisodeReplayBuffer:
    """The last transitions of each module's agents, each as likely as the module's others.

    Args:
        capacity: How many are kept of each module; older ones make room. Default 10000.
        batch_size_B: How many :meth:`sample` returns of each module unless it is told. Default 16.
        **kwargs: As of ``EpisodeReplayBuffer``.
    """

    kind: type[EpisodeReplayBuffer] = EpisodeReplayBuffer

    def __init__(self, capacity: int = 10000, *, batch_size_B: int = 16, **kwargs: Any) -> None:
        self._how = {"capacity": capacity, "batch_size_B": batch_size_B, **kwargs}
        self._buffers: dict[str, EpisodeReplayBuffer] = {}
        self._of("checked")  # arguments that do not fit are an error here
        self._buffers.clear()

    def _of(self, module_id: str) -> EpisodeReplayBuffer:
        if module_id not in self._buffers:
            self._buffers[module_id] = self.kind(**self._how)
        return self._buffers[module_id]

    def __len__(self) -> int:
        return sum(len(buffer) for buffer in self._buffers.values())

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions are there.

        Args:
            module_id: Of which module. Default: of all.
        """
        if module_id is not None:
            return len(self._buffers.get(module_id, ()))
        return len(self)

    get_num_agent_timesteps = get_num_timesteps

    def get_added_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions were added so far.

        Args:
            module_id: Of which module. Default: of all.
        """
        return sum(buffer.added for buffer in self._chosen(module_id))

    get_added_agent_timesteps = get_added_timesteps

    def get_sampled_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions :meth:`sample` returned so far.

        Args:
            module_id: Of which module. Default: of all.
        """
        return sum(buffer.sampled for buffer in self._chosen(module_id))

    def _chosen(self, module_id: str | None) -> list[EpisodeReplayBuffer]:
        return [
            own for name, own in self._buffers.items() if module_id is None or name == module_id
        ]

    def __getattr__(self, name: str) -> Any:
        return refused(self, name)

    def get_module_ids(self) -> list[str]:
        """Return the modules whose transitions are there."""
        return list(self._buffers)

    def add(self, episodes: Any) -> None:
        """Add the transitions of episodes, or of a rollout, each to the buffer of the module that acted.

        Args:
            episodes: ``MultiAgentEpisode`` objects, their agents' episodes, or what a runner sampled.
        """
        episodes = getattr(episodes, "episodes", episodes)
        for episode in episodes if isinstance(episodes, (list, tuple)) else [episodes]:
            for own in getattr(episode, "agent_episodes", {"": episode}).values():
                self._of(own.module_id or DEFAULT_MODULE_ID).add(own)

    def sample(
        self, num_items: int | None = None, *, modules_to_sample: Any = None, **kwargs: Any
    ) -> dict[str, dict[str, Any]]:
        """Return random transitions by module id, as the module's own buffer does.

        Args:
            num_items: How many of each module. Default: ``batch_size_B``.
            modules_to_sample: Of which modules. Default: of all that have some.
            **kwargs: As of ``EpisodeReplayBuffer.sample``.

        Raises:
            ValueError: The buffer is empty.
        """
        found = {
            module_id: buffer.sample(num_items, **kwargs)
            for module_id, buffer in self._buffers.items()
            if len(buffer) and (modules_to_sample is None or module_id in modules_to_sample)
        }
        if not found:
            raise ValueError("The replay buffer is empty: add episodes first.")
        return found

    def update_priorities(self, priorities: dict[str, Any], indices: dict[str, Any]) -> None:
        """Take errors of transitions; without priorities nothing changes.

        Args:
            priorities: The errors by module id.
            indices: Where the transitions are by module id, as ``sample`` returned them.
        """
        for module_id, errors in priorities.items():
            self._buffers[module_id].update_priorities(errors, indices[module_id])

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`set_state` takes."""
        return {module_id: buffer.get_state() for module_id, buffer in self._buffers.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned.

        Args:
            state: The state.
        """
        for module_id, own in state.items():
            self._of(module_id).set_state(own)


class MultiAgentPrioritizedEpisodeReplayBuffer(MultiAgentEpisodeReplayBuffer):
    """The last transitions of each module's agents, those of large errors more often.

    Args:
        capacity: How many are kept of each module. Default 10000.
        **kwargs: As of ``PrioritizedEpisodeReplayBuffer``.
    """

    kind = PrioritizedEpisodeReplayBuffer

"""Replay buffers: transitions of episodes in arrays, sampled evenly or by priority."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import at, leaves, mapped, put
from heliostat.util.returns import Chances
from heliostat.util.returns import n_step as sums_of

_KEPT = (Columns.OBS, Columns.NEXT_OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS)


_OF_EPISODES = "buffers keep transitions, not episodes: get_num_timesteps() says how many"
_ABSENT = {
    "episodes": _OF_EPISODES,
    "episode_id_to_index": _OF_EPISODES,
    "get_num_episodes": _OF_EPISODES,
    "get_num_episodes_evicted": _OF_EPISODES,
    "num_episodes_evicted": _OF_EPISODES,
    "get_metrics": "what is sampled and learned is in the algorithm's result",
    "get_host": "a buffer is in the algorithm's process",
    "batch_length_T": "a transition is one item; n_step says how many steps it has",
    "sampled_timesteps": "call get_sampled_timesteps()",
    "batch_size_B": "batch_size has it",
    "rng": "give the seed to the constructor",
}


def refused(buffer: Any, name: str) -> Any:
    """Raise for an attribute that a buffer lacks, and say what takes its place.

    Raises:
        AttributeError: Always.
    """
    why = _ABSENT.get(name)
    kind = type(buffer).__name__
    if why is None:
        raise AttributeError(f"{kind} has no attribute {name!r}.")
    raise AttributeError(f"{kind}.{name} is not in this release of Heliostat: {why}.")


class EpisodeReplayBuffer:
    """The last transitions, each as likely as the others.

    Args:
        capacity: How many are kept; older ones make room.
        batch_size_B: How many :meth:`sample` returns unless it is told.
        n_step: How many rewards a transition has.
        gamma: What a reward one step later counts.
        seed: Of the choices.
    """

    def __init__(
        self,
        capacity: int = 10000,
        *,
        batch_size_B: int = 16,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r} of a replay buffer must be at least 1.")
        self.capacity, self.batch_size = int(capacity), batch_size_B
        self.n_step, self.gamma = n_step, gamma
        self._random = np.random.default_rng(seed)
        self._columns: dict[str, Any] | None = None
        self._next = 0
        self._size = 0
        self.added = 0
        self.sampled = 0

    def __len__(self) -> int:
        return self._size

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions are there.

        Args:
            module_id: Has no effect: there is one module.
        """
        return self._size

    def get_added_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions were added so far.

        Args:
            module_id: Has no effect: there is one module.
        """
        return self.added

    def get_sampled_timesteps(self, module_id: str | None = None) -> int:
        """Return how many transitions :meth:`sample` returned so far.

        Args:
            module_id: Has no effect: there is one module.
        """
        return self.sampled

    def __getattr__(self, name: str) -> Any:
        return refused(self, name)

    def add(self, episodes: Any) -> None:
        """Add the transitions of episodes, or of a rollout."""
        if hasattr(episodes, "columns"):
            self._insert(self._of_rollout(episodes))
            return
        episodes = getattr(episodes, "episodes", episodes)
        for episode in episodes if isinstance(episodes, (list, tuple)) else [episodes]:
            if len(episode):
                self._insert(self._of_episode(episode))

    def _steps(self) -> int:
        if isinstance(self.n_step, (tuple, list)):
            low, high = self.n_step
            return int(self._random.integers(low, high + 1))
        return int(self.n_step)

    def _of_episode(self, episode: Any) -> dict[str, Any]:
        data = episode.to_numpy().get_data_dict()
        over = (data[Columns.TERMINATEDS] | data[Columns.TRUNCATEDS])[:, None]
        columns = {key: mapped(lambda leaf: np.asarray(leaf)[:, None], data[key]) for key in _KEPT}
        return self._summed(columns, over, None)

    def _of_rollout(self, rollout: Any) -> dict[str, Any]:
        columns = {key: rollout.columns[key] for key in _KEPT if key != Columns.NEXT_OBS}
        following = mapped(
            lambda leaf, last: np.concatenate([leaf[1:], last[None]]),
            columns[Columns.OBS],
            rollout.last_obs,
        )
        for row, (step, env) in enumerate(rollout.final_at):
            put(following, (step, env), at(rollout.final_obs, row))
        columns[Columns.NEXT_OBS] = following
        over = columns[Columns.TERMINATEDS] | rollout.columns[Columns.TRUNCATEDS]
        return self._summed(columns, over, rollout.valid)

    def _summed(self, columns: dict[str, Any], over: Any, valid: Any) -> dict[str, Any]:
        steps = self._steps()
        rewards, length = sums_of(columns[Columns.REWARDS], over, self.gamma, steps)
        if steps > 1:
            rows = np.arange(len(rewards))[:, None] + length - 1
            cols = np.arange(rewards.shape[1])[None, :]
            for key in (Columns.NEXT_OBS, Columns.TERMINATEDS):
                columns[key] = at(columns[key], (rows, cols))
        columns = {**columns, Columns.REWARDS: rewards, "n_step": length}
        flat = {
            key: mapped(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), value)
            for key, value in columns.items()
        }
        return flat if valid is None else at(flat, valid.reshape(-1))

    def _insert(self, columns: dict[str, Any]) -> None:
        count = len(columns[Columns.REWARDS])
        if count > self.capacity:
            columns, count = at(columns, slice(count - self.capacity, None)), self.capacity
        if self._columns is None:
            self._columns = mapped(
                lambda leaf: np.empty((self.capacity, *leaf.shape[1:]), leaf.dtype), columns
            )
        where = (self._next + np.arange(count)) % self.capacity
        mapped(lambda held, new: held.__setitem__(where, new), self._columns, columns)
        self._next = int((self._next + count) % self.capacity)
        self._size = min(self.capacity, self._size + count)
        self.added += count
        self._inserted(where)

    def _inserted(self, where: Any) -> None:
        """Called with the places of new transitions."""

    def sample(self, num_items: int | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return random transitions: arrays by column, with ``weights`` and the places as ``indices``.

        Raises:
            ValueError: The buffer is empty.
        """
        if not self._size:
            raise ValueError("The replay buffer is empty: add episodes first.")
        count = num_items or self.batch_size
        return self._at(self._random.integers(0, self._size, count), np.ones(count, np.float32))

    def _at(self, places: Any, weights: Any) -> dict[str, Any]:
        found: dict[str, Any] = at(self._columns, places)
        self.sampled += len(places)
        return {**found, "weights": weights, "indices": places}

    def update_priorities(self, priorities: Any, indices: Any = None) -> None:
        """Take errors of transitions; without priorities nothing changes."""

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`set_state` takes."""
        held = at(self._columns, slice(0, self._size)) if self._columns is not None else None
        counts = {"added": self.added, "sampled": self.sampled}
        return {"columns": held, "next": self._next, "size": self._size, **counts}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned."""
        if state["columns"] is not None:
            self._size = self._next = 0
            self._insert(state["columns"])
        self._next, self.added = state["next"] % self.capacity, state["added"]
        self.sampled = state.get("sampled", 0)

    def nbytes(self) -> int:
        """Return the memory of what is held, in bytes."""
        return sum(leaf.nbytes for _, leaf in leaves(self._columns or {}))


class PrioritizedEpisodeReplayBuffer(EpisodeReplayBuffer):
    """The last transitions, those of large errors more often.

    Args:
        capacity: How many are kept.
        alpha: How much errors count: 0 for not at all.
        beta: How much the weights of a sample make up for it: 1 for wholly.
        kwargs: As of ``EpisodeReplayBuffer``.
    """

    def __init__(
        self, capacity: int = 10000, *, alpha: float = 1.0, beta: float = 0.4, **kwargs: Any
    ) -> None:
        super().__init__(capacity, **kwargs)
        self.alpha, self.beta = alpha, beta
        self._chances = Chances(self.capacity)
        self._largest = 1.0

    def _inserted(self, where: Any) -> None:
        self._chances.set(where, self._largest**self.alpha)

    def sample(
        self, num_items: int | None = None, *, beta: float | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return random transitions by their priorities, with weights that make up for it.

        Raises:
            ValueError: The buffer is empty.
        """
        if not self._size:
            raise ValueError("The replay buffer is empty: add episodes first.")
        count = num_items or self.batch_size
        beta = self.beta if beta is None else beta
        return self._at(*self._chances.draw(self._random.random(count), self._size, beta))

    def update_priorities(self, priorities: Any, indices: Any = None) -> None:
        """Take the errors of the transitions at ``indices``.

        Args:
            priorities: Their errors; the sign does not count.
            indices: Where they are, as ``sample`` returned them.
        """
        errors = np.abs(np.asarray(priorities, np.float64)).reshape(-1) + 1e-6
        self._largest = max(self._largest, float(errors.max()))
        self._chances.set(indices, errors**self.alpha)

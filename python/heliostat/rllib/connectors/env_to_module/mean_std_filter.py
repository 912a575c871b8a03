"""Observations of mean 0 and deviation 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.utils.nest import leaves, mapped
from heliostat.rllib.utils.numpy import SMALL_NUMBER
from heliostat.rllib.utils.spaces import parts


class Moments:
    """Number, mean and sum of squared differences of what was seen: since ever, and since the last merge.

    Args:
        shape: The shape of one observation.
    """

    def __init__(self, shape: Any) -> None:
        self.count, self.fresh = 0, 0
        self.mean, self.squares = np.zeros(shape), np.zeros(shape)
        self.fresh_mean, self.fresh_squares = np.zeros(shape), np.zeros(shape)

    def push(self, value: Any) -> None:
        """Add one observation."""
        self.count, self.mean, self.squares = _pushed(self.count, self.mean, self.squares, value)
        self.fresh, self.fresh_mean, self.fresh_squares = _pushed(
            self.fresh, self.fresh_mean, self.fresh_squares, value
        )

    def merge(self, state: dict[str, Any]) -> None:
        """Add what another one saw since its last merge."""
        more = state["num_pushes_delta"]
        if not more:
            return
        total = self.count + more
        gap = state["mean_delta_array"] - self.mean
        self.mean = self.mean + gap * (more / total)
        self.squares = (
            self.squares
            + state["sum_sq_diff_delta_array"]
            + gap * gap * (self.count * more / total)
        )
        self.count = total

    def taken(self) -> None:
        """Begin anew: what was seen so far was handed on."""
        self.fresh = 0
        self.fresh_mean, self.fresh_squares = np.zeros_like(self.mean), np.zeros_like(self.mean)

    @property
    def std(self) -> Any:
        """The deviation; 0 of fewer than two observations."""
        if self.count < 2:
            return np.zeros(self.mean.shape, np.float32)
        return np.sqrt((self.squares / (self.count - 1)).astype(np.float32))

    def get_state(self) -> dict[str, Any]:
        """Return the numbers, under Ray's names."""
        return {
            "num_pushes": self.count,
            "num_pushes_delta": self.fresh,
            "mean_array": self.mean,
            "mean_delta_array": self.fresh_mean,
            "sum_sq_diff_array": self.squares,
            "sum_sq_diff_delta_array": self.fresh_squares,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Moments:
        """Return what :meth:`get_state` described; nothing of it is fresh."""
        made = cls(np.shape(state["mean_array"]))
        made.count = state["num_pushes"]
        made.mean, made.squares = state["mean_array"], state["sum_sq_diff_array"]
        return made


def _pushed(count: int, mean: Any, squares: Any, value: Any) -> tuple[int, Any, Any]:
    count += 1
    gap = value - mean
    mean = mean + gap / count
    return count, mean, squares + gap * (value - mean)


class MeanStdFilter(ConnectorV2):
    """Takes the mean off observations and divides by the deviation, both of all observations so far.

    Runners merge what they saw (``env_runners(merge_env_runner_states=...)``). Choices stay as they are.

    Args:
        multi_agent: Whether episodes are of several agents: each has numbers of its own. Default False.
        de_mean_to_zero: Whether the mean is taken off. Default True.
        de_std_to_one: Whether the deviation divides. Default True.
        clip_by_value: The bound of what comes out, on either side; None for none. Default 10.
        update_stats: Whether observations count. Default True.
        **kwargs: As of ``ConnectorV2``.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.connectors.env_to_module import MeanStdFilter
        >>> config = (
        ...     PPOConfig()
        ...     .environment("CartPole-v1")
        ...     .env_runners(env_to_module_connector=lambda env: MeanStdFilter(clip_by_value=5.0))
        ... )
    """

    def __init__(
        self,
        *,
        multi_agent: bool = False,
        de_mean_to_zero: bool = True,
        de_std_to_one: bool = True,
        clip_by_value: float | None = 10.0,
        update_stats: bool = True,
        **kwargs: Any,
    ) -> None:
        self._multi_agent = multi_agent
        self.de_mean_to_zero, self.de_std_to_one = de_mean_to_zero, de_std_to_one
        self.clip_by_value = clip_by_value
        self._update_stats = update_stats
        self._filters: dict[Any, Any] | None = None
        super().__init__(**kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space, with Boxes from -``clip_by_value`` to it."""
        return self._filtered(input_observation_space)

    def _filtered(self, space: Any) -> Any:
        from gymnasium import spaces

        if isinstance(space, spaces.Dict):
            return spaces.Dict({name: self._filtered(part) for name, part in space.spaces.items()})
        if isinstance(space, spaces.Tuple):
            return spaces.Tuple([self._filtered(part) for part in space.spaces])
        if not isinstance(space, spaces.Box):
            return space
        bound = np.inf if self.clip_by_value is None else self.clip_by_value
        return spaces.Box(-bound, bound, space.shape, space.dtype)

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch; episodes have filtered observations.

        Raises:
            KeyError: Episodes are of several agents, and ``multi_agent`` is False.
        """
        filters = self._numbers()
        for episode in self.single_agent_episode_iterator(episodes):
            if episode.agent_id not in filters:
                raise KeyError(
                    f"MeanStdFilter has no numbers of agent {episode.agent_id!r}: make it with "
                    "multi_agent=True."
                )
            seen = mapped(np.asarray, episode.get_observations(-1))
            episode.set_observations(
                at_indices=-1, new_data=mapped(self._one, filters[episode.agent_id], seen)
            )
            space = self.observation_space
            episode.observation_space = space[episode.agent_id] if self._multi_agent else space
        return batch

    def _one(self, moments: Moments | None, seen: Any) -> Any:
        if moments is None:
            return seen
        if self._update_stats:
            moments.push(seen)
        found = seen
        if self.de_mean_to_zero:
            found = found - moments.mean
        if self.de_std_to_one:
            found = found / (moments.std + SMALL_NUMBER)
        if self.clip_by_value is not None:
            found = np.clip(found, -self.clip_by_value, self.clip_by_value)
        return found.astype(seen.dtype)

    def _numbers(self) -> dict[Any, Any]:
        if self._filters is None:
            self._filters = self._new()
        return self._filters

    def _new(self) -> dict[Any, Any]:
        from gymnasium import spaces

        def of(space: Any) -> Any:
            return mapped(
                lambda leaf: Moments(leaf.shape) if isinstance(leaf, spaces.Box) else None,
                parts(space),
            )

        space = self.input_observation_space
        if self._multi_agent:
            return {agent: of(part) for agent, part in space.spaces.items()}
        return {None: of(space)}

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the numbers by agent; None is the only one.

        Args:
            components: Has no effect.
            not_components: Has no effect.
            **kwargs: Has no effect.
        """
        if self.input_observation_space is None:
            return {}
        found: dict[Any, Any] = {}
        for agent, nest in self._numbers().items():
            held = [moments for _, moments in leaves(nest)]
            found[agent] = {
                "shape": [None if m is None else m.mean.shape for m in held],
                "de_mean_to_zero": self.de_mean_to_zero,
                "de_std_to_one": self.de_std_to_one,
                "clip_by_value": self.clip_by_value,
                "running_stats": [None if m is None else m.get_state() for m in held],
            }
        return found

    def set_state(self, state: dict[Any, Any]) -> None:
        """Take over numbers."""
        filters = self._numbers()
        for agent, own in state.items():
            self.de_mean_to_zero = own["de_mean_to_zero"]
            self.de_std_to_one = own["de_std_to_one"]
            self.clip_by_value = own["clip_by_value"]
            rest = iter(own["running_stats"])
            filters[agent] = mapped(
                lambda moments, rest=rest: _read(moments, next(rest)), filters[agent]
            )

    def reset_state(self) -> None:
        """Forget all observations."""
        self._filters = None

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the numbers of this connector and of others: of these what they saw since the last merge."""
        filters = self._numbers()
        for state in states:
            for agent, own in state.items():
                held = [moments for _, moments in leaves(filters[agent])]
                for moments, more in zip(held, own["running_stats"], strict=True):
                    if moments is not None:
                        moments.merge(more)
        return self.get_state()

    def _taken(self) -> None:
        for nest in (self._filters or {}).values():
            for _, moments in leaves(nest):
                if moments is not None:
                    moments.taken()


def _read(moments: Moments | None, state: Any) -> Moments | None:
    return None if moments is None else Moments.from_state(state)

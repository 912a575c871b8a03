"""The samples of a runner: one array a column, with no object per step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.nest import at, mapped


@dataclass
class Rollout:
    """Steps of some environments, side by side.

    Attributes:
        columns: By column, nests of arrays of shape ``(steps, environments, ...)``: observations before each
            step, actions as the module chose them, rewards, ``terminateds``, ``truncateds``, and what the
            module gave besides.
        last_obs: What environments show after the last step, of shape ``(environments, ...)``.
        final_at: Steps and environments at which episodes ended, of shape ``(ends, 2)``.
        final_obs: What they ended with, a nest of shape ``(ends, ...)``; None without ends.
        valid: Which steps are of an episode, of shape ``(steps, environments)``; None for all.
        ids: The episode of each environment at the first step, and the next ones in the order of the ends.
        starts: How many steps of its episode each environment had behind it at the first step.
        state_in: The module's state before the first step, nests of ``(environments, ...)``.
        returns: Return and length of each episode that ended, of shape ``(ends, 2)``.
        weights: The number of the weights that chose the actions.
    """

    columns: dict[str, Any]
    last_obs: Any
    final_at: Any
    final_obs: Any
    valid: Any
    ids: list[str]
    starts: Any
    state_in: Any = None
    returns: Any = field(default_factory=lambda: np.zeros((0, 2)))
    weights: int = 0
    infos: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Steps and environments."""
        rewards = self.columns[Columns.REWARDS]
        return int(rewards.shape[0]), int(rewards.shape[1])

    @property
    def env_steps(self) -> int:
        """Steps that are of an episode."""
        return int(self.valid.sum()) if self.valid is not None else int(np.prod(self.shape))

    def runs(self) -> Iterator[tuple[int, int, int, str, int, int]]:
        """The parts of episodes: environment, first step, end, id, steps before it, row of
        ``final_obs`` or -1.
        """
        steps, count = self.shape
        ends: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for row, (step, env) in enumerate(self.final_at):
            ends[env].append((int(step), row))
        for env in range(count):
            begin, name, before = 0, self.ids[env], int(self.starts[env])
            for step, row in ends[env]:
                yield env, begin, step + 1, name, before, row
                begin, name, before = step + 1, self.ids[count + row], 0
                if self.valid is not None and begin < steps and not self.valid[begin, env]:
                    begin += 1
            if begin < steps:
                yield env, begin, steps, name, before, -1

    def episodes(self, observation_space: Any = None, action_space: Any = None) -> list[Any]:
        """The rollout as episodes, of views of the arrays where that is possible."""
        kept = (
            Columns.OBS,
            Columns.ACTIONS,
            Columns.REWARDS,
            Columns.TERMINATEDS,
            Columns.TRUNCATEDS,
        )
        found = []
        for env, begin, end, name, before, row in self.runs():
            part = slice(begin, end)
            last = at(self.last_obs, env) if row < 0 else at(self.final_obs, row)
            if row < 0 and end < self.shape[0]:
                last = at(self.columns[Columns.OBS], (end, env))
            observations = mapped(
                lambda leaf, x: np.concatenate([leaf[part, env], np.asarray(x, leaf.dtype)[None]]),  # noqa: B023 - called at once
                self.columns[Columns.OBS],
                last,
            )
            step = (end - 1, env)
            ended = row >= 0
            found.append(
                SingleAgentEpisode(
                    name,
                    observations=observations,
                    actions=at(self.columns[Columns.ACTIONS], (part, env)),
                    rewards=self.columns[Columns.REWARDS][part, env],
                    infos=[{}] * (end - begin + 1),
                    extra_model_outputs={
                        key: at(value, (part, env))
                        for key, value in self.columns.items()
                        if key not in kept
                    },
                    terminated=ended and bool(self.columns[Columns.TERMINATEDS][step]),
                    truncated=ended and bool(self.columns[Columns.TRUNCATEDS][step]),
                    observation_space=observation_space,
                    action_space=action_space,
                    t_started=before,
                    len_lookback_buffer=0,
                )
            )
        return found


def joined(rollouts: list[Rollout]) -> Rollout:
    """Several as one: environments side by side, for samples of the same number of steps."""
    if len(rollouts) == 1:
        return rollouts[0]
    columns = {
        key: mapped(
            lambda *leaves: np.concatenate(leaves, axis=1), *(r.columns[key] for r in rollouts)
        )
        for key in rollouts[0].columns
    }
    offsets = np.cumsum([0] + [r.shape[1] for r in rollouts[:-1]])
    ends = [r.final_at + np.array([0, offset]) for r, offset in zip(rollouts, offsets, strict=True)]
    with_ends = [r.final_obs for r in rollouts if r.final_obs is not None]
    final = mapped(lambda *leaves: np.concatenate(leaves), *with_ends) if with_ends else None
    some = any(r.valid is not None for r in rollouts)
    heads = [name for r in rollouts for name in r.ids[: r.shape[1]]]
    tails = [name for r in rollouts for name in r.ids[r.shape[1] :]]

    def side(*leaves: Any) -> Any:
        return np.concatenate(leaves)

    return Rollout(
        columns=columns,
        last_obs=mapped(side, *(r.last_obs for r in rollouts)),
        final_at=np.concatenate(ends),
        final_obs=final,
        valid=np.concatenate(
            [r.valid if r.valid is not None else np.ones(r.shape, bool) for r in rollouts], axis=1
        )
        if some
        else None,
        ids=heads + tails,
        starts=np.concatenate([r.starts for r in rollouts]),
        state_in=mapped(side, *(r.state_in for r in rollouts)) if rollouts[0].state_in else None,
        returns=np.concatenate([r.returns for r in rollouts]),
        weights=min(r.weights for r in rollouts),
    )

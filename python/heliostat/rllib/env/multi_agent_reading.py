"""Reading and replacing what an episode of several agents has, by steps of the environment or of agents."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode, filled, places, stacked
from heliostat.rllib.utils.nest import at

_NOTHING = object()  # where an agent has no value at a step


class Readable:
    """The getters and setters of ``MultiAgentEpisode``."""

    agent_episodes: dict[Any, SingleAgentEpisode]
    env_t_started: int
    _lookback: int
    _seen: dict[Any, list[int]]
    _open: dict[Any, tuple[Any, float, dict[str, Any]]]

    def __len__(self) -> int:
        raise NotImplementedError

    def get_observations(
        self,
        indices: Any = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return observations by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all of this part.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What agents have at steps at which they saw nothing, and that there are not. Default:
                they have nothing, and steps that there are not are an error.
            one_hot_discrete: Numbers of ``Discrete`` spaces become vectors. Default False.
            return_list: Return a list of dicts by agent, one a step. Default False: a dict of lists.
        """
        return self._get(
            "observations",
            indices,
            agent_ids,
            env_steps,
            neg_index_as_lookback,
            fill,
            return_list,
            hot=one_hot_discrete,
        )

    def get_infos(
        self,
        indices: Any = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return infos by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all of this part.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What agents have at steps at which they saw nothing, and that there are not. Default:
                they have nothing, and steps that there are not are an error.
            return_list: Return a list of dicts by agent, one a step. Default False: a dict of lists.
        """
        return self._get(
            "infos", indices, agent_ids, env_steps, neg_index_as_lookback, fill, return_list
        )

    def get_actions(
        self,
        indices: Any = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return actions by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all of this part.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What agents have at steps at which they saw nothing, and that there are not. Default:
                they have nothing, and steps that there are not are an error.
            one_hot_discrete: Numbers of ``Discrete`` spaces become vectors. Default False.
            return_list: Return a list of dicts by agent, one a step. Default False: a dict of lists.
        """
        return self._get(
            "actions",
            indices,
            agent_ids,
            env_steps,
            neg_index_as_lookback,
            fill,
            return_list,
            hot=one_hot_discrete,
        )

    def get_rewards(
        self,
        indices: Any = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return rewards by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all of this part.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What agents have at steps at which they saw nothing, and that there are not. Default:
                they have nothing, and steps that there are not are an error.
            return_list: Return a list of dicts by agent, one a step. Default False: a dict of lists.
        """
        return self._get(
            "rewards", indices, agent_ids, env_steps, neg_index_as_lookback, fill, return_list
        )

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Any = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return what modules gave besides actions by agent: of one step, or lists of those of several.

        Args:
            key: The column. Default: all, as dicts by column.
            indices: A step, a slice or a list of steps. Default: all of this part.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What agents have at steps at which they saw nothing, and that there are not. Default:
                they have nothing, and steps that there are not are an error.
            return_list: Return a list of dicts by agent, one a step. Default False: a dict of lists.
        """
        return self._get(
            "extra_model_outputs",
            indices,
            agent_ids,
            env_steps,
            neg_index_as_lookback,
            fill,
            return_list,
            key=key,
        )

    def _get(
        self,
        what: str,
        indices: Any,
        agent_ids: Any,
        env_steps: bool,
        lookback: bool,
        fill: Any,
        return_list: bool,
        hot: bool = False,
        key: str | None = None,
    ) -> Any:
        if agent_ids is not None and not isinstance(agent_ids, (list, tuple, set, frozenset)):
            agent_ids = [agent_ids]
        agents = [a for a in self.agent_episodes if agent_ids is None or a in agent_ids]
        if not env_steps:
            if return_list:
                raise ValueError(
                    "return_list=True makes a dict of each step of the environment: leave env_steps=True."
                )
            found = {a: self._own(a, what, indices, lookback, fill, hot, key) for a in agents}
            return {a: v for a, v in found.items() if not (isinstance(v, list) and not v)}
        count = self._lookback + len(self) + (what in ("observations", "infos"))
        start = self.env_t_started - self._lookback
        one = isinstance(indices, (int, np.integer))
        wanted = slice(None) if indices is None else [indices] if one else indices
        found_at = places(count, self._lookback, wanted, lookback)
        # A list of dicts has one for each step that is asked for, empty where there is none.
        strict = fill is None and not return_list
        if strict and isinstance(wanted, slice):
            found_at = [place for place in found_at if 0 <= place < count]
        for place in found_at:
            if strict and not 0 <= place < count:
                raise IndexError(
                    f"Step {place} is not in this part of the episode: it has {count}."
                )
        steps = [start + p if 0 <= p < count else None for p in found_at]
        if one or return_list:
            rows = [
                {
                    a: v
                    for a in agents
                    if (v := self._value(a, what, step, fill, hot, key)) is not _NOTHING
                }
                for step in steps
            ]
            return rows[0] if one and not return_list else rows
        columns = {}
        for agent in agents:
            values = [self._value(agent, what, step, fill, hot, key) for step in steps]
            values = [v for v in values if v is not _NOTHING]
            if values:
                as_arrays = self.agent_episodes[agent].is_numpy and what != "infos"
                columns[agent] = stacked(values) if as_arrays else values
        return columns

    def _value(
        self, agent: Any, what: str, step: int | None, fill: Any, hot: bool, key: str | None
    ) -> Any:
        own, seen = self.agent_episodes[agent], self._seen[agent]
        place = bisect_left(seen, step) if step is not None else len(seen)
        there = place < len(seen) and seen[place] == step
        hanging = agent in self._open and place == len(own.rewards)
        if what in ("actions", "rewards", "extra_model_outputs") and place >= len(own.rewards):
            there = there and hanging
        if not there and fill is None:
            return _NOTHING
        space: Any = None
        if hot:
            space = own.observation_space if what == "observations" else own.action_space
        if what == "extra_model_outputs":
            open_ = self._open.get(agent, (None, 0.0, {}))[2]
            columns = own.extra_model_outputs
            names = [key] if key is not None else list(columns) or list(open_)
            if there and hanging:
                values = {name: open_[name] for name in names if name in open_}
            elif there:
                values = {name: one_of(columns[name], place) for name in names if name in columns}
            else:
                values = {name: filled(columns.get(name, []), fill) for name in names}
            if key is not None:
                return values.get(key, _NOTHING)
            return values or _NOTHING
        held = getattr(own, what)
        if not there:
            if hasattr(space, "n"):
                return np.full(int(space.n), fill, np.float32)
            return fill if what == "infos" else filled(held, fill)
        if hanging and what in ("actions", "rewards"):
            value = self._open[agent][0 if what == "actions" else 1]
        else:
            value = one_of(held, place) if what != "infos" else held[place]
        return own._hot(space, value) if space is not None else value

    def _own(
        self, agent: Any, what: str, indices: Any, lookback: bool, fill: Any, hot: bool, key: Any
    ) -> Any:
        own = self.agent_episodes[agent]
        if indices is not None and agent in self._open and what not in ("observations", "infos"):
            # Hanging values stand behind the agent's others.
            action, reward, outputs = self._open[agent]
            own = own._with(action, reward, outputs)
        how: dict[str, Any] = {"neg_index_as_lookback": lookback, "fill": fill}
        if hot:
            how["one_hot_discrete"] = True
        if what == "extra_model_outputs":
            names = [key] if key is not None else list(own.extra_model_outputs)
            values = {name: own.get_extra_model_outputs(name, indices, **how) for name in names}
            return values[key] if key is not None else values
        return getattr(own, f"get_{what}")(indices, **how)

    # --- changing ---

    def set_observations(
        self,
        *,
        new_data: dict[Any, Any],
        at_indices: Any = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace observations of agents.

        Args:
            new_data: By agent, the new values.
            at_indices: Where they go, in the agent's own steps: one, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.

        Raises:
            KeyError: The episode has no such agent.
        """
        self._set(
            "observations",
            new_data,
            at_indices=at_indices,
            neg_index_as_lookback=neg_index_as_lookback,
        )

    def set_actions(
        self,
        *,
        new_data: dict[Any, Any],
        at_indices: Any = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace actions of agents.

        Args:
            new_data: By agent, the new values.
            at_indices: Where they go, in the agent's own steps: one, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.

        Raises:
            KeyError: The episode has no such agent.
        """
        self._set(
            "actions", new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback
        )

    def set_rewards(
        self,
        *,
        new_data: dict[Any, Any],
        at_indices: Any = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace rewards of agents.

        Args:
            new_data: By agent, the new values.
            at_indices: Where they go, in the agent's own steps: one, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.

        Raises:
            KeyError: The episode has no such agent.
        """
        self._set(
            "rewards", new_data, at_indices=at_indices, neg_index_as_lookback=neg_index_as_lookback
        )

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: dict[Any, Any],
        at_indices: Any = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace a column of modules of agents.

        Args:
            key: The column.
            new_data: By agent, the new values.
            at_indices: Where they go, in the agent's own steps: one, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.

        Raises:
            KeyError: The episode has no such agent.
        """
        self._set(
            "extra_model_outputs",
            new_data,
            key=key,
            at_indices=at_indices,
            neg_index_as_lookback=neg_index_as_lookback,
        )

    def _set(self, name: str, new_data: dict[Any, Any], **where: Any) -> None:
        for agent, values in new_data.items():
            if agent not in self.agent_episodes:
                known = ", ".join(map(repr, self.agent_episodes))
                raise KeyError(f"The episode has no agent {agent!r}: it has {known}.")
            getattr(self.agent_episodes[agent], f"set_{name}")(new_data=values, **where)


def one_of(values: Any, place: int) -> Any:
    """The value at a place of a list, or of a nest of arrays."""
    return values[place] if isinstance(values, list) else at(values, place)

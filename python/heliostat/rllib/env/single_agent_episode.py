"""An episode, or a part of one, of one agent."""

from __future__ import annotations

import copy
import time
import uuid
from typing import Any

import numpy as np

from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import at, first, mapped, put


def check_follows(id_: str, begins: int, own_id: str, steps: int, is_done: bool) -> None:
    """Raise ``ValueError`` unless a part of an episode follows one of so many steps."""
    if id_ != own_id or begins != steps or is_done:
        raise ValueError(
            f"Episode {id_} from step {begins} on does not follow {own_id}, which has {steps} steps"
            f"{' and is over' if is_done else ''}."
        )


class SingleAgentEpisode:
    """Observations, actions and rewards of one agent, from a reset on or from a later step on.

    A part of an episode may begin with steps of the part before it, the lookback, which indices below zero
    reach by ``neg_index_as_lookback=True`` and of which nothing counts.

    Attributes:
        id_: The episode's id, the same in all its parts.
        observations: Observations so far. Default: none.
        observation_space: The space of one observation.
        infos: Infos so far. Default: none.
        actions: Actions so far. Default: none.
        action_space: The space of one action.
        rewards: Rewards so far. Default: none.
        terminated: The episode ended by its own rules. Default False.
        truncated: It was cut off. Default False.
        extra_model_outputs: What the module gave besides actions, by column. Default: nothing.
        t_started: How many steps of the episode are before this part.
        len_lookback_buffer: How many of the steps are lookback. Default ``"auto"``: all that are given.
        agent_id: The agent, in episodes of several.
        module_id: The module that acts for it.
        multi_agent_episode_id: The id of the episode of several agents.
        t: How many steps it has up to this part's end.
        is_terminated: Whether it ended by its own rules.
        is_truncated: Whether it was cut off.

    Examples:
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode()
        >>> episode.add_env_reset(observation=0)
        >>> episode.add_env_step(observation=1, action=1, reward=0.5)
        >>> episode.add_env_step(observation=2, action=0, reward=1.0, terminated=True)
        >>> len(episode), episode.get_return(), episode.is_done
        (2, 1.5, True)
        >>> episode.get_observations(-1)
        2
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: Any = None,
        observation_space: Any = None,
        infos: Any = None,
        actions: Any = None,
        action_space: Any = None,
        rewards: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
        t_started: int | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_id: Any = None,
        module_id: str | None = None,
        multi_agent_episode_id: str | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_id, self.module_id = agent_id, module_id
        self.multi_agent_episode_id = multi_agent_episode_id
        self.observation_space, self.action_space = observation_space, action_space
        self.is_terminated, self.is_truncated = terminated, truncated
        self.observations: Any = observations if observations is not None else []
        self.actions: Any = actions if actions is not None else []
        self.rewards: Any = rewards if rewards is not None else []
        self.infos: list[Any] = list(infos) if infos is not None else []
        self.extra_model_outputs: dict[str, Any] = dict(extra_model_outputs or {})
        self.custom_data: dict[str, Any] = {}
        steps = len(self.rewards)
        lookback = steps if len_lookback_buffer == "auto" else int(len_lookback_buffer)
        self._lookback = min(lookback, steps)
        while len(self.infos) < _length(self.observations):
            self.infos.append({})
        self.t_started = t_started or 0
        self.t = self.t_started + steps - self._lookback
        self._began: float | None = time.perf_counter() if _length(self.observations) else None
        self._seconds = 0.0

    # --- growing ---

    def add_env_reset(self, observation: Any, infos: dict[str, Any] | None = None) -> None:
        """Begin the episode with the observation of a reset.

        Args:
            observation: The observation.
            infos: Infos. Default: none.
        """
        assert not self.is_reset, "the episode has begun already"
        self.observations.append(observation)
        self.infos.append(infos or {})
        self._began = time.perf_counter()

    def add_env_step(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        infos: dict[str, Any] | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
    ) -> None:
        """Add a step: the action, and what came of it.

        Args:
            observation: The observation after the action.
            action: The action.
            reward: The reward.
            infos: Infos. Default: none.
            terminated: The episode ended by its own rules. Default False.
            truncated: It was cut off. Default False.
            extra_model_outputs: What the module gave besides actions, by column. Default: nothing.

        Raises:
            ValueError: The episode is of arrays (``to_numpy()``).
        """
        assert not self.is_done, "the episode is over"
        if self.is_numpy:
            raise ValueError("An episode of arrays (to_numpy()) takes no more steps.")
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        self.infos.append(infos or {})
        for key, value in (extra_model_outputs or {}).items():
            self.extra_model_outputs.setdefault(key, []).append(value)
        self.is_terminated, self.is_truncated = terminated, truncated
        self.t += 1
        if self._began is not None:
            self._seconds = time.perf_counter() - self._began

    def to_numpy(self) -> SingleAgentEpisode:
        """Turn lists into arrays; the same object."""
        if not self.is_numpy:
            self.observations = stacked(self.observations)
            self.actions = stacked(self.actions)
            self.rewards = np.asarray(self.rewards)
            self.extra_model_outputs = {k: stacked(v) for k, v in self.extra_model_outputs.items()}
        return self

    def cut(self, len_lookback_buffer: int = 0) -> SingleAgentEpisode:
        """Return the part that goes on where this one ends, with its last steps as lookback.

        Args:
            len_lookback_buffer: How many steps before are kept as lookback. Default 0.
        """
        assert not self.is_done, "the episode is over: nothing goes on"
        begin = max(0, len(self.rewards) - len_lookback_buffer)
        made = self._between(begin, len(self.rewards), len(self.rewards) - begin, listed=True)
        made.custom_data = self.custom_data
        return made

    def concat_episode(self, other: SingleAgentEpisode) -> None:
        """Add the part that follows this one.

        Args:
            other: The other part.

        Raises:
            ValueError: It is of another episode, or does not begin where this one ends.
        """
        check_follows(other.id_, other.t_started, self.id_, self.t, self.is_done)
        skip = other._lookback
        self.observations = _appended(self.observations, other.observations, skip + 1)
        self.infos = self.infos + other.infos[skip + 1 :]
        self.actions = _appended(self.actions, other.actions, skip)
        self.rewards = _appended(self.rewards, other.rewards, skip)
        for key, values in other.extra_model_outputs.items():
            mine = self.extra_model_outputs.get(key)
            joined = values if mine is None else _appended(mine, values, skip)
            self.extra_model_outputs[key] = joined
        self.t = other.t
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated

    # --- reading ---

    @property
    def is_reset(self) -> bool:
        """Whether it has its first observation."""
        return _length(self.observations) > 0

    @property
    def is_numpy(self) -> bool:
        """Whether it has arrays, not lists."""
        return not isinstance(self.observations, list)

    @property
    def is_done(self) -> bool:
        """Whether it ended."""
        return self.is_terminated or self.is_truncated

    def __len__(self) -> int:
        return self.t - self.t_started

    def env_steps(self) -> int:
        """Return its number of steps."""
        return len(self)

    agent_steps = env_steps

    def get_return(self) -> float:
        """Return the sum of its rewards, the lookback's without."""
        return float(np.sum(self.rewards[self._lookback :]))

    def get_duration_s(self) -> float:
        """Return the seconds from its begin to its last step."""
        return self._seconds

    def get_observations(
        self,
        indices: Any = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return observations.

        Args:
            indices: One, a list, or a slice; -1 is the last one. Default: all of this part.
            neg_index_as_lookback: Whether -1 is the last one of the lookback.
            fill: What stands for steps that are not there. Default: an IndexError.
            one_hot_discrete: Whether numbers of ``Discrete`` spaces become one-hot.
        """
        return self._read(
            self.observations,
            self.observation_space if one_hot_discrete else None,
            indices,
            neg_index_as_lookback,
            fill,
        )

    def get_actions(
        self,
        indices: Any = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return actions, as :meth:`get_observations` does.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What stands for steps that there are not. Default: they are an error.
            one_hot_discrete: Numbers of actions become vectors. Default False.
        """
        return self._read(
            self.actions,
            self.action_space if one_hot_discrete else None,
            indices,
            neg_index_as_lookback,
            fill,
        )

    def get_rewards(
        self, indices: Any = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return rewards, as :meth:`get_observations` does.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What stands for steps that there are not. Default: they are an error.
        """
        return self._chosen(self.rewards, indices, neg_index_as_lookback, fill)

    def get_infos(
        self, indices: Any = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return infos, as :meth:`get_observations` does.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What stands for steps that there are not. Default: they are an error.
        """
        return self._chosen(self.infos, indices, neg_index_as_lookback, fill)

    def get_extra_model_outputs(
        self,
        key: str,
        indices: Any = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
    ) -> Any:
        """Return what the module gave besides actions, as :meth:`get_observations` does.

        Args:
            key: The column.
            indices: A step, a slice or a list of steps. Default: all.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
            fill: What stands for steps that there are not. Default: they are an error.
        """
        return self._chosen(self.extra_model_outputs[key], indices, neg_index_as_lookback, fill)

    def get_data_dict(self) -> dict[str, Any]:
        """Return the columns of this part, with ``terminateds`` and ``truncateds`` that end in True at
        its end.
        """
        steps = len(self)
        terminateds, truncateds = np.zeros(steps, bool), np.zeros(steps, bool)
        if steps:
            terminateds[-1], truncateds[-1] = self.is_terminated, self.is_truncated
        return {
            Columns.EPS_ID: np.array([self.id_] * steps),
            Columns.OBS: self.get_observations(slice(0, steps)),
            Columns.NEXT_OBS: self.get_observations(slice(1, steps + 1)),
            Columns.ACTIONS: self.get_actions(),
            Columns.REWARDS: self.get_rewards(),
            Columns.INFOS: self.get_infos(slice(0, steps)),
            Columns.TERMINATEDS: terminateds,
            Columns.TRUNCATEDS: truncateds,
            Columns.T: np.arange(self.t_started, self.t),
            **{key: self.get_extra_model_outputs(key) for key in self.extra_model_outputs},
        }

    def slice(self, slice_: Any, *, len_lookback_buffer: int | None = None) -> SingleAgentEpisode:
        """Return the part of some steps.

        Args:
            slice_: The steps, one after the other.
            len_lookback_buffer: How many steps before are kept as lookback. Default: as many as this part
                has.

        Raises:
            ValueError: The slice leaves steps out.
        """
        begin, end, step = slice_.indices(len(self))
        if step != 1:
            raise ValueError("An episode is sliced in steps of one.")
        end = max(begin, end)
        lookback = self._lookback if len_lookback_buffer is None else len_lookback_buffer
        lookback = min(lookback, self._lookback + begin)
        first = self._lookback + begin - lookback
        return self._between(first, self._lookback + end, lookback)

    def _between(
        self, first: int, to: int, lookback: int, listed: bool = False
    ) -> SingleAgentEpisode:
        # The steps from one place to another, as arrays or lists, of which the first are lookback.
        def part(values: Any, end: int) -> Any:
            found = _part(values, first, end)
            return _listed(found, 0) if listed else found

        over = to == len(self.rewards)
        made = SingleAgentEpisode(
            self.id_,
            observations=part(self.observations, to + 1),
            infos=self.infos[first : to + 1],
            actions=part(self.actions, to),
            rewards=list(self.rewards[first:to]) if listed else self.rewards[first:to],
            extra_model_outputs={k: part(v, to) for k, v in self.extra_model_outputs.items()},
            terminated=self.is_terminated and over,
            truncated=self.is_truncated and over,
            observation_space=self.observation_space,
            action_space=self.action_space,
            t_started=self.t_started + first + lookback - self._lookback,
            len_lookback_buffer=lookback,
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )
        made._began = self._began
        return made

    def _with(self, action: Any, reward: float, outputs: dict[str, Any]) -> SingleAgentEpisode:
        # With one more step, for reading what hangs.
        made = copy.copy(self)
        given = {"actions": action, "rewards": reward}
        for name, value in given.items():
            held = getattr(self, name)
            more = [value] if isinstance(held, list) else stacked([value])
            setattr(made, name, _appended(held, more, 0))
        columns = self.extra_model_outputs
        made.extra_model_outputs = {
            key: _appended(columns.get(key, []), [value], 0) for key, value in outputs.items()
        }
        return made

    def __getitem__(self, item: Any) -> SingleAgentEpisode:
        return self.slice(item)

    # --- changing ---

    def set_observations(
        self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace observations.

        Args:
            new_data: The new values.
            at_indices: Where they go: a step, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
        """
        self._replace("observations", new_data, at_indices, neg_index_as_lookback)

    def set_actions(
        self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace actions.

        Args:
            new_data: The new values.
            at_indices: Where they go: a step, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
        """
        self._replace("actions", new_data, at_indices, neg_index_as_lookback)

    def set_rewards(
        self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Replace rewards.

        Args:
            new_data: The new values.
            at_indices: Where they go: a step, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
        """
        self._replace("rewards", new_data, at_indices, neg_index_as_lookback)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: Any,
        at_indices: Any = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace, or add, a column of the module.

        Args:
            key: The column.
            new_data: The new values.
            at_indices: Where they go: a step, a slice or a list. Default: everywhere.
            neg_index_as_lookback: Indices below zero reach into the lookback. Default False: they count
                from the end.
        """
        if key not in self.extra_model_outputs:
            self.extra_model_outputs[key] = new_data
            return
        held = self.extra_model_outputs[key]
        self.extra_model_outputs[key] = self._replaced(
            held, new_data, at_indices, neg_index_as_lookback
        )

    # --- state ---

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`from_state` makes the episode of: dicts, lists and arrays."""

        def held(data: Any, finalized: bool | None = None) -> dict[str, Any]:
            return {
                "data": data,
                "lookback": self._lookback,
                "finalized": self.is_numpy if finalized is None else finalized,
                "space": None,
            }

        outputs = {
            key: held(v, not isinstance(v, list)) for key, v in self.extra_model_outputs.items()
        }
        began = self._began
        return {
            "id_": self.id_,
            "agent_id": self.agent_id,
            "module_id": self.module_id,
            "multi_agent_episode_id": self.multi_agent_episode_id,
            "observations": held(self.observations),
            "actions": held(self.actions),
            "rewards": held(self.rewards),
            "infos": held(list(self.infos), False),
            "extra_model_outputs": outputs or None,
            "is_terminated": bool(self.is_terminated),
            "is_truncated": bool(self.is_truncated),
            "t_started": int(self.t_started),
            "t": int(self.t),
            "_observation_space": self.observation_space,
            "_action_space": self.action_space,
            "_start_time": began,
            "_last_step_time": None if began is None else began + self._seconds,
            "custom_data": self.custom_data,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> SingleAgentEpisode:
        """Return the episode made of what :meth:`get_state` returned, here or on Ray.

        Args:
            state: The state.
        """

        def data(held: dict[str, Any]) -> Any:
            value = held["data"]
            return _tuples(value) if held["finalized"] else [_tuples(one) for one in value]

        outputs = state.get("extra_model_outputs") or {}
        made = SingleAgentEpisode(
            state["id_"],
            observations=data(state["observations"]),
            actions=data(state["actions"]),
            rewards=data(state["rewards"]),
            infos=[i if isinstance(i, dict) else {} for i in state["infos"]["data"]],
            extra_model_outputs={key: data(held) for key, held in outputs.items() if held},
            terminated=bool(state["is_terminated"]),
            truncated=bool(state["is_truncated"]),
            t_started=state["t_started"],
            len_lookback_buffer=state["rewards"]["lookback"],
            agent_id=state.get("agent_id"),
            module_id=state.get("module_id"),
            multi_agent_episode_id=state.get("multi_agent_episode_id"),
        )
        made.custom_data = dict(state.get("custom_data") or {})
        spaces = [state.get("_observation_space"), state.get("_action_space")]
        made.observation_space, made.action_space = (
            s if hasattr(s, "contains") else None for s in spaces
        )
        began, last = state.get("_start_time"), state.get("_last_step_time")
        if began is not None and last is not None:
            made._began, made._seconds = began, last - began
        return made

    def validate(self) -> None:
        """Fail unless there is one observation more than actions, rewards and outputs.

        Raises:
            AssertionError: There is not.
        """
        count = _length(self.observations)
        if not count:
            assert not _length(self.rewards), "the episode has rewards and no observation"
            return
        columns = {"actions": self.actions, "rewards": self.rewards, **self.extra_model_outputs}
        for name, values in columns.items():
            have = _length(values)
            assert have == count - 1, f"{count} observations need {count - 1} {name}, not {have}"
        assert self.t - self.t_started == count - 1 - self._lookback

    def get_sample_batch(self) -> Any:
        """Refused: sample batches are of the old API stack.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "get_sample_batch() is of RLlib's old API stack: get_data_dict() returns the columns."
        )

    def add_temporary_timestep_data(self, *arguments: Any, **keywords: Any) -> None:
        """Refused: ``custom_data`` takes its place.

        Args:
            *arguments: Have no effect.
            **keywords: Have no effect.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "Write episode.custom_data[key] = value; temporary data is gone from RLlib."
        )

    get_temporary_timestep_data = add_temporary_timestep_data

    def __repr__(self) -> str:
        return (
            f"SingleAgentEpisode(len={len(self)} done={self.is_done} "
            f"R={self.get_return()} id_={self.id_})"
        )

    # --- how ---

    def _at(self, index: int, neg_index_as_lookback: bool, length: int) -> int:
        if index >= 0 or neg_index_as_lookback:
            return self._lookback + index
        return length + index

    def _places(self, values: Any, indices: Any, lookback: bool) -> list[int]:
        return places(_length(values), self._lookback, indices, lookback)

    def _read(self, values: Any, space: Any, indices: Any, lookback: bool, fill: Any) -> Any:
        # With a Discrete space numbers become vectors; those that are filled in have no place of their own.
        if not hasattr(space, "n"):
            return self._chosen(values, indices, lookback, fill)
        if fill is None or indices is None:
            return self._hot(space, self._chosen(values, indices, lookback, fill))
        one = isinstance(indices, (int, np.integer))
        found = [
            self._hot(space, values[place])
            if 0 <= place < _length(values)
            else np.full(int(space.n), fill, np.float32)
            for place in self._places(values, [indices] if one else indices, lookback)
        ]
        if one:
            return found[0]
        return found if isinstance(values, list) else np.stack(found)

    def _chosen(self, values: Any, indices: Any, lookback: bool, fill: Any) -> Any:
        length = _length(values)
        if indices is None:
            return _part(values, self._lookback, length)
        if isinstance(indices, (slice, list, tuple, np.ndarray)):
            places = self._places(values, indices, lookback)
            if fill is None and isinstance(indices, slice):
                places = [p for p in places if 0 <= p < length]
                if places and places == list(range(places[0], places[-1] + 1)):
                    return _part(values, places[0], places[-1] + 1)
        else:
            return self._one(values, self._at(int(indices), lookback, length), length, fill)
        found = [self._one(values, place, length, fill) for place in places]
        return found if isinstance(values, list) else stacked(found)

    @staticmethod
    def _one(values: Any, place: int, length: int, fill: Any) -> Any:
        if 0 <= place < length:
            return values[place] if isinstance(values, list) else mapped(lambda a: a[place], values)
        if fill is None:
            raise IndexError(
                f"Step {place} is not in this part of the episode, which has {length}."
            )
        return filled(values, fill)

    @staticmethod
    def _hot(space: Any, values: Any) -> Any:
        if not hasattr(space, "n"):
            return values
        return np.eye(int(space.n), dtype=np.float32)[np.asarray(values, int) - int(space.start)]

    def _replace(self, name: str, new: Any, indices: Any, lookback: bool) -> None:
        setattr(self, name, self._replaced(getattr(self, name), new, indices, lookback))

    def _replaced(self, values: Any, new: Any, indices: Any, lookback: bool) -> Any:
        length = _length(values)
        if isinstance(indices, (int, np.integer)) and isinstance(values, list):
            values[self._at(int(indices), lookback, length)] = new
            return values
        if indices is None:
            given = _length(new)
            if given == length - self._lookback and self._lookback:
                return _appended(_part(values, 0, self._lookback), new, 0)
            if given != length:
                raise ValueError(f"new_data has {given} steps, and the episode {length}.")
            return new
        many = isinstance(indices, (list, tuple))
        if isinstance(indices, slice):
            indices, many = list(range(*indices.indices(length - self._lookback))), True
        places = [self._at(int(i), lookback, length) for i in (indices if many else [indices])]
        copied = list(values) if isinstance(values, list) else mapped(np.array, values)
        for number, place in enumerate(places):
            item = new
            if many:
                item = new[number] if isinstance(new, list) else at(new, number)
            if isinstance(copied, list):
                copied[place] = item
            else:
                put(copied, place, item)
        return copied


def places(length: int, lookback: int, indices: Any, neg_index_as_lookback: bool) -> list[int]:
    """The places of the steps that a slice or a list names, among all steps with the lookback's."""
    if isinstance(indices, slice):
        own = length - lookback
        begin = 0 if indices.start is None else indices.start
        end = own if indices.stop is None else indices.stop
        if not neg_index_as_lookback:
            begin, end = (own + i if i < 0 else i for i in (begin, end))
        return [lookback + i for i in range(begin, end, indices.step or 1)]
    return [(lookback if i >= 0 or neg_index_as_lookback else length) + int(i) for i in indices]


def filled(values: Any, fill: Any) -> Any:
    """``fill`` in the form of one of the values; as it is where there are none."""
    if not _length(values):
        return fill
    return mapped(
        lambda a: np.full_like(np.asarray(a), fill),
        at(values, 0) if not isinstance(values, list) else values[0],
    )


def _length(values: Any) -> int:
    if isinstance(values, list):
        return len(values)
    return int(np.shape(first(values))[0])


def stacked(values: Any) -> Any:
    """A list of nests as one nest of arrays; arrays as they are."""
    if not isinstance(values, list):
        return values
    if not values:
        return np.zeros((0,), np.float32)
    return mapped(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *values)


def _part(values: Any, begin: int, end: int) -> Any:
    if isinstance(values, list):
        return values[begin:end]
    return mapped(lambda a: a[begin:end], values)


def _listed(values: Any, begin: int) -> list[Any]:
    if isinstance(values, list):
        return values[begin:]
    return [at(values, i) for i in range(begin, _length(values))]


def _tuples(value: Any) -> Any:
    # MessagePack has no tuples: those of Tuple spaces come back as lists.
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(part) for part in value)
    return value


def _appended(mine: Any, theirs: Any, skip: int) -> Any:
    rest = _part(theirs, skip, _length(theirs))
    if isinstance(mine, list):
        return mine + _listed(rest, 0)
    if isinstance(rest, list):
        rest = stacked(rest)
    if not _length(mine):
        return rest
    return mapped(lambda a, b: np.concatenate([a, b]), mine, rest)

"""An episode, or a part of one, of several agents."""

from __future__ import annotations

import copy
import sys
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from typing import Any

from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.env.multi_agent_reading import Readable, one_of
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode, check_follows


class MultiAgentEpisode(Readable):
    """The observations, actions and rewards of agents: for each a ``SingleAgentEpisode`` of its own
    steps.

    An agent's step lasts from the observation that it acts on to its next one; rewards between the two are
    summed, and an action that no observation followed yet hangs until then. Methods that take
    ``env_steps=True`` count steps of the environment from this part's begin, with False each agent's own
    steps.

    Data that is given when the episode is made are lists with a dict by agent for each step of the
    environment: observations and infos have one more than actions, rewards and outputs. An agent that saw
    something, did not act, and is not in what comes later counts as terminated.

    Args:
        id_: The episode's id, the same in all its parts.
        observations: Observations so far. Default: none.
        observation_space: A ``Dict`` of spaces by agent.
        infos: Infos so far. Default: none.
        actions: Actions so far. Default: none.
        action_space: A ``Dict`` of spaces by agent.
        rewards: Rewards so far. Default: none.
        terminateds: By agent, and ``"__all__"``; or whether all are. Default False.
        truncateds: By agent, and ``"__all__"``; or whether all are. Default False.
        extra_model_outputs: What modules gave besides actions, by column. Default: nothing.
        env_t_started: How many steps of the environment are before this part.
        agent_t_started: By agent, how many of its steps are before this part.
        len_lookback_buffer: How many steps of the environment are lookback. Default ``"auto"``: all that
            are given.
        agent_episode_ids: By agent, the id of its episode. Default: new ones.
        agent_module_ids: By agent, its module. Default: what the function says.
        agent_to_module_mapping_fn: Which module acts for an agent: a function of its id and the episode.

    Attributes:
        agent_episodes: By agent, its steps in this part.
        env_t: How many steps of the environment the episode has up to this part's end.
        is_terminated: Whether all agents are done by the rules.
        is_truncated: Whether it was cut off.
        custom_data: What callbacks keep with the episode.

    Examples:
        >>> from ray.rllib.env import MultiAgentEpisode
        >>> episode = MultiAgentEpisode()
        >>> episode.add_env_reset(observations={"a": 0, "b": 0})
        >>> episode.add_env_step(
        ...     observations={"a": 1, "b": 1}, actions={"a": 0, "b": 1}, rewards={"a": 1.0, "b": 0.0}
        ... )
        >>> episode.get_return()
        1.0
    """

    SKIP_ENV_TS_TAG = "S"

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: list[Any] | None = None,
        observation_space: Any = None,
        infos: list[Any] | None = None,
        actions: list[Any] | None = None,
        action_space: Any = None,
        rewards: list[Any] | None = None,
        terminateds: Any = False,
        truncateds: Any = False,
        extra_model_outputs: list[Any] | None = None,
        env_t_started: int | None = None,
        agent_t_started: dict[Any, int] | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_episode_ids: dict[Any, str] | None = None,
        agent_module_ids: dict[Any, str] | None = None,
        agent_to_module_mapping_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn
        self.env_t_started = self.env_t = env_t_started or 0
        self.observation_space, self.action_space = observation_space, action_space
        self.agent_episodes: dict[Any, SingleAgentEpisode] = {}
        self.is_terminated = self.is_truncated = False
        self.custom_data: dict[str, Any] = {}
        self._lookback = 0  # steps of the environment
        # By agent, the step of the environment of each observation that its episode has.
        self._seen: dict[Any, list[int]] = {}
        # Actions that no observation followed yet, with what was got since and what the module gave.
        self._open: dict[Any, tuple[Any, float, dict[str, Any]]] = {}
        self._early: dict[Any, float] = {}  # rewards before an agent saw something
        self._modules: dict[Any, str] = dict(agent_module_ids or {})
        self._before: dict[Any, float] = {}  # returns of agents in the parts before
        self._gone: set[Any] = set()  # agents that were done in the parts before
        self._began: float | None = None
        self._seconds = 0.0
        if observations:
            self._fill(observations, infos, actions, rewards, extra_model_outputs)
            ended = [
                {"__all__": e} if isinstance(e, bool) else e for e in (terminateds, truncateds)
            ]
            self._end_given(*ended)
            self._move(env_t_started or 0, agent_t_started or {}, len_lookback_buffer)
        for agent, name in (agent_episode_ids or {}).items():
            if agent in self.agent_episodes:
                self.agent_episodes[agent].id_ = name

    def _fill(
        self, observations: list[Any], infos: Any, actions: Any, rewards: Any, outputs: Any
    ) -> None:
        steps = len(actions or [])
        given = infos or [{}] * len(observations)
        self.env_t = self.env_t_started = 0
        self.add_env_reset(observations=observations[0], infos=given[0])
        for step in range(steps):
            acted = actions[step]
            for agent, seen in self._seen.items():
                own = self.agent_episodes[agent]
                if seen[-1] == step and agent not in acted and not own.is_done:
                    own.is_terminated = True
            after = step + 1 < len(observations)
            self.add_env_step(
                observations[step + 1] if after else {},
                acted,
                (rewards or [{}] * steps)[step],
                given[step + 1] if after else {},
                extra_model_outputs=(outputs or [{}] * steps)[step],
            )

    def _end_given(self, terminateds: dict[Any, Any], truncateds: dict[Any, Any]) -> None:
        for agent, own in self.agent_episodes.items():
            own.is_terminated |= bool(terminateds.get(agent, False))
            own.is_truncated |= bool(truncateds.get(agent, False))
        self.is_terminated = bool(terminateds.get("__all__", False))
        self.is_truncated = bool(truncateds.get("__all__", False))
        for agent in [a for a, own in self.agent_episodes.items() if own.is_done and not own.t]:
            self._forget(agent)  # it was done already

    def _move(self, started: int, agents: dict[Any, int], lookback: int | str) -> None:
        steps = self.env_t
        self._lookback = min(steps, steps if lookback == "auto" else int(lookback))
        self.env_t_started = started
        self.env_t = started + steps - self._lookback
        for agent, own in self.agent_episodes.items():
            own._lookback = min(bisect_left(self._seen[agent], self._lookback), len(own.rewards))
            own.t_started = agents.get(agent, 0)
            own.t = own.t_started + len(own.rewards) - own._lookback
            self._seen[agent] = [t + started - self._lookback for t in self._seen[agent]]

    def _forget(self, agent: Any) -> None:
        for held in (self.agent_episodes, self._seen, self._open, self._early, self._modules):
            held.pop(agent, None)

    # --- growing ---

    def add_env_reset(
        self, *, observations: dict[Any, Any], infos: dict[Any, Any] | None = None
    ) -> None:
        """Begin the episode with what agents see after a reset.

        Args:
            observations: By agent.
            infos: By agent. Default: none.
        """
        assert not self.is_reset, "the episode has begun already"
        self._began = time.perf_counter()
        for agent, observation in observations.items():
            self._agent(agent).add_env_reset(observation, (infos or {}).get(agent))
            self._seen[agent] = [self.env_t]

    def add_env_step(
        self,
        observations: dict[Any, Any],
        actions: dict[Any, Any],
        rewards: dict[Any, Any],
        infos: dict[Any, Any] | None = None,
        *,
        terminateds: dict[Any, Any] | None = None,
        truncateds: dict[Any, Any] | None = None,
        extra_model_outputs: dict[Any, dict[str, Any]] | None = None,
    ) -> None:
        """Add a step of the environment: actions of agents, and what came of it.

        Args:
            observations: By agent.
            actions: By agent.
            rewards: By agent.
            infos: By agent. Default: none.
            terminateds: By agent, and ``"__all__"``. Default: none.
            truncateds: By agent, and ``"__all__"``. Default: none.
            extra_model_outputs: By agent, what the module gave besides actions. Default: nothing.
        """
        assert not self.is_done, "the episode is over"
        infos, terminateds, truncateds = infos or {}, terminateds or {}, truncateds or {}
        self.env_t += 1
        self.is_terminated = bool(terminateds.get("__all__", False))
        self.is_truncated = bool(truncateds.get("__all__", False)) and not self.is_terminated
        for agent, action in actions.items():
            self._open[agent] = (action, 0.0, (extra_model_outputs or {}).get(agent) or {})
        for agent, reward in rewards.items():
            self._give(agent, float(reward))
        for agent in [*self._open, *(a for a in observations if a not in self._open)]:
            if agent in self._gone:
                continue
            terminated = bool(terminateds.get(agent, False)) or self.is_terminated
            truncated = (bool(truncateds.get(agent, False)) or self.is_truncated) and not terminated
            if agent not in observations and not terminated and not truncated:
                continue
            own = self._agent(agent)
            if not own.is_done:
                observation = observations.get(agent)
                self._advance(agent, own, observation, infos.get(agent), terminated, truncated)
        if self.is_terminated or self.is_truncated:
            for own in self.agent_episodes.values():
                if not own.is_done:
                    own.is_terminated, own.is_truncated = self.is_terminated, self.is_truncated
        elif terminateds or truncateds:
            self._judge_all(terminateds, truncateds)
        if self._began is not None:
            self._seconds = time.perf_counter() - self._began

    def _give(self, agent: Any, reward: float) -> None:
        if agent in self._open:
            action, before, outputs = self._open[agent]
            self._open[agent] = (action, before + reward, outputs)
        elif agent in self.agent_episodes and len(self.agent_episodes[agent].rewards):
            # The agent has not acted since it last saw something, or is done: its last step gets the reward.
            self.agent_episodes[agent].rewards[-1] += reward
        else:  # it has seen nothing, or the step was in the part before
            self._before[agent] = self._before.get(agent, 0.0) + reward
            self._early[agent] = self._early.get(agent, 0.0) + reward

    def _advance(
        self, agent: Any, own: Any, seen: Any, info: Any, terminated: bool, truncated: bool
    ) -> None:
        if agent not in self._open:
            if not own.is_reset and seen is not None:
                own.add_env_reset(seen, info)
                self._seen[agent] = [self.env_t]
            own.is_terminated, own.is_truncated = terminated, truncated
            return
        action, reward, outputs = self._open.pop(agent)
        if seen is None:  # it is done, and sees nothing more
            seen = own.observations[-1]
        own.add_env_step(
            seen,
            action,
            reward,
            info,
            terminated=terminated,
            truncated=truncated,
            extra_model_outputs=outputs,
        )
        self._seen[agent].append(self.env_t)

    def _judge_all(self, terminateds: dict[Any, Any], truncateds: dict[Any, Any]) -> None:
        # Agents that were named as done without acting are so, and where all are, so is the episode.
        for agent, own in self.agent_episodes.items():
            if not own.is_done:
                own.is_terminated = bool(terminateds.get(agent, False))
                own.is_truncated = bool(truncateds.get(agent, False)) and not own.is_terminated
        self.is_terminated = bool(self.agent_episodes) and all(
            own.is_done for own in self.agent_episodes.values()
        )

    def _agent(self, agent: Any) -> SingleAgentEpisode:
        if agent not in self.agent_episodes:
            spaces = [getattr(s, "spaces", {}) for s in (self.observation_space, self.action_space)]
            self.agent_episodes[agent] = SingleAgentEpisode(
                agent_id=agent,
                module_id=self.module_for(agent),
                multi_agent_episode_id=self.id_,
                observation_space=spaces[0].get(agent),
                action_space=spaces[1].get(agent),
            )
        return self.agent_episodes[agent]

    # --- parts ---

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the part that goes on where this one ends, with its last steps as lookback.

        Args:
            len_lookback_buffer: How many steps of the environment before are kept as lookback. Default 0.
                More are, where an agent acted on an observation before those.
        """
        assert not self.is_done, "the episode is over: nothing goes on"
        acted_on = [self._seen[a][-1] for a in self._open if a in self._seen]
        lookback = max([len_lookback_buffer, *(self.env_t - t for t in acted_on)])
        made = self._between(len(self), len(self), min(lookback, self._lookback + len(self)), True)
        made._open = dict(self._open)
        made.custom_data, made._began = self.custom_data, self._began
        made._before = {**self._before, **{a: self._return(a) for a in self.agent_episodes}}
        made._gone = self._gone | {a for a, own in self.agent_episodes.items() if own.is_done}
        return made

    def slice(self, slice_: Any, *, len_lookback_buffer: int | None = None) -> MultiAgentEpisode:
        """Return the part of some steps of the environment; an agent that acted in it and saw nothing
        more has an action that hangs.

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
        lookback = self._lookback if len_lookback_buffer is None else len_lookback_buffer
        return self._between(
            begin, max(begin, end), min(lookback, self._lookback + begin), not self.is_numpy
        )

    def __getitem__(self, item: Any) -> MultiAgentEpisode:
        return self.slice(item)

    def _between(self, begin: int, end: int, lookback: int, listed: bool) -> MultiAgentEpisode:
        made = MultiAgentEpisode(
            self.id_,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_t_started=self.env_t_started + begin,
            observation_space=self.observation_space,
            action_space=self.action_space,
            agent_module_ids=self._modules,
        )
        made._lookback, made.env_t = lookback, self.env_t_started + end
        last = end == len(self)
        made.is_terminated, made.is_truncated = (
            last and self.is_terminated,
            last and self.is_truncated,
        )
        for agent, own in self.agent_episodes.items():
            seen = self._seen[agent]
            first = bisect_left(seen, made.env_t_started - lookback)
            to = bisect_left(seen, made.env_t + 1)
            if first == to:
                continue  # it saw nothing in it
            over = own.is_done and to == len(seen)
            if over and to - first == 1:
                continue  # it was done already
            back = min(bisect_left(seen, made.env_t_started) - first, to - 1 - first)
            made.agent_episodes[agent] = own._between(first, to - 1, max(0, back), listed)
            made._seen[agent] = seen[first:to]
            if to - 1 < len(own.rewards) and seen[to - 1] < made.env_t:
                made._open[agent] = self._step_of(own, to - 1)
            elif agent in self._open and to == len(seen) and seen[-1] < made.env_t:
                made._open[agent] = self._open[agent]
        return made

    @staticmethod
    def _step_of(own: SingleAgentEpisode, place: int) -> tuple[Any, float, dict[str, Any]]:
        outputs = {key: one_of(column, place) for key, column in own.extra_model_outputs.items()}
        return one_of(own.actions, place), float(own.rewards[place]), outputs

    def concat_episode(self, other: MultiAgentEpisode) -> None:
        """Add the part that follows this one.

        Args:
            other: The other part.

        Raises:
            ValueError: It is of another episode, or does not begin where this one ends.
        """
        check_follows(other.id_, other.env_t_started, self.id_, self.env_t, self.is_done)
        for agent, theirs in other.agent_episodes.items():
            own = self.agent_episodes.get(agent)
            if own is None:
                self.agent_episodes[agent], self._seen[agent] = theirs, list(other._seen[agent])
            elif not own.is_done:
                own.concat_episode(theirs)
                self._seen[agent] += other._seen[agent][theirs._lookback + 1 :]
        self._open = dict(other._open)
        self._modules = {**other._modules, **self._modules}
        for agent, reward in other._early.items():
            self._early[agent] = self._early.get(agent, 0.0) + reward
            before = other._before.get(agent, 0.0) if agent in other._before else 0.0
            self._before[agent] = max(before, self._before.get(agent, 0.0))
        self.env_t = other.env_t
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self.custom_data.update(other.custom_data)
        self._seconds = other._seconds

    def to_numpy(self) -> MultiAgentEpisode:
        """Turn agents' lists into arrays; the same object."""
        for own in self.agent_episodes.values():
            if own.is_reset:
                own.to_numpy()
        return self

    # --- reading ---

    @property
    def agent_ids(self) -> set[Any]:
        """The agents that have seen something."""
        return set(self.agent_episodes)

    @property
    def agent_episode_ids(self) -> dict[Any, str]:
        """By agent, the id of its episode."""
        return {agent: own.id_ for agent, own in self.agent_episodes.items()}

    @property
    def agent_t_started(self) -> dict[Any, int]:
        """By agent, how many of its steps are before this part."""
        return {agent: own.t_started for agent, own in self.agent_episodes.items()}

    @property
    def env_t_to_agent_t(self) -> dict[Any, list[Any]]:
        """By agent and step of the environment, the lookback's included, the number of its own step;
        ``"S"`` where it saw nothing.
        """
        start = self.env_t_started - self._lookback
        found = {}
        for agent, seen in self._seen.items():
            own = self.agent_episodes[agent]
            row: list[Any] = [self.SKIP_ENV_TS_TAG] * (self.env_t - start + 1)
            for number, t in enumerate(seen, own.t_started - own._lookback):
                if t >= start:
                    row[t - start] = number
            found[agent] = row
        return found

    @property
    def is_reset(self) -> bool:
        """Whether an agent has seen something."""
        return bool(self._seen)

    @property
    def is_numpy(self) -> bool:
        """Whether agents have arrays, not lists."""
        return bool(self.agent_episodes) and all(e.is_numpy for e in self.agent_episodes.values())

    @property
    def is_done(self) -> bool:
        """Whether it ended."""
        return self.is_terminated or self.is_truncated

    def validate(self) -> None:
        """Fail unless each agent has one observation more than actions, rewards and outputs.

        Raises:
            AssertionError: There is not.
        """
        for agent, own in self.agent_episodes.items():
            own.validate()
            assert len(self._seen[agent]) == len(own.rewards) + 1

    def module_for(self, agent_id: Any) -> str:
        """Return which module acts for an agent: chosen once an episode.

        Args:
            agent_id: The agent.
        """
        if agent_id not in self._modules:
            choose = self.agent_to_module_mapping_fn
            self._modules[agent_id] = choose(agent_id, self) if choose else DEFAULT_MODULE_ID
        return self._modules[agent_id]

    def acting(self) -> list[Any]:
        """The agents of :meth:`get_agents_to_act`, always in the same order."""
        if self.is_done:
            return []
        now, episodes = self.env_t, self.agent_episodes
        return [a for a, seen in self._seen.items() if seen[-1] == now and not episodes[a].is_done]

    def get_agents_to_act(self) -> set[Any]:
        """Return the agents that saw something in the last step, and are not done."""
        return set(self.acting())

    def get_agents_that_stepped(self) -> set[Any]:
        """Return the agents that saw something in the last step, those that are done included."""
        return {agent for agent, seen in self._seen.items() if seen[-1] == self.env_t}

    # --- sums and states ---

    def get_terminateds(self) -> dict[Any, bool]:
        """Return by agent whether it ended by the rules, and ``"__all__"``."""
        found: dict[Any, bool] = {a: e.is_terminated for a, e in self.agent_episodes.items()}
        return {**found, "__all__": self.is_terminated}

    def get_truncateds(self) -> dict[Any, bool]:
        """Return by agent whether it was cut off, and ``"__all__"``."""
        found: dict[Any, bool] = {a: e.is_truncated for a, e in self.agent_episodes.items()}
        return {**found, "__all__": self.is_truncated}

    def _return(self, agent: Any) -> float:
        own = self.agent_episodes.get(agent)
        return self._before.get(agent, 0.0) + (own.get_return() if own is not None else 0.0)

    def agent_returns(self) -> dict[Any, float]:
        """Return by agent the sum of its rewards, those of the parts before included."""
        return {agent: self._return(agent) for agent in {**self._before, **self.agent_episodes}}

    def get_return(self, include_hanging_rewards: bool = False) -> float:
        """Return the sum of all agents' rewards in this part.

        Args:
            include_hanging_rewards: Also those of steps that are not over, and from before an agent saw
                something. Default False.
        """
        found = sum(own.get_return() for own in self.agent_episodes.values())
        if include_hanging_rewards:
            found += sum(reward for _, reward, _ in self._open.values()) + sum(self._early.values())
        return float(found)

    def get_duration_s(self) -> float:
        """Return the seconds from its begin to its last step."""
        return self._seconds

    def env_steps(self) -> int:
        """Return the number of steps of the environment in this part."""
        return self.env_t - self.env_t_started

    def agent_steps(self) -> int:
        """Return the number of all agents' own steps in this part."""
        return sum(len(own) for own in self.agent_episodes.values())

    def __len__(self) -> int:
        return self.env_steps()

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`from_state` makes the episode of."""
        state = copy.copy(vars(self))
        state["agent_episodes"] = [(a, own.get_state()) for a, own in self.agent_episodes.items()]
        return state

    @staticmethod
    def from_state(state: dict[str, Any]) -> MultiAgentEpisode:
        """Return the episode made of what :meth:`get_state` returned.

        Args:
            state: The state.
        """
        made = MultiAgentEpisode(state["id_"])
        vars(made).update(state)
        made.agent_episodes = {
            agent: SingleAgentEpisode.from_state(own) for agent, own in state["agent_episodes"]
        }
        return made

    def get_sample_batch(self) -> Any:
        """Refused: sample batches are of the old API stack.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "get_sample_batch() is of RLlib's old API stack: agent_episodes[agent].get_data_dict() returns "
            "an agent's columns."
        )

    add_temporary_timestep_data = SingleAgentEpisode.add_temporary_timestep_data
    get_temporary_timestep_data = SingleAgentEpisode.add_temporary_timestep_data

    def print(self) -> None:
        """Print a table: by agent, an ``x`` at each step of the environment at which it saw something."""
        rows = {str(agent): row for agent, row in self.env_t_to_agent_t.items()}
        wide = max(map(len, rows), default=0)
        count = self._lookback + len(self) + 1
        lines = ["ts" + " " * wide + "   ".join(str(i - self._lookback) for i in range(count))]
        for agent, row in rows.items():
            marks = "".join("    " if t == self.SKIP_ENV_TS_TAG else " x  " for t in row)
            lines.append(f"{agent:{wide}}  {marks}".rstrip())
        sys.stdout.write("\n".join(lines) + "\n")

    def __repr__(self) -> str:
        return (
            f"MultiAgentEpisode(len={len(self)} done={self.is_done} "
            f"agents={list(self.agent_episodes)} R={self.get_return()} id_={self.id_})"
        )


class MultiAgentRollout:
    """The samples of a runner of several agents.

    Attributes:
        episodes: Each agent's steps, with the module that acted.
        env_steps: How many steps of environments.
        parts: The episodes of all agents, where connectors of learners look at them; empty otherwise.
        connectors: The states of the runner's pipelines, which are merged; None where none has a state.

    Args:
        parts: The episodes.
        keep_parts: Whether they are kept.
    """

    def __init__(self, parts: Collection[MultiAgentEpisode], keep_parts: bool = False) -> None:
        self.env_steps = sum(part.env_steps() for part in parts)
        self.episodes: list[SingleAgentEpisode] = list(_agents(parts))
        self.parts = list(parts) if keep_parts else []
        self.connectors: Any = None


def _agents(parts: Collection[MultiAgentEpisode]) -> Iterator[SingleAgentEpisode]:
    for part in parts:
        for own in part.agent_episodes.values():
            if len(own):
                yield own.to_numpy()

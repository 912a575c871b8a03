"""An episode, or a part of one, of several agents."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode


class MultiAgentEpisode:
    """The observations, actions and rewards of agents: for each a ``SingleAgentEpisode`` of its own
    steps.

    An agent's step lasts from the observation that it acts on to its next one; rewards between the two are
    summed. Methods that take ``env_steps=True`` count steps of the environment from this part's begin, with
    False each agent's own steps.

    Args:
        id_: The episode's id, the same in all its parts.
        agent_to_module_mapping_fn: Which module acts for an agent: a function of its id and the episode.
        env_t_started: How many steps of the environment are before this part.
        observation_space: The space of one observation.
        action_space: The space of one action.

    Attributes:
        agent_episodes: By agent, its steps in this part.
        env_t: How many steps of the environment the episode has up to this part's end.
        is_terminated: Whether all agents are done by the rules.
        is_truncated: Whether it was cut off.
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        agent_to_module_mapping_fn: Callable[..., Any] | None = None,
        env_t_started: int = 0,
        observation_space: Any = None,
        action_space: Any = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn
        self.env_t_started, self.env_t = env_t_started, env_t_started
        self.observation_space, self.action_space = observation_space, action_space
        self.agent_episodes: dict[Any, SingleAgentEpisode] = {}
        self.is_terminated = self.is_truncated = False
        self.custom_data: dict[str, Any] = {}
        # Of each step of the environment, dicts by agent: observations (one more), actions, rewards, infos.
        self._log: dict[str, list[dict[Any, Any]]] = {
            "observations": [],
            "actions": [],
            "rewards": [],
            "infos": [],
        }
        # Actions that no observation followed yet, with what was got since and what the module gave.
        self._open: dict[Any, tuple[Any, float, dict[str, Any]]] = {}
        self._modules: dict[Any, str] = {}
        self._before: dict[Any, float] = {}  # returns of agents in the parts before
        self._gone: set[Any] = set()  # agents that were done in the parts before
        self._began: float | None = None
        self._seconds = 0.0

    # --- growing ---

    def add_env_reset(
        self, *, observations: dict[Any, Any], infos: dict[Any, Any] | None = None
    ) -> None:
        """Begin the episode with what agents see after a reset.

        Args:
            observations: By agent.
            infos: By agent. Default: none.
        """
        assert not self._log["observations"], "the episode has begun already"
        self._began = time.perf_counter()
        self._log["observations"].append(dict(observations))
        self._log["infos"].append(dict(infos or {}))
        for agent, observation in observations.items():
            self._agent(agent).add_env_reset(observation, (infos or {}).get(agent))

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
            self._open[agent] = (action, 0.0, (extra_model_outputs or {}).get(agent, {}))
        for agent, reward in rewards.items():
            if agent in self._open:
                action, before, outputs = self._open[agent]
                self._open[agent] = (action, before + float(reward), outputs)
            elif agent in self.agent_episodes and len(self.agent_episodes[agent].rewards):
                # It has not acted since it last saw something, or is done: its last step gets it.
                self.agent_episodes[agent].rewards[-1] += float(reward)
            else:  # the step was in the part before
                self._before[agent] = self._before.get(agent, 0.0) + float(reward)
        for agent in (set(self._open) | set(observations)) - self._gone:
            terminated = bool(terminateds.get(agent, False)) or self.is_terminated
            truncated = (bool(truncateds.get(agent, False)) or self.is_truncated) and not terminated
            over = terminated or truncated
            if agent not in observations and not over:
                continue
            own = self._agent(agent)
            if own.is_done:
                continue
            observation = observations.get(agent)
            if agent not in self._open:
                if not own.is_reset and observation is not None:
                    own.add_env_reset(observation, infos.get(agent))
                own.is_terminated, own.is_truncated = terminated, truncated
                continue
            action, reward, outputs = self._open.pop(agent)
            if observation is None:  # it is done, and sees nothing more
                observation = own.observations[-1]
            own.add_env_step(
                observation,
                action,
                reward,
                infos.get(agent),
                terminated=terminated,
                truncated=truncated,
                extra_model_outputs=outputs,
            )
        if self.is_terminated or self.is_truncated:
            for own in self.agent_episodes.values():
                if not own.is_done:
                    own.is_terminated, own.is_truncated = self.is_terminated, self.is_truncated
        for name, value in (
            ("observations", observations),
            ("actions", actions),
            ("rewards", rewards),
            ("infos", infos),
        ):
            self._log[name].append(dict(value))
        if self._began is not None:
            self._seconds = time.perf_counter() - self._began

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the part that goes on where this one ends.

        Args:
            len_lookback_buffer: 0: parts of several agents have no lookback.

        Raises:
            ValueError: A lookback is asked for, which parts of several agents do not have.
        """
        assert not self.is_done, "the episode is over: nothing goes on"
        if len_lookback_buffer:
            raise ValueError("cut(len_lookback_buffer=...) of a MultiAgentEpisode must be 0.")
        made = MultiAgentEpisode(
            self.id_,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_t_started=self.env_t,
            observation_space=self.observation_space,
            action_space=self.action_space,
        )
        made._modules, made._open = dict(self._modules), dict(self._open)
        made.custom_data, made._began = self.custom_data, self._began
        made._before = {agent: self._return(agent) for agent in self.agent_episodes}
        for agent, own in self.agent_episodes.items():
            if not own.is_done:
                made.agent_episodes[agent] = own.cut()
        for agent, value in self._before.items():
            made._before.setdefault(agent, value)
        made._gone = self._gone | {a for a, own in self.agent_episodes.items() if own.is_done}
        last = self._log["observations"][-1]
        made._log["observations"].append({a: v for a, v in last.items() if a not in made._gone})
        made._log["infos"].append(self._log["infos"][-1])
        return made

    def to_numpy(self) -> MultiAgentEpisode:
        """Turn agents' lists into arrays; the same object."""
        for own in self.agent_episodes.values():
            if own.is_reset:
                own.to_numpy()
        return self

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

    # --- reading ---

    @property
    def agent_ids(self) -> list[Any]:
        """The agents that have seen something."""
        return list(self.agent_episodes)

    @property
    def is_done(self) -> bool:
        """Whether it ended."""
        return self.is_terminated or self.is_truncated

    def module_for(self, agent_id: Any) -> str:
        """Return which module acts for an agent: chosen once an episode.

        Args:
            agent_id: The agent.
        """
        if agent_id not in self._modules:
            choose = self.agent_to_module_mapping_fn
            self._modules[agent_id] = choose(agent_id, self) if choose else DEFAULT_MODULE_ID
        return self._modules[agent_id]

    def get_agents_to_act(self) -> set[Any]:
        """Return the agents that saw something in the last step, and are not done."""
        if self.is_done:
            return set()
        last = self._log["observations"][-1]
        return {agent for agent in last if not self.agent_episodes[agent].is_done}

    def get_agents_that_stepped(self) -> set[Any]:
        """Return the agents that saw something in the last step, those that are done included."""
        return set(self._log["observations"][-1]) & set(self.agent_episodes)

    def get_observations(
        self, indices: Any = None, agent_ids: Any = None, *, env_steps: bool = True
    ) -> Any:
        """Return observations by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
        """
        return self._read("observations", indices, agent_ids, env_steps)

    def get_actions(
        self, indices: Any = None, agent_ids: Any = None, *, env_steps: bool = True
    ) -> Any:
        """Return actions by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
        """
        return self._read("actions", indices, agent_ids, env_steps)

    def get_rewards(
        self, indices: Any = None, agent_ids: Any = None, *, env_steps: bool = True
    ) -> Any:
        """Return rewards by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
        """
        return self._read("rewards", indices, agent_ids, env_steps)

    def get_infos(
        self, indices: Any = None, agent_ids: Any = None, *, env_steps: bool = True
    ) -> Any:
        """Return infos by agent: of one step, or lists of those of several.

        Args:
            indices: A step, a slice or a list of steps. Default: all.
            agent_ids: Which agents. Default: all.
            env_steps: Count steps of the environment. Default True; False: each agent's own.
        """
        return self._read("infos", indices, agent_ids, env_steps)

    def _read(self, name: str, indices: Any, agent_ids: Any, env_steps: bool) -> Any:
        if agent_ids is not None and not isinstance(agent_ids, (list, tuple, set)):
            agent_ids = [agent_ids]
        if not env_steps:
            chosen = agent_ids if agent_ids is not None else list(self.agent_episodes)
            return {
                agent: getattr(self.agent_episodes[agent], f"get_{name}")(indices)
                for agent in chosen
            }
        log = self._log[name]

        def of(step: dict[Any, Any]) -> dict[Any, Any]:
            return {a: v for a, v in step.items() if agent_ids is None or a in agent_ids}

        if isinstance(indices, (int, np.integer)):
            return of(log[indices])
        if indices is None:
            steps = log
        else:
            steps = log[indices] if isinstance(indices, slice) else [log[i] for i in indices]
        found: dict[Any, list[Any]] = {}
        for step in steps:
            for agent, value in of(step).items():
                found.setdefault(agent, []).append(value)
        return found

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

    def get_return(self) -> float:
        """Return the sum of all agents' rewards in this part."""
        return float(sum(own.get_return() for own in self.agent_episodes.values()))

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

    def __repr__(self) -> str:
        return (
            f"MultiAgentEpisode(len={len(self)} done={self.is_done} "
            f"agents={self.agent_ids} R={self.get_return()} id_={self.id_})"
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

"""Runners whose observations and actions go through pipelines of connectors."""

from __future__ import annotations

import time
import uuid
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.connectors.building import of_agents
from heliostat.rllib.core import (
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
    DEFAULT_MODULE_ID,
)
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.env_runner import EnvRunner
from heliostat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from heliostat.rllib.env.multi_agent_episode import MultiAgentRollout
from heliostat.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.env.vector import stepped
from heliostat.rllib.utils.nest import at, mapped
from heliostat.rllib.utils.threads import threads_for, work_of

torch = required("torch", "ray.rllib", "rllib")


class EpisodeRollout:
    """The samples of a runner with connectors.

    Attributes:
        episodes: Episodes, and parts of them.
        env_steps: How many steps.
        weights: The number of the weights that chose the actions.
        connectors: The states of the runner's pipelines, which are merged; None where none has a state.
    """

    def __init__(
        self, episodes: list[SingleAgentEpisode], weights: int = 0, connectors: Any = None
    ) -> None:
        self.episodes = episodes
        self.env_steps = sum(len(episode) for episode in episodes)
        self.weights, self.connectors = weights, connectors


class _Connected(EnvRunner):
    """The base of both kinds of runners: the pipelines and their states."""

    config: Any
    env: Any
    module: Any
    metrics: Any
    worker_index: int
    _env_to_module: Any
    _module_to_env: Any

    def _connect(self) -> None:
        spaces = self._spaces_of_env()
        self._env_to_module = self.config.build_env_to_module_connector(
            env=self.env, spaces=spaces, device=None
        )
        self._module_to_env = self.config.build_module_to_env_connector(env=self.env, spaces=spaces)
        self._shared_data: dict[str, Any] = {}

    def _spaces_of_env(self) -> dict[str, Any]:
        """Return the environment's spaces, as builders of connectors take them; each kind has its own."""
        raise NotImplementedError

    def _to_module_of(self, episodes: list[Any], explore: bool) -> Any:
        return self._env_to_module(
            episodes=episodes,
            batch={},
            explore=explore,
            rl_module=self.module,
            shared_data=self._shared_data,
            metrics=self.metrics,
            metrics_prefix_key=(COMPONENT_ENV_TO_MODULE_CONNECTOR,),
        )

    def _to_env_of(self, out: Any, episodes: list[Any], explore: bool) -> Any:
        return self._module_to_env(
            rl_module=self.module,
            batch=out,
            episodes=episodes,
            explore=explore,
            shared_data=self._shared_data,
            metrics=self.metrics,
            metrics_prefix_key=(COMPONENT_MODULE_TO_ENV_CONNECTOR,),
        )

    def _handed_on(self) -> Any:
        # States of actors, for the algorithm to merge; the algorithm's own runner is asked there.
        if not self.worker_index or self.config.in_evaluation:
            return None
        found = self.connector_states()
        self._env_to_module._taken()
        self._module_to_env._taken()
        return found or None

    def connector_states(self) -> dict[str, Any]:
        """The states of the pipelines that have one."""
        found = {
            COMPONENT_ENV_TO_MODULE_CONNECTOR: self._env_to_module.get_state(),
            COMPONENT_MODULE_TO_ENV_CONNECTOR: self._module_to_env.get_state(),
        }
        return {name: state for name, state in found.items() if state}

    def set_connector_states(self, state: dict[str, Any]) -> None:
        """Take over states of the pipelines."""
        for name, pipeline in (
            (COMPONENT_ENV_TO_MODULE_CONNECTOR, self._env_to_module),
            (COMPONENT_MODULE_TO_ENV_CONNECTOR, self._module_to_env),
        ):
            if name in state:
                pipeline.set_state(state[name])

    def get_state(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Return the weights, their number, and the states of the pipelines."""
        return {**super().get_state(*arguments, **keywords), **self.connector_states()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights, and states of the pipelines."""
        super().set_state(state)
        self.set_connector_states(state)


class ConnectedEnvRunner(_Connected, SingleAgentEnvRunner):
    """Steps environments of one agent and keeps their episodes: each observation goes through the pipeline
    to the module, each action through the one to the environments.
    """

    def make_module(self) -> None:
        """Make the pipelines, and the module for the observations that come out of them."""
        self._connect()
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.rl_module_specs[DEFAULT_MODULE_ID].build()
        if hasattr(self.module, "eval"):
            self.module.eval()
        self._first_state = None
        self._episodes: list[SingleAgentEpisode] | None = None

    def _spaces_of_env(self) -> dict[str, Any]:
        own = (self._observation_space, self._action_space)
        whole = (self.env.observation_space, self.env.action_space)
        return {"__env__": whole, "__env_single__": own}

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the environment's spaces, and those of the module: what the pipeline gives."""
        pipeline = self._env_to_module
        own = (
            pipeline.observation_space or self._observation_space,
            pipeline.action_space or self._action_space,
        )
        return {**self._spaces_of_env(), DEFAULT_MODULE_ID: own}

    def sample(self, **how: Any) -> list[SingleAgentEpisode]:
        """Return episodes, and the parts of those that are not over.

        Args:
            **how: As of ``SingleAgentEnvRunner.sample``.
        """
        num_episodes = how.get("num_episodes")
        episodes = self.sample_rollout(**how).episodes
        if num_episodes is not None:
            episodes = [episode for episode in episodes if episode.is_done][:num_episodes]
        return episodes

    def sample_rollout(  # type: ignore[override] # episodes in the place of arrays
        self,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> EpisodeRollout:
        """Return what :meth:`sample` returns the episodes of."""
        steps, explore, whole = self._asked(num_timesteps, num_episodes, explore)
        began = time.perf_counter()
        with threads_for(work_of(self.module, self.num_envs)):
            if self._episodes is None or force_reset or whole:
                self._reset_episodes(explore)
            episodes = self._sampled(steps, num_episodes, explore, random_actions, whole)
        rollout = EpisodeRollout(episodes, self.weights_seq_no, self._handed_on())
        self._log_sample(rollout.env_steps, began)
        if self._callbacks.wanted("on_sample_end"):
            self._callbacks.call(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=episodes
            )
        return rollout

    # --- how ---

    def _new(self, env: int) -> SingleAgentEpisode:
        episode = SingleAgentEpisode(
            uuid.uuid4().hex,
            observation_space=self._observation_space,
            action_space=self._action_space,
        )
        self._returns[env], self._lengths[env], self._chunks[env] = 0.0, 0, []
        self._began[env] = time.perf_counter()
        self._tell("on_episode_created", episode, env)
        return episode

    def _reset_episodes(self, explore: bool) -> None:
        count = self.num_envs
        seed, self.seed = self.seed, None
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._began = np.zeros(count)
        self._chunks: list[list[Any]] = [[] for _ in range(count)]
        self._skip = np.zeros(count, bool)
        self._episodes = [self._new(env) for env in range(count)]
        seen, infos = self.env.reset(seed=seed)
        seen = mapped(np.array, seen)
        for env, episode in enumerate(self._episodes):
            episode.add_env_reset(at(seen, env), _info(infos, env))
        self._to_module = self._to_module_of(self._episodes, explore)
        for env, episode in enumerate(self._episodes):
            self._tell("on_episode_start", episode, env)

    def _sampled(
        self, steps: int, num_episodes: int | None, explore: bool, random_actions: bool, whole: bool
    ) -> list[SingleAgentEpisode]:
        assert self._episodes is not None
        done: list[SingleAgentEpisode] = []
        step = finished = 0
        while True:
            done += self._step(explore, random_actions)
            step += 1
            finished = sum(len(episode) for episode in done)
            if num_episodes is not None:
                if len(done) >= num_episodes:
                    break
            elif whole:
                if finished >= steps * self.num_envs:
                    break
            elif step >= steps:
                break
        running: list[SingleAgentEpisode] = []
        if not whole:  # otherwise what goes on is left out, and begins anew with the next sample
            lookback = self.config.episode_lookback_horizon
            for env, episode in enumerate(self._episodes):
                if len(episode):
                    running.append(episode)
                    self._chunks[env].append(episode)
                    self._episodes[env] = episode.cut(len_lookback_buffer=lookback)
        found = done + running
        if self.config.episodes_to_numpy:
            found = [episode.to_numpy() for episode in found]
        return found

    def _act_on(self, explore: bool, random_actions: bool) -> dict[str, Any]:
        if random_actions:
            return self._act(explore, True)
        with torch.inference_mode():
            out = (
                self.module.forward_exploration(self._to_module, t=self.timesteps)
                if explore
                else self.module.forward_inference(self._to_module)
            )
            out.pop(Columns.EMBEDDINGS, None)
            found: dict[str, Any] = self._to_env_of(out, self._episodes or [], explore)
        return found

    def _step(self, explore: bool, random_actions: bool) -> list[SingleAgentEpisode]:
        """Step all environments, and return the episodes that ended."""
        assert self._episodes is not None
        columns = self._act_on(explore, random_actions)
        actions = columns.pop(Columns.ACTIONS)
        for_env = columns.pop(Columns.ACTIONS_FOR_ENV, None)
        if for_env is None:
            for_env = self._for_env(actions) if random_actions else actions
        seen, rewards, terminateds, truncateds, ended, infos = stepped(self.env, for_env)
        raw, bound = rewards, self.config.clip_rewards
        if bound is not None and bound is not False:
            rewards = np.sign(raw) if bound is True else np.clip(raw, -bound, bound)
        if self._later:
            seen = mapped(np.array, seen)
        last = dict(ended)
        resets = np.flatnonzero(self._skip)
        for env, episode in enumerate(self._episodes):
            if self._skip[env]:
                episode.add_env_reset(at(seen, env), _info(infos, env))
                continue
            info = _info(infos, env)
            outputs = {key: at(value, env) for key, value in columns.items() if key != "infos"}
            episode.add_env_step(
                last.get(env) if env in last else at(seen, env),
                at(actions, env),
                float(rewards[env]),
                info.get("final_info", info) if env in last else info,
                terminated=env in last and bool(terminateds[env]),
                truncated=env in last and bool(truncateds[env]),
                extra_model_outputs={**outputs, "weights_seq_no": self.weights_seq_no},
            )
            self._returns[env] += raw[env]
            self._lengths[env] += 1
        self._skip = np.zeros(self.num_envs, bool)
        over = [(env, self._episodes[env]) for env in last]
        if over:  # what they ended with goes through the pipeline as well
            self._to_module_of([episode for _, episode in over], explore)
        for env, episode in over:
            self._tell("on_episode_step", episode, env)
            self._tell("on_episode_end", episode, env, prev_episode_chunks=self._chunks[env])
            took = time.perf_counter() - float(self._began[env])
            self._log_ends([float(self._returns[env])], [int(self._lengths[env])], [took])
            self._episodes[env] = self._new(env)
            if self._later:
                self._skip[env] = True
            else:
                self._episodes[env].add_env_reset(at(seen, env), _first_info(infos, env))
        ready = [e for e in self._episodes if e.is_reset]
        begun = [*resets, *(env for env, _ in over if not self._later)]
        if len(ready) == len(self._episodes):
            self._to_module = self._to_module_of(self._episodes, explore)
        else:  # those that are reset by the next step act on what they ended with: nobody looks at it
            ended_now = dict(over)
            acting = [ended_now.get(env, e) for env, e in enumerate(self._episodes)]
            self._to_module = self._to_module_of(acting, explore)
        for env in begun:
            self._tell("on_episode_start", self._episodes[env], int(env))
        if "on_episode_step" in self._heard:
            for env, episode in enumerate(self._episodes):
                if len(episode) and env not in last:
                    self._tell("on_episode_step", episode, env)
        return [episode for _, episode in over]


def _info(infos: Any, env: int) -> dict[str, Any]:
    if isinstance(infos, list):
        return infos[env] or {}
    # Infos of gymnasium's vectors: arrays by key, with a mask of the environments that have it.
    return {
        key: value[env]
        for key, value in infos.items()
        if not key.startswith("_") and infos.get(f"_{key}", {env: True})[env]
    }


def _first_info(infos: Any, env: int) -> dict[str, Any]:
    info = _info(infos, env)
    return {key: value for key, value in info.items() if key not in ("final_info", "final_obs")}


class ConnectedMultiAgentEnvRunner(_Connected, MultiAgentEnvRunner):
    """Steps environments of several agents; observations and actions go through pipelines."""

    states_allowed = True

    def make_module(self) -> None:
        """Make the pipelines, and the modules for the observations that come out of them."""
        self._connect()
        super().make_module()

    def _spaces_of_env(self) -> dict[str, Any]:
        own = of_agents(self.env)
        return {"__env__": own, "__env_single__": own}

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the environment's spaces by agent, and those of each module."""
        found = super().get_spaces()
        seen = getattr(self._env_to_module.observation_space, "spaces", {})
        acted = getattr(self._env_to_module.action_space, "spaces", {})
        for name, (observations, actions) in found.items():
            found[name] = (seen.get(name, observations), acted.get(name, actions))
        return {**found, **self._spaces_of_env()}

    def sample_and_measure(self, **how: Any) -> tuple[MultiAgentRollout, dict[Any, Any]]:
        """Sample, and return what learners need with the metrics: one call of the algorithm."""
        rollout = MultiAgentRollout(self.sample(**how), keep_parts=True)
        rollout.connectors = self._handed_on()
        return rollout, self.get_metrics()

    def _look(self, episodes: list[Any], explore: bool) -> None:
        self._to_module = self._to_module_of(episodes, explore)

    def _act(self, explore: bool, random_actions: bool) -> list[tuple[Any, Any, Any]]:
        assert self._episodes is not None
        if random_actions:
            return super()._act(explore, True)
        out = {}
        with torch.inference_mode():
            for name, columns in self._to_module.items():
                module = self.module[name]
                out[name] = (
                    module.forward_exploration(columns, t=self.timesteps)
                    if explore
                    else module.forward_inference(columns)
                )
                out[name].pop(Columns.EMBEDDINGS, None)
            columns = self._to_env_of(out, self._episodes, explore)
        nobody: list[dict[Any, Any]] = [{} for _ in self._episodes]
        own = columns.pop(Columns.ACTIONS, nobody)
        for_env = columns.pop(Columns.ACTIONS_FOR_ENV, own)
        found = []
        for env in range(len(self._episodes)):
            outputs = {
                agent: {
                    key: by_env[env][agent]
                    for key, by_env in columns.items()
                    if agent in by_env[env]
                }
                for agent in own[env]
            }
            found.append((for_env[env], own[env], outputs))
        return found

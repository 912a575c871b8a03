"""Steps environments of several agents."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.env_runner import EnvRunner
from heliostat.rllib.env.making import EnvError, observation_fits
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv
from heliostat.rllib.env.multi_agent_episode import MultiAgentEpisode, MultiAgentRollout
from heliostat.rllib.env.vector import ordered
from heliostat.rllib.utils.nest import at, mapped
from heliostat.rllib.utils.spaces import clipped, parts, squashed, unsquashed
from heliostat.rllib.utils.threads import threads_for, work_of

torch = required("torch", "ray.rllib", "rllib")


class MultiAgentEnvRunner(EnvRunner):
    """Steps ``num_envs_per_env_runner`` environments, each a ``MultiAgentEnv``, with a ``MultiRLModule``.

    In each step every module is asked once, for all the agents of all environments that it acts for.
    """

    states_allowed = False  # of modules

    def make_env(self) -> None:
        """Make the environments, and forget episodes that are not over."""
        if self.env is not None:
            self.stop()
        config = self.config
        self.num_envs = config.num_envs_per_env_runner
        self.envs: list[Any] = []
        for index in range(self.num_envs):
            context = EnvContext(
                config.env_config,
                worker_index=self.worker_index,
                vector_index=index,
                num_workers=self.num_workers,
                recreated_worker=self.recreated_worker,
            )
            env = self._create(context)
            if not isinstance(env, MultiAgentEnv):
                raise EnvError(
                    f"{type(env).__name__} is not a MultiAgentEnv, and multi_agent(...) is set: derive "
                    "it from ray.rllib.MultiAgentEnv, or make it one with make_multi_agent()."
                )
            self.envs.append(env)
        self.env = self.envs[0]
        for place, agent in enumerate(self.env.possible_agents or self.env.agents):
            if self.seed is not None:  # of random actions
                self.env.get_action_space(agent).seed(self.seed + place)
        self._episodes: list[MultiAgentEpisode] | None = None
        self._tell_of_environment()

    def make_module(self) -> None:
        """Make the modules, for acting alone.

        Raises:
            ValueError: One of them has a state.
        """
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()
        for name, module in self.module.items():
            if module.is_stateful() and not self.states_allowed:
                raise ValueError(
                    f"Module {name!r} has a state (use_lstm=True), which is not built for several agents."
                )
            if hasattr(module, "eval"):
                module.eval()

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces by module id.

        Raises:
            ValueError: Agents of one module have different spaces, or no agent has a module's.
        """
        found: dict[str, tuple[Any, Any]] = {}
        whose: dict[str, Any] = {}
        agents = list(self.env.possible_agents or self.env.agents)
        if not agents:
            raise EnvError(
                f"{type(self.env).__name__} has no agents: set possible_agents in __init__()."
            )
        episode = self._episode()
        for agent in agents:
            spaces = (self.env.get_observation_space(agent), self.env.get_action_space(agent))
            module = self._module_of(agent, episode)
            if module in found and found[module] != spaces:
                raise ValueError(
                    f"Agents {whose[module]!r} and {agent!r} act by module {module!r} and have different "
                    "spaces: give them modules of their own in policy_mapping_fn."
                )
            found[module], whose[module] = spaces, agent
        all_spaces = list(found.values())
        for module in self.config.policies:
            if module not in found and all(spaces == all_spaces[0] for spaces in all_spaces):
                found[module] = all_spaces[0]  # it acts for some agents in some episodes
        return found

    def _module_of(self, agent: Any, episode: MultiAgentEpisode) -> str:
        module = episode.module_for(agent)
        if module not in self.config.policies:
            known = ", ".join(map(repr, self.config.policies))
            raise ValueError(
                f"policy_mapping_fn gave {module!r} for agent {agent!r}, and multi_agent(policies=...) has "
                f"{known}."
            )
        return module

    def _episode(self) -> MultiAgentEpisode:
        return MultiAgentEpisode(
            agent_to_module_mapping_fn=self.config.policy_mapping_fn,
            observation_space=getattr(self.env, "observation_space", None),
            action_space=getattr(self.env, "action_space", None),
        )

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights, by module id."""
        weights = state.get("rl_module")
        if weights is not None and set(self.module.keys()) == {DEFAULT_MODULE_ID}:
            state = {**state, "rl_module": {DEFAULT_MODULE_ID: weights}}
            if DEFAULT_MODULE_ID in weights:
                state["rl_module"] = weights
        super().set_state(state)

    def stop(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()

    def sample(  # type: ignore[override] # Ray's arguments
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[MultiAgentEpisode]:
        """Return episodes, and the parts of those that are not over.

        Args:
            num_timesteps: How many steps of environments at least. Default: of each environment as many as
                ``rollout_fragment_length`` says.
            num_episodes: How many episodes that ended, in the place of steps.
            explore: Whether actions are drawn. Default: the setting.
            random_actions: Whether actions are drawn from the space, without the modules.
            force_reset: Whether all environments begin anew.
        """
        if num_timesteps is not None and num_episodes is not None:
            raise ValueError("sample() takes num_timesteps or num_episodes, not both.")
        config = self.config
        began = time.perf_counter()
        explore = config.explore if explore is None else explore
        whole = num_episodes is not None or config.batch_mode == "complete_episodes"
        wanted = config.get_rollout_fragment_length(self.worker_index) * self.num_envs
        wanted = num_timesteps or wanted
        if self._episodes is None or force_reset or whole:
            self._reset()
            self._look(self._episodes or [], explore)
        assert self._episodes is not None
        done: list[MultiAgentEpisode] = []
        steps = finished = 0
        with threads_for(max(work_of(m, self.num_envs) for m in self.module.values())):
            while True:
                chosen = self._act(explore, random_actions)
                for index, episode in enumerate(self._episodes):
                    steps += 1
                    self._step(index, episode, *chosen[index])
                    if episode.is_done:
                        done.append(episode)
                        finished += episode.env_steps()
                        self._look([episode], explore)
                        self._begin(index)
                self._look(self._episodes, explore)
                if num_episodes is not None:
                    if len(done) >= num_episodes:
                        break
                elif (finished if whole else steps) >= wanted:
                    break
        running = [episode for episode in self._episodes if len(episode)]
        if whole:  # what goes on is left out, and begins anew with the next sample
            running = []
        else:
            self._episodes = [e.cut() if len(e) else e for e in self._episodes]
        parts = done + running
        self._measure(parts, time.perf_counter() - began)
        if self._callbacks.wanted("on_sample_end"):
            self._callbacks.call(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=parts
            )
        return parts

    def sample_and_measure(self, **how: Any) -> tuple[MultiAgentRollout, dict[Any, Any]]:
        """Sample, and return what learners need with the metrics: one call of the algorithm."""
        return MultiAgentRollout(self.sample(**how)), self.get_metrics()

    # --- how ---

    def _look(self, episodes: list[MultiAgentEpisode], explore: bool) -> None:
        """Called with the episodes that have new observations; last with all that go on."""

    def _reset(self) -> None:
        self._episodes = [self._episode() for _ in self.envs]
        for index in range(self.num_envs):
            self._begin(index)

    def _begin(self, index: int) -> None:
        assert self._episodes is not None
        episode = self._episodes[index] = self._episode()
        self._tell("on_episode_created", episode, index)
        seed = None if self.seed is None else self.seed + index
        if index == self.num_envs - 1:
            self.seed = None
        observations, infos = self._called(index, "reset", seed=seed)
        observations = self._checked(index, observations, "reset()")
        episode.add_env_reset(observations=observations, infos=infos)
        self._tell("on_episode_start", episode, index)

    def _called(self, index: int, name: str, *arguments: Any, **keywords: Any) -> Any:
        try:
            found = getattr(self.envs[index], name)(*arguments, **keywords)
        except Exception as error:
            raise EnvError(f"Environment {index}: {name}() raised {error!r}.") from error
        length = 2 if name == "reset" else 5
        if not isinstance(found, tuple) or len(found) != length:
            said = "observations, infos"
            if length == 5:
                said = "observations, rewards, terminateds, truncateds, infos"
            raise EnvError(f"Environment {index}: {name}() must return ({said}), dicts by agent.")
        return found

    def _checked(self, index: int, observations: dict[Any, Any], where: str) -> dict[Any, Any]:
        # Parts of nests stand in the order of their space afterwards.
        found = {}
        for agent, observation in observations.items():
            space = self.env.get_observation_space(agent)
            if not self.config.disable_env_checking:
                observation_fits(space, observation, index, f"{where} of agent {agent!r}")
            nest = parts(space)
            nested = isinstance(nest, (dict, tuple))
            found[agent] = ordered(nest, observation) if nested else observation
        return found

    def _act(self, explore: bool, random_actions: bool) -> list[tuple[Any, Any, Any]]:
        # By environment: actions for the environment, actions of the modules, and what they gave besides.
        assert self._episodes is not None
        found: list[tuple[Any, Any, Any]] = [({}, {}, {}) for _ in self._episodes]
        askers: dict[str, list[tuple[int, Any]]] = {}
        for index, episode in enumerate(self._episodes):
            for agent in episode.acting():
                askers.setdefault(self._module_of(agent, episode), []).append((index, agent))
        for name, who in askers.items():
            space = self.env.get_action_space(who[0][1])
            if random_actions:
                for index, agent in who:
                    action = space.sample()
                    given = squashed(space, action) if self.config.normalize_actions else action
                    found[index][0][agent], found[index][1][agent] = action, given
                continue
            seen = [
                self._episodes[index].agent_episodes[agent].observations[-1] for index, agent in who
            ]
            batch = mapped(lambda *x: torch.from_numpy(np.stack(x)), *seen)
            out = self._forward(self.module[name], batch, explore)
            for_env = out.pop(Columns.ACTIONS_FOR_ENV, out[Columns.ACTIONS])
            if self.config.normalize_actions:
                for_env = unsquashed(space, for_env)
            elif self.config.clip_actions:
                for_env = clipped(space, for_env)
            own = out.pop(Columns.ACTIONS)
            for row, (index, agent) in enumerate(who):
                found[index][0][agent] = at(for_env, row)
                found[index][1][agent] = at(own, row)
                found[index][2][agent] = {key: at(value, row) for key, value in out.items()}
        return found

    def _forward(self, module: Any, observations: Any, explore: bool) -> dict[str, Any]:
        batch = {Columns.OBS: observations}
        with torch.inference_mode():
            if explore:
                out = module.forward_exploration(batch, t=self.timesteps)
                kind = module.get_exploration_action_dist_cls
            else:
                out = module.forward_inference(batch)
                kind = module.get_inference_action_dist_cls
            if Columns.ACTIONS not in out:
                dist = kind().from_logits(out[Columns.ACTION_DIST_INPUTS])
                dist = dist if explore else dist.to_deterministic()
                out[Columns.ACTIONS] = dist.sample()
                if explore:
                    out[Columns.ACTION_LOGP] = dist.logp(out[Columns.ACTIONS])
        out.pop(Columns.EMBEDDINGS, None)
        return {key: mapped(lambda x: x.numpy(), value) for key, value in out.items()}

    def _step(
        self, index: int, episode: MultiAgentEpisode, for_env: Any, actions: Any, outputs: Any
    ) -> None:
        found = self._called(index, "step", for_env)
        observations, rewards, terminateds, truncateds, infos = found
        observations = self._checked(index, observations, "step()")
        for agent, reward in rewards.items():
            if np.isnan(reward):
                raise EnvError(
                    f"Environment {index}: step() returned a reward of agent {agent!r} that is NaN."
                )
        bound = self.config.clip_rewards
        if bound is not None and bound is not False:
            rewards = {
                agent: np.sign(r) if bound is True else np.clip(r, -bound, bound)
                for agent, r in rewards.items()
            }
        episode.add_env_step(
            observations,
            actions,
            rewards,
            infos,
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=outputs,
        )
        if not episode.is_done and not episode.get_agents_to_act() and not observations:
            raise EnvError(
                f"Environment {index}: step() returned no observations, and '__all__' is not set: "
                "nobody can act."
            )
        self._tell("on_episode_step", episode, index)
        if episode.is_done:
            self._tell("on_episode_end", episode, index, prev_episode_chunks=[])

    def _tell(self, event: str, episode: Any, index: int, **more: Any) -> None:
        if self._callbacks.wanted(event):
            self._callbacks.call(
                event,
                episode=episode,
                env_runner=self,
                metrics_logger=self.metrics,
                env=self.envs[index],
                rl_module=self.module,
                env_index=index,
                **more,
            )

    def _measure(self, parts: list[MultiAgentEpisode], seconds: float) -> None:
        log = self.metrics.log_value
        window = self.config.metrics_num_episodes_for_smoothing
        steps = sum(part.env_steps() for part in parts)
        self.timesteps += steps * max(1, self.num_workers or 0)
        agents: dict[str, int] = {}
        modules: dict[str, int] = {}
        for part in parts:
            for agent, own in part.agent_episodes.items():
                agents[str(agent)] = agents.get(str(agent), 0) + len(own)
                name = part.module_for(agent)
                modules[name] = modules.get(name, 0) + len(own)
            if part.is_done:
                self._measure_end(part, window)
        for end, kind in (("", "sum"), ("_lifetime", "lifetime_sum")):
            log(f"num_env_steps_sampled{end}", steps, reduce=kind)
            for agent, count in agents.items():
                log((f"num_agent_steps_sampled{end}", agent), count, reduce=kind)
            for module, count in modules.items():
                log((f"num_module_steps_sampled{end}", module), count, reduce=kind)
        log("sample", seconds)
        log("weights_seq_no", self.weights_seq_no, reduce="mean")

    def _measure_end(self, episode: MultiAgentEpisode, window: int) -> None:
        log = self.metrics.log_value
        returns = episode.agent_returns()
        value, length = sum(returns.values()), episode.env_t
        modules: dict[str, float] = {}
        for agent, own in returns.items():
            log(("agent_episode_returns_mean", str(agent)), own, window=window)
            name = episode.module_for(agent)
            modules[name] = modules.get(name, 0.0) + own
        for name, own in modules.items():
            log(("module_episode_returns_mean", name), own, window=window)
        log("episode_return_mean", value, window=window)
        log("episode_len_mean", length, window=window)
        log("episode_duration_sec_mean", episode.get_duration_s(), window=window)
        for kind in ("min", "max"):
            log(f"episode_return_{kind}", value, reduce=kind, window=window)
            log(f"episode_len_{kind}", length, reduce=kind, window=window)
        log("num_episodes", 1, reduce="sum")
        log("num_episodes_lifetime", 1, reduce="lifetime_sum")

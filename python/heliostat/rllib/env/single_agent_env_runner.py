"""Steps environments of one agent, all of a runner's together."""

from __future__ import annotations

import time
import uuid
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.env_runner import EnvRunner
from heliostat.rllib.env.rollout import Rollout
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.env.vector import resets_later, stepped, vectorized
from heliostat.rllib.utils.nest import at, mapped, put
from heliostat.rllib.utils.spaces import clipped, empty, squashed, unsquashed
from heliostat.rllib.utils.threads import threads_for, work_of

gymnasium = required("gymnasium", "ray.rllib", "rllib")
torch = required("torch", "ray.rllib", "rllib")
_EVENTS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class SingleAgentEnvRunner(EnvRunner):
    """Steps the vector of environments ``env`` with the module ``module``.

    One forward of the module chooses the actions of all environments; what is sampled is one array a column
    (:meth:`sample_rollout`), from which :meth:`sample` makes episodes.
    """

    def make_env(self) -> None:
        """Make the environments, and forget episodes that are not over."""
        if self.env is not None:
            self.env.close()
        config = self.config
        self.env = vectorized(
            self._create, config, self.worker_index, self.num_workers or 0, self.recreated_worker
        )
        self.num_envs = self.env.num_envs
        self._observation_space = self.env.single_observation_space
        self._action_space = self.env.single_action_space
        if self.seed is not None:  # of random actions
            self._action_space.seed(self.seed)
        self._later = resets_later(self.env)
        self._obs: Any = None
        self._heard = {event for event in _EVENTS if self._callbacks.wanted(event)}
        self._tell_of_environment()

    def make_module(self) -> None:
        """Make the module, for acting alone."""
        spec = self.config.get_multi_rl_module_spec(env=self.env, inference_only=True)
        self.module = spec.rl_module_specs[DEFAULT_MODULE_ID].build()
        if hasattr(self.module, "eval"):
            self.module.eval()
        first = self.module.get_initial_state() or None
        self._first_state = None if first is None else mapped(_array, first)

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces by module id."""
        own = (self._observation_space, self._action_space)
        return {"__env__": own, "__env_single__": own, DEFAULT_MODULE_ID: own}

    def sample(  # type: ignore[override] # Ray's arguments
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Return episodes, and the parts of those that are not over.

        Args:
            num_timesteps: How many steps at least, over all environments. Default: of each environment as
                many as ``rollout_fragment_length`` says.
            num_episodes: How many episodes that ended, in the place of steps.
            explore: Whether actions are drawn. Default: the setting.
            random_actions: Whether actions are drawn from the space, without the module.
            force_reset: Whether all environments begin anew.
        """
        rollout = self.sample_rollout(
            num_timesteps, num_episodes, explore, random_actions, force_reset
        )
        episodes = rollout.episodes(self._observation_space, self._action_space)
        if num_episodes is not None:
            episodes = [episode for episode in episodes if episode.is_done][:num_episodes]
        return episodes

    def sample_and_measure(
        self, weights: Any = None, seq_no: int | None = None, **how: Any
    ) -> tuple[Rollout, dict[Any, Any]]:
        """Take weights and sample: one call of the algorithm.

        Args:
            weights: The weights by module id. Default: those that it has.
            seq_no: Their number.
            **how: As of ``sample_rollout``.

        Returns:
            What was sampled, and the metrics.
        """
        if weights is not None:
            self.set_state({"rl_module": weights, "weights_seq_no": seq_no})
        return self.sample_rollout(**how), self.get_metrics()

    def sample_rollout(
        self,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> Rollout:
        """Return what :meth:`sample` makes episodes of."""
        steps, explore, whole = self._asked(num_timesteps, num_episodes, explore)
        began = time.perf_counter()
        if self._obs is None or force_reset or whole:
            self._reset()
        with threads_for(work_of(self.module, self.num_envs)):
            rollout = self._run(steps, num_episodes, explore, random_actions, whole)
        self._log_sample(rollout.env_steps, began)
        if self._callbacks.wanted("on_sample_end"):
            samples = rollout.episodes(self._observation_space, self._action_space)
            self._callbacks.call(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=samples
            )
        return rollout

    # --- how ---

    def _asked(
        self, num_timesteps: int | None, num_episodes: int | None, explore: bool | None
    ) -> tuple[int, bool, bool]:
        """Steps of each environment, whether actions are drawn, whether episodes are whole ones."""
        config = self.config
        if num_timesteps is not None and num_episodes is not None:
            raise ValueError("sample() takes num_timesteps or num_episodes, not both.")
        explore = config.explore if explore is None else explore
        whole = num_episodes is not None or config.batch_mode == "complete_episodes"
        steps = config.get_rollout_fragment_length(self.worker_index)
        if num_timesteps is not None:
            steps = max(1, -(-num_timesteps // self.num_envs))
        return steps, explore, whole

    def _log_sample(self, count: int, began: float) -> None:
        self.timesteps += count * max(1, self.num_workers or 0)
        log = self.metrics.log_value
        for name in ("num_env_steps_sampled", "num_env_steps_sampled_lifetime"):
            kind = "sum" if name.endswith("sampled") else "lifetime_sum"
            log(name, count, reduce=kind)
            tail = name.removeprefix("num_env")
            log((f"num_agent{tail}", DEFAULT_AGENT_ID), count, reduce=kind)
            log((f"num_module{tail}", DEFAULT_MODULE_ID), count, reduce=kind)
        log("sample", time.perf_counter() - began)
        log("weights_seq_no", self.weights_seq_no, reduce="mean")

    def _log_ends(self, returns: list[float], lengths: list[int], seconds: list[float]) -> None:
        """Log episodes that ended, those of a sample at once."""
        if not returns:
            return
        window = self.config.metrics_num_episodes_for_smoothing
        log = self.metrics._log_values
        log("episode_return_mean", returns, "mean", window)
        log("episode_len_mean", lengths, "mean", window)
        log("episode_duration_sec_mean", seconds, "mean", window)
        log(("agent_episode_return_mean", DEFAULT_AGENT_ID), returns, "mean", window)
        log(("module_episode_return_mean", DEFAULT_MODULE_ID), returns, "mean", window)
        for kind in ("min", "max"):
            log(f"episode_return_{kind}", returns, kind, window)
            log(f"episode_len_{kind}", lengths, kind, window)
        log("num_episodes", [len(returns)], "sum")
        log("num_episodes_lifetime", [len(returns)], "lifetime_sum")

    def _reset(self) -> None:
        count = self.num_envs
        seed, self.seed = self.seed, None
        self._obs, _ = self.env.reset(seed=seed)
        self._obs = mapped(np.array, self._obs)
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._began = np.full(count, time.perf_counter())
        self._ids = [uuid.uuid4().hex for _ in range(count)]
        self._custom: list[dict[str, Any]] = [{} for _ in range(count)]
        self._chunks: list[list[Any]] = [[] for _ in range(count)]
        self._skip = np.zeros(count, bool)
        self._state = None
        if self._first_state is not None:
            self._state = mapped(lambda x: np.stack([x] * count), self._first_state)
        if self._heard:
            for env in range(count):
                self._begin(env)

    def _begin(self, env: int) -> None:
        episode = SingleAgentEpisode(self._ids[env], observation_space=self._observation_space)
        episode.custom_data = self._custom[env]
        self._tell("on_episode_created", episode, env)
        episode.add_env_reset(at(self._obs, env))
        self._tell("on_episode_start", episode, env)

    def _tell(self, event: str, episode: Any, env: int, **more: Any) -> None:
        if event in self._heard:
            self._callbacks.call(
                event,
                episode=episode,
                env_runner=self,
                metrics_logger=self.metrics,
                env=self.env,
                rl_module=self.module,
                env_index=env,
                **more,
            )

    def _run(
        self, steps: int, episodes: int | None, explore: bool, random_actions: bool, whole: bool
    ) -> Rollout:
        count, config = self.num_envs, self.config
        kept: dict[str, list[Any]] = {}
        ends: list[tuple[int, int]] = []
        final: list[Any] = []
        returns: list[tuple[float, int]] = []
        seconds: list[float] = []
        valid: list[Any] = []
        starts, ids, new_ids = self._lengths.copy(), list(self._ids), []
        state_in = None
        if self._state is not None:
            state_in = mapped(np.array, self._state)
        begins = np.zeros(count, np.int64)  # of the episode's part, in this rollout
        step = complete = 0
        small = None
        if self._state is None and not random_actions and not self._heard:
            small = self.module._small_policy(count)
        clip = config.clip_rewards
        bounds = None if clip is None or clip is False else clip
        watched, later = "on_episode_step" in self._heard, self._later
        as_chosen = isinstance(self._action_space, gymnasium.spaces.Discrete)
        while True:
            if small is not None:
                columns = small.act(self._obs, explore)
            else:
                columns = self._act(explore, random_actions)
            actions = columns[Columns.ACTIONS]
            for_env = columns.pop(Columns.ACTIONS_FOR_ENV, actions)
            columns[Columns.OBS] = self._obs
            seen, rewards, terminateds, truncateds, ended, infos = stepped(
                self.env, for_env if as_chosen else self._for_env(for_env)
            )
            raw = rewards
            if bounds is not None:
                rewards = np.sign(raw) if bounds is True else np.clip(raw, -bounds, bounds)
            columns[Columns.REWARDS] = rewards.astype(np.float32, copy=False)
            columns[Columns.TERMINATEDS], columns[Columns.TRUNCATEDS] = terminateds, truncateds
            for key, value in columns.items():
                kept.setdefault(key, []).append(value)
            if later:
                on = ~self._skip
                valid.append(on)
                self._returns += np.where(on, raw, 0.0)
                self._lengths += on
                self._skip = np.zeros(count, bool)
            else:
                self._returns += raw
                self._lengths += 1
            self._obs = mapped(np.array, seen) if later or whole else seen
            if watched:
                for env in range(count) if not later else np.flatnonzero(on):
                    episode = self._part(kept, begins[env], step + 1, int(env), infos)
                    over = terminateds[env] or truncateds[env]
                    if not over:
                        self._tell("on_episode_step", episode, int(env))
            for env, last in ended:
                ends.append((step, env))
                final.append(last)
                returns.append((float(self._returns[env]), int(self._lengths[env])))
                seconds.append(time.perf_counter() - float(self._began[env]))
                self._end(env, kept, begins, step, last, infos)
                new_ids.append(self._ids[env])
                complete += 1
            step += 1
            if episodes is not None:
                if complete >= episodes:
                    break
            elif whole:
                if sum(length for _, length in returns) >= steps * count:
                    break
            elif step >= steps:
                break
        self._log_ends([value for value, _ in returns], [n for _, n in returns], seconds)
        return self._rollout(
            kept, valid, ends, final, returns, starts, ids + new_ids, state_in, whole
        )

    def _rollout(
        self,
        kept: dict[str, list[Any]],
        valid: list[Any],
        ends: list[tuple[int, int]],
        final: list[Any],
        returns: list[Any],
        starts: Any,
        ids: list[str],
        state_in: Any,
        whole: bool,
    ) -> Rollout:
        columns = {key: mapped(lambda *a: np.stack(a), *values) for key, values in kept.items()}
        mask = np.stack(valid) if self._later else None
        at_ends = np.array(ends, np.int64).reshape(-1, 2)
        if whole:  # what goes on is left out, and begins anew with the next sample
            if mask is None:
                mask = np.ones((len(kept[Columns.REWARDS]), self.num_envs), bool)
            last = np.full(self.num_envs, -1)
            for step, env in ends:
                last[env] = step
            mask &= np.arange(len(mask))[:, None] <= last[None, :]
        stacked = None
        if final:
            stacked = empty(self._observation_space, (len(final),))
            for row, observation in enumerate(final):
                put(stacked, row, observation)
        return Rollout(
            columns=columns,
            last_obs=mapped(np.array, self._obs),
            final_at=at_ends,
            final_obs=stacked,
            valid=mask,
            ids=ids,
            starts=starts,
            state_in=state_in,
            returns=np.array(returns, np.float64).reshape(-1, 2),
            weights=self.weights_seq_no,
        )

    def _act(self, explore: bool, random_actions: bool) -> dict[str, Any]:
        if random_actions:
            drawn = [self._action_space.sample() for _ in range(self.num_envs)]
            actions = empty(self._action_space, (self.num_envs,))
            for env, action in enumerate(drawn):
                put(actions, env, action)
            # As the module would have given them.
            scaled = self.config.normalize_actions
            return {Columns.ACTIONS: squashed(self._action_space, actions) if scaled else actions}
        batch: dict[str, Any] = {Columns.OBS: mapped(torch.from_numpy, self._obs)}
        found: dict[str, Any] = {}
        if self._state is not None:
            batch[Columns.OBS] = mapped(lambda x: x.unsqueeze(1), batch[Columns.OBS])
            batch[Columns.STATE_IN] = mapped(torch.from_numpy, self._state)
            found[Columns.STATE_IN] = self._state
        with torch.inference_mode():
            out = (
                self.module.forward_exploration(batch, t=self.timesteps)
                if explore
                else self.module.forward_inference(batch)
            )
            if self._state is not None:
                self._state = mapped(_array, out.pop(Columns.STATE_OUT))
                out = {key: mapped(lambda x: x.squeeze(1), value) for key, value in out.items()}
            if Columns.ACTIONS not in out:
                dist = (
                    self.module.get_exploration_action_dist_cls()
                    if explore
                    else self.module.get_inference_action_dist_cls()
                ).from_logits(out[Columns.ACTION_DIST_INPUTS])
                if not explore:
                    dist = dist.to_deterministic()
                out[Columns.ACTIONS] = dist.sample()
                if explore:
                    out[Columns.ACTION_LOGP] = dist.logp(out[Columns.ACTIONS])
        for key, value in out.items():
            if key != Columns.EMBEDDINGS:
                found[key] = mapped(
                    lambda x: x.numpy() if hasattr(x, "numpy") else np.asarray(x), value
                )
        return found

    def _for_env(self, actions: Any) -> Any:
        if self.config.normalize_actions:
            actions = unsquashed(self._action_space, actions)
        elif self.config.clip_actions:
            actions = clipped(self._action_space, actions)
        return actions

    def _part(
        self,
        kept: dict[str, list[Any]],
        begin: int,
        end: int,
        env: int,
        infos: Any,
        last: Any = None,
    ) -> SingleAgentEpisode:
        def column(key: str) -> Any:
            return [at(value, env) for value in kept[key][begin:end]]

        info = infos[env] if isinstance(infos, list) else {}
        info = info.get("final_info", info) if last is not None else info
        observations = [*column(Columns.OBS), at(self._obs, env) if last is None else last]
        known = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, "terminateds", "truncateds")
        episode = SingleAgentEpisode(
            self._ids[env],
            observations=observations,
            actions=column(Columns.ACTIONS),
            rewards=column(Columns.REWARDS),
            infos=[*[{}] * (end - begin), info],
            extra_model_outputs={key: column(key) for key in kept if key not in known},
            terminated=last is not None and bool(kept["terminateds"][end - 1][env]),
            truncated=last is not None and bool(kept["truncateds"][end - 1][env]),
            observation_space=self._observation_space,
            action_space=self._action_space,
            t_started=int(self._lengths[env]) - (end - begin),
            len_lookback_buffer=0,
        )
        episode.custom_data = self._custom[env]
        return episode

    def _end(
        self, env: int, kept: dict[str, list[Any]], begins: Any, step: int, last: Any, infos: Any
    ) -> None:
        now = time.perf_counter()
        if self._heard & {"on_episode_end", "on_episode_step"}:
            episode = self._part(kept, begins[env], step + 1, env, infos, last)
            self._tell("on_episode_step", episode, env)
            self._tell("on_episode_end", episode, env, prev_episode_chunks=self._chunks[env])
        self._returns[env], self._lengths[env], self._began[env] = 0.0, 0, now
        self._ids[env], self._custom[env] = uuid.uuid4().hex, {}
        self._skip[env] = self._later
        begins[env] = step + 1 + int(self._later)
        if self._state is not None:
            self._state = mapped(np.array, self._state)  # rollouts have the array that was
            put(self._state, env, self._first_state)
        if self._heard:
            self._begin(env)


def _array(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)

"""Environments that are stepped together."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.making import EnvError, checked, observation_fits
from heliostat.rllib.utils.nest import at, leaves, put
from heliostat.rllib.utils.spaces import empty, parts

gymnasium = required("gymnasium", "ray.rllib", "rllib")
_SAME = gymnasium.vector.AutoresetMode.SAME_STEP


class SyncEnvs(gymnasium.vector.SyncVectorEnv):  # type: ignore[name-defined] # found at run time
    """Environments of one process, stepped in turn.

    One that ends is reset in the same step; what it ended with stands in :attr:`ended`. What an environment
    raises, and observations that do not fit the space, are errors that name it.

    Attributes:
        ended: Of the last step, the numbers of environments that ended and their last observations.
    """

    def __init__(self, makers: list[Any]) -> None:
        super().__init__(makers, copy=False, autoreset_mode=_SAME)
        self.ended: list[tuple[int, Any]] = []
        self._leaves = parts(self.single_observation_space)
        self._is_box = not isinstance(self._leaves, (dict, tuple))
        self._discrete = not isinstance(parts(self.single_action_space), (dict, tuple))
        # Environments of gymnasium check plain numbers faster; those of users get numpy's, as elsewhere.
        self._plain = isinstance(self.single_action_space, gymnasium.spaces.Discrete) and all(
            _is_of_gymnasium(env) for env in self.envs
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Reset all of them; of a seed each has its own."""
        seeds = (
            seed
            if isinstance(seed, (list, tuple))
            else [None if seed is None else seed + i for i in range(self.num_envs)]
        )
        first, infos = [], []
        for index, env in enumerate(self.envs):
            with _of(index, "reset()"):
                observation, info = env.reset(seed=seeds[index], options=options)
            first.append(observation)
            infos.append(info)
        self.ended = []
        return self._stacked(first, "reset()"), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step all of them; rewards of shape ``(environments,)`` in float32."""
        gained: list[Any] = []
        found: list[Any] = []
        infos: list[Any] = []
        self.ended = ended = []
        terminateds = np.zeros(self.num_envs, bool)
        truncateds = np.zeros(self.num_envs, bool)
        if self._plain:
            actions = actions.tolist()
        elif not self._discrete:
            actions = [at(actions, index) for index in range(self.num_envs)]
        index = 0
        try:
            for index, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
                observation, reward, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    ended.append((index, observation))
                    terminateds[index], truncateds[index] = terminated, truncated
                    info = {"final_info": info}
                    observation, first = env.reset()
                    info |= first
                gained.append(reward)
                found.append(observation)
                infos.append(info)
        except EnvError:
            raise
        except Exception as error:
            raise EnvError(f"Environment {index}: step() raised {error!r}.") from error
        rewards = _numbers(gained, "reward")
        total = rewards.sum()
        if total != total and np.isnan(rewards).any():
            index = int(np.flatnonzero(np.isnan(rewards))[0])
            raise EnvError(f"Environment {index}: step() returned a reward that is NaN.")
        for index, last in ended:
            observation_fits(self.single_observation_space, last, index, "step()")
        return self._stacked(found, "step()"), rewards, terminateds, truncateds, infos

    def _stacked(self, found: list[Any], where: str) -> Any:
        try:
            if self._is_box:
                stacked = np.array(found, self._leaves.dtype)
                if stacked.shape != (len(found), *self._leaves.shape):
                    raise ValueError(f"their shape is {stacked.shape[1:]}")
                bad = stacked.dtype.kind == "f" and np.isnan(stacked.sum())
            else:
                stacked = empty(self.single_observation_space, (self.num_envs,))
                for index, value in enumerate(found):
                    put(stacked, index, ordered(self._leaves, value))
                bad = any(a.dtype.kind == "f" and np.isnan(a.sum()) for _, a in leaves(stacked))
        except (ValueError, TypeError, KeyError) as error:
            for index, value in enumerate(found):
                observation_fits(self.single_observation_space, value, index, where)
            raise EnvError(f"{where} returned observations that do not fit: {error}.") from error
        if bad:
            for index, value in enumerate(found):
                if any(
                    np.isnan(np.asarray(a, dtype=float)).any() for _, a in leaves(_plain(value))
                ):
                    observation_fits(self.single_observation_space, value, index, where)
        return stacked


def _is_of_gymnasium(env: Any) -> bool:
    """Whether an environment and all that wraps it are gymnasium's."""
    while type(env).__module__.startswith("gymnasium."):
        if env is env.unwrapped:
            return True
        env = env.env
    return False


def _numbers(values: list[Any], what: str) -> Any:
    try:
        found = np.array(values, np.float32)
        if found.ndim == 1:
            return found
    except (TypeError, ValueError):
        pass
    for index, value in enumerate(values):
        try:
            float(np.reshape(value, ()))
            continue
        except (TypeError, ValueError):
            pass
        raise EnvError(f"Environment {index}: step() returned the {what} {value!r}, not a number.")
    return np.array([float(np.reshape(value, ())) for value in values], np.float32)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if not isinstance(v, str)}
    return value


def ordered(space: Any, value: Any) -> Any:
    """A nest in the order of its space, so that leaves of the two stand side by side."""
    if isinstance(space, dict):
        return {key: ordered(part, value[key]) for key, part in space.items()}
    if isinstance(space, tuple):
        return tuple(ordered(part, own) for part, own in zip(space, value, strict=True))
    if np.shape(value) != space.shape:
        raise ValueError(f"shape {np.shape(value)}")
    return value


class _of:
    """Names the environment of what is raised."""

    def __init__(self, index: int, where: str) -> None:
        self.index, self.where = index, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, EnvError):
            raise EnvError(f"Environment {self.index}: {self.where} raised {error!r}.") from error


def vectorized(
    create: Any, config: Any, worker_index: int, num_workers: int, recreated: bool = False
) -> Any:
    """The environments of one runner.

    Args:
        create: Makes one of an ``EnvContext``.
        config: The algorithm's settings.
        worker_index: The runner.
        num_workers: How many runners there are.
        recreated: Whether the runner takes the place of one that failed.
    """
    mode = str(getattr(config.gym_env_vectorize_mode, "value", config.gym_env_vectorize_mode))
    count = config.num_envs_per_env_runner

    def maker(index: int) -> Any:
        context = EnvContext(
            config.env_config,
            worker_index=worker_index,
            vector_index=index,
            num_workers=num_workers,
            remote=mode == "async",
            recreated_worker=recreated,
        )

        def make() -> Any:
            env = create(context)
            return env if config.disable_env_checking or index else checked(env, index)

        return make

    if mode == "vector_entry_point":
        if not isinstance(config.env, str):
            raise ValueError(
                'gym_env_vectorize_mode="vector_entry_point" takes an environment of gymnasium by its name.'
            )
        return gymnasium.make_vec(
            config.env, count, vectorization_mode="vector_entry_point", **config.env_config
        )
    makers = [maker(index) for index in range(count)]
    if mode == "async":
        return gymnasium.vector.AsyncVectorEnv(makers, autoreset_mode=_SAME)
    return SyncEnvs(makers)


def stepped(envs: Any, actions: Any) -> tuple[Any, Any, Any, Any, list[tuple[int, Any]], Any]:
    """Step a vector of environments; adds the last observations of those that ended.

    Returns:
        Observations, rewards, terminateds, truncateds, pairs of the number of an environment that ended and
        its last observation, infos (a list of dicts by environment, or a dict of arrays).
    """
    observations, rewards, terminateds, truncateds, infos = envs.step(actions)
    if isinstance(envs, SyncEnvs):
        return observations, rewards, terminateds, truncateds, envs.ended, infos
    over = np.flatnonzero(terminateds | truncateds)
    ended: list[tuple[int, Any]] = []
    if len(over) and "final_obs" in infos:
        ended = [(int(index), infos["final_obs"][index]) for index in over]
    elif len(over):  # it is reset in the next step: what it shows now is what it ended with
        ended = [(int(index), at(observations, index)) for index in over]
    return observations, np.asarray(rewards, np.float32), terminateds, truncateds, ended, infos


def resets_later(envs: Any) -> bool:
    """Whether an environment that ended is reset by the step after: that step is of no episode."""
    mode = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    return not isinstance(envs, SyncEnvs) and mode == gymnasium.vector.AutoresetMode.NEXT_STEP

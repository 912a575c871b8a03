"""Environments by their names, classes and creators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv


class EnvError(ValueError):
    """An environment does what its spaces do not allow, or raised."""


def creator(env: Any) -> Callable[[EnvContext], Any]:
    """The function that makes an environment of ``config.env``.

    Args:
        env: A name of ``register_env`` or of gymnasium, a class, or a function of an ``EnvContext``.

    Raises:
        ValueError: There is no such environment; the message names the nearest.
    """
    from heliostat.tune import registry

    gymnasium = required("gymnasium", "ray.rllib", "rllib")
    if isinstance(env, str):
        if env in registry._environments:
            return registry._environments[env]
        if env in gymnasium.registry or ":" in env:
            return _OfGymnasium(env)
        from heliostat.core.platform.spelling import did_you_mean

        known = [*registry._environments, *gymnasium.registry]
        raise ValueError(
            f"There is no environment {env!r}.{did_you_mean(env, known)} Register your own with "
            "ray.tune.register_env(name, creator), or pass its class to environment()."
        )
    if isinstance(env, type):
        return _OfClass(env)
    if callable(env):
        made: Callable[[EnvContext], Any] = env
        return made
    raise ValueError(
        f"environment({env!r}): an environment is a name, a class of gymnasium.Env, or a function that makes "
        "one of its config."
    )


class _OfGymnasium:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, context: EnvContext) -> Any:
        return required("gymnasium", "ray.rllib", "rllib").make(self.name, **context)


class _OfClass:
    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __call__(self, context: EnvContext) -> Any:
        try:
            parameters = list(inspect.signature(self.kind).parameters.values())
        except ValueError:
            parameters = []
        takes = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
        return self.kind(context) if takes else self.kind()


def checked(env: Any, env_index: int = 0) -> Any:
    """An environment after one reset and one step that fit its spaces.

    Raises:
        EnvError: They do not; the message names the space, the key and the environment.
    """
    gymnasium = required("gymnasium", "ray.rllib", "rllib")
    if not isinstance(env, gymnasium.Env):
        raise EnvError(
            f"The environment's creator returned {type(env).__name__}, which is not a gymnasium.Env."
        )
    if isinstance(env, MultiAgentEnv):
        raise EnvError(
            f"{type(env).__name__} is a MultiAgentEnv: set multi_agent(policies=..., policy_mapping_fn=...)."
        )
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise EnvError(f"{type(env.unwrapped).__name__} has no {name}: set it in __init__().")
    found = _called(env_index, "reset()", env.reset, seed=None)
    if not isinstance(found, tuple) or len(found) != 2:
        raise EnvError(f"{type(env.unwrapped).__name__}.reset() must return (observation, info).")
    observation_fits(env.observation_space, found[0], env_index, "reset()")
    action = env.action_space.sample(*_mask_of(env, found[0]))
    found = _called(env_index, "step()", env.step, action)
    if not isinstance(found, tuple) or len(found) != 5:
        raise EnvError(
            f"{type(env.unwrapped).__name__}.step() must return "
            "(observation, reward, terminated, truncated, info)."
        )
    observation_fits(env.observation_space, found[0], env_index, "step()")
    return env


def _called(env_index: int, where: str, method: Any, *arguments: Any, **keywords: Any) -> Any:
    try:
        return method(*arguments, **keywords)
    except Exception as error:
        raise EnvError(f"Environment {env_index}: {where} raised {error!r}.") from error


def _mask_of(env: Any, observation: Any) -> tuple[Any, ...]:
    if (
        isinstance(observation, dict)
        and "action_mask" in observation
        and hasattr(env.action_space, "n")
    ):
        import numpy as np

        return (np.asarray(observation["action_mask"], dtype=np.int8),)
    return ()


def observation_fits(space: Any, observation: Any, env_index: int, where: str) -> None:
    """Fails where an observation is outside of its space.

    Raises:
        EnvError: It is; the message names the key, the shapes and the environment.
    """
    if not space.contains(observation):
        raise EnvError(f"Environment {env_index}: {where} {_outside(space, observation, '')}.")


def _outside(space: Any, value: Any, path: str) -> str:
    import numpy as np

    inner = getattr(space, "spaces", None)
    name = f"the observation's part {path!r}" if path else "an observation"
    if isinstance(inner, dict) or (inner is not None and hasattr(inner, "keys")):
        if not isinstance(value, dict):
            return f"returned {name} of type {type(value).__name__}, where the space has a dict"
        lacking, more = set(inner) - set(value), set(value) - set(inner)
        if lacking or more:
            said = [f"lacks {k!r}" for k in sorted(lacking)] + [
                f"has {k!r} too" for k in sorted(more)
            ]
            return f"returned {name} that {' and '.join(said)}, against its space {space}"
        parts = [(str(k), inner[k], value[k]) for k in inner]
    elif inner is not None:
        if not isinstance(value, tuple) or len(value) != len(inner):
            return f"returned {name} that is not a tuple of {len(inner)}, as its space is"
        parts = [(str(i), s, v) for i, (s, v) in enumerate(zip(inner, value, strict=True))]
    else:
        given = np.asarray(value)
        if given.dtype.kind == "f" and np.isnan(given).any():
            return f"returned {name} with NaN in it"
        if space.shape is not None and given.shape != tuple(space.shape):
            return (
                f"returned {name} of shape {given.shape}, where the space has {tuple(space.shape)}"
            )
        if not np.can_cast(given.dtype, space.dtype):
            return (
                f"returned {name} of type {given.dtype}, where the space has {space.dtype}: return it "
                f"as np.asarray(..., np.{space.dtype})"
            )
        return f"returned {name} outside of the space {space}: {given!r:.200}"
    for key, part, own in parts:
        if not part.contains(own):
            return _outside(part, own, f"{path}/{key}" if path else key)
    return f"returned {name} outside of its space"

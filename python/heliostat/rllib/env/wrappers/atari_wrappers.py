"""Atari games as small images: what ``ale-py`` gives, for modules of convolutions."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required

gymnasium = required("gymnasium", "ray.rllib", "rllib")


def is_atari(env: Any) -> bool:
    """Return whether an environment, or its name, is a game of ``ale-py``.

    Args:
        env: The environment or its name.
    """
    if isinstance(env, str):
        return env.startswith(("ALE/", "ale_py:"))
    return len(getattr(env.observation_space, "shape", None) or ()) > 2 and "AtariEnv<ALE" in str(
        env
    )


class WarpFrame(gymnasium.ObservationWrapper):  # type: ignore[name-defined] # found at run time
    """Frames of ``dim`` times ``dim``, each number the mean of its area.

    Args:
        env: The environment.
        dim: Height and width.
        grayscale: Whether there is one channel. Default True.
    """

    def __init__(self, env: Any, dim: int, grayscale: bool = True) -> None:
        super().__init__(env)
        height, width = env.observation_space.shape[:2]
        self._rows, self._columns = _areas(height, dim), _areas(width, dim)
        self._gray = grayscale
        shape = (dim, dim, 1 if grayscale else 3)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation: Any) -> Any:
        """Return the frame.

        Args:
            observation: The game's frame.
        """
        frame = np.asarray(observation, np.float32)
        if self._gray:
            frame = (frame @ np.array([0.299, 0.587, 0.114], np.float32))[:, :, None]
        small = np.einsum("rh,hwc,kw->rkc", self._rows, frame, self._columns, optimize=True)
        return np.clip(np.rint(small), 0, 255).astype(np.uint8)


def _areas(size: int, count: int) -> Any:
    # How much of each of `size` numbers lies in each of `count` equal parts.
    edges = np.linspace(0, size, count + 1)
    places = np.arange(size)
    overlap = np.minimum(edges[1:, None], places + 1) - np.maximum(edges[:-1, None], places)
    return (np.maximum(overlap, 0) * (count / size)).astype(np.float32)


class NormalizedImageEnv(gymnasium.ObservationWrapper):  # type: ignore[name-defined] # found at run time
    """Frames from -1 to 1.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(
            -1.0, 1.0, env.observation_space.shape, np.float32
        )

    def observation(self, observation: Any) -> Any:
        """Return the frame.

        Args:
            observation: Its bytes.
        """
        return observation.astype(np.float32) / 128.0 - 1.0


class MaxAndSkipEnv(gymnasium.Wrapper):  # type: ignore[name-defined] # found at run time
    """Each action is taken some times; the frame is the brightest of the last two.

    Args:
        env: The environment.
        skip: How often. Default 4.
    """

    def __init__(self, env: Any, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> Any:
        """Act.

        Args:
            action: The action.
        """
        total, last = 0.0, deque[Any](maxlen=2)
        for _ in range(self._skip):
            frame, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            last.append(frame)
            if terminated or truncated:
                break
        return np.max(np.stack(last), axis=0), total, terminated, truncated, info


class NoopResetEnv(gymnasium.Wrapper):  # type: ignore[name-defined] # found at run time
    """An episode begins after some steps without action.

    Args:
        env: The environment.
        noop_max: How many at most. Default 30.
    """

    def __init__(self, env: Any, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode.

        Args:
            **kwargs: As of ``gymnasium.Env.reset``.
        """
        found = self.env.reset(**kwargs)
        for _ in range(int(self.unwrapped.np_random.integers(1, self.noop_max + 1))):
            frame, _, terminated, truncated, info = self.env.step(0)
            found = self.env.reset() if terminated or truncated else (frame, info)
        return found


class EpisodicLifeEnv(gymnasium.Wrapper):  # type: ignore[name-defined] # found at run time
    """A lost life ends the episode; the game goes on with the next one.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.lives, self.was_real_terminated = 0, True

    def step(self, action: Any) -> Any:
        """Act.

        Args:
            action: The action.
        """
        frame, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_terminated = terminated or truncated
        lives = self.env.unwrapped.ale.lives()
        terminated = terminated or 0 < lives < self.lives
        self.lives = lives
        return frame, reward, terminated, truncated, info

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode.

        Args:
            **kwargs: As of ``gymnasium.Env.reset``.
        """
        if self.was_real_terminated:
            found = self.env.reset(**kwargs)
        else:
            frame, _, terminated, truncated, info = self.env.step(0)
            found = self.env.reset(**kwargs) if terminated or truncated else (frame, info)
        self.lives = self.env.unwrapped.ale.lives()
        return found


class FireResetEnv(gymnasium.Wrapper):  # type: ignore[name-defined] # found at run time
    """An episode begins with the fire button, without which some games wait.

    Args:
        env: The environment.
    """

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode.

        Args:
            **kwargs: As of ``gymnasium.Env.reset``.
        """
        found = self.env.reset(**kwargs)
        for action in (1, 2):
            frame, _, terminated, truncated, info = self.env.step(action)
            found = self.env.reset(**kwargs) if terminated or truncated else (frame, info)
        return found


class FrameStack(gymnasium.Wrapper):  # type: ignore[name-defined] # found at run time
    """Observations are the last frames, side by side in the last axis.

    Args:
        env: The environment.
        k: How many.
    """

    def __init__(self, env: Any, k: int) -> None:
        super().__init__(env)
        self._frames: deque[Any] = deque(maxlen=k)
        space, shape = env.observation_space, env.observation_space.shape
        self.observation_space = gymnasium.spaces.Box(
            np.min(space.low), np.max(space.high), (*shape[:2], shape[2] * k), space.dtype
        )

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode: the first frame stands for those before it.

        Args:
            **kwargs: As of ``gymnasium.Env.reset``.
        """
        frame, info = self.env.reset(**kwargs)
        self._frames.extend([frame] * (self._frames.maxlen or 1))
        return np.concatenate(self._frames, axis=2), info

    def step(self, action: Any) -> Any:
        """Act.

        Args:
            action: The action.
        """
        frame, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(frame)
        return np.concatenate(self._frames, axis=2), reward, terminated, truncated, info


def wrap_atari_for_new_api_stack(
    env: Any,
    dim: int = 64,
    frameskip: int = 4,
    framestack: int | None = None,
    grayscale: bool = True,
) -> Any:
    """Return a game with small frames from -1 to 1, skipped frames, and an episode for each life.

    Args:
        env: The game: ``gymnasium.make("ale_py:ALE/Pong-v5", frameskip=1)``.
        dim: Height and width of frames. Default 64.
        frameskip: How often each action is taken. Default 4.
        framestack: How many frames an observation has. Default: one.
        grayscale: Whether frames have one channel. Default True.
    """
    env = gymnasium.wrappers.TimeLimit(env, max_episode_steps=108000)
    env = NormalizedImageEnv(WarpFrame(env, dim, grayscale))
    if frameskip > 1:
        env = MaxAndSkipEnv(env, frameskip)
    env = EpisodicLifeEnv(NoopResetEnv(env))
    if "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    return FrameStack(env, framestack) if framestack else env

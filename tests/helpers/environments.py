"""Environments that tests of reinforcement learning act in, and a small PPO."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Signs(gym.Env):  # type: ignore[misc,name-defined] # without types
    """Episodes of ten steps; the right action says whether the first number is above 0."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.seen = 0, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        reward = 1.0 if action == int(self.seen[0] > 0) else -1.0
        self.seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen, reward, False, self.steps == 10, {}


class Walk(gym.Env):  # type: ignore[misc,name-defined] # without types
    """Episodes of ``length`` steps (default 10) with any spaces; a fault changes the fifth observation."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.observation_space = config["observations"]
        self.action_space = config["actions"]
        self.fault = config.get("fault")
        self.length = config.get("length", 10)
        self.config = config
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        assert self.action_space.contains(action), (action, self.action_space)
        observation = self.observation_space.sample()
        if self.fault is not None and self.steps == 5:
            observation = self.fault(observation)
        return observation, 1.0, self.steps == self.length, False, {}


def small_ppo(batch: int, width: int, **runners: Any) -> PPOConfig:
    """PPO in one process unless ``runners`` says otherwise: two minibatches of a batch, one layer."""
    return (
        PPOConfig()
        .env_runners(
            **{
                "num_env_runners": 0,
                "num_envs_per_env_runner": 2,
                "sample_timeout_s": 600,
                **runners,
            }
        )
        .training(train_batch_size_per_learner=batch, minibatch_size=batch // 2, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [width]})
        .debugging(seed=3)
    )

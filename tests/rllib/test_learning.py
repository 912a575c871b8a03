"""A short run of learning from a seed; `make learning` has the long ones."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from learning.__main__ import ONLINE, main
from ray.rllib.algorithms import PPOConfig

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]


class Signs(gym.Env):  # type: ignore[misc,name-defined]
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


def test_ppo_learns_which_action_is_right(ray_start: Any) -> None:
    config = (
        PPOConfig()
        .environment(Signs)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=0.01,
            train_batch_size_per_learner=400,
            minibatch_size=100,
            num_epochs=5,
            gamma=0.0,
        )
        .reporting(metrics_num_episodes_for_smoothing=40)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .debugging(seed=1)
    )
    algo = config.build_algo()
    try:
        first = algo.train()["env_runners"]["episode_return_mean"]
        for _ in range(20):
            last = algo.train()["env_runners"]["episode_return_mean"]
            if last > 7.0:
                break
        assert first < 3.0
        assert last > 7.0
    finally:
        algo.stop()


@pytest.mark.heliostat_only("our own program")
def test_the_settings_of_long_runs_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for make, _, _ in ONLINE.values():
        make().debugging(seed=1).validate()
    monkeypatch.setattr(sys, "argv", ["learning", "PPI"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no PPI: there are PPO" in capsys.readouterr().err

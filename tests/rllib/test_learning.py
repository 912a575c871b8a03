"""A short run of learning from a seed; `make learning` has the long ones."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import pytest
from ray.rllib.algorithms import PPOConfig

from tests.helpers.environments import Signs
from tests.learning.__main__ import ONLINE, main

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]


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

"""Processes that die, hang or raise: the whole program, learners, runners."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig

cloudpickle.register_pickle_by_value(sys.modules[__name__])
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.heliostat_only("our own words, and what is saved"),
]

PROGRAM = """
import os, signal, sys
from ray.rllib.algorithms.ppo import PPOConfig

algo = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=1, sample_timeout_s=600)
    .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    .rl_module(model_config={"fcnet_hiddens": [8]})
    .debugging(seed=2)
    .build_algo()
)
for _ in range(2):
    algo.train()
algo.save_to_path(sys.argv[1])
print("bias=" + str(float(algo.get_weights()["default_policy"]["pi.0.bias"].sum())), flush=True)
algo.train()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_program_goes_on_from_its_checkpoint(
    run_driver: Any, ray_start: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "saved")
    done = run_driver(PROGRAM, args=[path], timeout=800)
    assert done.rc == -signal.SIGKILL
    again = PPO.from_checkpoint(path)
    try:
        weights = again.get_weights()["default_policy"]
        assert float(weights["pi.0.bias"].sum()) == pytest.approx(float(done.value("bias")))
        result = again.train()
        assert result["training_iteration"] == 3
        assert result["num_env_steps_sampled_lifetime"] == 3 * 64
        optimizer = again.learner_group.get_state()["learner"]["optimizer"]
        steps = next(iter(optimizer.values()))["state"][0]["step"]
        assert int(steps) == 6  # two gradients an iteration
    finally:
        again.stop()


def test_a_learner_that_dies_is_an_error_that_says_what_to_do(ray_start: Any) -> None:
    algo = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .learners(num_learners=1)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .build_algo()
    )
    try:
        assert np.isfinite(algo.train()["learners"]["default_policy"]["total_loss"])
        pid = algo.learner_group.foreach_learner(lambda learner: os.getpid())[0]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"A learner died.*\n(.*\n)*.*from_checkpoint"):
            algo.train()
    finally:
        algo.stop()


class Moody(gym.Env):  # type: ignore[misc,name-defined] # without types
    """An environment that hangs or raises while a file says so."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: dict[str, Any]) -> None:
        self.mood = Path(config["folder"]) / "mood"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        if self.mood.exists():
            if self.mood.read_text() == "raise":
                raise OSError("the simulator is gone")
            time.sleep(3600)
        return np.zeros(2, np.float32), 1.0, False, False, {}


def moody(folder: Path, **faults: Any) -> Any:
    return (
        PPOConfig()
        .environment(Moody, env_config={"folder": str(folder)})
        .env_runners(num_env_runners=1, rollout_fragment_length=8, sample_timeout_s=600)
        .training(train_batch_size_per_learner=8, minibatch_size=8, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .fault_tolerance(**faults)
        .build_algo()
    )


def test_a_runner_that_hangs_or_raises_is_replaced_until_it_is_too_often(
    ray_start: Any, tmp_path: Path
) -> None:
    algo = moody(tmp_path, restart_failed_env_runners=True)
    group, mood = algo.env_runner_group, tmp_path / "mood"
    try:
        algo.train()
        mood.write_text("hang")
        assert group.sample(timeout_s=2) == []
        assert group.num_remote_worker_restarts() == 1
        mood.unlink()
        assert algo.train()["fault_tolerance"]["num_remote_worker_restarts"] == 1
        mood.write_text("raise")
        with pytest.raises(Exception, match=r"Environment 0: step\(\) raised .*simulator is gone"):
            algo.train()
        assert group.num_remote_worker_restarts() > 2  # it was tried anew
    finally:
        algo.stop()


def test_a_runner_that_is_ignored_is_left_out(ray_start: Any, tmp_path: Path) -> None:
    algo = moody(tmp_path, restart_failed_env_runners=False, ignore_env_runner_failures=True)
    try:
        algo.train()
        (tmp_path / "mood").write_text("raise")
        assert algo.env_runner_group.sample() == []
        assert algo.env_runner_group.num_healthy_remote_env_runners() == 0
    finally:
        algo.stop()


def test_a_loss_that_is_not_a_number_is_named() -> None:
    algo = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size_per_learner=32, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .build_algo()
    )
    with torch.no_grad():
        for weight in algo.learner_group._learner.module["default_policy"].parameters():
            weight.fill_(float("nan"))
    with pytest.raises(
        FloatingPointError, match=r"loss of module 'default_policy' is nan.*lower lr"
    ):
        algo.train()
    algo.stop()

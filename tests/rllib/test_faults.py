"""Processes that die: the whole program, and learners."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.algorithms.ppo import PPO, PPOConfig

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

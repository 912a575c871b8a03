"""PPO: from an environment to a checkpoint, over spaces, and with faults."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import ray
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.tune.registry import register_env

from tests.helpers.environments import Walk, small_ppo

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(900)
ours = pytest.mark.heliostat_only("our own words")


def small(**runners: Any) -> PPOConfig:
    return small_ppo(64, 16, **runners)


def test_results_have_rays_keys(ray_start: Any) -> None:
    algo = small(num_env_runners=1).environment("CartPole-v1").build_algo()
    try:
        result = algo.train()
        runners, learner = result["env_runners"], result["learners"]["default_policy"]
        for key in ("episode_return_mean", "episode_len_max", "num_episodes_lifetime"):
            assert runners[key] > 0
        assert runners["num_env_steps_sampled"] == 64
        assert runners["num_module_steps_sampled_lifetime"] == {"default_policy": 64}
        for key in ("total_loss", "policy_loss", "vf_loss", "entropy", "mean_kl_loss"):
            assert np.isfinite(learner[key])
        assert learner["default_optimizer_learning_rate"] == pytest.approx(5e-05)
        assert result["training_iteration"] == 1
        assert result["num_env_steps_sampled_lifetime"] == 64
        assert algo.train()["num_env_steps_sampled_lifetime"] == 128
    finally:
        algo.stop()


def test_a_checkpoint_goes_on_where_it_was_made(ray_start: Any, tmp_path: Path) -> None:
    algo = small().environment("CartPole-v1").build_algo()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "saved"))
    weights = algo.get_weights()["default_policy"]
    steps = algo.train()["num_env_steps_sampled_lifetime"]
    again = PPO.from_checkpoint(path)
    try:
        for name, value in again.get_weights()["default_policy"].items():
            np.testing.assert_array_equal(value, weights[name])
        assert again.iteration == 1
        assert again.train()["num_env_steps_sampled_lifetime"] == steps
        algo.restore_from_path(path)
        restored = algo.get_module().get_state()["pi.0.weight"]
        np.testing.assert_array_equal(restored, weights["pi.0.weight"])
    finally:
        algo.stop()
        again.stop()
    folder = Path(path) / "learner_group" / "learner" / "rl_module" / "default_policy"
    module = RLModule.from_checkpoint(folder)
    out = module.forward_inference({"obs": torch.zeros(3, 4)})
    assert out["action_dist_inputs"].shape == (3, 2)


def test_evaluation_has_its_own_result(ray_start: Any) -> None:
    config = small().environment("CartPole-v1")
    algo = config.evaluation(evaluation_interval=2, evaluation_duration=3).build_algo()
    try:
        assert "evaluation" not in algo.train()
        found = algo.train()["evaluation"]["env_runners"]
        assert found["num_episodes"] >= 3
        assert found["episode_return_mean"] > 0
        assert algo.evaluate()["env_runners"]["num_episodes"] >= 3
    finally:
        algo.stop()


def test_registered_environments_and_their_config(ray_start: Any) -> None:
    spaces = gym.spaces
    register_env("walk-of-tests", Walk)
    config = {"observations": spaces.Box(-1, 1, (3,)), "actions": spaces.Discrete(2)}
    algo = small(num_env_runners=1).environment("walk-of-tests", env_config=config).build_algo()
    try:
        assert algo.train()["env_runners"]["episode_return_mean"] == 10.0
    finally:
        algo.stop()


SPACES = gym.spaces
OBSERVATIONS = {
    "box": SPACES.Box(-1, 1, (3,), np.float32),
    "matrix": SPACES.Box(-1, 1, (2, 3), np.float64),
    "image": SPACES.Box(0, 255, (42, 42, 3), np.uint8),
    "discrete": SPACES.Discrete(5),
    "discrete from 2": SPACES.Discrete(5, start=2),
    "multi-discrete": SPACES.MultiDiscrete([3, 4]),
    "flags": SPACES.MultiBinary(4),
    "dict": SPACES.Dict(
        {"b": SPACES.Discrete(3), "a": SPACES.Dict({"x": SPACES.Box(-1, 1, (2,), np.float32)})}
    ),
    "tuple": SPACES.Tuple([SPACES.Discrete(2), SPACES.Box(0, 1, (2,), np.float32)]),
}
ACTIONS = {
    "discrete": SPACES.Discrete(3),
    "discrete from 1": SPACES.Discrete(3, start=1),
    "box": SPACES.Box(-2, 4, (2,), np.float32),
    "box of a matrix": SPACES.Box(-1, 1, (2, 2), np.float32),
    "multi-discrete": SPACES.MultiDiscrete([2, 3]),
    "dict": SPACES.Dict({"go": SPACES.Discrete(2), "how": SPACES.Box(-1, 1, (1,), np.float32)}),
    "tuple": SPACES.Tuple([SPACES.Discrete(2), SPACES.Discrete(3)]),
}


def one_iteration(
    observations: Any, actions: Any, model: dict[str, Any] | None = None
) -> dict[str, Any]:
    config = small().environment(
        Walk, env_config={"observations": observations, "actions": actions}
    )
    algo = config.rl_module(model_config={"fcnet_hiddens": [8], **(model or {})}).build_algo()
    try:
        found: dict[str, Any] = algo.train()
        return found
    finally:
        algo.stop()


@ours
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_of_every_space(ray_start: Any, name: str) -> None:
    result = one_iteration(OBSERVATIONS[name], ACTIONS["discrete"])
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])


@ours
@pytest.mark.parametrize("name", ACTIONS)
def test_actions_of_every_space(ray_start: Any, name: str) -> None:
    result = one_iteration(OBSERVATIONS["box"], ACTIONS[name])
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
    assert result["env_runners"]["episode_return_mean"] == 10.0


def test_a_module_with_an_lstm(ray_start: Any) -> None:
    model = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7, "vf_share_layers": True}
    result = one_iteration(OBSERVATIONS["box"], ACTIONS["discrete"], model)
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])


@ours
def test_masked_actions_are_never_taken(ray_start: Any) -> None:
    class Masked(Walk):
        def reset(self, **how: Any) -> Any:
            self.steps = 0
            return self._seen(), {}

        def _seen(self) -> Any:
            return {
                "observations": np.ones(2, np.float32),
                "action_mask": np.array([0, 1], np.int8),
            }

        def step(self, action: Any) -> Any:
            assert action == 1
            self.steps += 1
            return self._seen(), 1.0, False, self.steps % 10 == 0, {}

    space = SPACES.Dict(
        {"observations": SPACES.Box(-1, 1, (2,), np.float32), "action_mask": SPACES.MultiBinary(2)}
    )
    env = {"observations": space, "actions": SPACES.Discrete(2)}
    algo = small().environment(Masked, env_config=env).build_algo()
    try:
        assert algo.train()["env_runners"]["episode_return_mean"] == 10.0
    finally:
        algo.stop()


# --- callbacks ---


class Counting(RLlibCallback):
    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        assert episode.get_observations(-1).shape == (4,)
        metrics_logger.log_value("ended", 1, reduce="sum")
        metrics_logger.log_value("longest", len(episode), reduce="max")

    def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
        result["said"] = "hello"


def test_callbacks_hear_of_episodes_and_results(ray_start: Any) -> None:
    config = small(num_env_runners=1).environment("CartPole-v1").callbacks(Counting)
    algo = config.build_algo()
    try:
        result = algo.train()
        assert result["said"] == "hello"
        assert result["env_runners"]["ended"] == result["env_runners"]["num_episodes"]
        assert result["env_runners"]["longest"] >= 1
    finally:
        algo.stop()


# --- what is wrong ---


@ours
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda o: {**o, "b": np.zeros(3, np.float32)},
            r"Environment \d: step.*'b' of shape \(3,\)",
        ),
        (lambda o: {"a": o["a"]}, r"lacks 'b'"),
        (lambda o: {**o, "a": o["a"] * np.nan}, r"'a' with NaN"),
        (lambda o: 1 / 0, "division by zero"),
    ],
)
def test_environments_that_break_their_spaces_are_named(
    ray_start: Any, fault: Any, said: str
) -> None:
    box = SPACES.Box(-1, 1, (2,), np.float32)
    env = {
        "observations": SPACES.Dict({"a": box, "b": box}),
        "actions": SPACES.Discrete(2),
        "fault": fault,
    }
    algo = small().environment(Walk, env_config=env).build_algo()
    try:
        with pytest.raises(ValueError, match=said):
            algo.train()
    finally:
        algo.stop()


@ours
def test_unknown_environments_name_the_nearest() -> None:
    with pytest.raises(ValueError, match="CartPole-v1"):
        small().environment("CartPol-v1").build_algo()


@ours
def test_a_checkpoint_of_something_else(ray_start: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a checkpoint"):
        PPO.from_checkpoint(str(tmp_path))


# --- faults ---


def test_a_runner_that_dies_is_replaced(ray_start: Any) -> None:
    heard: list[Any] = []
    config = small(num_env_runners=2).environment("CartPole-v1")
    config.callbacks(
        on_env_runners_recreated=lambda **about: heard.extend(about["env_runner_indices"])
    )
    algo = config.build_algo()
    try:
        algo.train()
        pids = algo.env_runner_group.foreach_env_runner(
            lambda _: os.getpid(), local_env_runner=False
        )
        os.kill(pids[0], signal.SIGKILL)
        for _ in range(3):
            result = algo.train()
        assert result["fault_tolerance"]["num_remote_worker_restarts"] == 1
        assert result["fault_tolerance"]["num_healthy_workers"] == 2
        assert heard == [1]
    finally:
        algo.stop()


def test_without_restarts_a_death_is_an_error(ray_start: Any) -> None:
    config = small(num_env_runners=1).environment("CartPole-v1")
    algo = config.fault_tolerance(restart_failed_env_runners=False).build_algo()
    try:
        pids = algo.env_runner_group.foreach_env_runner(
            lambda _: os.getpid(), local_env_runner=False
        )
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(ray.exceptions.RayActorError):
            algo.train()
    finally:
        algo.stop()


# --- learners ---


@ours
def test_two_learners_stay_the_same(ray_start: Any) -> None:
    algo = small().environment("CartPole-v1").learners(num_learners=2).build_algo()
    try:
        result = algo.train()
        assert result["learners"]["__all_modules__"]["num_module_steps_trained"] > 0
        states = algo.learner_group.foreach_learner(lambda learner: learner.module.get_state())
        for name, value in states[0]["default_policy"].items():
            np.testing.assert_allclose(value, states[1]["default_policy"][name], rtol=1e-5)
    finally:
        algo.stop()

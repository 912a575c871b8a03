"""One iteration of each algorithm over spaces, and an algorithm as a trainable of Tune."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from ray import tune
from ray.rllib.algorithms import (
    APPOConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    SACConfig,
)
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

from tests.helpers.environments import Walk

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(900)
SPACES = gym.spaces
ours = pytest.mark.heliostat_only("our own words")


BOX = SPACES.Box(-1, 1, (3,), np.float32)
NEST = SPACES.Dict({"a": BOX, "b": SPACES.Tuple([SPACES.Discrete(3), SPACES.MultiBinary(2)])})
TWO, THREE = SPACES.Discrete(2), SPACES.Discrete(3, start=1)
FORCE = SPACES.Box(-2, 2, (1,), np.float32)
REPLAYED = {
    "train_batch_size_per_learner": 16,
    "num_steps_sampled_before_learning_starts": 20,
    "replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000},
}
CASES: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "DQN": (DQNConfig, REPLAYED, BOX, TWO),
    "DQN of nests": (DQNConfig, REPLAYED, NEST, THREE),
    "DQN rainbow": (
        DQNConfig,
        {**REPLAYED, "num_atoms": 5, "noisy": True, "n_step": (1, 3), "dueling": True},
        BOX,
        TWO,
    ),
    "DQN plain": (
        DQNConfig,
        {
            **REPLAYED,
            "double_q": False,
            "dueling": False,
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 100},
        },
        BOX,
        TWO,
    ),
    "SAC": (SACConfig, REPLAYED, BOX, FORCE),
    "SAC of nests": (SACConfig, {**REPLAYED, "n_step": 2}, NEST, FORCE),
    "SAC of choices": (SACConfig, REPLAYED, BOX, THREE),
    "IMPALA": (IMPALAConfig, {"train_batch_size_per_learner": 40}, BOX, TWO),
    "IMPALA of nests": (IMPALAConfig, {"train_batch_size_per_learner": 40}, NEST, FORCE),
    "APPO": (APPOConfig, {"train_batch_size_per_learner": 40, "use_kl_loss": True}, BOX, TWO),
    "APPO of nests": (APPOConfig, {"train_batch_size_per_learner": 40}, NEST, FORCE),
}


@ours
@pytest.mark.parametrize("name", CASES)
def test_an_iteration_over_spaces(ray_start: Any, name: str) -> None:
    kind, training, observations, actions = CASES[name]
    config = (
        kind()
        .environment(
            Walk, env_config={"observations": observations, "actions": actions, "length": 8}
        )
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .learners(num_learners=0)
        .training(**training)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=80)
        .debugging(seed=5)
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        learner = result["learners"]["default_policy"]
        assert np.isfinite(learner["total_loss"])
        assert learner["num_module_steps_trained"] > 0
        assert result["env_runners"]["episode_return_mean"] == 8.0
        assert result["num_env_steps_sampled_lifetime"] >= 80
    finally:
        algo.stop()


@pytest.mark.parametrize("kind", [IMPALAConfig, APPOConfig])
def test_samples_come_while_a_learner_trains(ray_start: Any, kind: Any) -> None:
    config = (
        kind()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, rollout_fragment_length=10, sample_timeout_s=600)
        .learners(num_learners=1)
        .training(train_batch_size_per_learner=40)
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=200)
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        assert result["num_env_steps_sampled_lifetime"] >= 200
        assert result["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] >= 160
    finally:
        algo.stop()


def test_a_checkpoint_of_dqn_has_its_targets_and_buffer(ray_start: Any, tmp_path: Path) -> None:
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .training(**REPLAYED, store_buffer_in_checkpoints=True)
        .reporting(min_sample_timesteps_per_iteration=60)
    )
    algo = config.build_algo()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "saved"))
    again = type(algo).from_checkpoint(path)
    try:
        assert len(again.local_replay_buffer) == len(algo.local_replay_buffer) > 0
        mine = algo.learner_group.foreach_learner(
            lambda x: x._targets["default_policy"].get_state()
        )
        same = again.learner_group.foreach_learner(
            lambda x: x._targets["default_policy"].get_state()
        )
        for name, value in mine[0].items():
            np.testing.assert_array_equal(value, same[0][name])
        again.train()
    finally:
        algo.stop()
        again.stop()


@ours
def test_another_algorithms_checkpoint_is_refused(ray_start: Any, tmp_path: Path) -> None:
    algo = DQNConfig().environment("CartPole-v1").build_algo()
    other = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()
    try:
        path = algo.save_to_path(str(tmp_path / "saved"))
        with pytest.raises(ValueError, match="of DQN, and this is PPO"):
            other.restore_from_path(path)
        with pytest.raises(ValueError, match="DQN"):
            type(other).from_checkpoint(path)
    finally:
        algo.stop()
        other.stop()


@ours
def test_actions_that_an_algorithm_has_not_are_named(ray_start: Any) -> None:
    with pytest.raises(ValueError, match="DQN needs Discrete actions"):
        DQNConfig().environment("Pendulum-v1").build_algo()


# --- buffers ---


def episode_of(count: int, done: bool = True) -> Any:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    return SingleAgentEpisode(
        observations=np.arange(count + 1, dtype=np.float32)[:, None],
        actions=np.arange(count),
        rewards=np.ones(count, np.float32),
        terminated=done,
        len_lookback_buffer=0,
    )


@ours
def test_a_buffer_keeps_the_newest_and_sums_rewards() -> None:
    buffer = EpisodeReplayBuffer(capacity=20, n_step=3, gamma=0.5, seed=0)
    buffer.add([episode_of(15), episode_of(15)])
    assert len(buffer) == 20
    batch = buffer.sample(200)
    full = batch["n_step"] == 3
    assert np.all(batch["rewards"][full] == 1.75)
    assert np.all((batch["new_obs"] - batch["obs"])[:, 0] == batch["n_step"])
    ends = batch["terminateds"]
    assert np.all(batch["new_obs"][ends] == 15)
    assert np.all(batch["n_step"][~ends] == 3)


@ours
def test_priorities_decide_what_is_sampled() -> None:
    buffer = PrioritizedEpisodeReplayBuffer(capacity=16, alpha=1.0, beta=1.0, seed=0)
    buffer.add([episode_of(10)])
    buffer.update_priorities(np.array([3.0] + [1.0] * 9), np.arange(10))
    batch = buffer.sample(12000)
    share = np.bincount(batch["indices"], minlength=10) / 12000
    assert share[0] == pytest.approx(3 / 12, abs=0.02)
    assert np.allclose(share[1:], 1 / 12, atol=0.02)
    first = batch["indices"] == 0
    assert batch["weights"][first][0] / batch["weights"][~first][0] == pytest.approx(
        1 / 3, rel=1e-3
    )


# --- Tune ---


def test_an_algorithm_is_a_trainable_of_tune(ray_start: Any, tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=1, sample_timeout_s=600)
        .training(
            train_batch_size_per_learner=64,
            minibatch_size=64,
            num_epochs=1,
            lr=tune.grid_search([0.001, 0.01]),
        )
    )
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="ppo",
            storage_path=str(tmp_path),
            stop={"training_iteration": 2},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            verbose=0,
        ),
    ).fit()
    assert not results.errors
    assert sorted(r.config["lr"] for r in results) == [0.001, 0.01]
    for result in results:
        assert result.metrics["num_env_steps_sampled_lifetime"] == 128
        assert result.metrics["env_runners"]["episode_return_mean"] > 0
    from ray.rllib.algorithms import PPO

    algo = PPO.from_checkpoint(results[0].checkpoint)
    try:
        assert algo.iteration == 2
    finally:
        algo.stop()


def test_a_search_finds_an_algorithm_by_its_name(run_driver: Any) -> None:
    program = """
from ray.tune.registry import get_trainable_cls, trainable_exists

assert trainable_exists("SAC")
assert not trainable_exists("sac")
print("name=" + get_trainable_cls("PPO").__name__)
"""
    assert run_driver(program).check().value("name") == "PPO"


@pytest.mark.heliostat_only("the registry names those of this release")
def test_the_registry_of_searches_knows_each_algorithm() -> None:
    from heliostat.rllib import algorithms
    from heliostat.tune import registry

    assert sorted(registry._OF_LIBRARIES["heliostat.rllib"]) == sorted(algorithms.NAMES)

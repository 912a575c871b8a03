"""What a ``training_step`` of a program does with the runners of its algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.rllib.algorithms.ppo import PPO, PPOConfig

# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]


class Own(PPO):
    """Samples, learns and gives weights with public calls only."""

    def training_step(self) -> None:
        sampled = self.env_runner_group.foreach_env_runner(
            lambda runner: (runner.sample(num_timesteps=32), runner.get_metrics()),
            local_env_runner=self.env_runner_group.num_remote_workers() <= 0,
        )
        self.metrics.aggregate([stats for _, stats in sampled], key="env_runners")
        key = ("env_runners", "num_env_steps_sampled_lifetime")
        stats = self.learner_group.update(
            episodes=[episode for episodes, _ in sampled for episode in episodes],
            timesteps={"num_env_steps_sampled_lifetime": self.metrics.peek(key)},
        )
        self.metrics.aggregate(stats, key="learners")
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group, inference_only=True
        )


@pytest.fixture(scope="module")
def algorithm() -> Iterator[Any]:
    ray.init(num_cpus=3)
    config = (
        PPOConfig(algo_class=Own)
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, sample_timeout_s=600)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )
    algo = config.build_algo()
    yield algo
    algo.stop()
    ray.shutdown()


def sums(algo: Any, **how: Any) -> list[float]:
    """The sum of the weights of each runner."""
    return algo.env_runner_group.foreach_env_runner(
        lambda runner: float(sum(p.detach().abs().sum() for p in runner.module.parameters())), **how
    )


def test_a_training_step_of_ones_own(algorithm: Any) -> None:
    result = algorithm.train()
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 64
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
    own, *others = sums(algorithm)
    assert others == pytest.approx([own, own])


def test_weights_of_a_runner_for_some_runners(algorithm: Any) -> None:
    group = algorithm.env_runner_group
    before = sums(algorithm, local_env_runner=False)
    local = algorithm.env_runner
    zeros = {name: np.zeros_like(a) for name, a in local.get_state()["rl_module"].items()}
    if "default_policy" in zeros:  # on Ray by module
        zeros = {"default_policy": {k: v * 0 for k, v in zeros["default_policy"].items()}}
    local.set_state({"rl_module": zeros})
    group.sync_weights(to_worker_indices=[2], timeout_seconds=None)
    assert sums(algorithm, local_env_runner=False) == pytest.approx([before[0], 0.0])
    group.sync_weights(from_worker_or_learner_group=algorithm.learner_group)
    assert sums(algorithm, local_env_runner=False) == pytest.approx(before)


def test_calls_that_are_fetched_later(algorithm: Any) -> None:
    group = algorithm.env_runner_group
    assert group.fetch_ready_async_reqs() == []
    assert group.foreach_env_runner_async("ping", "a") == 2
    assert group.foreach_env_runner_async("ping", "b") == 0, "one call at a time"
    assert (group.num_in_flight_async_reqs("a"), group.num_in_flight_async_reqs()) == (2, 2)
    found: list[Any] = []
    while len(found) < 2:
        found += group.fetch_ready_async_reqs(tags=["a"], timeout_seconds=600)
    assert sorted(found) == [(1, "pong"), (2, "pong")]
    assert group.foreach_env_runner_async(lambda runner: runner.worker_index) == 2
    found = []
    while len(found) < 2:
        found += group.foreach_env_runner_async_fetch_ready(
            "ping", timeout_seconds=600, return_actor_ids=True
        )
    assert (1, 1) in found
    while group.num_in_flight_async_reqs():
        group.fetch_ready_async_reqs(timeout_seconds=600)


@pytest.mark.heliostat_only("our own words, and names of the old API stack")
def test_a_function_for_each_runner(algorithm: Any) -> None:
    group = algorithm.env_runner_group
    which = [lambda runner: "first", "ping"]
    assert group.foreach_env_runner(which, local_env_runner=False) == ["first", "pong"]
    refs = group.foreach_env_runner("ping", local_env_runner=False, return_obj_refs=True)
    assert ray.get(refs, timeout=600) == ["pong", "pong"]
    with pytest.raises(ValueError, match="func is a list of 2, and there are 3 runners"):
        group.foreach_env_runner(which)
    assert group.foreach_env(lambda env: env.spec.id) == [["CartPole-v1"] * 2] * 3
    assert group.num_healthy_env_runners() == 3
    with pytest.raises(AttributeError, match=r"foreach_policy is of RLlib's old API stack"):
        group.foreach_policy(print)


@pytest.mark.heliostat_only("what is beside Ray's names")
def test_a_runner_more(algorithm: Any) -> None:
    group = algorithm.env_runner_group
    group.add_workers(1)
    assert group.healthy_env_runner_ids() == [1, 2, 3]
    own, *others = sums(algorithm)
    assert others == pytest.approx([own] * 3), "with the weights of now"

"""Episodes that are recorded, and BC, MARWIL and CQL that learn from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import msgpack
import numpy as np
import pytest
import ray
import torch
from ray.rllib.algorithms import BCConfig, CQLConfig, MARWILConfig, PPOConfig

from tests.helpers.environments import Signs

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]
ours = pytest.mark.heliostat_only("our own words")
SPACES = gym.spaces
SEEN = SPACES.Box(-1, 1, (2,), np.float32)


def recorder(output: Path, **offline: Any) -> Any:
    return (
        PPOConfig()
        .environment(Signs)
        .env_runners(
            num_env_runners=1,
            num_envs_per_env_runner=2,
            batch_mode="complete_episodes",
            sample_timeout_s=600,
        )
        .training(train_batch_size_per_learner=200, minibatch_size=200, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .offline_data(output=str(output), **offline)
        .debugging(seed=1)
        .build_algo()
    )


def learner(config: Any, **given: Any) -> Any:
    return (
        config.environment(observation_space=SEEN, action_space=SPACES.Discrete(2))
        .offline_data(**given)
        .training(lr=0.02, train_batch_size_per_learner=400)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .debugging(seed=2)
    )


def right(algo: Any, values: Any = None) -> float:
    """How often the module chooses the right action."""
    seen = torch.rand(400, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    module = algo.learner_group._learner.module["default_policy"]
    with torch.no_grad():
        chosen = module.forward_inference({"obs": seen})["action_dist_inputs"].argmax(-1)
    return float((chosen == (seen[:, 0] > 0)).float().mean())


def plain(value: dict[Any, Any]) -> Any:
    """Arrays as msgpack-numpy reads them."""
    if b"nd" not in value:
        return value
    return np.frombuffer(value[b"data"], value[b"type"]).reshape(value.get(b"shape", ()))


def test_whole_episodes_are_recorded_and_read(ray_start: Any, tmp_path: Path) -> None:
    algo = recorder(tmp_path)
    try:
        steps = algo.train()["num_env_steps_sampled_lifetime"]
        steps = algo.train()["num_env_steps_sampled_lifetime"]
    finally:
        algo.stop()
    folders = sorted(p.name for p in (tmp_path / "signs").iterdir())
    assert folders == ["run-000001-00001", "run-000001-00002"]
    paths = [str(tmp_path / "signs" / name) for name in folders]
    found = [
        msgpack.unpackb(row["item"], object_hook=plain, strict_map_key=False)
        for row in ray.data.read_parquet(paths).take_all()
    ]
    assert sum(one["t"] for one in found) == steps
    for one in found:
        seen, actions = one["observations"]["data"], one["actions"]["data"]
        assert (len(seen), len(actions), one["is_truncated"]) == (11, 10, True)
        wanted = np.where(actions == (seen[:-1, 0] > 0), 1.0, -1.0)
        np.testing.assert_array_equal(one["rewards"]["data"], wanted)
        assert one["extra_model_outputs"]["action_logp"]["data"].shape == (10,)
    # Half of the actions are wrong: what advantages say is learned, not what was done most.
    config = learner(MARWILConfig(), input_=paths, input_read_episodes=True)
    algo = config.training(beta=1.0, moving_average_sqd_adv_norm_start=1.0).build_algo()
    try:
        before = right(algo)
        for _ in range(40):
            result = algo.train()
        found = result["learners"]["default_policy"]
        assert np.isfinite(found["vf_loss"])
        assert found["moving_avg_sqd_adv_norm"] > 0
        assert result["num_env_steps_sampled_lifetime"] == 40 * 400
        assert right(algo) > max(0.9, before)
    finally:
        algo.stop()


def test_steps_are_recorded_and_imitated(ray_start: Any, tmp_path: Path) -> None:
    algo = recorder(
        tmp_path,
        output_write_episodes=False,
        output_max_rows_per_file=150,
        output_write_remaining_data=True,
    )
    try:
        steps = algo.train()["num_env_steps_sampled_lifetime"]
    finally:
        algo.stop()
    paths = [str(p) for p in (tmp_path / "signs").iterdir()]
    rows = ray.data.read_parquet(paths).take_all()
    assert len(rows) == steps
    assert {"obs", "new_obs", "actions", "rewards", "terminateds", "truncateds"} <= set(rows[0])
    # An expert's rows, under other names.
    random = np.random.default_rng(0)
    seen = random.uniform(-1, 1, (600, 2)).astype(np.float32)
    data = {
        "what": seen,
        "did": (seen[:, 0] > 0).astype(np.int64),
        "rewards": np.ones(600, np.float32),
        "new_obs": np.roll(seen, -1, 0),
        "terminateds": np.arange(600) % 10 == 9,
    }
    expert = tmp_path / "expert"
    ray.data.from_items([{k: v[i] for k, v in data.items()} for i in range(600)]).write_parquet(
        str(expert)
    )
    config = learner(
        BCConfig(), input_=[str(expert)], input_read_schema={"obs": "what", "actions": "did"}
    )
    config.evaluation(
        evaluation_interval=40,
        evaluation_duration=4,
        evaluation_config=BCConfig.overrides(env=Signs, explore=False),
    )
    algo = config.build_algo()
    try:
        for _ in range(40):
            result = algo.train()
        assert right(algo) > 0.9
        assert result["evaluation"]["env_runners"]["episode_return_mean"] > 6.0
        saved = algo.save_to_path(str(tmp_path / "saved"))
        again = type(algo).from_checkpoint(saved)
        assert right(again) == right(algo)
        again.stop()
    finally:
        algo.stop()
    # The recorder's rows, a part of them at a time.
    algo = learner(BCConfig(), input_=paths, materialize_mapped_data=False).build_algo()
    try:
        assert np.isfinite(algo.train()["learners"]["default_policy"]["policy_loss"])
    finally:
        algo.stop()


def test_cql_finds_the_better_actions_of_random_data(ray_start: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    seen = random.uniform(-1, 1, (1000, 2)).astype(np.float32)
    actions = random.uniform(-1, 1, (1000, 1)).astype(np.float32)
    rewards = -((actions[:, 0] - np.sign(seen[:, 0]) * 0.6) ** 2)
    data = ray.data.from_items(
        [
            {
                "obs": seen[i],
                "actions": actions[i],
                "rewards": float(rewards[i]),
                "new_obs": seen[(i + 1) % 1000],
                "terminateds": True,
            }
            for i in range(1000)
        ]
    )
    data.write_parquet(str(tmp_path))
    config = (
        CQLConfig()
        .environment(observation_space=SEEN, action_space=SPACES.Box(-1, 1, (1,), np.float32))
        .offline_data(input_=[str(tmp_path)], dataset_num_iters_per_learner=20)
        .training(
            actor_lr=0.01,
            critic_lr=0.01,
            alpha_lr=0.01,
            bc_iters=10,
            min_q_weight=0.1,
            initial_alpha=0.01,
            train_batch_size_per_learner=128,
        )
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .reporting(min_time_s_per_iteration=0)
        .debugging(seed=4)
    )
    algo = config.build_algo()
    try:
        for _ in range(10):
            found = algo.train()["learners"]["default_policy"]
        assert np.isfinite(found["cql_loss"])
        module = algo.learner_group._learner.module["default_policy"]
        points = torch.tensor([[0.5, 0.0], [-0.5, 0.0]])
        with torch.no_grad():
            out = module.forward_inference({"obs": points})["action_dist_inputs"]
        kind = module.get_inference_action_dist_cls()
        chosen = kind.from_logits(out).to_deterministic().sample()[:, 0]
        assert chosen[0] > 0.2 > -0.2 > chosen[1]
    finally:
        algo.stop()


@ours
def test_data_that_does_not_fit_is_named(ray_start: Any, tmp_path: Path) -> None:
    rows = [{"obs": np.zeros(2, np.float32), "actions": 1, "rewards": 1.0, "terminateds": True}]
    ray.data.from_items(rows).write_parquet(str(tmp_path))
    with pytest.raises(ValueError, match=r"set offline_data\(input_=\[paths\]\)"):
        learner(BCConfig()).build_algo()
    with pytest.raises(ValueError, match="PPOConfig samples an environment"):
        PPOConfig().environment("CartPole-v1").offline_data(input_=["x"]).build_algo()
    with pytest.raises(ValueError, match="'read_sql_'"):
        learner(BCConfig(), input_=["x"], input_read_method="read_sql_").build_algo()
    with pytest.raises(ValueError, match="the spaces must be given"):
        BCConfig().offline_data(input_=["x"]).build_algo()
    for given, said in (
        ({}, "no column 'new_obs'"),
        ({"input_read_episodes": True}, "it holds steps, not episodes"),
    ):
        algo = learner(BCConfig(), input_=[str(tmp_path)], **given).build_algo()
        try:
            with pytest.raises(ValueError, match=said):
                algo.train()
        finally:
            algo.stop()
    algo = learner(BCConfig(), input_=[str(tmp_path)], ignore_final_observation=True).build_algo()
    try:
        assert np.isfinite(algo.train()["learners"]["default_policy"]["policy_loss"])
    finally:
        algo.stop()

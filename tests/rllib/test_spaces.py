"""One training step of every algorithm over every space, mask and memory."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms import (
    APPOConfig,
    BCConfig,
    CQLConfig,
    DQNConfig,
    IMPALAConfig,
    MARWILConfig,
    PPOConfig,
    SACConfig,
)
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 2}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]
SPACES = gym.spaces
BOX = SPACES.Box(-1, 1, (3,), np.float32)

OBSERVATIONS: dict[str, Any] = {
    "box": BOX,
    "discrete": SPACES.Discrete(4, start=2),
    "multi-discrete": SPACES.MultiDiscrete([2, 3]),
    "multi-binary": SPACES.MultiBinary(4),
    "dict": SPACES.Dict({"a": BOX, "b": SPACES.Discrete(3)}),
    "tuple": SPACES.Tuple([SPACES.MultiDiscrete([2, 2]), SPACES.Dict({"c": BOX})]),
    "image": SPACES.Box(0, 255, (12, 12, 3), np.uint8),
}
ACTIONS: dict[str, Any] = {
    "discrete": SPACES.Discrete(3, start=1),
    "box": SPACES.Box(-2, 2, (2,), np.float32),
    "multi-discrete": SPACES.MultiDiscrete([2, 3]),
    "multi-binary": SPACES.MultiBinary(2),
    "dict": SPACES.Dict({"x": SPACES.Discrete(2), "y": SPACES.Box(-1, 1, (1,), np.float32)}),
    "tuple": SPACES.Tuple([SPACES.Box(0, 1, (2,), np.float32), SPACES.Discrete(2)]),
}
REPLAYED = {
    "train_batch_size_per_learner": 16,
    "num_steps_sampled_before_learning_starts": 16,
    "replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 100},
}
SAMPLED = {"train_batch_size_per_learner": 32}
EVERY = tuple(ACTIONS)
ONLINE: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "PPO": (PPOConfig, {**SAMPLED, "num_epochs": 1, "minibatch_size": 16}, EVERY),
    "IMPALA": (IMPALAConfig, SAMPLED, EVERY),
    "APPO": (APPOConfig, SAMPLED, EVERY),
    "DQN": (DQNConfig, REPLAYED, ("discrete",)),
    "SAC": (SACConfig, REPLAYED, ("box", "discrete")),
}
RECORDED = {"BC": (BCConfig, EVERY), "MARWIL": (MARWILConfig, EVERY), "CQL": (CQLConfig, ("box",))}


class Steps(gym.Env):  # type: ignore[misc,name-defined] # without types
    """Episodes of eight steps, with any spaces; a mask allows one action at least."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.observation_space, self.action_space = config["observations"], config["actions"]
        self.mask: Any = None

    def _seen(self) -> Any:
        seen = self.observation_space.sample()
        if isinstance(seen, dict) and "action_mask" in seen:
            seen["action_mask"][self.steps % len(seen["action_mask"])] = 1
            self.mask = seen["action_mask"]
        return seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), (action, self.action_space)
        if self.mask is not None:
            assert self.mask[int(action) - int(self.action_space.start)]
        self.steps += 1
        return self._seen(), 1.0, self.steps == 8, False, {}


def cases() -> list[Any]:
    """All of the product; those that are not every fourth take longer than `make test` has."""
    found = []
    for one, (algorithm, (_, _, actions)) in enumerate(ONLINE.items()):
        for two, seen in enumerate(OBSERVATIONS):
            for three, acted in enumerate(actions):
                turn = three == (one + two) % len(actions) and (one + two) % 2 == 0
                marks = [] if turn else [pytest.mark.slow]
                found.append(pytest.param(algorithm, seen, acted, marks=marks))
    return found


def stepped(algorithm: str, observations: Any, actions: Any, model: dict[str, Any]) -> Any:
    kind, training, _ = ONLINE[algorithm]
    algo = (
        kind()
        .environment(Steps, env_config={"observations": observations, "actions": actions})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=16)
        .learners(num_learners=0)
        .training(**training)
        .rl_module(model_config={"fcnet_hiddens": [8], **model})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=32)
        .debugging(seed=5)
        .build_algo()
    )
    try:
        result = algo.train()
    finally:
        algo.stop()
    learner = result["learners"]["default_policy"]
    assert np.isfinite(learner["total_loss"])
    assert learner["num_module_steps_trained"] > 0
    assert result["env_runners"]["episode_return_mean"] == 8.0


@pytest.mark.parametrize(("algorithm", "seen", "acted"), cases())
def test_a_training_step(ray_start: Any, algorithm: str, seen: str, acted: str) -> None:
    stepped(algorithm, OBSERVATIONS[seen], ACTIONS[acted], {})


@pytest.mark.parametrize("algorithm", ["PPO", "IMPALA", "APPO"])
def test_a_training_step_with_a_mask(ray_start: Any, algorithm: str) -> None:
    space = SPACES.Dict({"observations": BOX, "action_mask": SPACES.MultiBinary(3)})
    stepped(algorithm, space, SPACES.Discrete(3), {})


@pytest.mark.parametrize("algorithm", ["PPO", "IMPALA", "APPO"])
def test_a_training_step_with_a_memory(ray_start: Any, algorithm: str) -> None:
    stepped(
        algorithm,
        OBSERVATIONS["dict"],
        ACTIONS["tuple"],
        {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5},
    )


def recorded(observations: Any, actions: Any) -> list[Any]:
    found = []
    for number in range(3):
        observations.seed(number)
        actions.seed(number)
        found.append(
            SingleAgentEpisode(
                observations=[observations.sample() for _ in range(9)],
                actions=[actions.sample() for _ in range(8)],
                rewards=[1.0] * 8,
                terminated=number != 1,
                observation_space=observations,
                action_space=actions,
                len_lookback_buffer=0,
            ).to_numpy()
        )
    return found


@pytest.mark.parametrize("algorithm", RECORDED)
def test_an_update_of_recorded_episodes_over_all_spaces(algorithm: str) -> None:
    kind, allowed = RECORDED[algorithm]
    for place, (seen, observations) in enumerate(OBSERVATIONS.items()):
        acted = allowed[place % len(allowed)]
        config = (
            kind()
            .environment(observation_space=observations, action_space=ACTIONS[acted])
            .training(train_batch_size_per_learner=24)
            .rl_module(model_config={"fcnet_hiddens": [8]})
        )
        learner = config.build_learner(spaces={"default_policy": (observations, ACTIONS[acted])})
        found = learner.update(episodes=recorded(observations, ACTIONS[acted]))
        losses = {key: value for key, value in found.items() if "total_loss" in key}
        assert losses, (seen, acted)
        assert all(np.isfinite(loss.peek()) for loss in losses.values()), (seen, acted, losses)

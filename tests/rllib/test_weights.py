"""Weights of runners: views of one object, until code of the user's may write to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import gymnasium
import torch
from heliostat.rllib.algorithms.ppo.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.ppo import PPOConfig

pytestmark = pytest.mark.heliostat_only("how weights lie in memory")
SPACES = {
    "observation_space": gymnasium.spaces.Box(-1, 1, (4,)),
    "action_space": gymnasium.spaces.Discrete(2),
}


class Own(DefaultPPOTorchRLModule):
    pass


def addresses(module: Any) -> dict[str, int]:
    return {name: parameter.data_ptr() for name, parameter in module.named_parameters()}


def state_of(module: Any, number: float) -> dict[str, Any]:
    state = {name: np.full_like(value, number) for name, value in module.get_state().items()}
    for value in state.values():
        value.flags.writeable = False
    return state


def test_a_module_of_ours_acts_on_an_objects_own_memory(recwarn: Any) -> None:
    module = DefaultPPOTorchRLModule(**SPACES)
    state = state_of(module, 0.25)
    module._use_state(state)
    lies = {name: value.__array_interface__["data"][0] for name, value in state.items()}
    assert addresses(module) == lies
    out = module.forward_inference({"obs": torch.zeros(1, 4)})
    assert float(out["action_dist_inputs"].detach()[0, 0]) != 0.0
    module._own_weights()
    assert not set(addresses(module).values()) & set(lies.values())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert all((value == 0.25).all() for value in state.values())
    assert [str(one.message) for one in recwarn if "writable" in str(one.message)] == []


@pytest.mark.parametrize("kind", [Own, DefaultPPOTorchRLModule])
def test_other_weights_are_copied(kind: type) -> None:
    """A module of the user's may write to its weights; an array that can be written is somebody's."""
    module = kind(**SPACES)
    state = state_of(module, 0.5)
    if kind is not Own:
        state = {name: value.copy() for name, value in state.items()}
    before = addresses(module)
    module._use_state(state)
    assert addresses(module) == before
    assert all((value == 0.5).all() for value in module.get_state().values())


def test_weights_of_another_module_are_refused() -> None:
    module = DefaultPPOTorchRLModule(**SPACES)
    state = state_of(module, 0.5)
    with pytest.raises(ValueError, match="it lacks"):
        module._use_state(dict(list(state.items())[1:]))
    with pytest.raises(ValueError, match="of another module"):
        module._use_state({**state, next(iter(state)): np.zeros(3, np.float32)})


def zeroed(runner: Any) -> float:
    """Write to one runner's weights; say what each runner has."""
    with torch.no_grad():
        if runner.worker_index == 1:
            for parameter in runner.module.parameters():
                parameter.zero_()
    return float(sum(parameter.abs().sum() for parameter in runner.module.parameters()))


def test_what_one_runner_writes_no_other_sees(ray_start: Any) -> None:
    algo = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, rollout_fragment_length=16, num_cpus_per_env_runner=0)
        .training(train_batch_size_per_learner=32, minibatch_size=32, num_epochs=1)
        # Large enough to lie in the object store.
        .rl_module(model_config={"fcnet_hiddens": [256, 256]})
        .debugging(seed=1)
    ).build_algo()
    try:
        algo.train()
        learned = algo.get_weights()["default_policy"]
        first, second = algo.env_runner_group.foreach_env_runner(zeroed, local_env_runner=False)
        assert first == 0.0 < second
        assert all(np.array_equal(learned[n], v) for n, v in algo.get_module().get_state().items())
        algo.train()
        algo.publish_weights()
        again = algo.env_runner_group.sample(weights=algo._weights_ref)
        assert len(again) == 2
        expected = algo.get_module().get_state()
        for found in algo.env_runner_group.foreach_env_runner(
            lambda runner: runner.module.get_state(), local_env_runner=False
        ):
            assert found.keys() == expected.keys()
            assert all(np.array_equal(expected[name], found[name]) for name in expected)
    finally:
        algo.stop()

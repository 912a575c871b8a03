"""What a small policy chooses without a call of its module is what the module would have chosen."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

pytestmark = [pytest.mark.heliostat_only("runners' own arrays")]
SPACES = gym.spaces


class Wide(gym.Env):  # type: ignore[misc,name-defined] # without types
    """Random observations of two rows of three; any action will do."""

    observation_space = SPACES.Box(-1, 1, (2, 3), np.float64)

    def __init__(self, config: dict[str, Any]) -> None:
        self.action_space = config["actions"]
        self.seen: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, (2, 3)), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.seen.append(action)
        return self.np_random.uniform(-1, 1, (2, 3)), 1.0, len(self.seen) % 7 == 0, False, {}


def runner_of(actions: Any, **model: Any) -> Any:
    config = (
        PPOConfig()
        .environment(Wide, env_config={"actions": actions}, normalize_actions=False)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=5)
        .rl_module(model_config={"fcnet_hiddens": [16, 8], **model})
        .debugging(seed=3)
    )
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    with torch.no_grad():  # far from uniform
        for weight in runner.module.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
    return runner


@pytest.mark.parametrize(
    ("actions", "model"),
    [
        (SPACES.Discrete(4), {}),
        (SPACES.Discrete(3, start=2), {"fcnet_activation": "relu"}),
        (SPACES.Box(-np.inf, np.inf, (3,), np.float32), {"fcnet_activation": "linear"}),
        (SPACES.Box(-np.inf, np.inf, (2,), np.float32), {"free_log_std": True}),
    ],
    ids=["discrete", "from two", "gaussian", "free deviations"],
)
def test_a_small_policy_acts_as_its_module(actions: Any, model: dict[str, Any]) -> None:
    runner = runner_of(actions, **model)
    assert runner.module._small_policy(5) is not None
    assert runner.module._small_policy(10**6) is None  # torch is faster with that many
    rollout = runner.sample_rollout(num_timesteps=2000)
    flat = {
        key: torch.from_numpy(value.reshape(-1, *value.shape[2:]))
        for key, value in rollout.columns.items()
    }
    with torch.inference_mode():
        inputs = runner.module.forward_exploration({Columns.OBS: flat[Columns.OBS]})
        inputs = inputs[Columns.ACTION_DIST_INPUTS]
        dist = runner.module.get_exploration_action_dist_cls().from_logits(inputs)
        logp = dist.logp(flat[Columns.ACTIONS])
    close = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(flat[Columns.ACTION_DIST_INPUTS], inputs, **close)
    torch.testing.assert_close(flat[Columns.ACTION_LOGP], logp, **close)
    drawn = flat[Columns.ACTIONS]
    if isinstance(actions, SPACES.Discrete):
        expected = torch.softmax(inputs, -1).mean(0)
        seen = torch.bincount(drawn - int(actions.start), minlength=actions.n) / len(drawn)
        assert (seen - expected).abs().max() < 0.05
    else:
        mean, log_std = inputs.chunk(2, -1)
        noise = (drawn - mean) / log_std.exp()
        assert abs(float(noise.mean())) < 0.1
        assert 0.9 < float(noise.std()) < 1.1
    rollout = runner.sample_rollout(num_timesteps=50, explore=False)
    observations = torch.from_numpy(rollout.columns[Columns.OBS][0])
    with torch.inference_mode():
        inputs = runner.module.forward_inference({Columns.OBS: observations})
        dist = runner.module.get_inference_action_dist_cls().from_logits(
            inputs[Columns.ACTION_DIST_INPUTS]
        )
        likely = dist.to_deterministic().sample().numpy()
    np.testing.assert_allclose(rollout.columns[Columns.ACTIONS][0], likely, rtol=1e-4, atol=1e-4)
    runner.stop()


def test_one_seed_makes_one_sample_and_a_listener_is_heard() -> None:
    first, again = (runner_of(SPACES.Discrete(4)) for _ in range(2))
    samples = []
    for runner in (first, again):
        torch.manual_seed(5)
        runner._seed()
        with torch.no_grad():
            for weight in runner.module.parameters():
                weight.fill_(0.01)
        samples.append(runner.sample_rollout(num_timesteps=100, force_reset=True).columns)
    for key in samples[0]:
        np.testing.assert_array_equal(samples[0][key], samples[1][key])

    heard = []
    first.module.pi[-1].register_forward_hook(lambda *given: heard.append(1))
    first.sample_rollout(num_timesteps=10)
    assert len(heard) == 2


@pytest.mark.parametrize("use_kl_loss", [True, False])
def test_the_loss_of_discrete_actions_has_the_gradient_of_its_formula(use_kl_loss: bool) -> None:
    from ray.rllib.algorithms.ppo.ppo_torch_learner import CategoricalLoss

    torch.manual_seed(1)
    rows, count = 200, 5
    config = PPOConfig().training(
        clip_param=0.2, vf_clip_param=1.0, vf_loss_coeff=0.7, use_kl_loss=use_kl_loss
    )
    before = torch.randn(rows, count)
    before[:, 4] = -1e9  # masked
    actions = torch.distributions.Categorical(logits=before).sample()
    logits = (before + 0.5 * torch.randn(rows, count)).requires_grad_()
    values = torch.randn(rows).requires_grad_()
    then = torch.distributions.Categorical(logits=before)
    batch = {
        Columns.ACTIONS: actions,
        Columns.ACTION_LOGP: then.log_prob(actions),
        Columns.ACTION_DIST_INPUTS: before,
        Columns.ADVANTAGES: torch.randn(rows),
        Columns.VALUE_TARGETS: torch.randn(rows),
    }
    found = CategoricalLoss.apply(logits, values, batch, config, 0.02, 0.3)
    found[0].backward()

    again, values_again = (x.detach().clone().requires_grad_() for x in (logits, values))
    now = torch.distributions.Categorical(logits=again)
    ratio = (now.log_prob(actions) - batch[Columns.ACTION_LOGP]).exp()
    assert 0.1 < float(((ratio < 0.8) | (ratio > 1.2)).float().mean()) < 0.9  # some are clipped
    advantage = batch[Columns.ADVANTAGES]
    policy = -torch.minimum(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean()
    value_loss = (values_again - batch[Columns.VALUE_TARGETS]).pow(2).clamp(max=1.0).mean()
    entropy = now.entropy().mean()
    loss = policy - 0.02 * entropy + 0.7 * value_loss
    divergence = torch.zeros(())
    if use_kl_loss:
        divergence = torch.distributions.kl_divergence(then, now).mean()
        loss = loss + 0.3 * divergence
    loss.backward()
    for got, expected in zip(found, (loss, policy, entropy, value_loss, divergence), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(logits.grad, again.grad, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(values.grad, values_again.grad, rtol=1e-4, atol=1e-7)


ADAM = """
import sys
import numpy as np, torch
from ray.rllib.algorithms.ppo import PPOConfig
from heliostat.rllib.core.learner.torch.adam import Adam

config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
algo = config.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1).build_algo()
algo.train()
assert "torch._dynamo" not in sys.modules, "an optimizer loads the compiler"
algo.stop()

made = []
for kind in (Adam, torch.optim.Adam, Adam):
    torch.manual_seed(1)
    weights = [torch.randn(3, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    optimizer = kind(weights, lr=0.01, weight_decay=0.1, eps=1e-6)
    if len(made) == 2:  # goes on with the state of torch's
        optimizer.load_state_dict(half)
        with torch.no_grad():
            for weight, value in zip(weights, values): weight.copy_(value)
    for number in range(5 if len(made) == 2 else 10):
        if len(made) == 1 and number == 5:
            half = optimizer.state_dict()
            own = half["state"].items()
            half = {**half, "state": {k: {n: t.clone() for n, t in v.items()} for k, v in own}}
            values = [weight.detach().clone() for weight in weights]
        optimizer.zero_grad()
        (weights[0].pow(2).sum() + weights[1].exp().sum()).backward()
        optimizer.step()
    made.append([weight.detach().numpy() for weight in weights])
for other in made[1:]:
    for own, theirs in zip(made[0], other): np.testing.assert_allclose(own, theirs, rtol=1e-5)
print("the same")
"""


def test_adam_is_torchs_and_loads_no_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ADAM], check=False, capture_output=True, text=True, timeout=280
    )
    assert done.stdout.strip().endswith("the same"), done.stderr[-2000:]

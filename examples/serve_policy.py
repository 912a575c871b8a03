"""A policy that was trained is served: PPO learns CartPole, a deployment answers with actions.

    python examples/serve_policy.py

Needs ``heliostat[rllib,serve]``. Prints the mean return of training, and how long an episode is whose
actions come from the service.
"""

from __future__ import annotations

import tempfile

import gymnasium as gym
import heliostat as ray
import numpy as np
from heliostat import serve
from heliostat.rllib.algorithms.ppo import PPOConfig


@serve.deployment
class Policy:
    """Answers observations with actions."""

    def __init__(self, path: str) -> None:
        from heliostat.rllib.core.rl_module import RLModule

        self.module = RLModule.from_checkpoint(path)

    def __call__(self, observation: list[float]) -> int:
        import torch

        with torch.inference_mode():
            out = self.module.forward_inference({"obs": torch.tensor([observation])})
        return int(out["action_dist_inputs"].argmax(-1))


def trained(folder: str, iterations: int) -> str:
    """Train, and return where the module is."""
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=1e-3,
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=8,
            vf_clip_param=1e4,
        )
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .debugging(seed=0)
    )
    algo = config.build_algo()
    for _ in range(iterations):
        result = algo.train()
    print(f"mean return of training: {result['env_runners']['episode_return_mean']:.1f}")
    path: str = algo.save_to_path(folder)
    algo.stop()
    return f"{path}/learner_group/learner/rl_module/default_policy"


def main(iterations: int = 5) -> None:
    """Train, serve, and let the service balance the pole."""
    ray.init(num_cpus=2)
    with tempfile.TemporaryDirectory() as folder:
        handle = serve.run(Policy.bind(trained(folder, iterations)))
        env = gym.make("CartPole-v1")
        seen, _ = env.reset(seed=1)
        steps, over = 0, False
        while not over:
            action = handle.remote(np.asarray(seen).tolist()).result()
            seen, _, terminated, truncated, _ = env.step(action)
            steps, over = steps + 1, terminated or truncated
        print(f"steps of the served policy: {steps}")
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()

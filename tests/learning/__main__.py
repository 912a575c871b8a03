"""Train each algorithm from a seed until its return is reached, or its steps are used up.

``make learning`` runs all of them, each in minutes on two cores; ``ARGS="PPO SAC --seed 3"`` chooses.
A line for each: what was reached, after how many steps and seconds. It fails when one does not get there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import ray
from ray.rllib.algorithms import (
    APPOConfig,
    BCConfig,
    DQNConfig,
    MARWILConfig,
    PPOConfig,
    SACConfig,
)
from ray.rllib.env.multi_agent_env import make_multi_agent

SMALL = {"fcnet_hiddens": [64, 64]}


def ppo(environment: Any = "CartPole-v1") -> Any:
    return (
        PPOConfig()
        .environment(environment)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=1e-3,
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=8,
            lambda_=0.95,
            clip_param=0.2,
            vf_loss_coeff=0.5,
            vf_clip_param=1e4,
        )
        .rl_module(model_config=SMALL)
    )


def several() -> Any:
    config = ppo(make_multi_agent("CartPole-v1"))
    return config.environment(env_config={"num_agents": 2}).multi_agent(
        policies={"p0", "p1"},
        policy_mapping_fn=lambda agent, episode, **kwargs: f"p{agent}",
    )


def appo() -> Any:
    return (
        APPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=1, num_envs_per_env_runner=8)
        .training(lr=5e-4, train_batch_size_per_learner=500, vf_loss_coeff=0.5, entropy_coeff=0.005)
        .rl_module(model_config={**SMALL, "vf_share_layers": False})
    )


def dqn() -> Any:
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .training(
            lr=5e-4,
            train_batch_size_per_learner=32,
            target_network_update_freq=200,
            num_steps_sampled_before_learning_starts=500,
            epsilon=[(0, 1.0), (8000, 0.02)],
            n_step=(2, 5),
            double_q=True,
            dueling=True,
        )
        .rl_module(model_config={"fcnet_hiddens": [64]})
    )


def sac() -> Any:
    return (
        SACConfig()
        .environment("Pendulum-v1")
        .training(
            actor_lr=5e-4,
            critic_lr=1e-3,
            alpha_lr=1e-3,
            train_batch_size_per_learner=256,
            num_steps_sampled_before_learning_starts=1000,
        )
        .rl_module(model_config={"fcnet_hiddens": [128, 128]})
        # An episode is 200 steps: a mean over 100 of them would still have those of the beginning.
        .reporting(metrics_num_episodes_for_smoothing=10)
    )


# By name: settings, the return, and after how many steps at most.
ONLINE: dict[str, tuple[Callable[[], Any], float, int]] = {
    "PPO": (ppo, 450.0, 300_000),
    "MultiAgentPPO": (several, 900.0, 300_000),
    "APPO": (appo, 450.0, 600_000),
    "DQN": (dqn, 450.0, 150_000),
    "SAC": (sac, -250.0, 20_000),
}
OFFLINE: dict[str, tuple[Any, dict[str, Any]]] = {
    "BC": (BCConfig, {}),
    "MARWIL": (MARWILConfig, {"beta": 1.0}),
}


def reached(name: str, result: dict[str, Any]) -> float:
    where = result.get("evaluation", result) if name in OFFLINE else result
    return float(where["env_runners"].get("episode_return_mean", float("nan")))


def trained(name: str, config: Any, wanted: float, most: int) -> tuple[bool, Any]:
    """Train; whether it got there, and the algorithm."""
    began = time.perf_counter()
    algo = config.build_algo()
    best = float("-inf")
    steps = 0
    while steps < most:
        result = algo.train()
        steps = result["num_env_steps_sampled_lifetime"]
        now = reached(name, result)
        best = max(best, now) if now == now else best
        if best >= wanted:
            break
    seconds = time.perf_counter() - began
    right = best >= wanted
    said = "reached" if right else "FAILED to reach"
    print(f"{name}: {said} {wanted:g}: {best:.1f} after {steps} steps, {seconds:.0f} s", flush=True)
    return right, algo


def recorded(folder: Path, seed: int) -> list[str]:
    """Episodes of an agent that balances the pole."""
    _, expert = trained("expert", ppo().debugging(seed=seed), 450.0, 300_000)
    weights = expert.get_weights()
    expert.stop()
    config = (
        ppo()
        .env_runners(batch_mode="complete_episodes", explore=False)
        .training(train_batch_size_per_learner=5000)
        .offline_data(output=str(folder))
        .debugging(seed=seed)
    )
    writer = config.build_algo()
    writer.set_weights(weights)
    writer.env_runner.sample(num_timesteps=10_000)
    writer.stop()
    return [str(path) for path in (folder / "cartpole-v1").iterdir()]


def imitated(name: str, paths: list[str], seed: int) -> bool:
    kind, training = OFFLINE[name]
    spaces = gymnasium.make("CartPole-v1")
    config = (
        kind()
        .environment(observation_space=spaces.observation_space, action_space=spaces.action_space)
        .offline_data(input_=paths, input_read_episodes=True)
        .training(lr=1e-3, train_batch_size_per_learner=1024, **training)
        .rl_module(model_config=SMALL)
        .evaluation(
            evaluation_interval=20,
            evaluation_duration=5,
            evaluation_config=kind.overrides(env="CartPole-v1", explore=False),
        )
        .debugging(seed=seed)
    )
    right, algo = trained(name, config, 400.0, 1_000_000)
    algo.stop()
    return right


def main() -> int:
    """Run what the arguments choose; 1 when one did not get there."""
    names = [*ONLINE, *OFFLINE]
    parser = argparse.ArgumentParser(prog="make learning", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    unknown = set(given.names) - set(names)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    chosen = given.names or names
    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
    right = True
    for name in chosen:
        if name in ONLINE:
            make, wanted, most = ONLINE[name]
            fine, algo = trained(name, make().debugging(seed=given.seed), wanted, most)
            algo.stop()
            right &= fine
    offline = [name for name in chosen if name in OFFLINE]
    if offline:
        with tempfile.TemporaryDirectory() as folder:
            paths = recorded(Path(folder), given.seed)
            for name in offline:
                right &= imitated(name, paths, given.seed)
    ray.shutdown()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

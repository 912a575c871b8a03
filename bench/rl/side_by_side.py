"""Reinforcement learning here and on Ray's RLlib, by turns, with the same settings.

    python bench/rl/side_by_side.py [--ray PYTHON] [--seconds 10] [--rounds 3] [--rows sampling,ppo]

`sampling`: transitions a second of one runner with 32 CartPoles, weights of a network of 2 x 64 units.
`ppo`: seconds of PPO on CartPole with two runners, to a mean return of 450. `--ray` names the interpreter of
an environment that has `ray[rllib]`, torch and gymnasium; without it, only Heliostat's figures are taken.
Prints a line for each figure, and the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

ROWS = ("sampling", "ppo")


def settings(runners: int, environments: int) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig

    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=environments)
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
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .debugging(seed=1)
    )


def sampling(seconds: float) -> float:
    """Transitions a second."""
    algo = settings(0, 32).build_algo()
    runner = algo.env_runner
    runner.sample(num_timesteps=3200)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        steps += sum(len(episode) for episode in runner.sample(num_timesteps=3200))
    rate = steps / (time.perf_counter() - began)
    algo.stop()
    return rate


def ppo(seconds: float) -> float:
    """Seconds to a mean return of 450; fails after 300,000 steps."""
    algo = settings(2, 8).build_algo()
    began, steps, mean = time.perf_counter(), 0, 0.0
    while mean < 450.0:
        result = algo.train()
        mean = result["env_runners"].get("episode_return_mean", 0.0)
        steps = result["env_runners"]["num_env_steps_sampled_lifetime"]
        if steps > 300_000:
            raise RuntimeError(f"after {steps} steps the mean return is {mean:.0f}")
    took = time.perf_counter() - began
    algo.stop()
    return took


def one(row: str, seconds: float) -> None:
    """Take one figure with the `ray` of this interpreter, and print it as JSON."""
    import ray

    ray.init(num_cpus=4, log_to_driver=False)
    print(json.dumps({"value": {"sampling": sampling, "ppo": ppo}[row](seconds)}), flush=True)
    ray.shutdown()


def asked(interpreter: str, row: str, seconds: float) -> float | None:
    """The figure of another process; None where it failed, which says why."""
    command = [interpreter, __file__, "--one", row, "--seconds", str(seconds)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"value"')]
    if done.returncode or not lines:
        print(f"{row}: {interpreter} failed:\n{done.stderr[-1000:]}", file=sys.stderr)
        return None
    return float(json.loads(lines[-1])["value"])


def main() -> None:
    """Take figures by turns, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", help="the interpreter of an environment with ray[rllib]")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.seconds)
        return
    sides = {"heliostat": sys.executable, **({"ray": given.ray} if given.ray else {})}
    for row in given.rows.split(","):
        if row not in ROWS:
            parser.error(f"there is no row {row!r}: there are {', '.join(ROWS)}")
        found: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(given.rounds):
            for side, interpreter in sides.items():
                value = asked(interpreter, row, given.seconds)
                if value is not None:
                    found[side].append(value)
                    print(f"{row}, {side}: {value:.1f}", flush=True)
        unit = "transitions/s" if row == "sampling" else "s"
        medians = {side: statistics.median(v) for side, v in found.items() if v}
        said = ", ".join(f"{side} {value:.1f} {unit}" for side, value in medians.items())
        print(f"{row}, medians: {said}", flush=True)


if __name__ == "__main__":
    main()

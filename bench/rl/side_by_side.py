"""Reinforcement learning here and on Ray's RLlib, by turns, with the same settings.

    python bench/rl/side_by_side.py [--ray PYTHON] [--baselines PATH] [--rounds 3] [--rows sampling,ppo,...]
        [--limit 50]

`sampling`: transitions of one runner with 32 CartPoles, weights of a network of 2 x 64 units.
`ppo`: PPO on CartPole with two runners, to a mean return of 450. Of who needs more time than the limit
leaves, the seconds until then, and the mean return that was reached: a bound, not a figure.
`sac`: environment steps of Pendulum, each with a gradient of 256 transitions.
`impala`: transitions that IMPALA learned from, CartPole with two runners.
`start`: from `build_algo` to the first sample.
`memory`: MB of a runner's process, and of a process with torch, gymnasium and such a network.
`weights`: 100 MB of a learner given to 16 runners of a node (Heliostat only), an array of 100 MB given to 16
actors, and one memcpy of 100 MB.

Each row has two figures: by the clock, and by the seconds of CPU of all processes that took part, which a
busy machine changes less. Each row of each side is a process of its own, and is tried twice unless
`--tries` says otherwise. `--ray`
names the interpreter of an environment that has `ray[rllib]`, torch and gymnasium (`RL_BENCH_RAY_PATH`:
its PYTHONPATH); without it, only Heliostat's figures are taken. `--baselines` is a folder with
stable_baselines3, which takes `ppo` and `sac` as well, with the same networks and settings. Prints a line
for each figure with the medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

# By row: what its figures are, and whether more of it is better.
ROWS = {
    "sampling": ("transitions/s", True),
    "ppo": ("s", False),
    "sac": ("steps/s", True),
    "impala": ("transitions/s", True),
    "start": ("s", False),
    "memory": ("MB", False),
    "weights": ("s", False),
}
# What a row has besides its figures.
_BESIDES = {"return": "mean by then", "steps": "sampled", "rss of alone": "times"}
_MARK = "RL_BENCH_RUN"
_LIMIT = "RL_BENCH_LIMIT_S"  # when a row that trains to a return gives up


def cpu() -> float:
    """Seconds of CPU of all processes of this run so far."""
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    ticks = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(int(field) for field in fields[11:15])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


class Taken:
    """Seconds by the clock and of CPU, between the begin and the end of a block."""

    def __enter__(self) -> Taken:
        self._cpu, self._clock = cpu(), time.perf_counter()
        return self

    def __exit__(self, *about: Any) -> None:
        self.clock, self.cpu = time.perf_counter() - self._clock, cpu() - self._cpu

    def rate(self, count: float) -> dict[str, float]:
        """How many a second."""
        return {"clock": count / self.clock, "cpu": count / self.cpu}

    def seconds(self) -> dict[str, float]:
        """How long."""
        return {"clock": self.clock, "cpu": self.cpu}


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


def sampling() -> dict[str, float]:
    algo = settings(0, 32).build_algo()
    runner = algo.env_runner
    runner.sample(num_timesteps=3200)
    steps = 0
    with Taken() as taken:
        while steps < 32_000:
            steps += sum(len(episode) for episode in runner.sample(num_timesteps=3200))
    algo.stop()
    return taken.rate(steps)


class Reached:
    """Whether the mean return of an iteration's last episodes was 450 three times in a row.

    RLlib's `episode_return_mean` is of the episodes that ended in the iteration, Heliostat's and that of
    Stable-Baselines3 of a window over all: with a window as long as an iteration they are the same.
    """

    WINDOW = 4
    row = 0
    mean = 0.0

    def after(self, mean: float) -> bool:
        if mean == mean:  # an iteration in which no episode ended says nothing
            self.mean, self.row = mean, self.row + 1 if mean >= 450.0 else 0
        return self.row >= 3


def ppo() -> dict[str, float]:
    algo = settings(2, 8).reporting(metrics_num_episodes_for_smoothing=Reached.WINDOW).build_algo()
    reached, steps = Reached(), 0
    until = time.perf_counter() + float(os.environ.get(_LIMIT, "inf"))
    with Taken() as taken:
        while time.perf_counter() < until:
            found = algo.train()["env_runners"]
            steps = found.get("num_env_steps_sampled_lifetime", steps)
            if reached.after(found.get("episode_return_mean", float("nan"))):
                break
            if steps > 300_000:
                raise RuntimeError(f"after {steps} steps the mean return is {reached.mean:.0f}")
    algo.stop()
    return {**taken.seconds(), "return": reached.mean, "steps": steps}


def sac() -> dict[str, float]:
    from ray.rllib.algorithms.sac import SACConfig

    algo = (
        SACConfig()
        .environment("Pendulum-v1")
        .training(train_batch_size_per_learner=256, num_steps_sampled_before_learning_starts=300)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
        .debugging(seed=1)
    ).build_algo()
    for _ in range(4):
        algo.train()
    steps = 0
    with Taken() as taken:
        for _ in range(4):
            steps += algo.train()["env_runners"]["num_env_steps_sampled"]
    algo.stop()
    return taken.rate(steps)


def impala() -> dict[str, float]:
    from ray.rllib.algorithms.impala import IMPALAConfig

    algo = (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=8)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=500, lr=5e-4)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=1)
    ).build_algo()
    until = time.perf_counter() + float(os.environ.get(_LIMIT, "inf"))
    heard: Any = {}

    def learned(before: float) -> float:
        heard.update(algo.train())
        found = heard.get("learners", {}).get("__all_modules__", {})
        return found.get("num_env_steps_trained_lifetime", before)

    first = 0.0
    while not first:  # an iteration of a busy machine may end before its first update
        if time.perf_counter() > until:
            said = {key: heard.get(key) for key in ("env_runners", "learners")}
            raise RuntimeError(f"IMPALA learned from nothing within the limit: {said}")
        first = learned(0.0)
    last, rounds = first, 0
    with Taken() as taken:
        while rounds < 6 or last == first:
            last, rounds = learned(last), rounds + 1
            if rounds > 1 and time.perf_counter() > until:
                break
    algo.stop()
    return taken.rate(last - first)


def start() -> dict[str, float]:
    import ray.rllib.algorithms.ppo  # noqa: F401 - imports are not what is measured
    import torch  # noqa: F401

    config = settings(1, 1)
    with Taken() as taken:
        algo = config.build_algo()
        algo.env_runner_group.foreach_env_runner(
            lambda runner: len(runner.sample(num_timesteps=8)), local_env_runner=False
        )
    algo.stop()
    return taken.seconds()


def _megabytes(kind: str) -> float:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1024
    return float("nan")


ALONE = """
import gymnasium, torch
torch.set_num_threads(1)
env = gymnasium.make("CartPole-v1")
net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                          torch.nn.Linear(64, 2))
seen, _ = env.reset()
with torch.no_grad():
    net(torch.from_numpy(seen))
print(*[int(l.split()[1]) / 1024 for l in open("/proc/self/smaps_rollup") if l.startswith("Rss:")])
"""


def memory() -> dict[str, float]:
    algo = settings(1, 1).build_algo()
    algo.train()
    found = algo.env_runner_group.foreach_env_runner(
        lambda runner: (_megabytes("Rss"), _megabytes("Pss")), local_env_runner=False
    )[0]
    algo.stop()
    done = subprocess.run([sys.executable, "-c", ALONE], check=True, capture_output=True, text=True)
    alone = float(done.stdout)
    return {"rss": found[0], "pss": found[1], "alone": alone, "rss of alone": found[0] / alone}


def baselines_ppo() -> dict[str, float]:
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    reached = Reached()

    class Until(BaseCallback):
        over = False

        def _on_step(self) -> bool:
            return not self.over and time.perf_counter() < until

        def _on_rollout_end(self) -> None:
            ended = self.model.ep_info_buffer
            mean = sum(one["r"] for one in ended) / len(ended) if ended else float("nan")
            self.over = reached.after(mean)

    torch.set_num_threads(1)
    until = time.perf_counter() + float(os.environ.get(_LIMIT, "inf"))
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 16)
    net = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    how = {"n_steps": 128, "batch_size": 256, "n_epochs": 8, "learning_rate": 1e-3, "device": "cpu"}
    window = {"stats_window_size": Reached.WINDOW}
    model = PPO("MlpPolicy", envs, policy_kwargs=net, seed=1, **how, **window)
    with Taken() as taken:
        model.learn(300_000, callback=Until())
    return {**taken.seconds(), "return": reached.mean, "steps": model.num_timesteps}


def baselines_sac() -> dict[str, float]:
    import torch
    from stable_baselines3 import SAC

    torch.set_num_threads(1)
    how = {"batch_size": 256, "learning_starts": 300, "device": "cpu"}
    model = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [64, 64]}, seed=1, **how)
    model.learn(700)
    with Taken() as taken:
        model.learn(400, reset_num_timesteps=False)
    return taken.rate(400)


def _published() -> float:
    """Seconds until 16 runners have a learner's weights."""
    import ray

    config = settings(16, 1).env_runners(num_cpus_per_env_runner=0, rollout_fragment_length=128)
    algo = config.rl_module(model_config={"fcnet_hiddens": [4992, 4992]}).build_algo()
    runners = list(algo.env_runner_group._actors.values())
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        algo.publish_weights()
        ray.get([runner.set_state.remote(algo._weights_ref) for runner in runners])
        seconds.append(time.perf_counter() - began)
    algo.stop()
    return min(seconds)


def weights() -> dict[str, float]:
    import numpy as np
    import ray

    @ray.remote(num_cpus=0)
    class Runner:
        def take(self, held: Any) -> float:
            return float(held[-1])

    size = 100_000_000
    array = np.ones(size // 8)
    runners = [Runner.remote() for _ in range(16)]
    ray.get([runner.take.remote(array[:8]) for runner in runners])
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        ref = ray.put(array)
        ray.get([runner.take.remote(ref) for runner in runners])
        seconds.append(time.perf_counter() - began)
    target = np.empty_like(array)
    target[:] = 0  # its pages are there
    began = time.perf_counter()
    target[:] = array
    copied = time.perf_counter() - began
    found = {"object": min(seconds), "memcpy": copied}
    for runner in runners:
        ray.kill(runner)
    return {"runners": _published(), **found} if "heliostat" in ray.ObjectRef.__module__ else found


def one(row: str) -> None:
    """Take the figures of a row with the `ray` of this interpreter, and print them as JSON."""
    if row.startswith("baselines"):
        print(json.dumps({"value": globals()[row]()}), flush=True)
        return
    import ray

    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
    print(json.dumps({"value": globals()[row]()}), flush=True)
    ray.shutdown()


def asked(interpreter: str, row: str, path: str, limit_s: float) -> dict[str, float] | None:
    """The figures of another process; None where it failed, which says why."""
    command = [interpreter, __file__, "--one", row]
    environment = {**os.environ, _MARK: uuid.uuid4().hex, _LIMIT: str(0.6 * limit_s)}
    # How long Ray waits for a node that starts on a busy machine.
    environment.setdefault("RAY_raylet_start_wait_time_s", "100")
    if path:
        environment["PYTHONPATH"] = f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    if interpreter != sys.executable:  # only its own packages
        environment["PYTHONPATH"] = os.environ.get("RL_BENCH_RAY_PATH", "")
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=limit_s, env=environment
        )
    except subprocess.TimeoutExpired:
        print(f"{row}: {interpreter} took more than {limit_s} s", file=sys.stderr)
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"value"')]
    if done.returncode or not lines:
        print(f"{row}: {interpreter} failed:\n{done.stderr[-1500:]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(lines[-1])["value"]
    return found


def main() -> None:
    """Take figures by turns, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", help="the interpreter of an environment with ray[rllib]")
    parser.add_argument("--baselines", help="a folder with stable_baselines3")
    parser.add_argument(
        "--limit",
        type=float,
        default=900,
        help="seconds of a side's round, of which training to a return takes 0.6",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=2, help="how often a side's row is tried")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one)
        return
    sides = {"heliostat": sys.executable, **({"ray": given.ray} if given.ray else {})}
    for row in given.rows.split(","):
        if row not in ROWS:
            parser.error(f"there is no row {row!r}: there are {', '.join(ROWS)}")
        unit, more = ROWS[row]
        own = {side: (interpreter, row, "") for side, interpreter in sides.items()}
        if given.baselines and f"baselines_{row}" in globals():
            own["baselines"] = (sys.executable, f"baselines_{row}", given.baselines)
        found: dict[str, dict[str, list[float]]] = {side: {} for side in own}
        for _ in range(given.rounds):
            for side, (interpreter, what, path) in own.items():
                values = None
                for _ in range(given.tries):  # a node may not have come up
                    values = values or asked(interpreter, what, path, given.limit)
                values = values or {}
                for name, value in values.items():
                    found[side].setdefault(name, []).append(value)
        for name in found["heliostat"]:
            medians = {s: statistics.median(v[name]) for s, v in found.items() if name in v}
            said = ", ".join(f"{side} {value:.4g}" for side, value in medians.items())
            for side in [side for side in medians if side != "heliostat" and name not in _BESIDES]:
                ours, theirs = medians["heliostat"], medians[side]
                better = ours / theirs if more else theirs / ours
                said += f"; {better:.2f} times better than {side}"
            print(f"{row}, {name} ({_BESIDES.get(name, unit)}): {said}", flush=True)


if __name__ == "__main__":
    main()

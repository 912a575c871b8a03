"""What saving the state adds to the steps of a run.

Run: python stall.py --way save|report|resumable|memory [--megabytes 100] [--pairs 6]
One worker holds `--megabytes` of parameters and Adam's state and makes steps that compute nothing for
`--step-s` (as one on a GPU leaves the CPU alone), then an optimizer's step. Every 20 steps it saves:
`save` with torch.save, as a plain program does (no `ray` is imported); `report` the same and `ray.train.report`
of that folder; `resumable` by `run.report` and `memory` by `memory_every_n_steps` (both Heliostat only).
Ten steps that begin with the save are compared with the ten behind them, so that what
other programs take from the machine falls on both. Of each: seconds that a save adds to its ten steps, and to its longest step.
Prints `RESULT {json}`.
"""
import argparse
import json
import os
import statistics
import tempfile
import time

import common

HALF = 10  # steps that are compared with as many


def training(config):
    import torch
    torch.set_num_threads(1)
    numbers = int(config["megabytes"] * 1e6 / 4 / 3)
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(numbers // 20)) for _ in range(20)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()  # its state is made before anything is measured
    return model, optimizer


def loop(config):
    import torch
    model, optimizer = training(config)
    way = config["way"]
    steps = range((config["pairs"] + 1) * 2 * HALF + HALF)
    if way in ("resumable", "memory"):
        import ray.train.torch
        run = ray.train.torch.resumable(model=model, optimizer=optimizer)
        steps = run.steps(len(steps))
    ends = [time.perf_counter()]
    for step in steps:
        time.sleep(config["step_s"])
        optimizer.step()
        if step % (2 * HALF) == HALF:
            if way == "resumable":
                run.report({"step": step})
            elif way != "memory":
                with tempfile.TemporaryDirectory() as folder:
                    torch.save([model.state_dict(), optimizer.state_dict()], os.path.join(folder, "state.pt"))
                    if way == "report":
                        import ray.train
                        ray.train.report({"step": step}, ray.train.Checkpoint.from_directory(folder))
        ends.append(time.perf_counter())
    with open(os.path.join(config["out"], "ends.json"), "w") as f:
        json.dump(ends, f)


def judge(ends, way):
    """Medians over the pairs of ten steps; the first save, which pays for what is done once, is left out."""
    took = [b - a for a, b in zip(ends, ends[1:])]
    # A copy into memory begins between two steps, so it is found in the next one at the earliest.
    first = (2 * HALF if way == "memory" else HALF) + 2 * HALF
    added, longest = [], []
    for start in range(first, len(took) - 2 * HALF + 1, 2 * HALF):
        with_save, without = took[start:start + HALF], took[start + HALF:start + 2 * HALF]
        added.append(sum(with_save) - sum(without))
        longest.append(max(with_save) - statistics.median(without))
    return {"pairs": len(added), "step_s": statistics.median(took), "added_s": statistics.median(added),
            "longest_step_more_s": statistics.median(longest)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--way", choices=["save", "report", "resumable", "memory"], required=True)
    p.add_argument("--megabytes", type=float, default=100)
    p.add_argument("--pairs", type=int, default=6)
    p.add_argument("--step-s", type=float, default=0.1)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as out:
        config = {"way": a.way, "megabytes": a.megabytes, "pairs": a.pairs, "step_s": a.step_s, "out": out}
        if a.way == "save":
            loop(config)
        else:
            import ray
            from ray.train import CheckpointConfig, RunConfig, ScalingConfig
            from ray.train.torch import TorchTrainer
            ray.init(num_cpus=2)
            memory = {"memory_every_n_steps": 2 * HALF} if a.way == "memory" else {}
            TorchTrainer(
                loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=1),
                run_config=RunConfig(storage_path=os.path.join(out, "store"), name="stall",
                                     checkpoint_config=CheckpointConfig(num_to_keep=1, **memory)),
            ).fit()
        with open(os.path.join(out, "ends.json")) as f:
            found = judge(json.load(f), a.way)
    common.emit(bench="stall", way=a.way, megabytes=a.megabytes, **found)


if __name__ == "__main__":
    main()

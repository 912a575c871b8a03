"""Deaths within a run: how long the others pause, and when the lost replica group is in again.

Run: python fault_tolerant.py [--workers 4] [--shards 1] [--kills 10] [--plain]
Workers train a small model; one after the other is killed (SIGKILL), rank 0 among them. Of each
death: the longest time without a step of a survivor, less a usual step; and the time until a step in
which all groups are counted. A death after which the run began anew, rather than go on, is in
`restarts` and counts in neither. `--plain` measures the recovery from the last report with plain
`TorchTrainer` instead; `--rates` only steps per second of both, without deaths. One JSON line.
"""
import argparse
import glob
import json
import os
import signal
import statistics
import tempfile
import threading
import time

import common


def model_and_optimizer(config):
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(1)
    width = config["width"]
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(),
        torch.nn.Linear(width, 10))
    if config["shards"] > 1:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for part in (model[0], model[2], model[4], model):
            fully_shard(part, mesh=mesh)
    return model


def data():
    """Points and the class that a fixed map gives each; nothing is imported for it."""
    import torch
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(1800, 64, generator=chance)
    return x, (x @ torch.randn(64, 10, generator=chance)).argmax(1)


class Log:
    """A line a step: when it ended, its number, how many groups took it, its loss."""

    def __init__(self, config, rank):
        with open(os.path.join(config["out"], f"pid{rank}"), "w") as f:
            f.write(str(os.getpid()))
        with open(os.path.join(config["out"], f"begun{rank}"), "a") as f:
            f.write(f"{time.time():.6f}\n")
        self.file = open(os.path.join(config["out"], f"steps-{rank}-{os.getpid()}"), "a", buffering=1)

    def step(self, number, count, loss):
        self.file.write(f"{time.time():.6f} {number} {count} {loss:.6f}\n")


def fault_tolerant_loop(config):
    import torch
    import ray.train
    import ray.train.torch
    model = model_and_optimizer(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = ray.train.torch.fault_tolerant(model=model, optimizer=optimizer)
    rank = ray.train.get_context().get_world_rank()
    log = Log(config, rank)
    x, y = data()
    for step in run.steps(config["steps"]):
        i = (step * 64 + rank * 16) % 1700
        loss = torch.nn.functional.cross_entropy(model(x[i:i + 32]), y[i:i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(config["step_s"])
        log.step(step, run.count, loss.item())
        if step % 20 == 19:
            ray.train.report({"step": step, "loss": loss.item()})


def plain_loop(config):
    import torch
    import ray.train
    import ray.train.torch
    from ray.train import Checkpoint
    model = ray.train.torch.prepare_model(model_and_optimizer(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rank = ray.train.get_context().get_world_rank()
    first = 0
    saved = ray.train.get_checkpoint()
    if saved:
        with saved.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    log = Log(config, rank)
    x, y = data()
    for step in range(first, config["steps"]):
        i = (step * 64 + rank * 16) % 1700
        loss = torch.nn.functional.cross_entropy(model(x[i:i + 32]), y[i:i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(config["step_s"])
        log.step(step, config["groups"], loss.item())
        if step % 20 == 19:
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = None
                if rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                "step": step}, os.path.join(folder, "state.pt"))
                    checkpoint = Checkpoint.from_directory(folder)
                ray.train.report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)


def lines(out):
    """(process, [(time, step, count, loss)]) of each worker process."""
    found = {}
    for path in glob.glob(os.path.join(out, "steps-*")):
        with open(path) as f:
            rows = [line.split() for line in f if line.endswith("\n")]
        found[os.path.basename(path)] = [(float(t), int(s), int(c), float(x)) for t, s, c, x in rows]
    return found


def kill_often(out, workers, kills, groups, killed):
    """Kill a rank whenever all groups have been there for a second."""
    while len(killed) < kills:
        time.sleep(0.2)
        rows = [row for rows in lines(out).values() for row in rows]
        since = max([t for t, _ in killed], default=0)
        full = [t for t, _, count, _ in rows if count == groups and t > since + 0.5]
        if not full or time.time() < min(full) + 1.0:
            continue
        rank = (len(killed) * 3) % workers
        with open(os.path.join(out, f"pid{rank}")) as f:
            pid = int(f.read())
        killed.append((time.time(), rank))
        os.kill(pid, signal.SIGKILL)


def restarts(out, killed, shards):
    """The deaths after which the run began anew, as numbers from 0: others began their loops again, too."""
    found = set()
    for path in glob.glob(os.path.join(out, "begun*")):
        group = int(os.path.basename(path)[len("begun"):]) // shards
        with open(path) as f:
            for begun in map(float, f):
                before = [n for n, (when, _) in enumerate(killed) if when < begun]
                if before and killed[before[-1]][1] // shards != group:
                    found.add(before[-1])
    return sorted(found)


def judge(out, killed, groups, shards):
    """Per death without a restart: the survivors' pause beyond a usual step, the time until all are in."""
    processes = lines(out)
    gaps = [b[0] - a[0] for rows in processes.values() for a, b in zip(rows, rows[1:])]
    usual = statistics.median(gaps)
    pauses, backs = [], []
    began_anew = restarts(out, killed, shards)
    for number, (when, victim) in enumerate(killed):
        if number in began_anew:
            continue
        until = killed[number + 1][0] if number + 1 < len(killed) else float("inf")
        longest = 0.0
        for name, rows in processes.items():
            if int(name.split("-")[1]) // shards == victim // shards:
                continue  # of the group that is lost
            around = [t for t, *_ in rows if when - 1 < t < when + 3]
            if not any(t < when for t in around) or not any(t > when for t in around):
                continue  # the victim, and who came later
            before = max(t for t in around if t < when)
            longest = max(longest, min(t for t in around if t > when) - before)
        pauses.append(max(0.0, longest - usual))
        steps = sorted(row for rows in processes.values() for row in rows)
        missed = [t for t, _, count, _ in steps if when < t < until and count < groups]
        full = [t for t, _, count, _ in steps
                if when < t < until and count == groups and (not missed or t > missed[0])]
        if full:
            backs.append(min(full) - when)
    return usual, pauses, backs


def judge_restarts(out, killed):
    """Per death: the longest time around it without a step of anybody, beyond a usual step."""
    processes = lines(out)
    usual = statistics.median(b[0] - a[0] for rows in processes.values() for a, b in zip(rows, rows[1:]))
    times = sorted(t for rows in processes.values() for t, *_ in rows)
    pauses = []
    for when, _ in killed:
        around = [t for t in times if when - 0.5 < t < when + 15]
        pauses.append(max(b - a for a, b in zip(around, around[1:]) if b > when) - usual)
    return usual, pauses, []


def fit(arguments, plain, kills):
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import FaultTolerantConfig, TorchConfig, TorchTrainer
    groups = arguments.workers // arguments.shards
    with tempfile.TemporaryDirectory() as out:
        config = {"out": out, "steps": arguments.steps, "step_s": arguments.step_s, "groups": groups,
                  "width": arguments.width, "shards": 1 if plain else arguments.shards}
        killed = []
        if kills:
            threading.Thread(target=kill_often, args=(out, arguments.workers, kills, groups, killed),
                             daemon=True).start()
        start = time.time()
        TorchTrainer(
            plain_loop if plain else fault_tolerant_loop,
            train_loop_config=config,
            torch_config=TorchConfig() if plain else FaultTolerantConfig(
                workers_per_replica=arguments.shards),
            scaling_config=ScalingConfig(num_workers=arguments.workers),
            run_config=RunConfig(storage_path=os.path.join(out, "store"), name="run",
                                 failure_config=FailureConfig(max_failures=-1)),
        ).fit()
        usual, pauses, backs = (
            judge_restarts(out, killed) if plain else judge(out, killed, groups, arguments.shards))
        last = [rows[-1][3] for rows in lines(out).values() if rows and rows[-1][1] == config["steps"] - 1]
        return {"usual_step_s": usual, "deaths": len(killed), "pause_s": pauses, "in_again_s": backs,
                "restarts": [] if plain else restarts(out, killed, arguments.shards),
                "fit_s": time.time() - start, "last_losses": last}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--shards", type=int, default=1, help="workers of a replica group")
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--step-s", type=float, default=0.03, help="sleep added to each step")
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--kills", type=int, default=5)
    p.add_argument("--plain", action="store_true")
    p.add_argument("--rates", action="store_true")
    a = p.parse_args()
    import ray
    ray.init(num_cpus=a.workers)
    if a.rates:
        figures = {name: 1 / fit(a, plain, 0)["usual_step_s"]
                   for name, plain in (("plain", True), ("fault_tolerant", False))}
        common.emit(bench="fault_tolerant_rates", ray_version=ray.__version__, steps_per_s=figures)
        return
    found = fit(a, a.plain, a.kills)
    if a.plain:
        found["in_again_s"] = []  # nobody goes on without the others: the pause is all
    middle = {k: statistics.median(found[k]) for k in ("pause_s", "in_again_s") if found[k]}
    common.emit(bench="fault_tolerant", ray_version=ray.__version__, plain=a.plain, shards=a.shards,
                median=middle, **found)


if __name__ == "__main__":
    main()

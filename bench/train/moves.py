"""How long it takes from a node that joins, or is drained, to the first step of the group formed anew.

Run: python moves.py [--rounds 5] [--step-s 0.02] [--workers 2] [--groups]
One machine with nodes of one CPU each. A round trains `--workers` workers with `resumable` and
`num_workers=(1, workers + 1)`; then a node joins, then one is drained (120 s of grace). Of each: seconds
from the command to the first step of the new group, and seconds without a step, which is what the
workers that stay notice. A joining node's daemon is there already when the clock starts: `add_node` has returned.
With `--groups` the workers are replica groups, which join and go on within the steps; the node is then killed.
Prints `RESULT {json}`, one line a round, and the medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def loop(config):
    import torch
    import ray
    from ray import train
    torch.set_num_threads(1)
    context, log = train.get_context(), Path(config["log"])
    run = train.torch.resumable(model=torch.nn.Linear(100, 100))
    one, rank = torch.ones(1), context.get_world_rank()
    for _ in run.steps():
        time.sleep(config["step_s"])
        one.fill_(os.path.exists(config["done"]))
        torch.distributed.broadcast(one, 0)
        if rank == 0:
            node = ray.get_runtime_context().get_node_id()
            with log.open("a") as out:
                out.write(json.dumps([time.time(), context.get_world_size(), node]) + "\n")
        if one.item():
            return


def loop_of_groups(config):
    import torch
    import ray
    from ray import train
    torch.set_num_threads(1)
    log, model = Path(config["log"]), torch.nn.Linear(100, 100)
    run = train.torch.fault_tolerant(model=model)
    node, rank = ray.get_runtime_context().get_node_id(), train.get_context().get_world_rank()
    for _ in run.steps(config["steps"]):
        time.sleep(config["step_s"])
        model.zero_grad()
        model(torch.ones(1, 100)).sum().backward()
        if rank == 0:
            with log.open("a") as out:
                out.write(json.dumps([time.time(), run.count, node]) + "\n")


def steps(log):
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("]")]


def measured(log, since, size):
    """Seconds until the first step in a group formed anew, and the longest pause on the way."""
    while True:
        rows = steps(log)
        for before, first in zip(rows, rows[1:]):
            if first[0] > since and first[1] == size != before[1]:
                return first[0] - since, first[0] - before[0]
        if time.time() > since + 90:
            raise SystemExit(f"no group of {size} within 90 s")
        time.sleep(0.01)


def drain(cluster, node):
    """Have the cluster drain a node, as a cloud that takes the machine away does."""
    heliostat = str(Path(sys.executable).with_name("heliostat"))
    subprocess.run(
        [heliostat, "drain-node", "--address", cluster.address, "--node-id", node.node_id,
         "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "bench",
         "--deadline-remaining-seconds", "120"], check=True, capture_output=True)


def round_(args):
    import ray
    from ray.cluster_utils import Cluster
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.connect()
    folder = Path(tempfile.mkdtemp())
    log, done = folder / "log", folder / "done"
    try:
        for _ in range(args.workers):
            cluster.add_node(num_cpus=1)
        trainer = TorchTrainer(
            loop,
            train_loop_config={"log": str(log), "done": str(done), "step_s": args.step_s},
            scaling_config=ScalingConfig(num_workers=(1, args.workers + 1)),
            run_config=RunConfig(name="moves", storage_path=str(folder)))
        thread = threading.Thread(target=trainer.fit)
        thread.start()
        while len(steps(log)) < 50:
            time.sleep(0.05)
        joined = cluster.add_node(num_cpus=1)
        join_s, join_pause_s = measured(log, time.time(), args.workers + 1)
        time.sleep(2)
        began = time.time()
        drain(cluster, joined)
        shrink_s, shrink_pause_s = measured(log, began, args.workers)
        while joined.is_alive():
            time.sleep(0.02)
        cluster.remove_node(joined, allow_graceful=False)
        spare = cluster.add_node(num_cpus=1)
        measured(log, time.time(), args.workers + 1)
        cluster.add_node(num_cpus=1)
        time.sleep(1)
        count, began = len(steps(log)), time.time()
        drain(cluster, spare)
        while spare.is_alive():
            time.sleep(0.02)
        time.sleep(1)
        done.touch()
        thread.join()
        rows = [row for row in steps(log)[count:] if row[0] > began]
        pause, at = max((b[0] - a[0], b[0]) for a, b in zip(rows, rows[1:]))
        return {"join_s": join_s, "join_pause_s": join_pause_s, "shrink_s": shrink_s,
                "shrink_pause_s": shrink_pause_s, "move_s": at - began, "move_pause_s": pause}
    finally:
        done.touch()
        ray.shutdown()
        cluster.shutdown()


def round_of_groups(args):
    import ray
    from ray.cluster_utils import Cluster
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import FaultTolerantConfig, TorchTrainer
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.connect()
    folder = Path(tempfile.mkdtemp())
    log = folder / "log"
    try:
        for _ in range(args.workers):
            cluster.add_node(num_cpus=1)
        trainer = TorchTrainer(
            loop_of_groups,
            train_loop_config={"log": str(log), "step_s": args.step_s, "steps": int(40 / args.step_s)},
            torch_config=FaultTolerantConfig(),
            scaling_config=ScalingConfig(num_workers=(1, args.workers + 1)),
            run_config=RunConfig(name="moves", storage_path=str(folder),
                                 failure_config=FailureConfig(max_failures=-1)))
        thread = threading.Thread(target=trainer.fit)
        thread.start()
        while len(steps(log)) < 50:
            time.sleep(0.05)
        joined = cluster.add_node(num_cpus=1)
        join_s, join_pause_s = measured(log, time.time(), args.workers + 1)
        time.sleep(2)
        began = time.time()
        cluster.remove_node(joined, allow_graceful=False)
        lose_s, lose_pause_s = measured(log, began, args.workers)
        thread.join()
        return {"join_s": join_s, "join_pause_s": join_pause_s, "lose_s": lose_s, "lose_pause_s": lose_pause_s}
    finally:
        ray.shutdown()
        cluster.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step-s", type=float, default=0.02)
    parser.add_argument("--groups", action="store_true", help="replica groups")
    args = parser.parse_args()
    os.environ.setdefault("HELIOSTAT_TRAIN_VIEW", "off")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = []
    for _ in range(args.rounds):
        rows.append(round_of_groups(args) if args.groups else round_(args))
        print("RESULT " + json.dumps({k: round(v, 3) for k, v in rows[-1].items()}), flush=True)
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        print(f"{name}: median {statistics.median(values):.2f} s, {values[0]:.2f} to {values[-1]:.2f}")


if __name__ == "__main__":
    main()

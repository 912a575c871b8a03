"""What keeping state costs, and how fast it is back.

Run: python state.py [--megabytes 100] [--workers 1] [--step-s 0.1] [--steps 60] [--recover 1000]
Each worker holds `--megabytes` of parameters and Adam's state, and makes steps that compute nothing for
`--step-s` (as one on a GPU leaves the CPU alone), then an optimizer's step. Rounds by turns, each with
its own run: no copies, a copy into memory every 10 steps, a sharded checkpoint every 20 steps
(`resumable`), and `torch.save` with `report` every 20. Of each: the median step, what the steps take on
the average beyond those without copies, and the longest step. `--recover N` has N MB of state, kills
the worker, and says how long it took to have the state again, from memory and from storage.
Prints `RESULT {json}`, one line a round.
"""
import argparse
import json
import os
import signal
import statistics
import tempfile
import time


def loop(config):
    import torch
    import ray.train
    import ray.train.torch
    torch.set_num_threads(1)
    numbers = int(config["megabytes"] * 1e6 / 4 / 3)
    model = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.zeros(numbers // 20)) for _ in range(20)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()  # the optimizer's state is made before anything is measured
    began = time.perf_counter()
    run = ray.train.torch.resumable(model=model, optimizer=optimizer)
    restored_s = time.perf_counter() - began
    source, out, mode = run.restored_from, config["out"], config["mode"]
    rank = ray.train.get_context().get_world_rank()
    if source:
        with open(os.path.join(out, f"restored{rank}"), "w") as f:
            json.dump([source, restored_s], f)
    times = []
    for step in run.steps(config["steps"]):
        start = time.perf_counter()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.grad is None else parameter.grad
        time.sleep(config["step_s"])
        optimizer.step()
        if mode == "checkpoint" and step % 20 == 19:
            run.report({"step": step})
        if mode == "save" and step % 20 == 19:
            with tempfile.TemporaryDirectory() as folder:
                torch.save([model.state_dict(), optimizer.state_dict()], f"{folder}/{rank}.pt")
                ray.train.report({"step": step}, ray.train.Checkpoint.from_directory(folder))
        times.append(time.perf_counter() - start)
        if config.get("dies") and not source and step == config["steps"] - 2:
            ray.train.get_all_reported_checkpoints()  # returns when they are stored
            time.sleep(5)  # the copies in memory are there
            if rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    # Between two steps the copies begin: what they take there is in the whole time.
    whole = time.perf_counter() - began - restored_s
    with open(os.path.join(out, f"times{rank}"), "w") as f:
        json.dump([times, whole], f)


def train(args, mode, steps, megabytes, memory_every=None, dies=False):
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
    out = tempfile.mkdtemp()
    TorchTrainer(
        loop,
        train_loop_config={"mode": mode, "steps": steps, "megabytes": megabytes, "out": out,
                           "step_s": args.step_s, "dies": dies},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="state", storage_path=tempfile.mkdtemp(),
            checkpoint_config=CheckpointConfig(memory_every_n_steps=memory_every, num_to_keep=1),
            failure_config=FailureConfig(max_failures=1)),
    ).fit()
    found = {}
    for name in os.listdir(out):
        with open(os.path.join(out, name)) as f:
            found[name] = json.load(f)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--recover", type=float, default=0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["HELIOSTAT_TRAIN_VIEW"] = "off"
    import ray
    ray.init(num_cpus=max(2, args.workers), logging_level="ERROR")
    if args.recover:
        for source, every in (("memory", 2), ("storage", None)):
            mode = "checkpoint" if source == "storage" else "none"
            steps = 22 if source == "storage" else 6
            found = train(args, mode, steps, args.recover, every, dies=True)
            print("RESULT", json.dumps({"megabytes": args.recover, "restored": found["restored0"]}))
        return
    for _ in range(args.rounds):
        plain = None
        for mode, every in (("none", None), ("memory", 10), ("checkpoint", None), ("save", None)):
            found = train(args, mode, args.steps, args.megabytes, every)
            times, whole = found["times0"]
            mean = whole / len(times)
            plain = plain or mean
            print("RESULT", json.dumps({
                "mode": mode, "median_ms": round(1e3 * statistics.median(times), 1),
                "mean_ms": round(1e3 * mean, 1), "more_percent": round(100 * (mean / plain - 1), 1),
                "longest_ms": round(1e3 * max(times), 1)}), flush=True)


if __name__ == "__main__":
    main()

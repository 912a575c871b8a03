"""Rank 1 kills itself (SIGKILL) once, at a step: how long until the next step, and until all are in again.

Run: python deaths.py --way restart|groups|torchft|torchrun [--workers 2] [--step-s 0.05]
The same model, data and steps each way. `restart`: `TorchTrainer` and a checkpoint every 20 steps;
`torchrun`: its elastic agent (`--max-restarts`) and the same checkpoints as files; `groups`: replica
groups of one worker (`FaultTolerantConfig`, Heliostat only); `torchft`: `TorchftConfig` and the library
torchft, as in Ray's own example. Of the death: seconds until a step that is taken by anybody in
spite of it, until the first step of the worker that replaces the dead one, and how many steps are made again.
Prints `RESULT {json}`.
"""
import argparse
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import common

SAVED_EVERY = 20  # steps


class Log:
    """A line a step: when it ended, and its number; then the death, if this is the rank and the step."""

    def __init__(self, config, rank):
        self.config, self.rank = config, rank
        self.file = open(os.path.join(config["out"], f"steps-{rank}-{os.getpid()}"), "a", buffering=1)

    def step(self, number):
        self.file.write(f"{time.time():.6f} {number}\n")
        marker = os.path.join(self.config["out"], "death.json")
        if self.rank == 1 and number == self.config["die_at"] and not os.path.exists(marker):
            with open(marker + ".part", "w") as f:
                json.dump({"t": time.time(), "step": number, "pid": os.getpid()}, f)
            os.rename(marker + ".part", marker)
            os.kill(os.getpid(), signal.SIGKILL)


class Training:
    """Model, optimizer and a rank's share of the data."""

    def __init__(self, rank):
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.rank = rank
        self.model = common.build_model("mlp")
        self.data = common.digits_tensors(flat=True)

    def optimize(self):
        import torch
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def forward_and_backward(self, step):
        import torch
        x, y = self.data
        i = (step * 64 + self.rank * 32) % 1700
        loss = torch.nn.functional.cross_entropy(self.model(x[i:i + 32]), y[i:i + 32])
        self.optimizer.zero_grad()
        loss.backward()
        return loss

    def save(self, path, step):
        import torch
        state = {"model": self.model.state_dict(), "opt": self.optimizer.state_dict(), "step": step}
        torch.save(state, path)

    def load(self, path):
        """The step behind the saved one."""
        import torch
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["opt"])
        return state["step"] + 1


def restart_loop(config):
    import ray.train
    import ray.train.torch
    from ray.train import Checkpoint
    rank = ray.train.get_context().get_world_rank()
    training, log = Training(rank), Log(config, rank)
    training.model = ray.train.torch.prepare_model(training.model)
    training.optimize()
    first, saved = 0, ray.train.get_checkpoint()
    if saved:
        with saved.as_directory() as folder:
            first = training.load(os.path.join(folder, "state.pt"))
    for step in range(first, config["steps"]):
        loss = training.forward_and_backward(step)
        training.optimizer.step()
        time.sleep(config["step_s"])
        if step % SAVED_EVERY == SAVED_EVERY - 1:
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = None
                if rank == 0:
                    training.save(os.path.join(folder, "state.pt"), step)
                    checkpoint = Checkpoint.from_directory(folder)
                ray.train.report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)
        log.step(step)


def groups_loop(config):
    import ray.train
    import ray.train.torch
    rank = ray.train.get_context().get_world_rank()
    training, log = Training(rank), Log(config, rank)
    training.optimize()
    run = ray.train.torch.fault_tolerant(model=training.model, optimizer=training.optimizer)
    for step in run.steps(config["steps"]):
        loss = training.forward_and_backward(step)
        training.optimizer.step()
        time.sleep(config["step_s"])
        if step % SAVED_EVERY == SAVED_EVERY - 1:
            ray.train.report({"step": step, "loss": loss.item()})
        log.step(step)


def torchft_loop(config):
    from datetime import timedelta

    import ray.train
    import torch
    import torchft
    from torchft.checkpointing.pg_transport import PGTransport
    rank = ray.train.get_context().get_world_rank()
    training, log = Training(rank), Log(config, rank)
    training.optimize()
    group = torchft.ProcessGroupGloo(timeout=timedelta(seconds=30))

    def load(state):
        training.model.load_state_dict(state["model"])
        training.optimizer.load_state_dict(state["opt"])

    own, optimizer = training.model, training.optimizer
    manager = torchft.Manager(
        pg=group, min_replica_size=1, load_state_dict=load, world_size=1, rank=0,
        state_dict=lambda: {"model": own.state_dict(), "opt": optimizer.state_dict()},
        replica_id=f"group{rank}", timeout=timedelta(seconds=60),
        checkpoint_transport=PGTransport(group, timeout=timedelta(seconds=30), device=torch.device("cpu")))
    training.model = torchft.DistributedDataParallel(manager, own)
    training.optimizer = torchft.Optimizer(manager, optimizer)
    # torchft's groups begin one by one; the death shall find both.
    open(os.path.join(config["out"], f"ready{rank}"), "w").close()
    while len(glob.glob(os.path.join(config["out"], "ready*"))) < ray.train.get_context().get_world_size():
        time.sleep(0.01)
    while manager.current_step() < config["steps"]:
        step = manager.current_step()
        training.forward_and_backward(step)
        training.optimizer.step()
        time.sleep(config["step_s"])
        if manager.current_step() > step:  # it was committed
            log.step(step)
    manager.shutdown()


def torchrun_loop(config):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    training, log = Training(rank), Log(config, rank)
    training.model = DistributedDataParallel(training.model)
    training.optimize()
    path = os.path.join(config["out"], "state.pt")
    first = training.load(path) if os.path.exists(path) else 0
    for step in range(first, config["steps"]):
        training.forward_and_backward(step)
        training.optimizer.step()
        time.sleep(config["step_s"])
        if step % SAVED_EVERY == SAVED_EVERY - 1 and rank == 0:
            training.save(path + ".part", step)
            os.rename(path + ".part", path)
        log.step(step)
    dist.destroy_process_group()


def judge(out):
    """What the log says of the death."""
    with open(os.path.join(out, "death.json")) as f:
        death = json.load(f)
    processes = {}
    for path in glob.glob(os.path.join(out, "steps-*")):
        with open(path) as f:
            processes[os.path.basename(path)] = [(float(t), int(n)) for t, n in map(str.split, f)]
    victim = f"steps-1-{death['pid']}"
    # Of the other ranks the step of the death itself may end after it: that was computed before.
    later = [(t - death["t"], number, name) for name, rows in processes.items() if name != victim
             for t, number in rows if t > death["t"] and (number > death["step"] or rows[0][0] > death["t"])]
    if not later:
        raise SystemExit(f"nobody took a step after the death: {processes}")
    newcomer = [t for t, _, name in later if name.startswith("steps-1-")]
    again = {number for _, number, _ in later if number <= death["step"]}
    return {"next_step_s": min(later)[0], "all_in_s": min(newcomer) if newcomer else None,
            "steps_again": len(again), "last_step": max(number for _, number, _ in later)}


def with_trainer(way, args, config):
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
    if way == "torchft":
        from ray.train.v2.torch.torchft_config import TorchftConfig
        torch_config = TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo")
    elif way == "groups":
        from ray.train.torch import FaultTolerantConfig
        torch_config = FaultTolerantConfig()
    else:
        torch_config = None
    loop = {"restart": restart_loop, "groups": groups_loop, "torchft": torchft_loop}[way]
    ray.init(num_cpus=args.workers)
    TorchTrainer(
        loop, train_loop_config=config, torch_config=torch_config,
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(storage_path=os.path.join(config["out"], "store"), name="death",
                             failure_config=FailureConfig(max_failures=-1)),  # Ray counts one death several times
    ).fit()
    return ray.__version__


def with_torchrun(args, config):
    import torch
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(args.workers),
               "--max-restarts", "2", "--master-port", "0", "--rdzv-backend", "c10d",
               "--rdzv-endpoint", "localhost:0", os.path.abspath(__file__), "--loop", json.dumps(config)]
    subprocess.run(command, check=True)
    return torch.__version__


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--way", choices=["restart", "groups", "torchft", "torchrun"])
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--die-at", type=int, default=65)
    p.add_argument("--more-s", type=float, default=5.0, help="about how long the run goes on afterwards")
    p.add_argument("--step-s", type=float, default=0.05, help="sleep added to each step")
    p.add_argument("--loop", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.loop:
        return torchrun_loop(json.loads(a.loop))
    with tempfile.TemporaryDirectory() as out:
        config = {"out": out, "die_at": a.die_at, "step_s": a.step_s,
                  "steps": a.die_at + int(a.more_s / a.step_s)}
        version = with_torchrun(a, config) if a.way == "torchrun" else with_trainer(a.way, a, config)
        found = judge(out)
        if found["last_step"] < config["steps"] - 1:
            raise SystemExit(f"the run ended early: {found}")
    common.emit(bench="deaths", way=a.way, version=version, **found)


if __name__ == "__main__":
    main()

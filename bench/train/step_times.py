"""What taking the times of steps costs: processor time of a step with it and without, by turns.

Run: python step_times.py --rounds 20
A step of almost nothing (a DataLoader, DistributedDataParallel of one process, SGD), so that the cost
shows; the least of all rounds, since other programs only add to it. Heliostat only.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from heliostat.train.steps.clock import StepClock, set_clock
from heliostat.train.torch import timing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS = 1000


def epoch(model, optimizer, rows):
    start = time.thread_time()
    for (batch,) in DataLoader(rows, batch_size=4):
        loss = model(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.thread_time() - start) / STEPS


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=20)
    args = p.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rows = TensorDataset(torch.rand(STEPS * 4, 8))
    bare = min(epoch(model, optimizer, rows) for _ in range(args.rounds))
    timing.install()
    off, on, beats = [], [], []
    for _ in range(args.rounds):
        set_clock(None)
        off.append(epoch(model, optimizer, rows))
        clock = StepClock()
        set_clock(clock)
        on.append(epoch(model, optimizer, rows))
        start = time.thread_time()
        assert clock.beat().count >= STEPS - 1
        beats.append(time.thread_time() - start)
    set_clock(None)
    micro = {
        "without": bare,
        "switched_off": min(off),
        "with": min(on),
        "beat_of_1000_steps": min(beats),
    }
    print("RESULT " + json.dumps({k: round(v * 1e6, 1) for k, v in micro.items()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

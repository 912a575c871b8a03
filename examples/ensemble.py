"""An ensemble of small models, one task each, with the spread of their answers as uncertainty.

python examples/ensemble.py
python examples/ensemble.py --models 16 --gpus-per-task 1
"""

from __future__ import annotations

import argparse
import math
import time

import heliostat as ray
import torch
from torch import nn

Dataset = tuple[torch.Tensor, torch.Tensor]


def make_dataset() -> Dataset:
    """A noisy sine with a gap in the middle, where an ensemble should be unsure."""
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.linspace(-3, -1, 80), torch.linspace(1, 3, 80)]).unsqueeze(1)
    return x, torch.sin(x) + 0.05 * torch.randn(x.shape, generator=generator)


@ray.remote
def fit(index: int, dataset: Dataset, steps: int) -> tuple[dict[str, torch.Tensor], float]:
    """Train one member from its own random start; the data is read from shared memory."""
    torch.manual_seed(index)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model().to(device)
    x, y = (part.to(device) for part in dataset)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return {name: value.cpu() for name, value in model.state_dict().items()}, loss.item()


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--gpus-per-task", type=float, default=0)
    options = parser.parse_args()

    ray.init(ignore_reinit_error=True)
    began = time.perf_counter()
    dataset = ray.put(make_dataset())
    task = fit.options(num_gpus=options.gpus_per_task) if options.gpus_per_task else fit
    pending = [task.remote(index, dataset, options.steps) for index in range(options.models)]
    members = []
    while pending:
        ready, pending = ray.wait(pending)
        state, loss = ray.get(ready[0])
        members.append(state)
        print(
            f"{time.perf_counter() - began:6.2f} s  "
            f"{len(members)}/{options.models} trained, loss {loss:.4f}"
        )

    where = torch.tensor([[-2.0], [0.0], [2.0]])
    answers = []
    model = make_model()
    for state in members:
        model.load_state_dict(state)
        with torch.no_grad():
            answers.append(model(where))
    stacked = torch.stack(answers).squeeze(-1)
    for x, mean, spread in zip(where[:, 0], stacked.mean(0), stacked.std(0), strict=True):
        print(
            f"  x = {x:4.1f}   sin {math.sin(x):5.2f}   ensemble {mean:5.2f} +- {spread:.2f}"
            f"{'   (no data here)' if abs(x) < 1 else ''}"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()

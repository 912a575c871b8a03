"""What every program trains, what one process gets, and what happens on the way.

All programs train the same small network on the same rows in the same order: step ``k`` sees rows
``k * BATCH`` to ``(k + 1) * BATCH``, cut evenly over the ranks; the gradient is the mean over all of them.
So whatever the library, the number of workers and the deaths in between, the final loss is that of one
process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from ray import train

from tests.helpers.harness import once, wait_until

ROWS, BATCH = 96, 8
STEPS = ROWS // BATCH
SAVE_EVERY = 2
LEARNING_RATE, MOMENTUM = 0.2, 0.9
# Each course acts when this many steps were taken: one more than were saved, so that one is made again.
ACTS_AT = 5
# A deadline against a hang.
WITHIN_S = 300.0

COURSES = ("plain", "killed", "elastic", "resumed")


def rows() -> tuple[Any, Any]:
    """Inputs ``(ROWS, 4)`` and targets ``(ROWS, 1)``."""
    import torch

    generator = torch.Generator().manual_seed(7)
    x = torch.rand(ROWS, 4, generator=generator)
    return x, (x.sum(1, keepdim=True) * 3).sin()


def network() -> Any:
    """The same weights in each process."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def optimizer_of(model: Any) -> Any:
    """One with a state, which a checkpoint must hold."""
    import torch

    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)


def loss_of(model: Any, x: Any, y: Any) -> Any:
    return (model(x) - y).square().mean()


def batch_of(step: int, rank: int = 0, size: int = 1) -> tuple[Any, Any]:
    """The rank's part of the step's batch."""
    x, y = rows()
    part = BATCH // size
    first = step * BATCH + rank * part
    return x[first : first + part], y[first : first + part]


def whole_loss(model: Any) -> float:
    """Over all rows."""
    import torch

    with torch.no_grad():
        return float(loss_of(model, *rows()))


def alone() -> float:
    """What one process gets, without any library."""
    model = network()
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch_of(step)).backward()
        optimizer.step()
    return whole_loss(model)


class Course:
    """What happens to the run; each rank of each life makes one."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._course, self._folder = config["course"], config["folder"]
        self.size = train.get_context().get_world_size()
        self.rank = train.get_context().get_world_rank()
        if self.rank == 0:
            with Path(self._folder, "sizes").open("a") as file:
                file.write(f"{self.size}\n")

    def after(self, step: int) -> bool:
        """Called on each rank when ``step`` steps were taken; whether to save and report."""
        if step == ACTS_AT and self._course != "plain":
            self._act()
        return step % SAVE_EVERY == 0 or step == STEPS

    def _act(self) -> None:
        if self._course == "killed" and self.rank == self.size - 1 and once(self._folder, "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._course == "resumed" and not Path(self._folder, "again").exists():
            raise RuntimeError("the run ends here, and is started again")
        if self._course == "elastic" and self.size == 1:
            # Room comes now; the group grows at the next checkpoint behind that.
            Path(self._folder, "waits").touch()
            wait_until(Path(self._folder, "room").exists, within=WITHIN_S, what="room for another")

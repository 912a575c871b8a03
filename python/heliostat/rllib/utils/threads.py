"""The number of threads that torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heliostat.core.platform.extras import required

# Multiplications of a forward below which threads cost more than they bring.
SMALL = 20_000_000


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Return 1 where there is little to compute, as of small networks; otherwise the process's number.

    Args:
        work: About how many multiplications one forward makes.
    """
    import torch

    required("torch", "ray.rllib", "rllib")
    before = torch.get_num_threads()
    if work >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def work_of(module: object, rows: int) -> float:
    """About how many multiplications a forward of a module makes."""
    count = module.__dict__.get("_numbers")
    if count is None:
        parameters = getattr(module, "parameters", None)
        count = sum(p.numel() for p in parameters()) if parameters is not None else 0
        module.__dict__["_numbers"] = count
    return float(rows * count)

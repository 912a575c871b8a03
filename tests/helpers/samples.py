"""An importable module of the driver: what it defines reaches the workers by name, not by value."""

from __future__ import annotations

import os
from typing import Any


def times_seven(x: int) -> int:
    return x * 7


class Adder:
    def __init__(self, base: int = 0) -> None:
        self.base = base

    def add(self, x: int) -> int:
        self.base += x
        return self.base


class SampleError(Exception):
    """An application error with a field of its own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"sample error {code}")
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return SampleError, (self.code,)


def gpus() -> tuple[list[Any], str | None]:
    """The GPU ids of the caller, and what it sees in the environment."""
    import ray

    return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


def context_ids() -> dict[str, str | None]:
    """Every id that the runtime context of the caller knows."""
    import ray

    names = ["job_id", "node_id", "worker_id", "task_id", "actor_id", "placement_group_id"]
    context = ray.get_runtime_context()
    return {name: getattr(context, f"get_{name}")() for name in names}

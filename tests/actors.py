"""The actor that most tests of actors use."""

from __future__ import annotations

import os

import ray


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.i = start

    def incr(self, by: int = 1) -> int:
        self.i += by
        return self.i

    def get(self) -> int:
        return self.i

    def pid(self) -> int:
        return os.getpid()

    def assigned(self) -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    def fail(self) -> None:
        raise KeyError("asked for")

    def crash(self) -> None:
        os._exit(1)

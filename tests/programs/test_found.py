"""What random programs have found, each as the smallest program that shows it."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray
from harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

LONG_S = 50.0


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


@pytest.mark.contract("F3.09")
def test_what_a_worker_made_outlives_the_process_that_leased_it() -> None:
    @ray.remote
    def inner() -> list[Any]:
        return [ray.put(b"x" * 200_000)]

    @ray.remote(max_calls=1)
    def outer() -> tuple[int, list[Any]]:
        return os.getpid(), ray.get(inner.remote())

    for _ in range(3):
        pid, [ref] = ray.get(outer.remote(), timeout=LONG_S)
        wait_until(lambda pid=pid: not is_alive(pid), within=LONG_S, what="its worker has ended")
        assert ray.get(ref, timeout=LONG_S) == b"x" * 200_000

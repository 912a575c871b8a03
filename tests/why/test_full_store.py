"""Waiting for room in the object store, or for what was spilled (WHY-1)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import ray

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only("Ray cannot say what something waits for")


@ray.remote(num_cpus=0)
def make(n: int) -> Any:
    import numpy

    return numpy.zeros(n, numpy.uint8)


def test_who_has_no_room_names_those_that_keep_the_store_full(
    ray_fresh: Callable[..., Any],
) -> None:
    ray_fresh(num_cpus=1, object_store_memory=100 << 20)
    objects = [make.remote(30 << 20) for _ in range(5)]
    ray.wait(objects, num_returns=5)
    spilled = [ref for ref in objects if "disk until somebody reads it" in ray.util.why(ref)]
    assert spilled, "more than the store holds was made"
    held = ray.get(objects[3:])
    ref = make.remote(90 << 20)

    def text() -> str | None:
        said = str(ray.util.why(ref))
        return said if "object store is full" in said else None

    said = wait_until(text)
    assert re.search(r"waits for room in the object store, to write \d+ bytes", said)
    assert re.search(r"are pinned by readers: .*\(a driver\)", said)
    del held
    ready, _ = ray.wait([ref], timeout=20)
    assert ready, time.monotonic()

"""GIL-1: threads of the core never take the GIL; who does is named and counted."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from heliostat import _heliostat

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only("the core is Heliostat's own")


def test_threads_of_the_core_never_take_the_gil(ray_start: Any) -> None:
    @ray.remote
    def counts(_: Any = None) -> dict[str, int]:
        return _heliostat.gil_counts()

    @ray.remote
    class Actor:
        def counts(self) -> dict[str, int]:
            return _heliostat.gil_counts()

    actor = Actor.remote()
    before = _heliostat.gil_counts()
    for _ in range(20):
        ray.get([counts.remote(ray.put(1)), actor.counts.remote()])
        ray.wait([counts.remote()], timeout=60)
    # The net thread works alone while this one only looks.
    refs = [counts.remote() for _ in range(20)]
    wait_until(lambda: all(_heliostat.is_ready(ref) for ref in refs), what="the net thread reads")
    of_workers = [*ray.get(refs), ray.get(actor.counts.remote())]
    after = _heliostat.gil_counts()
    assert after["io"] == 0
    assert all(seen["io"] == 0 for seen in of_workers)
    assert after["get"] > before["get"]
    assert after["wait"] > before["wait"]
    assert any(seen["next_work"] > 0 for seen in of_workers)

"""Objects between machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers import harness
from tests.machines.machines import Machine

pytestmark = [
    pytest.mark.heliostat_only("the machines run the command heliostat"),
]

Make = Callable[..., list[Machine]]

# Every eighth byte tells where it is, so that a range in a wrong place shows.
MAKE = """
    import numpy as np
    import ray

    ray.init(logging_level="error")

    @ray.remote(num_cpus=0, max_retries=0)
    def make(megabytes):
        return np.arange(megabytes << 17, dtype=np.uint64)

    @ray.remote(num_cpus=0, max_retries=0)
    def check(value):
        return bool((value == np.arange(len(value), dtype=np.uint64)).all())

    def on(machine):
        return {"resources": {machine: 1}}
"""


@pytest.mark.contract("F3.04")
def test_large_objects_arrive_whole(make_machines: Make) -> None:
    """One after the other, several at once, both ways, and with more than the store holds at a time."""
    head, _ = make_machines(2)
    script = """
    for megabytes in (1, 3, 100):
        assert ray.get(check.remote(ray.get(make.options(**on("m1")).remote(megabytes))))
    there = [make.options(**on("m1")).remote(20 + n) for n in range(5)]
    assert all(ray.get([check.options(**on("m0")).remote(ref) for ref in there]))
    here = [make.options(**on("m0")).remote(20 + n) for n in range(5)]
    assert all(ray.get([check.options(**on("m1")).remote(ref) for ref in here]))
    print("done=1")
    """
    head.start_script(MAKE + script).finish().check()


@pytest.mark.contract("F3.04", "F5.06")
def test_a_source_that_dies_in_the_middle_is_replaced(make_machines: Make) -> None:
    """What cannot be made again comes from the copy that another machine has made to read it."""
    head, source, other = make_machines(3, f"--object-store-memory={500 << 20}")
    script = """
    import os, time

    made = make.options(**on("m1")).remote(400)
    assert ray.get(check.options(**on("m2")).remote(made))
    print("copied=1", flush=True)
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    value = ray.get(made)
    assert (value == np.arange(len(value), dtype=np.uint64)).all()
    assert ray.get(check.options(**on("m2")).remote(made))
    print("done=1")
    """
    go = head.directory / "go"
    driver = head.start_script(MAKE + script, env={"GO": str(go)})
    driver.wait_line("copied")
    before = source.sent()
    source.slow_down(400)
    go.touch()
    harness.wait_until(lambda: source.sent() > before + (50 << 20), what="a part of the object")
    source.power_off()
    assert source.sent() < before + (400 << 20), "it was in the middle"
    assert other.is_on
    driver.finish().check()

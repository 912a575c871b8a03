"""`ray.experimental.tqdm_ray`: bars of tasks and actors, drawn by the driver."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
import ray
from heliostat.core.driver import progress_bars

from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.contract("F14.12"),
    pytest.mark.heliostat_only("how a bar is drawn is ours"),
]

PROGRAM = """
import time
import ray
from ray.experimental import tqdm_ray

ray.init(num_cpus=2)

@ray.remote
def work(items):
    print("a line of the task")
    return sum(tqdm_ray.tqdm(range(items), desc="working", flush_interval_s=0))

@ray.remote
class Worker:
    def __init__(self):
        self.bar = tqdm_ray.tqdm(desc="actor", total=4, unit="step", flush_interval_s=0)

    def step(self, n):
        self.bar.update(n)
        self.bar.set_description(f"actor at {self.bar.n}")

    def end(self):
        self.bar.close()

assert ray.get(work.remote(10)) == 45
worker = Worker.remote()
ray.get(worker.step.remote(3))
ray.get(worker.end.remote())
bar = tqdm_ray.tqdm([1, 2, 3], desc="of the driver")
assert list(bar) == [1, 2, 3]
tqdm_ray.safe_print("a line of the driver")
left = Worker.remote()
ray.get(left.step.remote(1))
ray.shutdown()
"""


def test_bars_of_all_processes(run_driver: Any) -> None:
    done = run_driver(PROGRAM).check()
    # A bar is drawn over itself.
    states = done.stderr.replace("\r", "\n").replace("\x1b[A", "").splitlines()
    assert any("working: 100%" in line and "(work pid=" in line for line in states)
    assert any("10/10" in line for line in states)
    assert any("actor at 3:" in line and "3/4" in line and "step/s" in line for line in states)
    assert any("of the driver: 100%" in line for line in states)
    assert "a line of the driver" in done.stdout
    assert any(line.endswith("a line of the task") for line in done.stdout.splitlines())
    # The states themselves are not shown.
    assert progress_bars.MAGIC not in done.output


def test_a_line_that_only_looks_like_a_bar() -> None:
    drawn = progress_bars.Bars()
    assert not drawn.take("a line", "")
    assert not drawn.take(f"{progress_bars.MAGIC} without a state", "")
    assert not drawn.take("{" + progress_bars.MAGIC, "")


def test_without_tqdm_the_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # importing it fails
    drawn = progress_bars.Bars()
    state = {"uuid": "1", "ip": "1.2.3.4", "pid": 1, "desc": "", "unit": "it", "total": 2, "x": 1}
    state["closed"] = False
    assert drawn.take(progress_bars.line(state), "(f pid=1)")
    assert drawn.take(progress_bars.line({**state, "x": 2, "closed": True}), "(f pid=1)")
    assert [record.message for record in caplog.records].count(
        "Progress bars are not shown: run `pip install 'heliostat[progress]'` for them."
    ) == 1


def test_the_driver_can_be_asked_what_it_draws(ray_start: Any) -> None:
    from ray.experimental import tqdm_ray

    manager = tqdm_ray.instance()
    manager.close()
    hides = manager.num_hides

    @ray.remote
    class Worker:
        def __init__(self) -> None:
            self.bar = tqdm_ray.tqdm(desc="foo", total=100, position=0, flush_interval_s=0)
            self.bar.update(42)

        def say(self) -> None:
            print("hello there")

        def end(self) -> None:
            self.bar.close()

    worker = Worker.remote()
    wait_until(lambda: manager.bar_groups, what="the bar of the actor")
    (group,) = manager.bar_groups.values()
    (bar,) = group.bars_by_uuid.values()
    wait_until(lambda: bar.bar.n == 42, what="its first state")
    assert "foo" in bar.bar.desc
    assert bar.state["total"] == 100
    assert not manager.in_hidden_state
    ray.get(worker.say.remote())
    wait_until(lambda: manager.num_hides > hides, what="that a line is written above the bar")
    wait_until(lambda: not manager.in_hidden_state, what="that the bar is drawn again")
    ray.get(worker.end.remote())
    wait_until(lambda: not manager.bar_groups, what="the end of the bar")
    own = tqdm_ray.tqdm(desc="bar", total=100, flush_interval_s=0)
    own.update(42)
    assert [len(group.bars_by_uuid) for group in manager.bar_groups.values()] == [1]
    own.close()
    assert not manager.bar_groups


def test_counts_and_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.experimental.tqdm_ray import tqdm

    monkeypatch.setattr("sys.stderr", io.StringIO())
    bar = tqdm(iter([1]), total=5)
    assert (bar.n, bar.total) == (0, 5)
    bar.n, bar.total = 2, 7
    assert (bar.n, bar.total) == (2, 7)
    bar.close()
    with tqdm([1, 2]) as other:
        assert other.total == 2
    with pytest.raises(ValueError, match="No iterable"):
        list(tqdm(total=3))

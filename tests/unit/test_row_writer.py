"""The past that stays small, latencies as counts, and stacks in folds."""

from __future__ import annotations

import math

import pytest
from heliostat.serve.replica.meter import quantile
from heliostat.util.row_writer import Past, _finite
from heliostat.util.state.stack_answer import folded

pytestmark = [
    pytest.mark.contract("F6.05"),
    pytest.mark.heliostat_only("these are our own modules"),
]


def test_a_long_past_keeps_its_ends_and_no_more_points_than_it_may() -> None:
    past = Past(10)
    for at in range(1000):
        past.add(float(at), at * 2.0)
        assert len(past.points) < 10
    times = [point[0] for point in past.points]
    assert times[0] == 0
    assert times[-1] >= 800
    steps = {after - before for before, after in zip(times, times[1:], strict=False)}
    assert len(steps) == 1


def test_quantiles_of_counted_latencies_are_right_to_a_twentieth() -> None:
    step = math.log(1.1)
    counts: dict[int, int] = {}
    for ms in range(1, 1001):
        at = math.ceil(math.log(ms) / step)
        counts[at] = counts.get(at, 0) + 1
    for part in (0.5, 0.9, 0.99):
        assert quantile(counts, part) == pytest.approx(1000 * part, rel=0.06)
    assert quantile({}, 0.5) is None


def test_what_json_has_no_word_for_is_null() -> None:
    told = _finite({"a": [float("nan"), (float("inf"), 1)], 2: {"b": 0.5}})
    assert told == {"a": [None, [None, 1]], "2": {"b": 0.5}}


def test_stacks_are_threads_with_their_calls() -> None:
    text = (
        "Thread MainThread:\n"
        '  File "/a/b.py", line 3, in outer\n'
        "    inner()\n"
        '  File "/a/c.py", line 9, in inner\n'
        "    while True: pass\n"
        "Thread Loop: its event loop waits\n"
        "Coroutine fetch:\n"
        '  File "/a/d.py", line 1, in fetch\n'
    )
    assert folded(text) == [
        ["Thread MainThread", "outer (b.py:3)", "inner (c.py:9)"],
        ["Thread Loop", "its event loop waits"],
        ["Coroutine fetch", "fetch (d.py:1)"],
    ]
    # As faulthandler writes: no thread is named.
    assert folded('  File "/a/b.py", line 3 in outer\n') == [
        ["Thread MainThread", "outer (b.py:3)"]
    ]
    assert folded("(it has ended)\n") == []

"""Random plans give their answers; and the parts that find and shrink a fault do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the data library needs pyarrow")

from tests.plans import excused, run
from tests.plans.known import Column, Known
from tests.plans.plan import Plan, draw
from tests.plans.sources import Source

CLUSTER = {"num_cpus": 4}
PLANS = 160
PARTS = 8


@pytest.fixture
def session(ray_start: Any) -> None:
    """A session set up as ``python -m tests.plans`` does."""
    run.prepare()


@pytest.mark.contract(
    "F10.01", "F10.03", "F10.07", "F10.09", "F10.11", "F10.12", "F10.14", "F10.19"
)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_plans_give_their_answers(session: None, part: int) -> None:
    for number in range(part, PLANS, PARTS):
        failure = run.attempt(draw(f"test/{number}"))
        if failure is not None and not excused.reason(failure):
            failure = run.shrink(failure)
            pytest.fail(f"{failure.reason}\n{failure.text}\n{failure.plan.script()}")


def test_a_seed_draws_the_same_plan() -> None:
    assert [draw(f"x/{i}").script() for i in range(20)] == [
        draw(f"x/{i}").script() for i in range(20)
    ]


def test_a_wrong_answer_is_found_and_shrunk(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An oracle that is wrong about one number, in a plan with much besides."""
    rows = [{"a": i, "b": str(i), "c": [i]} for i in range(12)]
    source = Source("from_items", {"a": "int", "b": "str", "c": "list"}, rows, [4, 4, 4])
    plan = Plan(source, draw_steps(), "take_all", {})
    answer = Source.known

    def wrong(self: Source) -> Known:
        known = answer(self)
        changed = [{**r, "a": 70} if r.get("a") == 7 else r for r in known.rows]
        return known.derive(changed)

    monkeypatch.setattr(Source, "known", wrong)
    failure = run.attempt(plan)
    assert failure is not None
    assert failure.reason == "mismatch"
    small = run.shrink(failure).plan
    assert small.source.rows == [{"a": 7}]
    assert not small.steps


def draw_steps() -> list[Any]:
    """Steps that keep the column ``a``."""
    from tests.plans.operator import Step

    return [Step("limit", {"count": 10}), Step("sort", {"keys": ["a"], "descending": True})]


def test_rows_are_compared_as_far_as_their_order_is_known() -> None:
    from tests.plans.check import Mismatch, rows_are

    rows = [{"a": 1}, {"a": 2}, {"a": 3}]
    rows_are([{"a": 2}, {"a": 1}, {"a": 3}], Known({"a": Column("int")}, rows, [0, 0, 1]))
    wrong = [[rows[2], *rows[:2]], rows[:2], [{"a": 1.0}, *rows[1:]], [{"a": None}, *rows[1:]]]
    for found in wrong:
        with pytest.raises(Mismatch):
            rows_are(found, Known({"a": Column("int")}, rows, [0, 0, 1]))
    rows_are([{"a": 1.0}, *rows[1:]], Known({"a": Column("int", exact=False)}, rows))


def test_the_script_of_a_plan_runs_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "plan.py"
    script.write_text(draw("script/3").script("why"))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=100,
        env=env,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()

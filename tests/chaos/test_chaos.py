"""The plans of chaos runs and their judge, which must be able to refuse (``make chaos`` runs them)."""

from __future__ import annotations

import json
from typing import Any

from tests.chaos.faults import HEAD, HEAD_AWAY_MAX_S, Injector, Silence, draw, verdicts
from tests.chaos.run import MACHINES, Verdict, judge_the_named, read_lines
from tests.machines.machines import Machines


def test_a_seed_always_draws_the_same_faults() -> None:
    for seed in range(20):
        plan = draw(seed, 300.0, MACHINES)
        assert plan == draw(seed, 300.0, MACHINES)
        assert all(step.seconds <= HEAD_AWAY_MAX_S for step in plan if step.machine == HEAD)


class _Nowhere(Machines):
    """A field without machines, for a judge that looks at times alone."""

    def __init__(self) -> None:
        self.all = []


def _judged(ending: list[tuple[int, float, float]], *lines: dict[str, Any]) -> list[str]:
    injector = Injector(_Nowhere(), print, ending=ending)
    verdict = Verdict(0, 1.0)
    read_lines("\n".join(map(json.dumps, lines)), injector, verdict)
    return verdict.failures


def test_a_loss_needs_a_cause_and_the_contract() -> None:
    loss = {
        "loss": "mortal actor",
        "error": "ActorDiedError",
        "machine": 2,
        "since": 5.0,
        "at": 9.0,
    }
    assert _judged([(2, 6.0, 7.0)], loss) == []
    assert "no fault has hit" in _judged([(1, 6.0, 7.0)], loss)[0]
    assert "no fault has hit" in _judged([(2, 9.5, 9.6)], loss)[0]
    assert "must not" in _judged([(2, 6.0, 7.0)], {**loss, "loss": "task"})[0]
    assert "unanswered" in _judged([], {"unanswered": "task"})[0]


def test_silences_that_follow_each_other_are_one() -> None:
    """A one-way fault of the head and then one of the machine: together longer than what is forgiven."""
    heads, own = Silence(2, 10.0, 14.2, is_heads=True), Silence(2, 14.8, 16.9)
    assert verdicts([own, heads]) == [(2, 10.0, 16.9)]
    # Each for itself costs nothing: nobody is declared dead for a silence of the head.
    assert verdicts([heads]) == verdicts([own]) == []
    assert verdicts([heads, Silence(3, 14.8, 16.9)]) == []
    # A short silence is forgotten soon: the connection has been heard since.
    short = Silence(2, 10.0, 12.0)
    assert verdicts([short, Silence(2, 14.1, 17.0)]) == []
    assert verdicts([short, Silence(2, 13.9, 17.0)]) == [(2, 10.0, 17.0)]
    assert verdicts([Silence(2, 10.0, 15.0)]) == [(2, 10.0, 15.0)]


def test_two_named_actors_are_seen() -> None:
    calls = "5 5000000000 machine1 m1\n7 7000000000 machine2 m2\n5 7100000000 machine1 m1\n"
    injector, verdict = Injector(_Nowhere(), print), Verdict(0, 1.0)
    judge_the_named(calls, injector, verdict)
    assert "two named actors" in verdict.failures[0]
    injector.woken.append((1, 7.0))
    awake = Verdict(0, 1.0)
    judge_the_named(calls, injector, awake)
    assert (awake.failures, awake.late_calls) == ([], 1)

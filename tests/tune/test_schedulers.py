"""Schedulers and stoppers, driven by hand (contract F11.06), and as searches use them."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest
from heliostat.tune.runner.search import CONTINUE, PAUSE, STOP, Search
from heliostat.tune.runner.trial import Trial
from heliostat.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    create_scheduler,
)
from heliostat.tune.stopper import (
    CombinedStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    TimeoutStopper,
    TrialPlateauStopper,
    stopper_of,
)
from ray import tune


def begin(machine: Search) -> Trial:
    trial = machine.choose()
    assert trial is not None
    machine.started(trial)
    return trial


def report(machine: Search, trial: Trial, time: int, score: float) -> str:
    return machine.reported(trial, {"training_iteration": time, "score": score})


@pytest.mark.contract("F11.06")
def test_asha_stops_those_below_the_best_part_of_a_rung(search: Any) -> None:
    asha = ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3)
    machine = search(6, asha)
    decisions = []
    for score in (5, 4, 6, 5.2, 5.9, 7):
        decisions.append(report(machine, begin(machine), 1, score))
    # The bound is the 67th percentile of those that came before.
    assert decisions == [CONTINUE, STOP, CONTINUE, STOP, CONTINUE, CONTINUE]
    assert "Iter 1.000" in asha.debug_string()


@pytest.mark.contract("F11.06")
def test_asha_ends_a_trial_at_max_t_and_judges_each_rung_once(search: Any) -> None:
    machine = search(2, ASHAScheduler(max_t=4, grace_period=2, reduction_factor=2))
    first, second = begin(machine), begin(machine)
    assert [report(machine, first, t, 10 + t) for t in (1, 2, 3)] == [CONTINUE] * 3
    assert report(machine, second, 1, 0) == CONTINUE, "the grace period"
    assert report(machine, first, 4, 0) == STOP, "max_t"
    assert report(machine, second, 2, 0) == STOP
    asha = ASHAScheduler(max_t=4, grace_period=2, stop_last_trials=False)
    lone = search(1, asha)
    assert report(lone, begin(lone), 4, 1) == CONTINUE


@pytest.mark.contract("F11.06")
def test_asha_minimizes_and_lets_nan_be(search: Any) -> None:
    asha = ASHAScheduler(metric="score", mode="min", max_t=9, reduction_factor=3)
    machine = search(4, asha)
    assert report(machine, begin(machine), 1, 1.0) == CONTINUE
    assert report(machine, begin(machine), 1, 2.0) == STOP
    assert report(machine, begin(machine), 1, float("nan")) == CONTINUE
    assert report(machine, begin(machine), 1, 0.5) == CONTINUE


@pytest.mark.contract("F11.06")
def test_asha_spreads_trials_over_brackets(search: Any) -> None:
    random.seed(0)
    asha = ASHAScheduler(max_t=81, reduction_factor=3, brackets=3)
    machine = search(60, asha)
    decisions = [report(machine, begin(machine), 1, -n) for n in range(60)]
    # Each is worse than those before: only brackets with a rung this early stop trials.
    assert 0 < decisions.count(CONTINUE) < 40


@pytest.mark.contract("F11.06")
@pytest.mark.parametrize(
    "options",
    [
        {"max_t": 0},
        {"grace_period": 200},
        {"reduction_factor": 1},
        {"brackets": 0},
        {"mode": "best"},
    ],
)
def test_asha_refuses_what_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        create_scheduler("asha", **options)


@pytest.mark.contract("F11.06")
def test_a_scheduler_needs_a_metric_and_takes_it_once(search: Any) -> None:
    with pytest.raises(ValueError, match="metric"):
        search(1, ASHAScheduler(), metric=None).choose()
    assert not ASHAScheduler(metric="a", mode="max").set_search_properties("b", None)


@pytest.mark.contract("F11.06")
@pytest.mark.parametrize("hard", [True, False])
def test_the_median_stops_those_below_it(search: Any, hard: bool) -> None:
    rule = MedianStoppingRule(
        time_attr="training_iteration", grace_period=2, min_samples_required=2, hard_stop=hard
    )
    machine = search(4, rule)
    for score in (10, 20):
        trial = begin(machine)
        assert [report(machine, trial, t, score) for t in (1, 2, 3)] == [CONTINUE] * 3
    good, bad = begin(machine), begin(machine)
    assert [report(machine, bad, t, 1) for t in (1, 2)] == [CONTINUE, STOP if hard else PAUSE]
    assert [report(machine, good, t, 16) for t in (1, 2, 3)] == [CONTINUE] * 3


@pytest.mark.contract("F11.06")
def test_the_median_is_of_those_that_came_as_far(search: Any) -> None:
    rule = MedianStoppingRule(
        time_attr="training_iteration", grace_period=1, min_samples_required=1
    )
    machine = search(3, rule)
    early, far, bad = begin(machine), begin(machine), begin(machine)
    assert [report(machine, far, t, 5) for t in (1, 2, 3)] == [CONTINUE] * 3
    assert report(machine, early, 1, 100) == CONTINUE
    assert report(machine, bad, 1, 60) == CONTINUE, "the median of 100 and 5 is 52.5"
    assert report(machine, bad, 2, 1) == CONTINUE, "only the one with 5 came as far"


def test_a_search_retries_pauses_and_ends(search: Any) -> None:
    machine = search(2, FIFOScheduler(), max_failures=1)
    first, second = begin(machine), begin(machine)
    assert machine.choose() is None
    assert not machine.is_over
    assert machine.failed(first, ValueError(), "once")
    assert machine.choose() is first, "it waits to be tried again"
    machine.started(first)
    assert not machine.failed(first, ValueError(), "twice")
    assert first.status == "ERROR"
    machine.paused(second)
    assert machine.choose() is second
    machine.started(second)
    assert report(machine, second, 1, 1.0) == CONTINUE
    machine.completed(second)
    assert machine.is_over
    source: Any = machine.source
    assert source.heard == [("t0", True), ("t1", False)]
    assert [trial.status for trial in machine.get_trials()] == ["ERROR", "TERMINATED"]


def test_the_first_failure_ends_a_search_that_fails_fast(search: Any) -> None:
    machine = search(5, FIFOScheduler(), fail_fast=True)
    first, second = begin(machine), begin(machine)
    assert not machine.failed(first, ValueError(), "")
    assert machine.choose() is None
    assert not machine.is_over, "one still runs"
    machine.interrupted(second)
    assert machine.is_over


def test_results_after_the_search_is_over_are_no_news(search: Any) -> None:
    machine = search(1, FIFOScheduler(), stop={"score": 3})
    trial = begin(machine)
    assert report(machine, trial, 1, 2) == CONTINUE
    assert report(machine, trial, 2, 3) == STOP
    assert trial.last_result["done"]


@pytest.mark.contract("F11.08")
def test_stoppers() -> None:
    def calls(stopper: Any, values: list[float], trial: str = "t") -> list[bool]:
        return [stopper(trial, {"score": value}) for value in values]

    assert calls(MaximumIterationStopper(2), [1, 1, 1]) == [False, True, True]
    assert calls(FunctionStopper(lambda _, r: r["score"] > 2), [1, 3]) == [False, True]
    flat = TrialPlateauStopper("score", std=0.1, num_results=2, grace_period=3)
    assert calls(flat, [5, 5, 5, 9]) == [False, False, True, False]
    low = TrialPlateauStopper(
        "score", num_results=2, grace_period=2, metric_threshold=1, mode="min"
    )
    assert calls(low, [5, 5, 0.5, 0.5]) == [False, False, False, True]
    top = ExperimentPlateauStopper("score", top=2, mode="max")
    assert calls(top, [1, 2, 2]) == [False, False, True]
    assert top.stop_all()
    both = CombinedStopper(MaximumIterationStopper(3), top)
    assert calls(both, [9, 9]) == [False, True]
    assert both.stop_all()
    assert not TimeoutStopper(1000).stop_all()
    # Trials run on, without a wait after each report, where nobody decides about them.
    assert both.decides
    assert not CombinedStopper(TimeoutStopper(1000), NoopStopper()).decides
    assert type("Mine", (NoopStopper,), {})().decides
    assert TimeoutStopper(datetime.timedelta(0)).stop_all()
    with pytest.raises(ValueError, match="stop=3"):
        stopper_of(3)
    with pytest.raises(ValueError, match="mode"):
        TrialPlateauStopper("score", metric_threshold=1)


@pytest.mark.contract("F11.06")
def test_a_search_under_asha_makes_few_steps(fit: Any) -> None:
    def climb(config: dict[str, Any]) -> None:
        for step in range(1, 101):
            tune.report({"score": config["x"] * step})

    scheduler = tune.schedulers.ASHAScheduler(max_t=27, grace_period=1, reduction_factor=3)
    space = {"x": tune.grid_search(list(range(9, 0, -1)))}
    grid = fit(climb, space, scheduler=scheduler, max_concurrent_trials=1)
    steps = [result.metrics["training_iteration"] for result in grid]
    # The best comes first: each of the others is below the bound at the first rung.
    assert steps == [27, 1, 1, 1, 1, 1, 1, 1, 1]
    assert grid.get_best_result().config["x"] == 9
    assert grid.num_errors == 0

"""HyperBand, alone and for BOHB, driven by hand and as searches use it (contract F11.06, F11.08)."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from heliostat.tune.runner.search import CONTINUE, PAUSE, STOP, Search
from heliostat.tune.runner.trial import Trial
from ray import tune
from ray.tune.schedulers import HyperBandForBOHB, HyperBandScheduler, create_scheduler
from ray.tune.search import ConcurrencyLimiter, Searcher

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.06", "F11.08")


def run(machine: Search, scores: dict[str, float], places: int, last: int = 1000) -> dict[str, int]:
    """Run all trials, so many at a time; how far each came."""
    came: dict[str, int] = {}
    running: list[Trial] = []
    while True:
        while len(running) < places and (trial := machine.choose()) is not None:
            machine.started(trial)
            running.append(trial)
        if not running:
            assert machine.is_over
            return came
        trial = running.pop(0)
        time = came[trial.trial_id] = came.get(trial.trial_id, 0) + 1
        score = scores[trial.trial_id]
        decision = machine.reported(trial, {"training_iteration": time, "score": score})
        if decision == CONTINUE and time < last:
            running.append(trial)
        elif decision == PAUSE:
            machine.paused(trial)
        else:
            machine.completed(trial)


def numbers(count: int) -> dict[str, float]:
    """The later a trial, the better."""
    return {f"t{n}": float(n) for n in range(count)}


@pytest.mark.parametrize("places", [1, 4, 20])
def test_the_brackets_of_a_round_begin_with_few_trials(search: Any, places: int) -> None:
    """max_t=9 by 3: three trials run to 9, five are halved once, nine twice."""
    band = HyperBandScheduler(max_t=9, reduction_factor=3)
    came = run(search(17, band), numbers(17), places)
    assert list(came.values())[:3] == [9, 9, 9]
    assert list(came.values())[3:8] == [3, 3, 3, 9, 9]
    assert list(came.values())[8:] == [1, 1, 1, 1, 1, 1, 3, 3, 9]
    assert "num_stopped=11 total_brackets=3" in band.debug_string()


def test_bohb_begins_with_many(search: Any) -> None:
    band = HyperBandForBOHB(max_t=9, reduction_factor=3)
    came = run(search(17, band), numbers(17), 4)
    assert list(came.values())[:9] == [1, 1, 1, 1, 1, 1, 3, 3, 9]
    assert list(came.values())[14:] == [9, 9, 9]


def test_a_bracket_that_stays_small_is_halved_all_the_same(search: Any) -> None:
    """Ten trials: four run to 27, the other six are halved to what two thirds leave."""
    came = run(search(10, HyperBandScheduler(max_t=27)), numbers(10), 3)
    assert list(came.values()) == [27] * 4 + [9] * 4 + [27] * 2


def test_the_last_trials_run_on_where_they_may(search: Any) -> None:
    band = HyperBandScheduler(max_t=9, stop_last_trials=False)
    came = run(search(8, band), numbers(8), 8, last=20)
    assert list(came.values()) == [20, 20, 20, 3, 3, 3, 20, 20]


def test_the_least_is_the_best_with_min_and_nan_is_the_worst(search: Any) -> None:
    band = HyperBandScheduler(metric="score", mode="min", max_t=9)
    scores = {**numbers(8), "t3": float("nan")}
    came = run(search(8, band), scores, 8)
    assert list(came.values())[3:] == [3, 9, 9, 3, 3]


def test_a_trial_that_fails_does_not_hold_up_the_others(search: Any) -> None:
    machine = search(8, HyperBandScheduler(max_t=9))
    trials: list[Trial] = []
    while (trial := machine.choose()) is not None:
        machine.started(trial)
        trials.append(trial)
    last = trials[7]
    for trial in trials[3:7]:
        result = {"training_iteration": 3, "score": float(trial.trial_id[1:])}
        assert machine.reported(trial, result) == PAUSE
    # These are on their way to pause when the one that they wait for is lost.
    machine.paused(trials[3])
    machine.paused(trials[6])
    assert not machine.failed(last, ValueError(), "bad")
    assert trials[3].status == "TERMINATED"
    assert machine.choose() is trials[6]
    machine.paused(trials[4])
    assert trials[4].status == "TERMINATED", "it ends when it is there"
    machine.paused(trials[5])
    machine.started(trials[6])
    assert machine.choose() is trials[5]
    assert machine.reported(trials[6], {"training_iteration": 9, "score": 6.0}) == STOP


def test_only_trials_that_wait_are_ended_from_outside(search: Any) -> None:
    machine = search(1, HyperBandScheduler())
    trial = machine.choose()
    machine.started(trial)
    with pytest.raises(tune.TuneError, match="STOP"):
        machine.stop_trial(trial)


@pytest.mark.parametrize("options", [{"max_t": 0}, {"reduction_factor": 1}, {"mode": "best"}])
def test_hyperband_refuses_what_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        create_scheduler("hyperband", **options)


class Notes(Searcher):
    """Suggests numbers; notes who is paused and what it learns at milestones."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0
        self.paused: list[str] = []
        self.budgets: list[float] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self.given += 1
        return {"rate": self.given}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if "budget" in result["hyperband_info"]:
            self.budgets.append(result["hyperband_info"]["budget"])

    def on_pause(self, trial_id: str) -> None:
        self.paused.append(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.paused.remove(trial_id)


def test_the_searcher_of_bohb_hears_of_pauses_and_budgets(search: Any) -> None:
    searcher = Notes()
    limited = ConcurrencyLimiter(searcher, 100)
    came = run(search(9, HyperBandForBOHB(max_t=9), searcher=limited), numbers(9), 9)
    assert sorted(came.values()) == [1] * 6 + [3] * 2 + [9]
    # Seven were stopped while they were paused; the last one of each halving never was.
    assert len(searcher.paused) == 7


class Climbs(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.value = 0

    def step(self) -> dict[str, Any]:
        self.value += self.config["rate"]
        return {"score": self.value}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"value": self.value}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.value = checkpoint["value"]


def climbs(config: dict[str, Any]) -> None:
    """The same as a function."""
    value = 0
    if (checkpoint := tune.get_checkpoint()) is not None:
        value = json.loads(Path(checkpoint.path, "value").read_text())
    while True:
        value += config["rate"]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "value").write_text(json.dumps(value))
            tune.report({"score": value}, checkpoint=tune.Checkpoint.from_directory(folder))


@pytest.mark.parametrize("trainable", [Climbs, climbs])
def test_a_search_under_hyperband(fit: Any, trainable: Any) -> None:
    band = HyperBandScheduler(max_t=9, reduction_factor=3)
    grid = fit(trainable, {"rate": tune.grid_search(list(range(1, 9)))}, scheduler=band)
    assert grid.num_errors == 0, grid.errors
    came = [result.metrics["training_iteration"] for result in grid]
    assert came == [9, 9, 9, 3, 3, 3, 9, 9]
    # Nobody lost what it had while it was paused.
    assert [result.metrics["score"] for result in grid] == [
        rate * steps for rate, steps in zip(range(1, 9), came, strict=True)
    ]


def test_a_searcher_that_waits_for_results_does_not_stop_the_search(fit: Any) -> None:
    """The limiter counts paused trials: brackets are halved before they are full."""
    searcher = ConcurrencyLimiter(Notes(), max_concurrent=2)
    grid = fit(Climbs, {}, search_alg=searcher, scheduler=HyperBandForBOHB(max_t=9), num_samples=5)
    assert len(grid) == 5
    assert grid.num_errors == 0
    assert max(result.metrics["training_iteration"] for result in grid) == 9


@pytest.mark.filterwarnings("ignore")  # of hpbandster, which is not kept up
def test_bohb_learns_at_milestones(fit: Any) -> None:
    pytest.importorskip("hpbandster", reason="TuneBOHB asks the model of hpbandster")
    from ray.tune.search.bohb import TuneBOHB

    def valley(config: dict[str, Any]) -> None:
        while True:
            tune.report({"loss": (config["m"]["x"] - 0.3) ** 2 + (config["kind"] != "b")})

    space = {
        "m": {"x": tune.uniform(-1, 1), "n": tune.randint(1, 3)},
        "kind": tune.choice(["a", "b"]),
    }
    searcher = TuneBOHB(seed=1, points_to_evaluate=[{"m": {"x": 0.9, "n": 2}, "kind": "b"}])
    grid = fit(
        valley,
        space,
        search_alg=searcher,
        scheduler=HyperBandForBOHB(max_t=9),
        num_samples=40,
        metric="loss",
        mode="min",
    )
    assert len(grid) == 40
    assert grid[0].config == {"m": {"x": 0.9, "n": 2}, "kind": "b"}
    assert {result.config["m"]["n"] for result in grid} <= {1, 2}
    assert grid.get_best_result().metrics["loss"] < 0.1

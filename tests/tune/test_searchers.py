"""Searchers that learn, and how they are asked (contract F11.07)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher

pytestmark = pytest.mark.contract("F11.07")


class Counting(Searcher):
    """Suggests 0, 1, 2, …; notes what it hears."""

    def __init__(self, last: int = 100) -> None:
        super().__init__()
        self.given, self.last = 0, last
        self.heard: list[Any] = []
        self.most_open = self.open = 0

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        self.asked = (metric, mode, config)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.given >= self.last:
            return Searcher.FINISHED
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.given += 1
        return {"x": self.given - 1, "in": {"y": -self.given}}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append(("result", result["score"]))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self.open -= 1
        self.heard.append(("complete", result and result["score"], error))


def test_a_searcher_suggests_hears_and_ends(fit: Any) -> None:
    searcher = Counting(last=4)

    def trainable(config: dict[str, Any]) -> None:
        if config["x"] == 2:
            raise ValueError("not two")
        tune.report({"score": config["x"] + config["in"]["constant"]})

    space = {"in": {"constant": 10, "y": 0}}
    grid = fit(trainable, space, search_alg=searcher, num_samples=-1, max_concurrent_trials=1)
    assert searcher.asked == ("score", "max", space)
    assert [result.config for result in grid] == [
        {"x": n, "in": {"constant": 10, "y": -n - 1}} for n in range(4)
    ]
    completes = [one for one in searcher.heard if one[0] == "complete"]
    assert completes == [
        ("complete", 10, False),
        ("complete", 11, False),
        ("complete", None, True),
        ("complete", 13, False),
    ]
    assert ("result", 13) in searcher.heard


@pytest.mark.parametrize("batch", [False, True])
def test_a_limiter_keeps_so_many_open(fit: Any, batch: bool) -> None:
    searcher = Counting()

    def trainable(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})

    limited = ConcurrencyLimiter(searcher, max_concurrent=2, batch=batch)
    grid = fit(trainable, {}, search_alg=limited, num_samples=7)
    assert len(grid) == 7
    assert searcher.most_open <= 2
    assert searcher.given == 7


def test_a_repeater_tells_the_mean(fit: Any) -> None:
    searcher = Counting(last=3)

    def trainable(config: dict[str, Any]) -> None:
        if config["x"] == 1 and config["__trial_index__"] == 0:
            raise ValueError("once")
        if config["x"] < 2:
            tune.report({"score": 10 * config["x"] + config["__trial_index__"]})
        else:
            raise ValueError("always")

    repeated = Repeater(searcher, repeat=3)
    grid = fit(trainable, {}, search_alg=repeated, num_samples=9, max_concurrent_trials=1)
    assert [result.config["x"] for result in grid] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [result.config["__trial_index__"] for result in grid] == [0, 1, 2] * 3
    told = [one[1:] for one in searcher.heard]
    assert told[:2] == [(1.0, False), (11.5, False)]
    assert str(told[2][0]) == "nan"
    assert told[2][1]


def test_a_repeater_says_what_it_needs_and_remembers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="repeat"):
        Repeater(Counting(), repeat=0)
    repeated = Repeater(Counting(), repeat=2, set_index=False)
    assert repeated.suggest("a") == {"x": 0, "in": {"y": -1}}
    repeated.save(str(tmp_path / "state"))
    again = Repeater(Counting(), repeat=2, set_index=False)
    again.restore(str(tmp_path / "state"))
    assert [again.suggest(name)["x"] for name in ("b", "c")] == [0, 1]  # type: ignore[index, call-overload]


def test_a_searcher_that_raises_ends_the_search_with_its_cause(fit: Any) -> None:
    class Broken(Counting):
        def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
            if self.given == 2:
                raise KeyError("lost")
            return super().suggest(trial_id)

    def trainable(config: dict[str, Any]) -> None:
        tune.report({"score": 1})

    with pytest.raises(tune.TuneError, match="KeyError: 'lost'") as caught:
        fit(trainable, {}, search_alg=Broken(), num_samples=5)
    assert isinstance(caught.value.__cause__, KeyError)


class TestOptuna:
    """Optuna's samplers."""

    @pytest.fixture(autouse=True)
    def quiet(self) -> None:
        optuna = pytest.importorskip("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    @staticmethod
    def make(**options: Any) -> Any:
        from ray.tune.search.optuna import OptunaSearch

        return OptunaSearch(**options)

    def test_it_finds_better_than_it_began(self, fit: Any) -> None:
        def valley(config: dict[str, Any]) -> None:
            x, kind = config["model"]["x"], config["kind"]
            tune.report({"score": (x - 0.3) ** 2 + (kind != "good") + config["constant"]})

        space = {
            "model": {"x": tune.uniform(-1, 1), "n": tune.randint(1, 5)},
            "kind": tune.choice(["bad", "good"]),
            "constant": 1,
        }
        alg = self.make(seed=1)
        grid = fit(
            valley, space, search_alg=alg, num_samples=40, mode="min", max_concurrent_trials=2
        )
        assert len(grid) == 40
        best = grid.get_best_result()
        assert best.config["kind"] == "good"
        assert best.metrics["score"] < 1.05
        assert {result.config["model"]["n"] for result in grid} <= {1, 2, 3, 4}
        assert len(alg._ot_study.trials) == 40

    def test_it_maximizes_several(self, fit: Any) -> None:
        def two(config: dict[str, Any]) -> None:
            tune.report({"gain": config["x"], "cost": config["x"] ** 2})

        alg = self.make(metric=["gain", "cost"], mode=["max", "min"])
        options: dict[str, Any] = {"metric": None, "mode": None, "search_alg": alg}
        grid = fit(two, {"x": tune.uniform(0, 1)}, num_samples=6, **options)
        assert len(grid) == 6
        assert all(len(trial.values) == 2 for trial in alg._ot_study.trials)

    def test_a_function_defines_the_space(self, fit: Any) -> None:
        def space(trial: Any) -> dict[str, Any]:
            if trial.suggest_categorical("kind", ["a"]) == "a":
                trial.suggest_int("depth", 3, 3)
            return {"constant": 7}

        def uses(config: dict[str, Any]) -> None:
            tune.report({"score": config["depth"] + config["constant"]})

        alg = self.make(space=space, metric="score", mode="max")
        grid = fit(uses, None, num_samples=2, metric=None, mode=None, search_alg=alg)
        assert [result.metrics["score"] for result in grid] == [10, 10]

    def test_points_to_begin_with_and_points_that_are_known(self, fit: Any) -> None:
        def same(config: dict[str, Any]) -> None:
            tune.report({"score": config["x"]})

        space = {"x": tune.uniform(0, 10)}
        alg = self.make(
            space=space,
            metric="score",
            mode="max",
            points_to_evaluate=[{"x": 1.0}, {"x": 2.0}],
            evaluated_rewards=[1.0],
        )
        grid = fit(same, None, num_samples=3, metric=None, mode=None, search_alg=alg)
        assert grid[0].config["x"] == 2.0
        assert [trial.value for trial in alg._ot_study.trials[:2]] == [1.0, 2.0]

    def test_what_it_cannot_sample_is_named(self, fit: Any) -> None:
        def never(config: Any) -> None:
            tune.report({"score": 1})

        with pytest.raises(ValueError, match="'g' is a grid"):
            fit(never, {"g": tune.grid_search([1])}, search_alg=self.make())
        with pytest.raises(ValueError, match="no distribution for 'r'"):
            fit(never, {"r": tune.randn()}, search_alg=self.make())
        space = {"x": tune.uniform(0, 1)}
        with pytest.raises(ValueError, match="to one of them"):
            fit(never, space, search_alg=self.make(space=space))

    def test_a_restored_search_has_learnt(self, fit: Any, tmp_path: Path) -> None:
        def mends(config: dict[str, Any]) -> None:
            if not Path(config["mended"]).exists():
                raise ValueError("not yet")
            tune.report({"score": config["x"]})

        mended = tmp_path / "mended"
        space = {"x": tune.uniform(0, 1), "mended": str(mended)}
        grid = fit(mends, space, search_alg=self.make(seed=0), num_samples=3)
        assert grid.num_errors == 3
        mended.touch()
        tuner = tune.Tuner.restore(grid.experiment_path, trainable=mends, restart_errored=True)
        grid = tuner.fit()
        assert (len(grid), grid.num_errors) == (3, 0)

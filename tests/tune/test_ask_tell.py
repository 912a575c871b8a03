"""Searches that are asked and told from outside (beyond Ray's Tune)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import ray
from heliostat.tune.ask_tell import Study
from ray import tune
from ray.tune.schedulers import ASHAScheduler, MedianStoppingRule, PopulationBasedTraining

pytestmark = pytest.mark.contract("F11.07")

SPACE = {"x": tune.grid_search([1, 2, 3])}


def opened(folder: Path, space: dict[str, Any] | None = None, **options: Any) -> Study:
    given = {"metric": "loss", "mode": "min", "num_samples": 1, **options}
    return Study(folder, space or SPACE, **given)


def test_what_is_told_is_there(tmp_path: Path) -> None:
    with opened(tmp_path / "study") as study:
        while (trial := study.ask()) is not None:
            assert not study.tell(trial, {"loss": trial.config["x"] ** 2})
        assert study.is_finished
        grid = study.results()
        assert [result.metrics["loss"] for result in grid] == [1, 4, 9]
        assert grid.get_best_result().config == {"x": 1}


def test_a_study_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with opened(folder) as study:
        first, second = study.ask(), study.ask()
        assert first is not None
        assert second is not None
        study.tell(first, 5.0)
        study.tell(second, {"loss": 4.0}, done=False)
    with Study(folder) as study:
        again = study.ask()
        assert again is not None
        assert again.trial_id == second.trial_id, "it was not told to its end"
        assert not study.tell(second.trial_id, 3.0)
        third = study.ask()
        assert third is not None
        assert third.config == {"x": 3}
        study.tell_failed(third, "on purpose")
        assert study.ask() is None
        assert study.is_finished
        grid = study.results()
        assert [result.metrics.get("loss") for result in grid] == [5.0, 3.0, None]
        assert grid[1].metrics["training_iteration"] == 2
        assert (grid.num_errors, "on purpose" in str(grid.errors[0])) == (1, True)


def test_nothing_told_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from heliostat.tune.ask_tell import Study
        from ray import tune
        study = Study(sys.argv[1], {"x": tune.uniform(0, 1)}, metric="loss", mode="min")
        for value in range(5):
            study.tell(study.ask(), value)
        study.ask()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    folder = str(tmp_path / "study")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), folder], env={**os.environ}, check=False
    )
    assert done.returncode == -9
    with Study(folder) as study:
        assert [result.metrics.get("loss") for result in study.results()] == [0, 1, 2, 3, 4, None]
        waits, new = study.ask(), study.ask()
        assert waits is not None
        assert new is not None
        assert waits.trial_id.endswith("5")
        assert new.trial_id.endswith("6")


def test_the_scheduler_ends_bad_trials(tmp_path: Path) -> None:
    asha = ASHAScheduler(grace_period=1, reduction_factor=2, max_t=10)
    with opened(tmp_path / "study", scheduler=asha) as study:
        good, bad = study.ask(), study.ask()
        assert good is not None
        assert bad is not None
        assert study.tell(good, 1.0, done=False)
        assert not study.tell(bad, 9.0, done=False)
        with pytest.raises(ValueError, match="has ended"):
            study.tell(bad, 8.0)


def test_a_trial_that_the_scheduler_pauses_is_asked_for_again(tmp_path: Path) -> None:
    median = MedianStoppingRule(
        time_attr="training_iteration", grace_period=0, min_samples_required=1, hard_stop=False
    )
    with opened(tmp_path / "study", scheduler=median) as study:
        good, bad = study.ask(), study.ask()
        assert good is not None
        assert bad is not None
        assert study.tell(good, 1.0, done=False)
        assert not study.tell(bad, 9.0, done=False)
        assert bad.status == "PAUSED"
        study.tell(good, 1.0)
        left = {trial.trial_id for trial in (study.ask(), study.ask()) if trial is not None}
        assert bad.trial_id in left


class Halves(tune.search.Searcher):
    """Suggests half of the best value so far."""

    best = 8.0

    def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
        self._metric, self._mode = metric, mode
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {"x": self.best / 2}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        if result and not error:
            self.best = min(self.best, result["loss"])

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_text(str(self.best))

    def restore(self, checkpoint_path: str) -> None:
        self.best = float(Path(checkpoint_path).read_text())


def test_a_searcher_learns_and_keeps_what_it_learnt(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with opened(folder, {"y": 7}, search_alg=Halves(), num_samples=-1) as study:
        for expected in (4.0, 2.0):
            trial = study.ask()
            assert trial is not None
            assert trial.config == {"y": 7, "x": expected}
            study.tell(trial, trial.config["x"])
    with Study(folder) as study:
        trial = study.ask()
        assert trial is not None
        assert trial.config["x"] == 1.0


def test_many_ask_one_actor(ray_start: Any, tmp_path: Path) -> None:
    study = ray.remote(Study).remote(
        tmp_path / "study", SPACE, metric="loss", mode="min", num_samples=4
    )

    @ray.remote
    def works(study: Any) -> int:
        count = 0
        while (trial := ray.get(study.ask.remote())) is not None:
            ray.get(study.tell.remote(trial.trial_id, trial.config["x"]))
            count += 1
        return count

    assert sum(ray.get([works.remote(study) for _ in range(2)])) == 12
    assert len(ray.get(study.results.remote())) == 12


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    pbt = PopulationBasedTraining(hyperparam_mutations={"x": [1, 2]})
    with pytest.raises(tune.TuneError, match="pauses trials"):
        opened(tmp_path / "pbt", scheduler=pbt)
    with opened(tmp_path / "study") as study:
        with pytest.raises(ValueError, match="Another study"):
            opened(tmp_path / "study")
        with pytest.raises(ValueError, match="no trial 'nobody'"):
            study.tell("nobody", 1.0)
        trial = study.ask()
        assert trial is not None
        with pytest.raises(tune.TuneError, match="'loss'"):
            study.tell(trial, {"los": 1.0})
        study.tell(trial, {"loss": 1.0})
        assert study.results()[0].metrics["training_iteration"] == 1

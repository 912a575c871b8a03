"""PB2: the model, its place in PBT, and as searches use it (contract F11.08)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from heliostat.tune.schedulers.gaussian_process import best_gain
from ray import tune
from ray.tune.schedulers import create_scheduler
from ray.tune.schedulers.pb2 import PB2

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def test_the_model_finds_where_most_is_gained() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(60) * 10
    rows = [[float(n // 6), 1.0, value] for n, value in enumerate(values)]
    gains = [-((value - 7) ** 2) for value in values]
    (found,) = best_gain(rows, gains, [10.0, 1.0], [(0.0, 10.0)], rng=rng)
    assert abs(found - 7) < 1.5


def test_the_model_forgets_with_time() -> None:
    """What was good early is bad now."""
    rng = np.random.default_rng(1)
    rows, gains = [], []
    for time in range(30):
        for value in rng.random(6):
            rows.append([float(time), 0.0, float(value)])
            gains.append(float(value if time >= 15 else -value))
    (found,) = best_gain(rows, gains, [30.0, 0.0], [(0.0, 1.0)], rng=rng)
    assert found > 0.7


def test_what_was_just_chosen_is_not_chosen_again() -> None:
    rows = [[0.0, 0.0, 0.5], [1.0, 0.0, 0.5]]
    bounds = [(0.0, 1.0)]
    chosen: list[list[float]] = []
    for _ in range(4):
        chosen.append(
            best_gain(rows, [0.0, 0.0], [1.0, 0.0], bounds, chosen, np.random.default_rng(2))
        )
    places = sorted(value for (value,) in chosen)
    assert all(0 <= value <= 1 for value in places)
    assert len({round(value, 2) for value in places}) == 4


def pb2_of(**options: Any) -> PB2:
    given = {
        "time_attr": "training_iteration",
        "metric": "score",
        "mode": "max",
        "perturbation_interval": 1,
        "quantile_fraction": 0.5,
        "hyperparam_bounds": {"lr": [0.0, 1.0], "net": {"width": [1, 9]}},
        **options,
    }
    return PB2(**given)


def test_a_copy_has_values_within_the_bounds(search: Any) -> None:
    np.random.seed(3)
    configs: list[dict[str, Any]] = [{"k": 1, "net": {"width": 2}}, {"k": 2, "lr": 0.5, "net": {}}]
    machine = search(configs, pb2_of(), metric=None)
    bad = machine.choose()
    machine.started(bad)
    good = machine.choose()
    machine.started(good)
    assert 0 <= bad.config["lr"] <= 1
    assert bad.evaluated_params == {"lr": bad.config["lr"]}
    assert 1 <= good.evaluated_params["net/width"] <= 9
    good.config["net"]["width"] = 4
    for time in (1, 2, 3):
        for trial, score in ((good, 10.0 * time), (bad, 1.0)):
            trial.checkpoint_path = f"/kept/{trial.trial_id}/{time}"
            machine.reported(trial, {"training_iteration": time, "score": score})
    assert bad.handed.checkpoint_path == "/kept/t1/3"
    assert bad.config["k"] == 2, "the whole configuration is taken over"
    assert 0 <= bad.config["lr"] <= 1
    assert bad.config["lr"] != 0.5
    assert isinstance(bad.config["net"]["width"], int)
    assert 1 <= bad.config["net"]["width"] <= 9
    assert good.config == {"k": 2, "lr": 0.5, "net": {"width": 4}}


@pytest.mark.parametrize(
    ("bounds", "error"),
    [(None, tune.TuneError), ({"lr": [1]}, ValueError), ({"lr": [2, 1]}, ValueError)],
)
def test_bounds_are_pairs(bounds: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="hyperparam_bounds"):
        create_scheduler("pb2", hyperparam_bounds=bounds)


class Grows(tune.Trainable):
    """Grows fastest at 0.8."""

    def setup(self, config: dict[str, Any]) -> None:
        self.value = 0.0

    def step(self) -> dict[str, Any]:
        self.value += 1 - (self.config["rate"] - 0.8) ** 2
        return {"score": self.value, "done": self.iteration == 29}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"value": self.value}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.value = checkpoint["value"]


def test_a_population_finds_a_better_rate(fit: Any) -> None:
    np.random.seed(4)
    pb2 = PB2(
        time_attr="training_iteration",
        perturbation_interval=3,
        quantile_fraction=0.5,
        hyperparam_bounds={"rate": [0.0, 1.0]},
        synch=True,
    )
    grid = fit(Grows, {"rate": tune.grid_search([0.0, 0.1, 0.2, 0.3])}, scheduler=pb2)
    assert grid.num_errors == 0, grid.errors
    # At 0.3 alone it would be 22.5.
    assert grid.get_best_result().metrics["score"] > 24
    assert all(0 <= result.config["rate"] <= 1 for result in grid)
    lines = Path(grid.experiment_path, "pbt_global.txt").read_text().splitlines()
    assert all(0 <= json.loads(line)[5]["rate"] <= 1 for line in lines)

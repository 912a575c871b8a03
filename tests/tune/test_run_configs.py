"""Configurations of tune, train and air, given to searches and to trainers (F11.03)."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import air, train, tune

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [
    pytest.mark.contract("F11.03"),
    pytest.mark.heliostat_only("Ray takes some of these in its first generation alone"),
]

KINDS = {"tune": tune, "train": train, "air": air}


class Steps(tune.Trainable):
    """Fails in its second step, where it did not go on from a checkpoint."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n, self.is_first = 0, True

    def step(self) -> dict[str, Any]:
        self.n += 1
        if self.n == 2 and self.is_first:
            raise RuntimeError("once")
        return {"score": self.n, "done": self.n == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.n, self.is_first = checkpoint["n"], False


def search(run: Any) -> Any:
    (result,) = tune.Tuner(Steps, param_space={}, run_config=run).fit()
    return result


@pytest.mark.parametrize(
    ("of_run", "of_failure", "of_checkpoint"), list(itertools.product(KINDS, KINDS, KINDS))
)
def test_each_configuration_counts_in_a_search(
    ray_start: Any, tmp_path: Path, of_run: str, of_failure: str, of_checkpoint: str
) -> None:
    kept = {} if of_checkpoint == "train" else {"checkpoint_frequency": 1}
    if of_run == "train" and of_failure == "tune":
        with pytest.raises(ValueError, match="failure_config must be a FailureConfig"):
            train.RunConfig(failure_config=tune.FailureConfig())
        return
    if of_run == "train" and of_checkpoint == "tune":
        with pytest.raises(ValueError, match="checkpoint_config must be a CheckpointConfig"):
            train.RunConfig(checkpoint_config=tune.CheckpointConfig())
        return
    run = KINDS[of_run].RunConfig(
        name="search",
        storage_path=str(tmp_path),
        failure_config=KINDS[of_failure].FailureConfig(max_failures=1),
        checkpoint_config=KINDS[of_checkpoint].CheckpointConfig(num_to_keep=2, **kept),
    )
    result = search(run)
    if of_checkpoint == "train":  # no checkpoint: the second attempt fails like the first
        assert "once" in str(result.error)
        return
    assert result.error is None
    assert result.metrics["score"] == 4
    assert len(result.best_checkpoints) == 2


class Heard(tune.Callback):
    def __init__(self) -> None:
        self.results: list[Any] = []
        self.stop: Any = None

    def setup(self, stop: Any = None, **info: Any) -> None:
        self.stop = stop

    def on_trial_result(self, *, result: dict[str, Any], **about: Any) -> None:
        self.results.append(result["score"])


def function(config: dict[str, Any]) -> None:
    for n in range(100):
        print(f"said {n}")
        tune.report({"score": n})


def test_options_of_a_search_in_an_air_config(ray_start: Any, tmp_path: Path, capsys: Any) -> None:
    """The form of Ray's documentation for years: `air.RunConfig(stop=, callbacks=, verbose=, ...)`."""
    heard = Heard()
    run = air.RunConfig(
        name="search",
        storage_path=str(tmp_path),
        stop={"score": 2},
        callbacks=[heard],
        verbose=0,
        log_to_file=True,
    )
    grid = tune.Tuner(function, param_space={}, run_config=run).fit()
    assert grid[0].metrics["score"] == 2
    assert heard.results == [0, 1, 2]
    assert heard.stop == {"score": 2}
    assert "said 2" in Path(grid[0].path, "stdout").read_text()
    shown = capsys.readouterr().out.splitlines()
    assert all(line.startswith("(TrialActor") for line in shown), (
        "verbose=0: no state of the search"
    )


@pytest.mark.parametrize("kind", ["tune", "air"])
def test_fail_fast_of_each_kind(ray_start: Any, tmp_path: Path, kind: str) -> None:
    failure = KINDS[kind].FailureConfig(fail_fast="raise")
    run = KINDS[kind].RunConfig(storage_path=str(tmp_path), failure_config=failure)
    with pytest.raises(RuntimeError, match="once"):
        search(run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_train_failure_config_ends_no_search_at_the_first_failure(
    ray_start: Any, tmp_path: Path, kind: str
) -> None:
    """Its `fail_fast` says that it was not given; that is no True."""
    run = tune.RunConfig(
        storage_path=str(tmp_path), failure_config=KINDS[kind].FailureConfig(), verbose=0
    )
    grid = tune.Tuner(Steps, param_space={"x": tune.grid_search([1, 2, 3])}, run_config=run).fit()
    assert grid.num_errors == 3


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoint_configs_in_tune_run(ray_start: Any, tmp_path: Path, kind: str) -> None:
    found = tune.run(
        Steps,
        storage_path=str(tmp_path),
        checkpoint_config=KINDS[kind].CheckpointConfig(num_to_keep=1),
        checkpoint_freq=1,
        max_failures=1,
        verbose=0,
    )
    assert len(found.trials[0].checkpoints) == 1


def test_trainers_take_what_means_something_to_them(tmp_path: Path) -> None:
    from ray.train.data_parallel_trainer import DataParallelTrainer

    def trainer(**options: Any) -> Any:
        run = air.RunConfig(storage_path=str(tmp_path), name="run", **options)
        return DataParallelTrainer(lambda: None, run_config=run).run_config

    found = trainer(
        failure_config=air.FailureConfig(max_failures=3),
        checkpoint_config=air.CheckpointConfig(num_to_keep=2),
    )
    assert type(found) is train.RunConfig
    assert (found.name, found.failure_config.max_failures) == ("run", 3)
    assert found.checkpoint_config == train.CheckpointConfig(num_to_keep=2)
    assert type(trainer().failure_config) is train.FailureConfig
    for options in (
        {"stop": {"score": 1}},
        {"verbose": 1},
        {"log_to_file": True},
        {"sync_config": tune.SyncConfig()},
        {"failure_config": air.FailureConfig(fail_fast=True)},
        {"checkpoint_config": air.CheckpointConfig(checkpoint_frequency=1)},
        {"checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True)},
    ):
        with pytest.raises(DeprecationWarning):
            trainer(**options)
    with pytest.raises(ValueError, match="UserCallback"):
        trainer(callbacks=[Heard()])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: air.RunConfig(local_dir="x"), DeprecationWarning),
        (lambda: air.RunConfig(failure_config=3), ValueError),
        (lambda: air.FailureConfig(fail_fast="no"), ValueError),
        (lambda: air.FailureConfig(fail_fast=True, max_failures=2), ValueError),
        (lambda: air.CheckpointConfig(checkpoint_frequency=-1), ValueError),
        (lambda: air.CheckpointConfig(num_to_keep=0), ValueError),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, error: type[BaseException]) -> None:
    with pytest.raises(error):
        make()

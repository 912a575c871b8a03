"""What a search says when its folder, its disk or what it is given does not allow it (F11.01, F11.08)."""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import train, tune

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.01", "F11.08")


def score(config: dict[str, Any]) -> None:
    tune.report({"score": 1})


class Again(tune.Callback):
    """Begins another search in the folder of the one that calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.error = folder, None  # type: Path, BaseException | None

    def on_trial_start(self, **info: Any) -> None:
        run = tune.RunConfig(name=self.folder.name, storage_path=str(self.folder.parent))
        try:
            tune.Tuner(score, run_config=run).fit()
        except ValueError as error:
            self.error = error


def test_a_folder_is_of_one_search_at_a_time(fit: Any, tmp_path: Path) -> None:
    again = Again(tmp_path / "search")
    space = {"x": tune.grid_search([1, 2])}
    fit(score, space, run={"callbacks": [again]})
    assert f"(pid {os.getpid()} on" in str(again.error)
    assert "RunConfig(name=...)" in str(again.error)
    assert len(tune.Tuner.restore(str(tmp_path / "search"), score).get_results()) == 2


def test_a_later_search_says_where_the_earlier_one_is(
    fit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(score)
    with caplog.at_level(logging.WARNING, "heliostat"):
        fit(score)
    (kept,) = tmp_path.glob("search/experiment_log.pkl.*")
    assert str(kept) in caplog.text


def test_a_folder_that_cannot_be_made(ray_start: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = tune.RunConfig(name="search", storage_path=str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError, match=r"RunConfig\(storage_path=") as failed:
        tune.Tuner(score, run_config=run).fit()
    assert str(tmp_path / "file" / "search") in str(failed.value)


def test_a_full_disk_names_the_file_and_the_way_on(fit: Any, tmp_path: Path) -> None:
    trial = tmp_path / "search" / "trial"
    trial.mkdir(parents=True)
    (trial / "result.json").symlink_to("/dev/full")
    with pytest.raises(tune.TuneError) as failed:
        fit(score, trial_dirname_creator=lambda trial: "trial")
    message = str(failed.value)
    assert f"cannot write {trial / 'result.json'}: {os.strerror(errno.ENOSPC)}" in message
    folder = str(tmp_path / "search")
    assert f"tune.Tuner.restore({folder!r}, trainable=...).fit()" in message
    (trial / "result.json").unlink()
    (result,) = tune.Tuner.restore(folder, score).fit()
    assert result.metrics["score"] == 1


def test_a_parameter_that_cannot_be_pickled_is_named(fit: Any) -> None:
    with pytest.raises(tune.TuneError, match=r"param_space\['a/lock'\], a lock, cannot be pickled"):
        fit(score, {"a": {"lock": threading.Lock()}, "b": 1})
    with pytest.raises(TypeError, match=r"with_parameters\(lock=...\), a lock, cannot be pickled"):
        tune.with_parameters(score, lock=threading.Lock())


def test_what_is_for_trainers_names_what_is_for_trials(fit: Any) -> None:
    def reports(config: dict[str, Any]) -> None:
        train.report({"score": 1})

    (result,) = fit(reports)
    assert "In a trial call `tune.report`" in str(result.error)

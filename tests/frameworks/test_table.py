"""Library x parallelism x course: the final loss is that of one process."""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig

from tests.frameworks import work
from tests.frameworks.programs import PROGRAMS, Program
from tests.helpers.harness import wait_until

pytest.importorskip("torch")
CLUSTER = {"num_cpus": 2}
pytestmark = [pytest.mark.slow, pytest.mark.contract("F9.29")]


@ray.remote(num_cpus=1)
class Other:
    """Takes the room of a worker."""

    def ready(self) -> bool:
        return True


# `make test-extras` runs the whole table, and has every library; here runs what `of_test` says.
IS_WHOLE = bool(os.environ.get("HELIOSTAT_EXTRAS"))


def table() -> list[Any]:
    """Every program by every course that its library can go through."""
    return [
        pytest.param(program, course, id=f"{program.name}-{course}")
        for program in PROGRAMS
        for course in work.COURSES
        if course not in program.cannot and (IS_WHOLE or course in program.of_test)
    ]


@pytest.mark.parametrize(("program", "course"), table())
def test_the_loss_is_that_of_one_process(
    program: Program,
    course: str,
    ray_start: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")

    # It is imported by workers alone: TensorFlow and what torch imports end a process that has both.
    if importlib.util.find_spec(program.needs) is None:
        pytest.skip(f"{program.needs} is not installed")
    trainer: Any = getattr(importlib.import_module(program.trainer[0]), program.trainer[1])

    def fit() -> Any:
        return trainer(
            program.train,
            train_loop_config={"course": course, "folder": str(tmp_path)},
            scaling_config=ScalingConfig(
                num_workers=(1, 2) if course == "elastic" else 2,
                elastic_resize_monitor_interval_s=0.5,
            ),
            run_config=RunConfig(
                name="run",
                storage_path=str(tmp_path / "runs"),
                failure_config=FailureConfig(max_failures=1 if course == "killed" else 0),
            ),
        ).fit()

    sizes = [2]
    if course == "resumed":
        with pytest.raises(ray.train.TrainingFailedError, match="started again"):
            fit()
        (tmp_path / "again").touch()
        result = fit()
        sizes = [2, 2]
    elif course == "elastic":
        other = Other.remote()
        ray.get(other.ready.remote())

        def make_room() -> None:
            wait_until((tmp_path / "waits").exists, within=work.WITHIN_S, what="steps of one")
            ray.kill(other)
            shown = ""

            def is_noticed() -> bool:
                nonlocal shown
                shown += capsys.readouterr().err
                return "there is room for more workers" in shown

            wait_until(is_noticed, within=work.WITHIN_S, what="a run that notices the room")
            (tmp_path / "room").touch()

        thread = threading.Thread(target=make_room)
        thread.start()
        result = fit()
        thread.join()
        sizes = [1, 2]
    else:
        result = fit()
        sizes = [2, 2] if course == "killed" else [2]
    assert [int(size) for size in (tmp_path / "sizes").read_text().split()] == sizes
    assert result.return_value == pytest.approx(program.alone(), rel=1e-4)

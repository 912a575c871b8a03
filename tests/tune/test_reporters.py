"""What a search shows, and how users change it (contract F11.08)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from heliostat.tune.runner.trial import Trial
from ray import tune
from ray.train import TrainingFailedError

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def trainable(config: dict[str, Any]) -> None:
    if config["x"] == 3:
        raise ValueError("three is bad")
    tune.report({"score": config["x"] * 10, "other": 1})


def trials() -> list[Trial]:
    """One that ended, one that failed, one that runs."""
    made = []
    for n, status in enumerate(("TERMINATED", "ERROR", "RUNNING")):
        trial = Trial(
            "f",
            trial_id=f"t{n}",
            config={"x": n, "name": "a" * 30},
            evaluated_params={"x": n},
            status=status,
        )
        trial.last_result = {"score": n / 4, "training_iteration": n, "in": {"deep": 5}}
        trial.error_text = "Traceback\nValueError: bad" if status == "ERROR" else ""
        made.append(trial)
    return made


def test_an_error_is_shown_by_what_it_says_first() -> None:
    advice = "Training failed: 1 of 1 workers failed.\n  rank 0 raised E: x\n\nTo restart, set ..."
    failed = Trial("f", trial_id="t", config={}, status="ERROR")
    failed.error = TrainingFailedError(advice)
    failed.error_text = f"Traceback\nTrainingFailedError: {advice}"
    shown = "TrainingFailedError: Training failed: 1 of 1 workers failed. rank 0 raised E: x"
    assert failed.error_line() == shown


def lines_of(reporter: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    reporter.report(trials(), True, "Using X")
    return capsys.readouterr().out.splitlines()


def test_a_table_has_the_columns_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = tune.CLIReporter(
        metric_columns={"score": "points"},
        parameter_columns=["name"],
        metric="score",
        mode="max",
        sort_by_metric=True,
        max_progress_rows=2,
        max_column_length=10,
    )
    reporter.add_metric_column("in/deep")
    with pytest.raises(ValueError, match="score"):
        reporter.add_metric_column("score")
    lines = lines_of(reporter, capsys)
    assert "Using X" in lines
    assert any("f_t2 with score=0.5" in line for line in lines)
    at = next(n for n, line in enumerate(lines) if line.startswith("Trial "))
    assert [cell.strip() for cell in lines[at].split("|")] == [
        "Trial",
        "status",
        "name",
        "points",
        "in/deep",
    ]
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["f_t2", "f_t1"]
    assert "...aaaaaaa" in lines[at + 1]
    assert "1 more" in lines[at + 3]
    assert "f_t1 failed: ValueError: bad" in lines


def test_columns_are_found_where_none_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(tune.CLIReporter(), capsys)
    head = next(line for line in lines if line.startswith("Trial "))
    assert [cell.strip() for cell in head.split("|")] == [
        "Trial",
        "status",
        "x",
        "iter",
        "total time (s)",
        "score",
    ]


def test_reports_have_a_distance_and_a_last_one() -> None:
    reporter = tune.CLIReporter(max_report_frequency=1000)
    assert [reporter.should_report([]) for _ in range(2)] == [True, False]
    assert reporter.should_report([], done=True)
    quiet = tune.CLIReporter(print_intermediate_tables=False)
    assert not quiet.should_report([])
    assert quiet.should_report([], done=True)


def test_a_search_calls_the_reporter_of_the_user(fit: Any) -> None:
    class Notes(tune.ProgressReporter):
        def __init__(self) -> None:
            self.begun: Any = None
            self.seen: list[tuple[int, bool]] = []

        def setup(
            self,
            start_time: float | None = None,
            total_samples: int | None = None,
            metric: str | None = None,
            mode: str | None = None,
            **kwargs: Any,
        ) -> None:
            self.begun = (total_samples, metric, mode)

        def report(self, trials: list[Any], done: bool, *sys_info: str) -> None:
            assert all(isinstance(line, str) for line in sys_info)
            self.seen.append((len(trials), done))

    reporter = Notes()
    space = {"x": tune.grid_search([1, 2, 3])}
    grid = fit(trainable, space, run={"progress_reporter": reporter, "verbose": 1})
    assert grid.num_errors == 1
    assert reporter.begun == (3, "score", "max")
    assert reporter.seen[-1] == (3, True)
    assert [done for _, done in reporter.seen].count(True) == 1
    quiet = Notes()
    fit(trainable, {"x": 1}, run={"progress_reporter": quiet, "verbose": 0})
    assert quiet.seen == []


def test_tune_run_takes_a_reporter(
    ray_start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune.run(
        trainable,
        config={"x": 4},
        storage_path=str(tmp_path),
        progress_reporter=tune.CLIReporter(metric_columns=["score"]),
        verbose=1,
    )
    out = capsys.readouterr().out
    assert "== Status ==" in out
    assert "| 40" in out


def test_what_is_no_reporter_is_refused() -> None:
    with pytest.raises(ValueError, match="progress_reporter"):
        tune.RunConfig(progress_reporter="cli")


def test_a_notebook_shows_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython's documented names, in small."""
    import types

    shown: list[str] = []
    module = types.ModuleType("IPython.display")
    names = {"HTML": str, "display": shown.append, "clear_output": lambda wait: shown.clear()}
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    reporter = tune.JupyterNotebookReporter(metric_columns=["score"])
    reporter.report(trials(), False, "a < b")
    reporter.report(trials(), True)
    assert len(shown) == 1, "the second one replaces the first"
    assert "<th>score</th>" in shown[0]
    assert "<td>0.25</td>" in shown[0]

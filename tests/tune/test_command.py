"""The command ``tune``: tables of searches and their trials (F11.08)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune.cli import commands
from ray.tune.cli.scripts import main

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def score(config: dict[str, Any]) -> None:
    tune.report({"score": config["x"] * 1.5})
    if config["x"] == 3:
        raise RuntimeError("bad luck")


@pytest.fixture
def search(fit: Any, tmp_path: Path) -> str:
    """A search of three trials, of which one failed."""
    fit(score, {"x": tune.grid_search([1, 2, 3])})
    return str(tmp_path / "search")


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_trials_of_a_search(
    search: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    columns = "--columns=config/x,score,status"
    assert main(["ls", search, columns, "--sort=score", "--desc=True", "--limit=2"]) == 0
    assert cells(capsys.readouterr().out) == [
        ["config/x", "score", "status"],
        ["3", "4.5", "ERROR"],
        ["2", "3", "TERMINATED"],
    ]
    table = tmp_path / "table.csv"
    assert main(["list-trials", search, columns, "--filter=score < 2", "-o", str(table)]) == 0
    assert table.read_text().split() == ["config/x,score,status", "1,1.5,TERMINATED"]
    capsys.readouterr()
    assert main(["ls", search]) == 0
    assert cells(capsys.readouterr().out)[0][:2] == ["trial_id", "status"]


def test_searches_below_a_folder(search: str, capsys: pytest.CaptureFixture[str]) -> None:
    above = str(Path(search).parent)
    assert main(["lsx", above, "--columns=name,total_trials,error_trials"]) == 0
    assert cells(capsys.readouterr().out) == [
        ["name", "total_trials", "error_trials"],
        ["search", "3", "1"],
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--sort=nope"], "no column 'nope'"),
        (["--filter=score"], "'<column> <operator> <value>'"),
        (["--output=table.txt"], ".csv or .pkl"),
    ],
)
def test_what_makes_no_sense_is_said(
    search: str, capsys: pytest.CaptureFixture[str], options: list[str], error: str
) -> None:
    assert main(["ls", search, *options]) == 1
    assert error in capsys.readouterr().err


def test_a_folder_without_a_search(tmp_path: Path) -> None:
    with pytest.raises(tune.TuneError, match="no search in"):
        commands.list_trials(str(tmp_path))
    with pytest.raises(tune.TuneError, match="no search below"):
        commands.list_experiments(str(tmp_path))


def test_a_note_beside_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "touch")
    commands.add_note(str(tmp_path), "thoughts.txt")
    assert (tmp_path / "thoughts.txt").exists()
    monkeypatch.setenv("EDITOR", "false")
    with pytest.raises(tune.TuneError, match="ended with 1"):
        commands.add_note(str(tmp_path))

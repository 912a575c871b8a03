"""Plain Optuna programs whose study lies with the cluster (issue: beyond Ray's searchers)."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import clean_env, wait_until

optuna = pytest.importorskip("optuna", reason="the storage is one of Optuna's")

pytestmark = pytest.mark.heliostat_only("Ray's Tune has no storage for Optuna")

Begin = Callable[[str, int], subprocess.Popen[str]]

PROGRAM = """
import json, os, sys
import optuna, ray
from ray.tune.search.optuna import cluster_storage

address, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
ray.init(address=address)
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(study_name="shared", storage=cluster_storage(), load_if_exists=True)
done = []

def objective(trial):
    x = trial.suggest_float("x", -1, 1)
    trial.set_user_attr("who", who)
    trial.report(x, 0)
    done.append(trial.number)
    return x * x

print("ready", flush=True)
sys.stdin.readline()
study.optimize(objective, n_trials=count)
print(json.dumps(done), flush=True)
"""


@pytest.fixture
def address(ray_fresh: Callable[..., Any]) -> str:
    ray_fresh(num_cpus=2)
    return str(ray.get_runtime_context().gcs_address)


@pytest.fixture
def begin(address: str, tmp_path: Path) -> Iterator[Begin]:
    """Begins a plain program, which waits for a line before it optimizes."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    programs: list[subprocess.Popen[str]] = []

    def begin(who: str, count: int) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, str(file), address, who, str(count)],
            env=clean_env({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        programs.append(program)
        return program

    yield begin
    for program in programs:
        program.kill()
        program.communicate()


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def go(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def study() -> Any:
    from ray.tune.search.optuna import cluster_storage

    return optuna.load_study(study_name="shared", storage=cluster_storage())


def test_two_programs_optimize_one_study_at_once(begin: Begin) -> None:
    programs = [begin(who, 30) for who in ("a", "b")]
    assert [line_of(one) for one in programs] == ["ready", "ready"]
    for one in programs:
        go(one)
    numbers = [json.loads(line_of(one)) for one in programs]
    assert [one.wait(60) for one in programs] == [0, 0]
    assert sorted(numbers[0] + numbers[1]) == list(range(60)), "none is lost or doubled"
    trials = study().trials  # after both have ended
    assert [trial.number for trial in trials] == list(range(60))
    assert {trial.state.name for trial in trials} == {"COMPLETE"}
    for who, own in zip("ab", numbers, strict=True):
        assert [one.number for one in trials if one.user_attrs["who"] == who] == own
    assert all(trial.value == trial.params["x"] ** 2 for trial in trials)


def test_what_a_killed_program_was_told_is_there(begin: Begin) -> None:
    program = begin("killed", 1_000_000)
    assert line_of(program) == "ready"
    go(program)
    wait_until(lambda: len(study().get_trials(states=[optuna.trial.TrialState.COMPLETE])) >= 3)
    program.send_signal(signal.SIGKILL)
    program.wait(60)
    before = len(study().trials)
    other = begin("other", 5)
    assert line_of(other) == "ready"
    go(other)
    assert json.loads(line_of(other)) == list(range(before, before + 5))
    assert other.wait(60) == 0
    assert len(study().trials) == before + 5


def test_tasks_share_a_storage_that_was_sent_to_them(address: str) -> None:
    from ray.tune.search.optuna import cluster_storage

    storage = cluster_storage("sent")
    optuna.create_study(study_name="s", storage=storage)

    @ray.remote
    def optimize(storage: Any) -> list[int]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.load_study(study_name="s", storage=storage)
        numbers: list[int] = []

        def objective(trial: Any) -> float:
            numbers.append(trial.number)
            return float(trial.suggest_float("x", 0, 1))

        study.optimize(objective, n_trials=10)
        return numbers

    parts = ray.get([optimize.remote(storage) for _ in range(2)])
    assert sorted(parts[0] + parts[1]) == list(range(20))
    assert len(optuna.load_study(study_name="s", storage=storage).trials) == 20


def test_names_keep_storages_apart(address: str) -> None:
    from ray.tune.search.optuna import cluster_storage

    one, two = cluster_storage("one"), cluster_storage("two")
    optuna.create_study(study_name="s", storage=one)
    with pytest.raises(optuna.exceptions.DuplicatedStudyError):
        optuna.create_study(study_name="s", storage=cluster_storage("one"))
    with pytest.raises(KeyError):
        optuna.load_study(study_name="s", storage=two)
    assert pickle.loads(pickle.dumps(one)).get_study_id_from_name("s") == 0
    with pytest.raises(ValueError, match="not empty"):
        cluster_storage("")


def test_a_put_that_was_sent_twice_counts_once(address: str, monkeypatch: Any) -> None:
    from heliostat.experimental import internal_kv
    from heliostat.tune.search.optuna.journal import HeadJournal

    put = internal_kv._internal_kv_put

    def twice(*given: Any, **named: Any) -> bool:
        put(*given, **named)
        return put(*given, **named)

    journal = HeadJournal("twice")
    monkeypatch.setattr(internal_kv, "_internal_kv_put", twice)
    journal.append_logs([{"n": 1}, {"n": 1}])
    other = HeadJournal("twice")
    other.append_logs([{"n": 2}])
    assert list(journal.read_logs(0)) == [{"n": 1}, {"n": 1}, {"n": 2}]
    assert list(journal.read_logs(2)) == [{"n": 2}]


def test_without_optuna_the_error_says_what_to_install(monkeypatch: Any) -> None:
    from ray.tune.search.optuna import cluster_storage

    monkeypatch.setitem(sys.modules, "optuna.storages", None)
    with pytest.raises(ImportError, match=r"pip install 'heliostat\[optuna\]'"):
        cluster_storage()

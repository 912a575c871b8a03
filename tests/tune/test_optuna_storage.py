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

from tests.helpers.harness import clean_env, wait_until

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


# A program that knows nothing of clusters: Optuna's own, but for the URL.
PLAIN = """
import os, sys
import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(study_name="plain", storage=sys.argv[1], load_if_exists=True)

def objective(trial):
    x = trial.suggest_float("x", -1, 1)
    if len(sys.argv) > 3 and trial.number == int(sys.argv[3]):
        print("hanging", flush=True)
        sys.stdin.read()
    return x * x

study.optimize(objective, n_trials=int(sys.argv[2]))
print(len([t for t in study.trials if t.state.name == "COMPLETE"]), flush=True)
"""


@pytest.fixture
def plain(address: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins the plain program by the module that runs such programs."""
    file = tmp_path / "plain.py"
    file.write_text(PLAIN)
    programs: list[subprocess.Popen[str]] = []

    def begin(*given: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "heliostat.tune.search.optuna", str(file), *given]
        pipe = subprocess.PIPE
        env = clean_env({})
        programs.append(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True))
        return programs[-1]

    yield begin
    for program in programs:
        program.kill()
        program.communicate()


def test_a_plain_program_runs_with_a_url_alone(
    address: str, plain: Callable[..., subprocess.Popen[str]]
) -> None:
    url = f"heliostat://{address}/urls"
    programs = [plain(url, "8") for _ in range(2)]
    assert [one.wait(120) for one in programs] == [0, 0]
    assert max(int(line_of(one)) for one in programs) == 16, "the last one sees all"
    here = optuna.load_study(study_name="plain", storage="heliostat://urls")
    assert [trial.number for trial in here.trials] == list(range(16))
    assert optuna.get_all_study_names("heliostat://urls") == ["plain"]
    assert optuna.get_all_study_names("heliostat://other") == []
    optuna.delete_study(study_name="plain", storage="heliostat://urls")
    assert optuna.get_all_study_names("heliostat://urls") == []


def test_a_trial_whose_process_was_killed_fails_for_the_others(
    address: str, plain: Callable[..., subprocess.Popen[str]]
) -> None:
    from heliostat.experimental import internal_kv
    from heliostat.tune.search.optuna.journal import BEATS

    url = f"heliostat://{address}/beats?heartbeat_interval=1&grace_period=2"
    killed = plain(url, "4", "2")
    assert line_of(killed) == "hanging"
    storage = optuna.storages.get_storage("heliostat://beats?heartbeat_interval=1&grace_period=2")
    study_id = storage.get_study_id_from_name("plain")
    wait_until(lambda: internal_kv._internal_kv_list("beats/", namespace=BEATS))
    killed.kill()
    killed.wait(60)
    wait_until(lambda: storage._get_stale_trial_ids(study_id))
    other = plain(url, "3")
    assert other.wait(120) == 0
    assert line_of(other) == "5"
    states = [
        trial.state.name for trial in optuna.load_study(study_name="plain", storage=storage).trials
    ]
    assert states == ["COMPLETE"] * 2 + ["FAIL"] + ["COMPLETE"] * 3
    assert internal_kv._internal_kv_list("beats/", namespace=BEATS) == []


def tried_again(study: Any, trial: Any) -> None:
    study.enqueue_trial(trial.params)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_such_a_trial_had_is_tried_again(address: str) -> None:
    from ray.tune.search.optuna import cluster_storage

    storage = cluster_storage(
        "again", heartbeat_interval=1, grace_period=1, failed_trial_callback=tried_again
    )
    study = optuna.create_study(storage=pickle.loads(pickle.dumps(storage)))
    lost = optuna.trial.create_trial(
        state=optuna.trial.TrialState.RUNNING,
        params={"x": 0.25},
        distributions={"x": optuna.distributions.FloatDistribution(0, 1)},
    )
    storage.record_heartbeat(storage.create_new_trial(study._study_id, lost))
    wait_until(lambda: storage._get_stale_trial_ids(study._study_id))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    first, second = study.trials
    assert (first.state.name, second.state.name) == ("FAIL", "COMPLETE")
    assert second.params == {"x": 0.25}


def test_urls_of_another_form_are_refused(address: str) -> None:
    for url, why in [
        ("heliostat://host/name", "no port"),
        ("heliostat://name?interval=3", "interval=3 makes no sense"),
        ("heliostat://name?grace_period=soon", "grace_period=soon makes no sense"),
    ]:
        with pytest.raises(ValueError, match=why):
            optuna.create_study(storage=url)
    for url, seconds in [("heliostat://a", 30), ("heliostat://a?heartbeat_interval=0", None)]:
        assert optuna.storages.get_storage(url).get_heartbeat_interval() == seconds
    # The others are Optuna's.
    assert type(optuna.storages.get_storage(None)).__name__ == "InMemoryStorage"


def test_the_command_says_how_it_is_called() -> None:
    command = [sys.executable, "-m", "heliostat.tune.search.optuna"]
    ended = subprocess.run(command, env=clean_env({}), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "PROGRAM" in ended.stderr

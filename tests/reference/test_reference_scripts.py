"""The user's own scripts run as written, each in a process of its own."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import Finished

SCRIPTS = Path(__file__).parent / "scripts"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

ACTOR = r"Actor\(DistributedWorker, [0-9a-f]{32}\)"
REF = r"ObjectRef\([0-9a-f]{56}\)"


@pytest.fixture
def run(run_driver: Any, tmp_path: Path) -> Any:
    """Run a script of the documents; RAY_TMPDIR keeps it from finding another cluster."""

    def run(name: str, *args: str) -> Finished:
        # Unbuffered, `print` writes its text and the end of the line apart, and what workers print may
        # come between.
        env = {"OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0", "PYTHONUNBUFFERED": ""}
        done: Finished = run_driver(SCRIPTS / name, args=args, env=env, cwd=SCRIPTS)
        return done.check()

    return run


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def shown(done: Finished, name: str) -> str:
    return done.value(f"out[{name}]")


def worker_lines(done: Finished) -> list[str]:
    """What workers printed, as the driver's terminal shows it, without the pid."""
    found = re.findall(
        r"^\((\S+) pid=\d+(?:, ip=[\d.]+)?\) (.*)$", without_colours(done.output), re.MULTILINE
    )
    return [f"{name}: {line}" for name, line in found]


def check_worker_group(done: Finished) -> None:
    """What the notebook says about its cells, whatever the resources."""
    for name in ("test_worker", "rank_0"):
        assert re.fullmatch(ACTOR, shown(done, name))
    for name in ("metadata_ref", "address_ref", "check_ref"):
        assert re.fullmatch(REF, shown(done, name))
    assert re.fullmatch(rf"\[{REF}, {REF}\]", shown(done, "metadata_refs"))
    first, second = ast.literal_eval(shown(done, "metadata_list"))
    assert first == ast.literal_eval(shown(done, "metadata"))
    assert second == ast.literal_eval(shown(done, "metadata_1"))
    assert first[0] == second[0], "both workers are on one machine"
    assert re.fullmatch(r"[0-9a-f]{56}", first[0])
    address, port = ast.literal_eval(shown(done, "address"))
    assert re.fullmatch(r"[\d.]+", address)
    assert 0 < port < 65536
    assert shown(done, "is_initialized") == "True"
    assert shown(done, "allreduce") == "[[6.0], [6.0], [6.0], [6.0]]"
    assert shown(done, "after_cleanup") == "False"
    same = "[100.0, 200.0, 300.0, 400.0, 500.0]"
    for rank, times in {0: 2, 1: 2, 2: 1, 3: 1}.items():
        assert done.stdout.count(f"\n  Rank {rank}: {same}\n") == times
    lines = worker_lines(done)
    for rank in range(4):
        assert f"DistributedWorker: [Rank {rank}] After broadcast: {same}" in lines
        assert f"DistributedWorker: [Rank {rank}] After all-reduce: 6.0" in lines
        assert f"DistributedWorker: [Rank {rank}] Process group initialized successfully!" in lines
        assert f"DistributedWorker: [Rank {rank}] Destroying process group" in lines
    assert done.value("finished") == "yes"


@needs_torch
@pytest.mark.slow
@pytest.mark.contract(
    "F0.03", "F0.17", "F0.22", "F2.01", "F2.02", "F2.03", "F2.05", "F2.09", "F4.05"
)
def test_worker_group_on_cpus(run: Any) -> None:
    """Document 000 on four workers of one CPU each."""
    done = run("s000_worker_group.py", "cpu")
    check_worker_group(done)
    assert [ids for _, ids in ast.literal_eval(shown(done, "metadata_list"))] == [[], []]
    assert shown(done, "visible_after") == "['', '']"


@needs_torch
@pytest.mark.slow
@pytest.mark.contract("F0.05", "F2.02", "F2.06", "F2.09", "F4.02", "F4.03", "F4.04")
def test_worker_group_on_logical_gpus(run: Any) -> None:
    """Document 000 on four workers of one GPU each: every worker sees its own, then all."""
    done = run("s000_worker_group.py", "gpu")
    check_worker_group(done)
    ids = [ids for _, ids in ast.literal_eval(shown(done, "metadata_list"))]
    assert sorted(ids) == [[0], [1]]
    before = ast.literal_eval(shown(done, "visible_before"))
    assert before == [str(own[0]) for own in ids]
    assert shown(done, "visible_after") == "['0,1', '0,1']"
    four = ast.literal_eval(shown(done, "visible_of_four"))
    assert sorted(own for own, _ in four) == [[0], [1], [2], [3]]
    assert {visible for _, visible in four} == {"0,1,2,3"}
    assert "DistributedWorker: [Rank 3] Set CUDA_VISIBLE_DEVICES=0,1,2,3" in worker_lines(done)


@pytest.mark.parametrize("cpus", [1, 4])
@pytest.mark.contract("F1.01", "F1.02", "F1.05", "F2.01", "F0.22")
def test_policy_and_simulator(run: Any, cpus: int) -> None:
    """Document 001. With one CPU the task that waits in ``get`` has to give it back."""
    done = run("s001_policy.py", str(cpus))
    policies = [int(done.value("policy")), *ast.literal_eval(done.value("policies"))]
    # Three steps of one from anything in 1..20 towards 12.
    assert all(4 <= policy <= 17 for policy in policies)


@pytest.mark.contract("F1.01", "F1.06", "F0.09")
def test_guide_tasks(run: Any) -> None:
    assert "[0, 1, 4, 9]" in run("s002_tasks.py").stdout.splitlines()


@pytest.mark.contract("F2.01", "F2.04", "F0.09")
def test_guide_actor(run: Any) -> None:
    assert "10" in run("s002_actor.py").stdout.splitlines()


@needs_torch
@pytest.mark.slow
@pytest.mark.contract("F1.03", "F1.04", "F1.06")
def test_guide_ensemble(run: Any, tmp_path: Path) -> None:
    done = run("s002_ensemble.py", str(tmp_path))
    assert done.value("results") == "[None, None, None, None, None]"
    forgotten = done.value("forgotten")
    assert "cannot be called directly" in forgotten
    assert "trainer_fit.remote()" in forgotten
    for model in range(5):
        weight, bias, device = done.value(f"model{model}").split()
        assert (weight, bias) == ("3.00", "1.00")
        assert device in {"0", "1"}


@pytest.mark.contract("F1.06", "F0.21")
def test_guide_forgotten_get(run: Any) -> None:
    done = run("s002_forgotten_get.py")
    assert done.value("reached") == "the end"


@pytest.mark.contract("F1.04", "F2.07", "F2.08")
def test_guide_gpu_release(run: Any) -> None:
    done = run("s002_gpu_release.py")
    assert done.value("device") == "[0]"
    assert done.value("while_held") == "0"
    assert done.value("after_kill") == "ran"

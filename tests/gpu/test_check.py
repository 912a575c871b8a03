"""The check for GPUs, rehearsed: it must not fail on a silly mistake the day there is one.

The same checks run here on the CPU, small. What they say of speed is not judged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import is_alive

CHECK = Path(__file__).with_name("check.py")

EXTRA = """
import os, signal, time
from gpu_kit import Row, at_least, check, holds

@check("extra.good", "holds")
def good(bench):
    slow = at_least("speed", 1, "GB/s", 100, 0.9)
    return [holds("device", bench.device, "cpu"), slow]

@check("extra.bad", "does not hold")
def bad(bench):
    return [holds("sum", 3, 3), holds("device", bench.device, "cuda:0")]

@check("extra.raises", "raises")
def raises(bench):
    raise ValueError("the cause")

@check("extra.hangs", "hangs", limit_s=10)
def hangs(bench):
    print("came this far", flush=True)
    child = os.fork()
    print(f"child={child or os.getpid()}", flush=True)
    time.sleep(600)

@check("extra.dies", "dies")
def dies(bench):
    os.kill(os.getpid(), signal.SIGSEGV)

@check("extra.lacks", "lacks a module", needs=("no_such_module",))
def lacks(bench):
    return []

@check("extra.last", "runs all the same")
def last(bench):
    return [holds("folder", bench.folder.is_dir(), True)]
"""


def run(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECK), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def report(folder: Path, *arguments: str | Path) -> tuple[int, str, dict[str, Any]]:
    """The exit code, what was printed, and the checks of the report by their name."""
    out = folder / "report.json"
    done = run("--device", "cpu", "--json", out, *arguments)
    assert out.exists(), done.stderr
    written = json.loads(out.read_text())
    assert written["is_rehearsal"]
    return done.returncode, done.stdout, {one["name"]: one for one in written["checks"]}


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    path = tmp_path / "extra.py"
    path.write_text(EXTRA)
    return path


@pytest.mark.slow
def test_one_check_that_fails_or_hangs_or_dies_does_not_stop_the_others(
    tmp_path: Path, extra: Path
) -> None:
    rc, printed, checks = report(tmp_path, "--extra", extra, "extra.*")
    assert rc == 1
    assert [one["status"] for one in checks.values()] == [
        "passed",
        "failed",
        "failed",
        "failed",
        "failed",
        "not run",
        "passed",
    ]
    assert [row["holds"] for row in checks["extra.bad"]["rows"]] == [True, False]
    assert "ValueError: the cause" in checks["extra.raises"]["error"]
    hung = checks["extra.hangs"]["error"]
    assert hung.startswith("it took more than 10 s; it printed:\ncame this far")
    assert f"ended with {-signal.SIGSEGV}" in checks["extra.dies"]["error"]
    assert checks["extra.lacks"]["error"] == "needs no_such_module"
    assert "2 of 7 checks passed" in printed
    assert "REHEARSAL" in printed
    for part in ("extra.bad", "FAILS", "NOT RUN", "(not judged)", "the cause"):
        assert part in printed
    # What a check has started ends with it: it would hold memory of the GPU.
    child = int(hung.split("child=")[1].split()[0])
    deadline = time.monotonic() + 30
    while is_alive(child):
        assert time.monotonic() < deadline, f"process {child} of a check that hung is still there"
        time.sleep(0.05)


def test_checks_that_the_time_does_not_allow_are_named(tmp_path: Path, extra: Path) -> None:
    rc, _, checks = report(tmp_path, "--extra", extra, "--budget", "0", "extra.good", "extra.last")
    assert rc == 1
    assert {one["status"] for one in checks.values()} == {"not run"}
    assert {one["error"] for one in checks.values()} == {"the time of all checks was used up"}


def test_without_a_gpu_it_says_so_and_ends_with_77() -> None:
    done = run(CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 77, done.stderr
    assert done.stdout.startswith("No GPU here (")


def test_a_name_that_no_check_has_is_an_error() -> None:
    done = run("core.nonsense")
    assert done.returncode == 2
    assert "core.nonsense" in done.stderr


# `make test` rehearses the checks that reach most of what all of them use; `make test-extras` rehearses all.
IS_WHOLE = bool(os.environ.get("HELIOSTAT_EXTRAS"))
OF_TEST = {
    "core": ["core.shared", "core.death"],
    "data": ["data.shard"],
    "train": ["train.fsdp2", "train.recovery"],
    "serve": [],
    "tune": [],
}


def names() -> list[str]:
    return [line.split()[0] for line in run("--list").stdout.splitlines()]


def test_each_check_belongs_to_a_part_that_is_rehearsed() -> None:
    found = names()
    assert {name.partition(".")[0] for name in found} == set(OF_TEST)
    assert {name for some in OF_TEST.values() for name in some} <= set(found)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", [part for part in OF_TEST if IS_WHOLE or OF_TEST[part]])
def test_rehearsal(tmp_path: Path, part: str) -> None:
    of_part = [name for name in names() if name.startswith(f"{part}.")]
    wanted = of_part if IS_WHOLE else [name for name in of_part if name in OF_TEST[part]]
    rc, printed, checks = report(tmp_path, *wanted, "--budget", "1100")
    assert rc == 0, printed
    assert list(checks) == wanted
    assert all(one["rows"] for one in checks.values())


@pytest.mark.gpu
@pytest.mark.slow
def test_on_a_gpu(tmp_path: Path) -> None:
    done = run("--json", tmp_path / "report.json")
    if done.returncode == 77:
        pytest.skip(f"of make test: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout

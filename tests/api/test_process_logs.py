"""Logs of daemons, drivers and workers: one file a process, levels, JSON, and a folder that is gone."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from heliostat import _heliostat

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only(
    "the files are Heliostat's, though most have the names of Ray's"
)

LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [TDIWEC] \d+ \d+\] \(\w+\) \w+\.rs:\d+: .+"
)


def folder() -> Path:
    return Path(_heliostat.session()["session_dir"]) / "logs"


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def log_of(kind: str, pid: int) -> Path:
    """The log of that process, once it has one."""

    def found() -> list[Path]:
        return list(folder().glob(f"python-core-{kind}-*_{pid}.log"))

    (path,) = wait_until(found, what=f"the log of {kind} {pid}")
    return path


@ray.remote
class Pid:
    def get(self) -> int:
        return os.getpid()


@pytest.mark.contract("F15.06")
def test_each_process_has_its_file(ray_fresh: Callable[..., Any]) -> None:
    ray_fresh(num_cpus=2)
    actors = [Pid.remote() for _ in range(2)]
    pids = ray.get([actor.get.remote() for actor in actors])
    logs = [folder() / "node.log", log_of("driver", os.getpid())]
    logs += [log_of("worker", pid) for pid in pids]
    for log in logs:
        lines = text(log).splitlines()
        assert lines
        assert all(LINE.fullmatch(line) for line in lines), lines
    node = text(logs[0])
    # The head's daemon is one process with the control service.
    assert "(node) " in node
    assert "(control) " in node
    assert "(heliostat) " in node
    for pid in pids:
        assert re.search(rf"worker started worker_id=\w+ pid={pid}\n", node)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: "worker ended" in text(logs[0]), what="the end of the worker in the log")
    assert re.search(r"worker ended worker_id=\w+ exit=Signal\(9\)", text(logs[0]))
    wait_until(lambda: "actor ended" in text(logs[0]), what="the end of the actor in the log")


@pytest.mark.contract("F15.06")
def test_the_level_is_each_processs_own(
    ray_fresh: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon and its workers have that of the driver that started them, unless a worker's own
    runtime environment names another."""
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray_fresh(num_cpus=2)
    quiet = Pid.remote()
    loud = Pid.options(runtime_env={"env_vars": {"RAY_BACKEND_LOG_LEVEL": "debug"}}).remote()
    pids = ray.get([quiet.get.remote(), loud.get.remote()])
    log = log_of("worker", pids[1])
    wait_until(lambda: "call begins" in text(log), what="lines of the level debug")
    begun = [line for line in text(log).splitlines() if "call begins" in line]
    assert re.search(r" D \d+ \d+\] \(worker\) .* task_id=\w+ name=get", begun[0]), begun
    assert {path.name for path in folder().glob("*.log")} == {log.name}


@pytest.mark.contract("F15.06")
def test_lines_of_json(ray_fresh: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_BACKEND_LOG_JSON", "1")
    ray_fresh(num_cpus=1)
    pid = ray.get(Pid.remote().get.remote())
    logs = [folder() / "node.log", log_of("driver", os.getpid()), log_of("worker", pid)]
    for log in logs:
        rows = [json.loads(line) for line in text(log).splitlines()]
        assert rows
        for row in rows:
            assert {"asctime", "levelname", "component", "message", "filename", "lineno"} <= set(
                row
            )
    rows = [json.loads(line) for line in text(logs[0]).splitlines()]
    assert pid in [row["pid"] for row in rows if row["message"] == "worker started"]


@pytest.mark.contract("F15.06")
def test_a_level_that_is_none_is_named(
    ray_fresh: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "loud")
    ray_fresh(num_cpus=1)
    assert 'RAY_BACKEND_LOG_LEVEL="loud"' in capsys.readouterr().err
    assert 'RAY_BACKEND_LOG_LEVEL="loud"' in json.dumps(text(folder() / "node.log")).replace(
        "\\", ""
    )
    assert ray.get(Pid.remote().get.remote()) > 0


@pytest.mark.contract("F15.06")
def test_a_folder_that_cannot_be_written_ends_nothing(
    ray_fresh: Callable[..., Any], run_driver: Callable[..., Any]
) -> None:
    context = ray_fresh(num_cpus=2)
    before = Pid.remote()
    first = ray.get(before.get.remote())
    log = folder() / "node.log"
    # Folders in the place of files: whoever opens one fails, also as root.
    away = folder().rename(folder().with_name("logs.away"))
    folder().write_text("no folder")
    done = run_driver(
        f"""
        import ray
        ray.init({context.address_info["address"]!r})
        @ray.remote(max_retries=0)
        def one():
            return 1
        @ray.remote
        class A:
            def two(self):
                return 2
        print("value=" + str(ray.get(one.remote()) + ray.get(A.remote().two.remote())))
        """
    ).check()
    assert done.value("value") == "3"
    assert ray.get(before.get.remote()) == first
    folder().unlink()
    away.rename(folder())
    size = log.stat().st_size
    ray.get(Pid.remote().get.remote())
    wait_until(lambda: log.stat().st_size > size, what="lines in the folder that is there again")

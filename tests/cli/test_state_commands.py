"""``ray list``, ``get``, ``summary``, ``timeline`` and ``why``, from outside the driver.

Contract F6.17, F6.20.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import clean_env, wait_until

pytestmark = [
    pytest.mark.contract("F6.17"),
    pytest.mark.heliostat_only("Ray's commands ask its dashboard, which the tests do not start"),
]
CLI = str(Path(sys.executable).parent / "ray")

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, ray_fresh: Callable[..., Any]) -> Run:
    """The command against a cluster of the test's own; what it prints."""
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "ray"))
    env = clean_env({"RAY_TMPDIR": str(tmp_path)})

    def command(*args: str, fails: bool = False) -> str:
        done = subprocess.run(
            [CLI, *args], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode != 0) == fails, f"{args}: {done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    return command


def in_terminal(columns: int, folder: Path, *args: str) -> list[str]:
    """The lines that a command prints into a terminal of that width."""
    pid, terminal = pty.fork()
    if pid == 0:
        env = clean_env({"RAY_TMPDIR": str(folder), "TERM": "xterm"})
        env.pop("COLUMNS", None)
        sized = 'stty cols "$0"; exec "$@"'
        os.execve("/bin/sh", ["sh", "-c", sized, str(columns), CLI, *args], env)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # its other end is closed
        pass
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown.decode().splitlines()


@ray.remote(num_cpus=0)
def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@ray.remote
def after(_: Any) -> int:
    return 1


@ray.remote(num_cpus=0)
class Counter:
    def up(self) -> int:
        return 1


def test_tasks_are_listed_got_counted_and_explained(run: Run, tmp_path: Path) -> None:
    running = until.remote(str(tmp_path / "go"))
    pending = after.remote(running)
    task = running.task_id().hex()
    rows = wait_until(
        lambda: [
            row
            for row in json.loads(run("list", "tasks", "--format", "json", "-f", "state=RUNNING"))
            if row["task_id"] == task
        ]
    )
    assert rows[0]["type"] == "NORMAL_TASK"
    assert rows[0]["why"] is None, "for detail only"
    table = run("list", "tasks", "--filter", f"task_id!={task}")
    assert re.match(r"TASK_ID +ATTEMPT_NUMBER +NAME +STATE", table)
    assert pending.task_id().hex() in table
    assert task not in table.replace(f"ObjectRef({task}", "")
    for columns in (80, 120):
        shown = in_terminal(columns, tmp_path, "list", "tasks")
        assert max(map(len, shown)) <= columns, shown
        assert any(pending.task_id().hex() in line and "after" in line for line in shown), shown
    whole = in_terminal(80, tmp_path, "list", "tasks", "--wide")
    assert re.match(r"TASK_ID +ATTEMPT_NUMBER +.* +ERROR_TYPE", whole[0]), whole
    detail = run("get", "tasks", pending.task_id().hex())
    assert "waits for its argument" in detail
    summary = json.loads(run("summary", "tasks", "--format", "json"))
    assert summary["total_tasks"] == 2

    for which in (task, running.hex()):
        assert re.search(
            r"until was sent to .* running there for .* \(pid \d+\)", run("why", which)
        )
    assert "which until makes" in run("why", pending.hex())
    (tmp_path / "go").touch()
    assert ray.get(pending) == 1
    assert "after returned" in run("why", pending.task_id().hex())
    out = tmp_path / "trace.json"
    assert str(out) in run("timeline", "-o", str(out))
    assert {"until", "after"} <= {event["name"] for event in json.loads(out.read_text())}


def test_actors_nodes_and_workers_are_listed_and_explained(run: Run) -> None:
    counter = Counter.remote()
    ray.get(counter.up.remote())
    (actor,) = json.loads(run("list", "actors", "--format=json"))
    assert (actor["class_name"], actor["state"]) == ("Counter", "ALIVE")
    assert f"(pid {actor['pid']})." in run("why", actor["actor_id"])
    (worker,) = json.loads(run("list", "workers", "--format=json", f"--filter=pid={actor['pid']}"))
    assert worker["is_alive"] is True
    assert f"pid {actor['pid']}" in run("why", worker["worker_id"])
    (node,) = json.loads(run("list", "nodes", "--format=json"))
    assert node["resources_total"]["CPU"] == 2
    assert "is ALIVE" in run("why", node["node_id"])
    assert "job_id:" in run("list", "jobs", "--format=yaml")
    impossible = Counter.options(resources={"unobtainium": 1}).remote()
    which = impossible._actor_id.hex()
    text = wait_until(lambda: _if("unobtainium", run("why", which)))
    assert "is not there yet: no node has 1 unobtainium (none has any)" in text
    assert "no node has 1 unobtainium (none has any)" in wait_until(
        lambda: _if("unobtainium (", run("status"))
    )


def _if(part: str, text: str) -> str | None:
    return text if part in text else None


def test_what_is_not_there_says_so(run: Run) -> None:
    assert "not an id" in run("why", "12", fails=True)
    assert "No living process knows the task" in run("why", "ab" * 24, fails=True)
    assert "tasks, objects, workers, actors, nodes, jobs" in run("list", "cats", fails=True)
    assert "None of the actors" in run("get", "actors", "ab" * 16, fails=True)
    assert "None of the actors" in run("get", "actor", "ab" * 16, fails=True)
    ref = ray.put(1)
    assert "no column" in run("list", "objects", "-f", "colour=red", fails=True)
    assert ref.hex() in run("list", "objects")

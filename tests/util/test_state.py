"""The state API: lists, single rows, summaries, the timeline (contract F6.17, F6.18, F6.20, F14.04)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import wait_until
from ray.util import state
from ray.util.state.exception import RayStateApiException

pytestmark = [
    pytest.mark.contract("F6.18", "F14.04"),
    pytest.mark.heliostat_only("Ray answers through its dashboard, which the tests do not start"),
    pytest.mark.usefixtures("ray_start"),
]


@ray.remote
def quick(n: int) -> int:
    return n


@ray.remote(max_retries=0)
def failing() -> None:
    raise ValueError("no")


@ray.remote(num_cpus=0)
def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def up(self) -> int:
        self.n += 1
        return self.n

    def spawn(self, path: str) -> list[Any]:
        return [until.remote(path)]


def of_name(name: str, **options: Any) -> list[Any]:
    rows = state.list_tasks(limit=10_000, detail=True, **options)
    return [row for row in rows if name in row.name]


def test_tasks_are_listed_from_their_submission_to_their_end(tmp_path: Path) -> None:
    go = tmp_path / "go"
    running = until.remote(str(go))
    waiting = quick.remote(running)
    assert ray.get([quick.remote(n) for n in range(3)]) == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        ray.get(failing.remote())
    (row,) = wait_until(
        lambda: [row for row in of_name("until") if row.state == "RUNNING" and row.worker_pid]
    )
    assert row.task_id == running.task_id().hex()
    assert row.type == "NORMAL_TASK"
    assert row.node_id == ray.get_runtime_context().get_node_id()
    assert row.start_time_ms > 0
    assert row.end_time_ms is None
    assert row.worker_pid not in (0, os.getpid())
    (pending,) = [row for row in of_name("quick") if row.state == "PENDING_ARGS_AVAIL"]
    assert pending.task_id == waiting.task_id().hex()
    assert "waits for its argument" in pending.why
    done = of_name("quick", filters=[("state", "=", "finished")])
    assert len(done) == 3
    assert all(row.start_time_ms <= row.end_time_ms for row in done)
    (failed,) = of_name("failing")
    assert failed.state == "FAILED"
    assert failed.error_type == "TASK_EXECUTION_EXCEPTION"
    go.touch()
    ray.get(running)
    found = state.get_task(running.task_id().hex())
    assert not isinstance(found, list)
    assert found is not None
    assert found.state == "FINISHED"
    assert state.get_task("00" * 24) is None


def test_calls_of_actors_and_nested_calls_are_listed(tmp_path: Path) -> None:
    counter = Counter.remote()
    (inner,) = ray.get(counter.spawn.remote(str(tmp_path / "go")))
    ray.get(counter.up.remote())
    (up,) = of_name("up")
    assert up.type == "ACTOR_TASK"
    assert up.actor_id == counter._actor_id.hex()
    nested = state.get_task(inner.task_id().hex())
    assert nested is not None, "it is the actor's, and the actor is asked"
    (tmp_path / "go").touch()
    ray.get(inner)


def test_filters_limits_and_details() -> None:
    ray.get([quick.remote(n) for n in range(5)])
    assert len(state.list_tasks(limit=2)) == 2
    assert state.list_tasks(limit=1)[0].required_resources is None, "for detail only"
    assert state.list_tasks(limit=1, detail=True)[0].required_resources is not None
    assert state.list_tasks(filters=[("type", "!=", "NORMAL_TASK"), ("name", "=", "quick")]) == []
    with pytest.raises(ValueError, match="predicate"):
        state.list_tasks(filters=[("state", "<", "x")])
    with pytest.raises(RayStateApiException, match="no column"):
        state.list_tasks(filters=[("nonsense", "=", "x")])
    with pytest.raises(ValueError, match="10000"):
        state.list_tasks(limit=100_000)


def test_objects_say_who_holds_them_and_how_large_they_are() -> None:
    small, big = ray.put(1), ray.put(b"x" * 300_000)
    rows = {row.object_id: row for row in state.list_objects(limit=10_000)}
    assert rows[small.hex()].reference_type == "LOCAL_REFERENCE"
    assert rows[big.hex()].object_size >= 300_000
    assert rows[big.hex()].pid == os.getpid()
    assert rows[big.hex()].type == "DRIVER"
    value = ray.get(big)
    assert value is not None
    (row,) = state.get_objects(big.hex())
    assert row.task_status == "FINISHED"


def test_workers_are_listed_with_their_ends() -> None:
    counter = Counter.remote()
    ray.get(counter.up.remote())
    mine = [row for row in state.list_workers(limit=1000) if row.pid == os.getpid()]
    assert [row.worker_type for row in mine] == ["DRIVER"]
    (info,) = [row for row in state.list_actors() if row.actor_id == counter._actor_id.hex()]
    (worker,) = [row for row in state.list_workers(limit=1000) if row.pid == info.pid]
    assert worker.is_alive
    ray.kill(counter)

    def ended() -> Any:
        found = state.get_worker(worker.worker_id)
        return found if found is not None and not found.is_alive else None

    assert wait_until(ended).exit_type == "INTENDED_USER_EXIT"


def test_summaries_count_by_name_and_state() -> None:
    ray.get([quick.remote(n) for n in range(3)])
    counter = Counter.remote()
    ray.get(counter.up.remote())
    tasks = state.summarize_tasks()["cluster"]
    (name,) = [name for name in tasks["summary"] if name.endswith("quick")]
    assert tasks["summary"][name]["state_counts"]["FINISHED"] >= 3
    assert tasks["total_tasks"] >= 3
    assert tasks["total_actor_tasks"] >= 1
    actors = state.summarize_actors()["cluster"]
    assert actors["summary"]["Counter"]["state_counts"]["ALIVE"] >= 1
    kept = ray.put(b"x" * (1 << 20))
    objects = state.summarize_objects()["cluster"]
    assert objects["total_size_mb"] >= 1
    assert kept is not None


def test_what_ended_is_forgotten_in_time() -> None:
    """LIMIT-1: a process remembers its latest 10,000 tasks."""
    for _ in range(6):
        ray.get([quick.remote(n) for n in range(2_000)])
    rows = state.list_tasks(limit=10_000)
    assert len(rows) == 10_000


@pytest.mark.contract("F6.20")
def test_the_timeline_is_a_chrome_trace(tmp_path: Path) -> None:
    before = time.time() * 1e6
    ray.get([quick.remote(n) for n in range(3)])
    events = ray.timeline()
    assert events is not None
    mine = [
        e for e in events if e["ph"] == "X" and e["name"].endswith("quick") and e["ts"] >= before
    ]
    assert len(mine) == 3
    assert all(event["dur"] >= 0 and event["pid"].startswith("Node ") for event in mine)
    path = tmp_path / "trace.json"
    assert ray.timeline(str(path)) is None
    assert len(json.loads(path.read_text())) >= len(events)

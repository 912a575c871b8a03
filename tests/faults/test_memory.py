"""The memory monitor: who ends, what the error says, and what is tried again (contract F5.07, F5.04).

The node is given a control group to watch whose files the test writes: how full the memory "is" does
not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import OutOfMemoryError, RayActorError

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only("the memory that counts is a file that the test writes")

Fill = Callable[[float], None]


@pytest.fixture
def fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_fresh: Callable[..., Any]
) -> Iterator[Fill]:
    """A cluster of 4 CPUs with memory of 1 GB; call it with the part that is in use."""
    group = tmp_path / "group"
    group.mkdir()

    def set_part(part: float) -> None:
        new = group / "memory.current.new"
        new.write_text(f"{int(part * (1 << 30))}\n")
        new.rename(group / "memory.current")

    (group / "memory.max").write_text(f"{1 << 30}\n")
    set_part(0.1)
    monkeypatch.setenv("HELIOSTAT_memory_cgroup", str(group))
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.9")
    # Long enough to empty the memory after a worker has ended and before the next would have to.
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "3000")
    ray_fresh(num_cpus=4)
    yield set_part
    set_part(0.1)


@ray.remote
def hold(folder: str, name: str, seconds: float = 60) -> str:
    """Says that it runs, and runs."""
    (Path(folder) / f"{name}.{time.time_ns()}").touch()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return name


def began(folder: Path, name: str, times: int = 1) -> None:
    wait_until(lambda: len(list(folder.glob(f"{name}.*"))) >= times, what=name)


def test_a_task_without_retries_says_who_used_what_and_what_to_change(
    fill: Fill, tmp_path: Path
) -> None:
    ref = hold.options(max_retries=0).remote(str(tmp_path), "only")
    began(tmp_path, "only")
    fill(0.95)
    with pytest.raises(OutOfMemoryError) as raised:
        ray.get(ref, timeout=30)
    text = str(raised.value)
    for part in (
        "low on memory",
        "0.95 GB of 1.00 GB",
        "threshold of 0.90",
        "PID\tMEM(GB)\tCOMMAND",
        "num_cpus",
        "max_retries",
        "RAY_memory_usage_threshold",
        "RAY_memory_monitor_refresh_ms",
    ):
        assert part in text, text


def test_the_newest_retriable_task_ends_and_runs_again_later(fill: Fill, tmp_path: Path) -> None:
    older = hold.remote(str(tmp_path), "older")
    began(tmp_path, "older")
    newer = hold.remote(str(tmp_path), "newer")
    began(tmp_path, "newer")
    fill(0.95)
    text = wait_until(lambda: _why(newer, "is tried again in"))
    assert "Attempt 1 of 4 ended" in text
    assert "low on memory" in text
    fill(0.1)
    began(tmp_path, "newer", times=2)
    (tmp_path / "go").touch()
    assert ray.get([older, newer], timeout=30) == ["older", "newer"]
    assert len(list(tmp_path.glob("older.*"))) == 1, "one worker at a time, the newest first"


def _why(ref: Any, part: str) -> str | None:
    text = str(ray.util.why(ref))
    return text if part in text else None


def test_what_can_be_tried_again_goes_before_what_cannot(fill: Fill, tmp_path: Path) -> None:
    first = hold.remote(str(tmp_path), "first")
    began(tmp_path, "first")
    second = hold.remote(str(tmp_path), "second")
    began(tmp_path, "second")
    newest = hold.options(max_retries=0).remote(str(tmp_path), "newest")
    began(tmp_path, "newest")
    fill(0.95)
    wait_until(lambda: _why(second, "is tried again in"))
    fill(0.1)
    (tmp_path / "go").touch()
    assert ray.get([first, second, newest], timeout=30) == ["first", "second", "newest"]
    assert len(list(tmp_path.glob("newest.*"))) == 1


def test_an_actor_that_is_ended_says_so(fill: Fill) -> None:
    @ray.remote
    class Hungry:
        def pid(self) -> int:
            import os

            return os.getpid()

        def hang(self) -> None:
            time.sleep(60)

    actor = Hungry.remote()
    ray.get(actor.pid.remote())
    ref = actor.hang.remote()
    fill(0.95)
    with pytest.raises(RayActorError, match="low on memory"):
        ray.get(ref, timeout=30)
    fill(0.1)


def test_it_can_be_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_fresh: Callable[..., Any]
) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "memory.max").write_text("1000\n")
    (group / "memory.current").write_text("1000\n")
    monkeypatch.setenv("HELIOSTAT_memory_cgroup", str(group))
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    ray_fresh(num_cpus=1)
    assert ray.get(hold.remote(str(tmp_path), "quiet", 0.5), timeout=30) == "quiet"
    assert len(list(tmp_path.glob("quiet.*"))) == 1

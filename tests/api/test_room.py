"""Room in the object store for the arguments of running tasks, and what happens when there is none."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError

from tests.helpers.harness import IS_HELIOSTAT, wait_until

MB = 1_000_000


def filled(mb: int, value: int) -> Any:
    return np.full(mb * MB, value, np.uint8)


def runs_until(value: Any, folder: str, number: int) -> int:
    """Says that it runs and goes on when it may, without telling the runtime that it waits."""
    Path(folder, f"begun-{number}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return int(value[-1])


def begun(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("begun-*"))


@pytest.mark.contract("F3.05", "F4.01")
@pytest.mark.parametrize(
    ("mb", "side_by_side"), [(30, 2), (20, 3), (45, 1), (80, 1)], ids="{}".format
)
def test_only_as_many_tasks_run_as_leave_room(
    ray_fresh: Callable[..., Any], tmp_path: Path, mb: int, side_by_side: int
) -> None:
    ray_fresh(num_cpus=4, object_store_memory=100 * MB)
    run = ray.remote(runs_until)
    refs = [run.remote(ray.put(filled(mb, i)), str(tmp_path), i) for i in range(4)]
    wait_until(lambda: len(begun(tmp_path)) >= side_by_side)
    if IS_HELIOSTAT:

        def waits() -> int:
            texts = [ray.util.why(ref) for ref in refs]
            return sum("waits for room for its arguments: they have" in text for text in texts)

        # The rest is behind those that wait, on workers that have a task already.
        wait_until(lambda: waits() >= 1)
        text = next(t for t in map(ray.util.why, refs) if "waits for room" in t)
        assert "may have 70000000 of the object store's 100000000" in text, text
    assert len(begun(tmp_path)) == side_by_side
    (tmp_path / "go").touch()
    assert ray.get(refs, timeout=60) == [0, 1, 2, 3]


@pytest.mark.contract("F3.05")
def test_an_argument_that_all_share_holds_nobody_up(
    ray_fresh: Callable[..., Any], tmp_path: Path
) -> None:
    ray_fresh(num_cpus=4, object_store_memory=100 * MB)
    shared = ray.put(filled(60, 7))
    run = ray.remote(runs_until)
    refs = [run.remote(shared, str(tmp_path), i) for i in range(4)]
    wait_until(lambda: len(begun(tmp_path)) == 4)
    (tmp_path / "go").touch()
    assert ray.get(refs, timeout=60) == [7] * 4


@pytest.mark.contract("F0.11", "F3.05")
@pytest.mark.parametrize(("part", "side_by_side"), [("0.35", 1), ("1", 3), ("0", 4)])
def test_the_part_for_arguments_is_a_knob(
    ray_fresh: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    side_by_side: int,
) -> None:
    monkeypatch.setenv("RAY_max_task_args_memory_fraction", part)
    ray_fresh(num_cpus=4, object_store_memory=100 * MB)
    run = ray.remote(runs_until)
    refs = [run.remote(ray.put(filled(30, i)), str(tmp_path), i) for i in range(4)]
    wait_until(lambda: len(begun(tmp_path)) >= side_by_side)
    if IS_HELIOSTAT and side_by_side < 4:
        wait_until(lambda: any("waits for room" in ray.util.why(ref) for ref in refs))
    assert len(begun(tmp_path)) == side_by_side
    (tmp_path / "go").touch()
    assert ray.get(refs, timeout=60) == [0, 1, 2, 3]


@pytest.mark.contract("F3.05")
@pytest.mark.parametrize(
    ("kind", "result_mb", "spills"),
    [
        *((kind, mb, True) for kind in ("task", "actor", "generator") for mb in (0, 30)),
        # Without a disk large results would have to wait for each other's room.
        *((kind, 0, False) for kind in ("task", "generator") if IS_HELIOSTAT),
    ],
)
@pytest.mark.parametrize("argument_mb", [30, 60])
def test_all_arguments_and_results_come_through(
    ray_fresh: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    argument_mb: int,
    kind: str,
    result_mb: int,
    spills: bool,
) -> None:
    """Arguments that are passed by value live for as long as their call; so do results that are read."""
    if not spills:
        monkeypatch.setenv("RAY_local_fs_capacity_threshold", "0.000001")
    ray_fresh(num_cpus=3, object_store_memory=100 * MB)

    def more(values: Any, size: int) -> Any:
        return np.full(size + 1, values[-1] + 1, np.uint8)

    class Maker:
        def more(self, values: Any, size: int) -> Any:
            return np.full(size + 1, values[-1] + 1, np.uint8)

    def each(values: Any, size: int) -> Any:
        yield np.full(size + 1, values[-1] + 1, np.uint8)

    size = result_mb * MB
    if kind == "actor":
        actors = [ray.remote(Maker).remote() for _ in range(3)]
        calls = [actors[i % 3].more.remote(filled(argument_mb, i), size) for i in range(6)]
    else:
        made = ray.remote(more if kind == "task" else each)
        calls = [made.remote(filled(argument_mb, i), size) for i in range(6)]
    for i, call in enumerate(calls):
        ref = next(call) if kind == "generator" else call
        assert int(ray.get(ref, timeout=120)[-1]) == i + 1


@pytest.mark.contract("F1.07", "F3.05")
@pytest.mark.heliostat_only(
    "on Ray the arguments of a task that waits for others count, and those wait"
)
def test_nested_tasks_get_their_arguments_while_their_parents_wait(
    ray_fresh: Callable[..., Any],
) -> None:
    ray_fresh(num_cpus=2, object_store_memory=100 * MB)

    @ray.remote
    def deep(values: Any, depth: int) -> int:
        if depth == 0:
            return int(values[-1])
        below = deep.remote(ray.put(filled(60, depth)), depth - 1)
        return int(values[-1]) + ray.get(below, timeout=150)

    assert ray.get(deep.remote(ray.put(filled(60, 4)), 3), timeout=150) == 4 + 3 + 2 + 1


@pytest.mark.contract("F2.01", "F3.05")
def test_calls_of_actors_that_need_each_other_run_side_by_side(
    ray_fresh: Callable[..., Any], tmp_path: Path
) -> None:
    ray_fresh(num_cpus=4, object_store_memory=100 * MB)

    @ray.remote
    class Member:
        def meet(self, values: Any, folder: str, number: int) -> int:
            return runs_until(values, folder, number)

    members = [Member.remote() for _ in range(4)]
    refs = [m.meet.remote(ray.put(filled(30, i)), str(tmp_path), i) for i, m in enumerate(members)]
    wait_until(lambda: len(begun(tmp_path)) == 4)
    (tmp_path / "go").touch()
    assert ray.get(refs, timeout=60) == [0, 1, 2, 3]


@pytest.mark.contract("F1.11", "F3.05")
def test_tasks_that_wait_for_room_can_be_cancelled(
    ray_fresh: Callable[..., Any], tmp_path: Path
) -> None:
    ray_fresh(num_cpus=4, object_store_memory=100 * MB)
    run = ray.remote(runs_until)
    first = run.remote(ray.put(filled(60, 1)), str(tmp_path), 1)
    wait_until(lambda: begun(tmp_path) == ["begun-1"])
    second = run.remote(ray.put(filled(60, 2)), str(tmp_path), 2)
    if IS_HELIOSTAT:
        wait_until(lambda: "waits for room" in ray.util.why(second))
    ray.cancel(second)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(second, timeout=60)
    third = run.remote(ray.put(filled(60, 3)), str(tmp_path), 3)
    (tmp_path / "go").touch()
    assert ray.get([first, third], timeout=60) == [1, 3]
    assert begun(tmp_path) == ["begun-1", "begun-3"]


@pytest.mark.contract("F3.05", "F3.06")
@pytest.mark.heliostat_only("the disk of Ray's session is the machine's")
@pytest.mark.parametrize("reads", ["get", "get many", "await", "argument"])
def test_who_reads_what_has_room_nowhere_is_told_so(
    ray_fresh: Callable[..., Any], tmp_path: Path, reads: str
) -> None:
    ray_fresh(num_cpus=1, object_store_memory=80 * MB, object_spilling_directory=str(tmp_path))
    refs = [ray.put(filled(30, i)) for i in range(5)]
    wait_until(lambda: "on this node's disk until" in ray.util.why(refs[0]))
    views = [ray.get(ref) for ref in refs[3:]]
    # Where the file for objects that have to be read beyond the memory would be, there is something else.
    folder = next(Path(where) for where, _, names in os.walk(tmp_path) if names)
    for path in folder.glob("overflow"):
        path.unlink()
    (folder / "overflow").mkdir()

    async def awaits() -> Any:
        return await refs[0]

    last = ray.remote(lambda values: int(values[-1]))
    with pytest.raises(
        ObjectStoreFullError, match=r"pinned by readers: .*\(a driver\).*delete them"
    ):
        if reads == "await":
            asyncio.run(asyncio.wait_for(awaits(), 60))
        elif reads == "argument":
            ray.get(last.options(max_retries=0).remote(refs[0]), timeout=60)
        else:
            ray.get(refs[:2] if reads == "get many" else refs[0], timeout=60)
    # Nothing is lost: with room it is read.
    assert [int(view[0]) for view in views] == [3, 4]
    del views
    assert int(ray.get(refs[0], timeout=60)[-1]) == 0
    assert int(asyncio.run(asyncio.wait_for(awaits(), 60))[-1]) == 0


@pytest.mark.contract("F3.05", "F3.06")
@pytest.mark.heliostat_only("Ray's error is another one where the disk may not be used")
def test_who_writes_without_a_disk_is_told_so_when_nobody_will_leave_room(
    ray_fresh: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_local_fs_capacity_threshold", "0.000001")
    ray_fresh(num_cpus=1, object_store_memory=80 * MB)
    views = [ray.get(ray.put(filled(30, i))) for i in range(2)]
    with pytest.raises(OutOfDiskError, match=r"local_fs_capacity_threshold"):
        ray.put(filled(30, 2))
    make = ray.remote(filled)
    with pytest.raises(OutOfDiskError):
        ray.get(make.remote(30, 3), timeout=60)
    del views
    assert int(ray.get(make.remote(30, 4), timeout=60)[-1]) == 4

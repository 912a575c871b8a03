"""Replies of a process on another node that ends right after them: each arrives, and nothing runs twice.

More than a TCP window takes lies at the sender when the sender ends, and the news of its end are quicker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.helpers.shared import cluster as shared

pytestmark = pytest.mark.contract("F1.04", "F1.12", "F2.22", "F5.02")

LIMIT_S = 120
# (pieces, bytes of each): a reply carries pieces below 100 KiB in itself.
SHAPES = [(1, 100), (2, 90_000), (8, 100_000), (40, 100_000), (2, 200_000)]
CALLS = 6


def note(log: str, tag: str) -> None:
    with open(log, "a") as file:
        file.write(f"{tag}\n")


def pieces(shape: tuple[int, int]) -> list[bytes]:
    number, size = shape
    return [bytes([n]) * size for n in range(number)]


def returned(shape: tuple[int, int], log: str, tag: str) -> Any:
    """What a call with ``num_returns`` of the shape returns; it notes that it ran."""
    note(log, tag)
    made = pieces(shape)
    return made if len(made) > 1 else made[0]


def as_task(shape: tuple[int, int], log: str, tag: str) -> list[Any]:
    @ray.remote(max_calls=1, num_returns=shape[0], resources={"far": 1})
    def task() -> Any:
        return returned(shape, log, tag)

    refs = task.remote()
    return refs if shape[0] > 1 else [refs]


def as_generator(shape: tuple[int, int], log: str, tag: str) -> list[Any]:
    @ray.remote(max_calls=1, resources={"far": 1})
    def generator() -> Any:
        note(log, tag)
        yield from pieces(shape)

    return list(generator.remote())


class Plain:
    def make(self, shape: tuple[int, int], log: str, tag: str) -> Any:
        return returned(shape, log, tag)

    def leave(self) -> None:
        ray.actor.exit_actor()


class Loop:
    async def make(self, shape: tuple[int, int], log: str, tag: str) -> Any:
        return returned(shape, log, tag)

    async def leave(self) -> None:
        ray.actor.exit_actor()


def of_actor(kind: type) -> Callable[[tuple[int, int], str, str], list[Any]]:
    def begin(shape: tuple[int, int], log: str, tag: str) -> list[Any]:
        actor = ray.remote(resources={"far": 1}, max_restarts=-1)(kind).remote()
        method = actor.make.options(num_returns=shape[0], max_task_retries=3)
        refs = method.remote(shape, log, tag)
        refs = refs if shape[0] > 1 else [refs]
        if kind is Loop:
            # The calls of such an actor overlap: this one would end it before the reply is made.
            ray.wait(refs, fetch_local=False)
        actor.leave.remote()
        return refs

    return begin


def by_get(refs: list[Any]) -> list[Any]:
    return ray.get(refs, timeout=LIMIT_S)


def by_await(refs: list[Any]) -> list[Any]:
    async def read() -> list[Any]:
        return await asyncio.wait_for(asyncio.gather(*refs), LIMIT_S)

    return asyncio.run(read())


MAKERS = {
    "task": as_task,
    "generator": as_generator,
    "actor": of_actor(Plain),
    "async actor": of_actor(Loop),
}


@pytest.fixture(scope="module")
def far() -> Iterator[None]:
    """A node elsewhere, for all shapes. Its workers find pytest loaded, which this file imports: there are
    240 of them, and loading it is most of what each would do.
    """
    shared.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_preload_python_modules", "pytest")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        cluster.add_node(num_cpus=4, resources={"far": 4})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    yield
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_a_far_process_ends_right_after_its_replies(shape: tuple[int, int], tmp_path: Path) -> None:
    log = tmp_path / "log"
    for read in (by_get, by_await):
        for maker, begin in MAKERS.items():
            tags = [f"{maker} {read.__name__} {n}" for n in range(CALLS)]
            begun = [begin(shape, str(log), tag) for tag in tags]
            for refs in begun:
                assert read(refs) == pieces(shape), maker
    runs = Counter(log.read_text().splitlines())
    assert [tag for tag, times in runs.items() if times > 1] == []
    assert len(runs) == 2 * len(MAKERS) * CALLS

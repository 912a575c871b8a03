"""F3.13: values that are lost with their node are made again, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ActorDiedError, ObjectReconstructionFailedError

STORE = 200 << 20
AWAY: dict[str, Any] = {"num_cpus": 2, "resources": {"away": 1}, "object_store_memory": STORE}


@ray.remote(resources={"away": 0.01})
def items(n: int, fails: bool = False) -> Iterator[Any]:
    for i in range(n):
        yield i if i == 1 else np.full(300_000, i)
    if fails:
        raise ValueError("at its end")


@ray.remote(resources={"away": 0.01}, num_returns=2)
def small_and_big() -> Any:
    return 1, np.full(300_000, 2)


@ray.remote(resources={"away": 0.01}, num_cpus=0)
class Plain:
    def one(self) -> Any:
        return np.full(300_000, 1)

    def items(self, n: int) -> Iterator[Any]:
        for i in range(n):
            yield np.full(300_000, i)


@ray.remote(resources={"away": 0.01}, num_cpus=0)
class Async:
    async def one(self) -> Any:
        return np.full(300_000, 1)

    async def items(self, n: int) -> Any:
        for i in range(n):
            yield np.full(300_000, i)


def first(ref: Any) -> Any:
    """The first number of a value, or the class of the error that stands for it."""
    try:
        return int(np.ravel(ray.get(ref, timeout=90))[0])
    except ValueError:
        return ValueError
    except Exception as error:
        return type(error)


def lose_the_node(make_cluster: Any, make: Any) -> dict[str, list[Any]]:
    """What `make` gives is made on a node that dies, and read when there is another."""
    cluster = make_cluster()
    doomed = cluster.add_node(**AWAY)
    cluster.wait_for_nodes()
    made: dict[str, list[Any]] = make()
    for refs in made.values():
        ready, _ = ray.wait(refs, num_returns=len(refs), fetch_local=False, timeout=60)
        assert len(ready) == len(refs)
    cluster.remove_node(doomed, allow_graceful=False)
    cluster.add_node(**AWAY)
    return {name: [first(ref) for ref in refs] for name, refs in made.items()}


@pytest.mark.contract("F3.13", "F1.09", "F1.10", "F5.03")
def test_items_of_a_finished_generator_are_made_again(make_cluster: Any) -> None:
    half = []

    def make() -> dict[str, list[Any]]:
        half.append(items.remote(3))
        read = next(half[0])
        ray.get(half[0].completed(), timeout=60)
        small, large = small_and_big.remote()
        ray.get(small)
        del small
        bound = items.options(_generator_backpressure_num_objects=1)
        return {
            "read": list(items.remote(3)),
            "half read": [read],
            "raised": list(items.remote(2, True)),
            "bound by its reader": list(bound.remote(3)),
            "some dropped": list(items.remote(4))[2:],
            "no retries": [next(items.options(max_retries=0).remote(1))],
            "small one dropped": [large],
        }

    assert lose_the_node(make_cluster, make) == {
        "read": [0, 1, 2],
        "half read": [0],
        "raised": [0, 1, ValueError],
        "bound by its reader": [0, 1, 2],
        "some dropped": [2, 3],
        "no retries": [ObjectReconstructionFailedError],
        "small one dropped": [2],
    }
    assert [first(ref) for ref in half[0]] == [1, 2]


@pytest.mark.contract("F3.13", "F2.18", "F5.05")
@pytest.mark.parametrize("kind", ["plain", "threads", "async"])
def test_results_of_methods_are_made_again_by_the_restarted_actor(
    make_cluster: Any, kind: str
) -> None:
    actors: list[Any] = []

    def make() -> dict[str, list[Any]]:
        cls: Any = Async if kind == "async" else Plain
        also = {"max_concurrency": 3} if kind == "threads" else {}
        kept = cls.options(max_restarts=-1, max_task_retries=-1, **also).remote()
        over = cls.options(max_task_retries=-1, **also).remote()
        actors.extend([kept, over])
        return {
            "result": [kept.one.remote()],
            "items": list(kept.items.remote(3)),
            "no retries": [kept.one.options(max_task_retries=0).remote()],
            "no restarts": [over.one.remote()],
        }

    assert lose_the_node(make_cluster, make) == {
        "result": [1],
        "items": [0, 1, 2],
        "no retries": [ObjectReconstructionFailedError],
        "no restarts": [ActorDiedError],
    }

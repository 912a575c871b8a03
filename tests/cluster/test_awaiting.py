"""References as futures, as a product: maker, size and state of the object, consumer, and where both are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ObjectLostError, ObjectReconstructionFailedError, RayTaskError

from tests.helpers.actors import Gate
from tests.helpers.awaiting import (
    CONSUMERS,
    LIMIT_S,
    MIB,
    SIZES,
    AsyncMaker,
    Checksum,
    Consumer,
    Maker,
    array,
    checksum,
    consume,
    consume_in_task,
    make,
    make_items,
    make_put,
)
from tests.helpers.shared import cluster as shared

STORE = 250 * MIB
EACH_CONSUMER = pytest.mark.parametrize(
    "consumer", range(len(CONSUMERS)), ids=[consumer.__name__ for consumer in CONSUMERS]
)

# One that has a loop, and one that has not.
TWO_CONSUMERS = pytest.mark.parametrize(
    "consumer", [0, len(CONSUMERS) - 1], ids=[CONSUMERS[0].__name__, CONSUMERS[-1].__name__]
)


def in_driver(consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
    return asyncio.run(consume(consumer, refs, gate))


def in_task(consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
    return ray.get(
        consume_in_task.options(resources={"head": 0.01}).remote(consumer, refs, gate),
        timeout=LIMIT_S,
    )


def in_actor(consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
    actor = Consumer.options(resources={"head": 0.01}).remote()
    return ray.get(actor.consume.remote(consumer, refs, gate), timeout=LIMIT_S)


CONSUMED_IN = {"driver": in_driver, "task": in_task, "actor": in_actor}


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    shared.stop()
    head = {"num_cpus": 2, "resources": {"head": 100}, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=2, resources={"other": 100}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def made(node: str, opened: Any) -> list[Any]:
    """An object of each size by each maker that answers with references at once."""
    there = {"resources": {node: 0.01}}
    actor, async_actor = Maker.options(**there).remote(), AsyncMaker.options(**there).remote()
    small = SIZES[:-1]
    refs = [make.options(**there).remote(size, opened) for size in SIZES]
    refs += [actor.make.remote(size, opened) for size in small]
    return refs + [async_actor.make.remote(size, opened) for size in small]


MADE = [(size, 7, 7) for size in SIZES + SIZES[:-1] * 2]


def made_by_now(node: str) -> list[Any]:
    """And by those whose references are there only when the objects are."""
    there = {"resources": {node: 0.01}}
    puts = [make_put.options(**there).remote(size, True) for size in SIZES]
    items = make_items.options(**there).remote(SIZES, True)
    refs = made(node, True) + [ray.get(ref)[0] for ref in puts] + list(items)
    ray.wait(refs, num_returns=len(refs), timeout=LIMIT_S, fetch_local=False)
    return refs


MADE_BY_NOW = MADE + [(size, 7, 7) for size in SIZES * 2]


@pytest.mark.contract("F3.02", "F2.12")
@EACH_CONSUMER
@pytest.mark.parametrize("node", ["head", "other"])
@pytest.mark.parametrize("where", CONSUMED_IN)
def test_what_is_awaited_comes(two: Cluster, where: str, node: str, consumer: int) -> None:
    assert CONSUMED_IN[where](consumer, made_by_now(node), None) == MADE_BY_NOW
    gate = Gate.remote()
    refs = made(node, gate.opened.remote())
    assert CONSUMED_IN[where](consumer, refs, gate) == MADE


@pytest.mark.contract("F3.02", "F3.06")
@TWO_CONSUMERS
@pytest.mark.parametrize("where", CONSUMED_IN)
def test_what_was_spilled_is_awaited(two: Cluster, where: str, consumer: int) -> None:
    """More than the store holds comes after the objects, which are the oldest then."""
    refs = made_by_now("head")
    rest = [ray.put(array(50 * MIB)) for _ in range(6)]
    assert CONSUMED_IN[where](consumer, refs, None) == MADE_BY_NOW
    assert [checksum(ray.get(ref)) for ref in rest] == [(50 * MIB, 7, 7)] * 6


@pytest.mark.contract("F1.09")
@pytest.mark.parametrize("node", ["head", "other"])
@pytest.mark.parametrize("size", SIZES)
def test_items_are_awaited_as_they_come(two: Cluster, node: str, size: int) -> None:
    async def main() -> list[Checksum]:
        gate = Gate.remote()
        items = make_items.options(resources={node: 0.01}).remote([size] * 3, gate.opened.remote())

        async def read() -> list[Checksum]:
            return [checksum(await ref) async for ref in items]

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        await gate.open.remote()
        return await asyncio.wait_for(reading, LIMIT_S)

    assert asyncio.run(main()) == [(size, 7, 7)] * 3


@pytest.mark.contract("F3.02", "F13.01")
@pytest.mark.parametrize("node", ["head", "other"])
@EACH_CONSUMER
def test_an_error_is_awaited(two: Cluster, node: str, consumer: int) -> None:
    @ray.remote(num_cpus=0, resources={node: 0.01})
    def fail(text: str, _gate: bool) -> None:
        raise ValueError(text)

    # An error of any size, ready and not yet.
    for size in (10, MIB):
        gate = Gate.remote()
        ref = fail.remote("x" * size, gate.opened.remote())
        for opens in (gate, None):
            with pytest.raises(ValueError, match="xxx") as caught:
                in_driver(consumer, [ref], opens)
            assert isinstance(caught.value, RayTaskError)


@pytest.mark.contract("F3.02", "F3.05")
@TWO_CONSUMERS
def test_what_finds_no_room_in_the_store_is_awaited(two: Cluster, consumer: int) -> None:
    """Readers keep most of the memory: the rest is less than the object needs, which was spilled."""
    there = {"resources": {"other": 0.01}}
    near, far = ray.put(array(60 * MIB)), make.options(**there).remote(60 * MIB, True)
    held = [ray.get(ray.put(array(48 * MIB, fill))) for fill in range(4)]
    assert in_driver(consumer, [near], None) == [(60 * MIB, 7, 7)]
    assert in_driver(consumer, [far], None) == [(60 * MIB, 7, 7)]
    assert [int(value[0]) for value in held] == [0, 1, 2, 3]


@pytest.mark.contract("F5.06", "F3.02")
@TWO_CONSUMERS
def test_what_a_dead_node_had_is_made_again_or_lost(
    make_cluster: Callable[..., Cluster], consumer: int
) -> None:
    cluster = make_cluster()
    doomed = cluster.add_node(num_cpus=1, resources={"doomed": 100}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    there = {"resources": {"doomed": 0.01}}
    again = [make.options(**there).remote(size, True) for size in SIZES]
    lost = make.options(max_retries=0, **there).remote(MIB, True)
    put = ray.get(make_put.options(**there).remote(MIB, True))[0]
    gate = Gate.remote()
    late = [make.options(**there).remote(size, gate.opened.remote()) for size in SIZES]
    ray.wait([*again, lost, put], num_returns=len(again) + 2, fetch_local=False)

    async def main() -> list[list[Checksum]]:
        waiting = [asyncio.ensure_future(CONSUMERS[consumer](late))]
        await asyncio.sleep(0)
        cluster.remove_node(doomed)
        cluster.add_node(num_cpus=1, resources={"doomed": 100}, object_store_memory=STORE)
        await gate.open.remote()
        waiting.append(asyncio.ensure_future(CONSUMERS[consumer](again)))
        return await asyncio.wait_for(asyncio.gather(*waiting), 3 * LIMIT_S)

    assert asyncio.run(main()) == [[(size, 7, 7) for size in SIZES]] * 2
    for ref in (lost, put):
        with pytest.raises((ObjectLostError, ObjectReconstructionFailedError)):
            in_driver(consumer, [ref], None)

"""How long objects live: borrowers, refs inside values and actors, and memory that comes back."""

from __future__ import annotations

import gc
import os
import time
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import ObjectLostError, OwnerDiedError, RayActorError

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

CLUSTER = {"num_cpus": 4, "object_store_memory": 400 * 1024 * 1024}

MIB = 1024 * 1024


def big(fill: int = 1, mib: int = 40) -> np.ndarray:
    return np.full(mib * MIB, fill, dtype=np.uint8)


def used() -> float:
    """Bytes of the store that are taken, as the cluster reports them."""
    total = ray.cluster_resources()["object_store_memory"]
    return float(total - ray.available_resources().get("object_store_memory", 0.0))


def wait_empty() -> None:
    gc.collect()
    wait_until(lambda: used() < MIB, what="the store is empty", every=0.1)


def wait_used(at_least: int) -> None:
    wait_until(lambda: used() >= at_least * MIB, what="the store is used", every=0.1)


@ray.remote
class Keeper:
    """Holds refs, and gives them back."""

    def __init__(self, *boxes: Any) -> None:
        self.kept: list[Any] = list(boxes)

    def keep(self, box: Any) -> None:
        self.kept.append(box)

    def read(self) -> list[int]:
        return [int(ray.get(box[0])[0]) for box in self.kept]

    def give(self) -> list[Any]:
        return [ref for box in self.kept for ref in box]

    def drop(self) -> None:
        self.kept.clear()

    def make(self, fill: int) -> list[Any]:
        return [ray.put(np.full(MIB, fill, dtype=np.uint8))]

    def crash(self) -> None:
        os._exit(1)


@pytest.mark.contract("F3.09")
def test_memory_comes_back_with_the_last_ref() -> None:
    wait_empty()
    ref = ray.put(big())
    wait_used(40)
    other = ref
    del ref
    assert ray.get(other)[0] == 1
    del other
    wait_empty()


@pytest.mark.contract("F4.18", "F4.10")
def test_what_objects_take_is_missing_from_the_available_resources() -> None:
    wait_empty()
    ref = ray.put(big(mib=10))
    wait_used(10)
    assert used() < 11 * MIB, "each byte is counted once"
    del ref
    wait_empty()


@pytest.mark.contract("F3.09", "F3.03")
def test_memory_of_a_result_comes_back() -> None:
    wait_empty()

    @ray.remote
    def make() -> np.ndarray:
        return np.ones(40 * MIB, dtype=np.uint8)

    ref = make.remote()
    ray.wait([ref])
    wait_used(40)
    del ref
    wait_empty()


@pytest.mark.contract("F3.09", "F3.10")
def test_a_view_keeps_the_memory_and_its_end_frees_it() -> None:
    wait_empty()
    ref = ray.put(big(7))
    view = ray.get(ref)[5:]
    del ref
    gc.collect()
    assert (view[::MIB] == 7).all()
    del view
    wait_empty()


@pytest.mark.contract("F3.09", "F1.02")
def test_arguments_of_waiting_tasks_stay() -> None:
    @ray.remote
    def late(path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return 1

    @ray.remote
    def read(_: int, data: np.ndarray, box: list[Any]) -> tuple[int, int]:
        return int(data[0]), int(ray.get(box[0])[0])

    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        gate = os.path.join(directory, "gate")
        direct, nested = ray.put(big(3)), ray.put(big(4))
        result = read.remote(late.remote(gate), direct, [nested])
        del direct, nested
        gc.collect()
        with open(gate, "w"):
            pass
        assert ray.get(result) == (3, 4)
    del result
    wait_empty()


@pytest.mark.contract("F3.09")
def test_an_actor_that_holds_a_ref_keeps_the_object() -> None:
    wait_empty()
    keeper = Keeper.remote()
    ref = ray.put(big(9))
    ray.get(keeper.keep.remote([ref]))
    del ref
    gc.collect()
    wait_used(40)
    assert ray.get(keeper.read.remote()) == [9]
    ray.get(keeper.drop.remote())
    wait_empty()


@pytest.mark.contract("F3.09", "F2.06")
def test_a_ref_held_by_an_actor_ends_with_the_actor() -> None:
    wait_empty()
    keeper = Keeper.remote()
    ref = ray.put(big(9))
    ray.get(keeper.keep.remote([ref]))
    del ref
    wait_used(40)
    ray.kill(keeper)
    wait_empty()


@pytest.mark.contract("F3.09")
def test_a_ref_in_constructor_arguments() -> None:
    ref = ray.put(big(2))
    keeper = Keeper.remote([ref])
    del ref
    gc.collect()
    assert ray.get(keeper.read.remote()) == [2]


@pytest.mark.contract("F3.09")
def test_a_borrower_can_hand_the_ref_on() -> None:
    """Driver to actor to actor, while the driver keeps nothing."""
    first, second = Keeper.remote(), Keeper.remote()
    ref = ray.put(big(6))
    ray.get(first.keep.remote([ref]))
    del ref
    gc.collect()

    @ray.remote
    def hand_on(source: Any, target: Any) -> None:
        ray.get(target.keep.remote(ray.get(source.give.remote())))

    ray.get(hand_on.remote(first, second))
    ray.get(first.drop.remote())
    assert ray.get(second.read.remote()) == [6]
    ray.get(second.drop.remote())
    wait_empty()


@pytest.mark.contract("F3.09")
def test_refs_inside_refs() -> None:
    wait_empty()
    outer = ray.put([ray.put([ray.put(big(5))])])
    gc.collect()
    assert ray.get(ray.get(ray.get(outer)[0])[0])[0] == 5
    wait_used(40)
    del outer
    wait_empty()


@pytest.mark.contract("F3.09", "F1.05")
def test_refs_in_a_returned_value_keep_their_objects() -> None:
    @ray.remote
    def make() -> list[Any]:
        return [ray.put(np.full(MIB, 8, dtype=np.uint8)), {"k": ray.put("inner")}]

    result = ray.get(make.remote())
    gc.collect()
    assert ray.get(result[0])[0] == 8
    assert ray.get(result[1]["k"]) == "inner"


@pytest.mark.contract("F3.09", "F1.05")
def test_refs_of_tasks_submitted_by_a_task() -> None:
    @ray.remote
    def leaf(i: int) -> int:
        time.sleep(0.05)
        return i

    @ray.remote
    def submit() -> list[Any]:
        return [leaf.remote(i) for i in range(10)]

    assert ray.get(ray.get(submit.remote())) == list(range(10))


@pytest.mark.contract("F3.09")
def test_refs_from_an_actor_stay_while_the_actor_lives() -> None:
    keeper = Keeper.remote()
    (inner,) = ray.get(keeper.make.remote(4))
    gc.collect()
    assert ray.get(inner)[0] == 4


@pytest.mark.contract("F3.03", "F0.15", "F3.09", "F3.14")
def test_an_object_dies_with_its_owner() -> None:
    """OWN-1: the actor that called ``put`` owns the object; nobody else can answer for it."""
    keeper = Keeper.remote()
    (inner,) = ray.get(keeper.make.remote(4))
    with pytest.raises(RayActorError):
        ray.get(keeper.crash.remote())

    def lost() -> str | None:
        try:
            ray.get(inner, timeout=30)
        except OwnerDiedError as error:
            return str(error)
        return None

    assert issubclass(OwnerDiedError, ObjectLostError)
    assert inner.hex() in wait_until(lost, what="the object is lost with its owner")


@pytest.mark.contract("F3.09", "F0.22")
def test_a_ref_captured_by_a_remote_function() -> None:
    captured = ray.put("captured")

    @ray.remote
    def read() -> str:
        return str(ray.get(captured))

    assert ray.get(read.remote()) == "captured"


@pytest.mark.contract("F3.09")
def test_thousands_of_refs_in_one_value() -> None:
    refs = [ray.put(i) for i in range(3000)]

    @ray.remote
    def add_up(inner: list[Any]) -> int:
        return int(sum(ray.get(inner)))

    assert ray.get(add_up.remote(refs)) == 4498500
    box = ray.put(refs)
    del refs
    gc.collect()
    assert sum(ray.get(ray.get(box))) == 4498500


@pytest.mark.contract("F3.09")
@pytest.mark.contract("F3.09")
def test_lists_of_refs_keep_their_shape() -> None:
    """Whether a list holds nothing but refs, or other things too, is not seen by who reads it."""

    class Named(list):  # type: ignore[type-arg] # of anything
        pass

    @ray.remote
    def told(*lists: Any, more: Any) -> list[Any]:
        """The lists again, which this worker has to hand on, and what is in them."""
        assert [type(each) for each in (*lists, more)] == [list, list, list, Named, list]
        values = [[x if isinstance(x, int) else ray.get(x) for x in each] for each in lists]
        return [values, list(lists), more]

    one, two = ray.put(1), ray.put(2)
    lists = ([one, two], [two, one, two], [], Named([one]))
    values, back, more = ray.get(told.remote(*lists, more=[one, 5]))
    assert values == [[1, 2], [2, 1, 2], [], [1]]
    assert back == list(lists)
    assert type(back[3]) is Named
    assert more == [one, 5]
    nested = ray.get(ray.put([[one], [[two, one]], (two,)]))
    assert nested == [[one], [[two, one]], (two,)]
    assert ray.get(ray.get(ray.put([two, one]))) == [2, 1]


@pytest.mark.heliostat_only("Ray's refs are known to the collector")
def test_the_garbage_collector_does_not_look_at_refs() -> None:
    """A driver may hold a hundred thousand; they refer to nothing that the collector knows."""

    @ray.remote
    def one() -> int:
        return 1

    refs = [ray.put(0), one.remote(), *ray.get(ray.put([ray.put(0)])), ray.ObjectRef.nil()]
    assert not any(gc.is_tracked(ref) for ref in refs)


def test_the_store_does_not_fill_up_with_garbage() -> None:
    """Several times the store goes through it, one object at a time."""
    wait_empty()
    for i in range(40):
        value = ray.get(ray.put(big(i)))
        assert value[-1] == i
        del value
    wait_empty()


@pytest.mark.contract("F3.09", "F3.13")
@pytest.mark.parametrize("by", ["reference", "value"])
def test_what_lies_between_the_calls_of_a_chain_is_freed(by: str) -> None:
    """Its last value could be made again, but what was made on the way there need not be kept."""
    wait_empty()

    @ray.remote
    def more(value: Any) -> Any:
        array = ray.get(value[0]) if isinstance(value, list) else value
        return array + 1

    ref = more.remote(big(0))
    ray.wait([ref])
    for _ in range(4):
        ref = more.remote([ref] if by == "value" else ref)
        ray.wait([ref])
    # The last value, and the argument that was put for the first call: nothing could replace it.
    wait_until(lambda: used() < 90 * MIB, what="the rest is freed", every=0.1)
    assert ray.get(ref)[-1] == 5
    del ref
    wait_empty()


@pytest.mark.contract("F3.09", "F0.16")
def test_the_arguments_of_a_failed_task_are_freed() -> None:
    wait_empty()

    @ray.remote
    def fail(_: Any) -> None:
        raise KeyError("with a big argument")

    ref = fail.remote(big())
    with pytest.raises(KeyError):
        ray.get(ref)
    del ref
    wait_empty()


@pytest.mark.contract("F3.09", "F1.09")
def test_what_a_dropped_stream_made_is_freed() -> None:
    wait_empty()

    @ray.remote
    def stream() -> Any:
        for _ in range(3):
            yield np.ones(20 * MIB, dtype=np.uint8)

    generator = stream.remote()
    assert ray.get(next(generator))[0] == 1
    del generator
    wait_empty()


@pytest.mark.contract("F3.09", "F3.13")
def test_what_was_read_of_another_process_goes_with_the_last_call_that_takes_it(
    tmp_path: Any,
) -> None:
    """The handle is dropped first: what this process has read stays pinned for no longer than the call."""
    wait_empty()
    gate = tmp_path / "gate"

    @ray.remote
    def put() -> list[Any]:
        return [ray.put(big())]

    @ray.remote
    def take(_: np.ndarray) -> None:
        while not gate.exists():
            time.sleep(0.01)

    inner = ray.get(put.remote())[0]
    assert ray.get(inner)[0] == 1
    call = take.remote(inner)
    del inner
    gate.touch()
    ray.get(call)
    wait_empty()

"""`ray.util.collective` over gloo (F14.05)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
import ray
from ray.util import collective
from ray.util.collective.types import Backend, ReduceOp

np = pytest.importorskip("numpy", reason="arrays are numpy's")
torch = pytest.importorskip("torch", reason="collective groups are PyTorch's")

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F14.05")
SIZE = 3


@ray.remote(num_cpus=0)
class Rank:
    def join(self, size: int, rank: int, group: str = "default", timeout: int = 30_000) -> int:
        collective.init_collective_group(size, rank, "gloo", group, timeout)
        return collective.get_rank(group)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


def everywhere(ranks: list[Any], function: Callable[..., Any], *args: Any) -> list[Any]:
    return ray.get([rank.call.remote(function, *args) for rank in ranks], timeout=120)


@pytest.fixture
def ranks(ray_start: Any) -> list[Any]:
    """The actors of a group, which the tests of the module share."""
    made = [Rank.options(name=f"rank {at}", get_if_exists=True).remote() for at in range(SIZE)]
    if not all(everywhere(made, collective.is_group_initialized, "default")):
        joined = [rank.join.remote(SIZE, at) for at, rank in enumerate(made)]
        assert ray.get(joined, timeout=120) == list(range(SIZE))
        _kept.extend(made)
    return made


_kept: list[Any] = []


def own(kind: str, shape: Any = 4) -> Any:
    """This rank's tensor, whose elements are the rank plus one."""
    value = float(collective.get_rank() + 1)
    if kind == "array":
        return np.full(shape, value)
    if kind == "transposed":
        return torch.full((2, 3), value).t()
    return torch.full((shape,), value, dtype=torch.int64 if kind == "integers" else torch.float32)


KINDS = ["tensor", "array", "transposed", "integers"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("op", "expected"),
    [(ReduceOp.SUM, 6), (ReduceOp.PRODUCT, 6), (ReduceOp.MIN, 1), (ReduceOp.MAX, 3)],
)
def test_all_reduce(ranks: list[Any], kind: str, op: Any, expected: float) -> None:
    def call() -> bool:
        tensor = own(kind)
        assert collective.allreduce(tensor, op=op) is None
        return bool((tensor == expected).all())

    assert everywhere(ranks, call) == [True] * SIZE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root", range(SIZE))
def test_broadcast_and_reduce(ranks: list[Any], kind: str, root: int) -> None:
    def call() -> tuple[float, float]:
        cast, reduced = own(kind), own(kind)
        collective.broadcast(cast, src_rank=root)
        collective.reduce(reduced, dst_rank=root)
        assert (cast == cast.reshape(-1)[0]).all()
        assert (reduced == reduced.reshape(-1)[0]).all()
        return float(cast.reshape(-1)[0]), float(reduced.reshape(-1)[0])

    reduced = [6 if at == root else at + 1 for at in range(SIZE)]
    assert everywhere(ranks, call) == [(root + 1, each) for each in reduced]


@pytest.mark.parametrize("kind", KINDS)
def test_gather_and_scatter(ranks: list[Any], kind: str) -> None:
    def call() -> tuple[list[float], float]:
        gathered = [own(kind) * 0 for _ in range(SIZE)]
        collective.allgather(gathered, own(kind))
        scattered = own(kind) * 0
        collective.reducescatter(scattered, [own(kind) * 10**at for at in range(SIZE)])
        return [float(each.reshape(-1)[0]) for each in gathered], float(scattered.reshape(-1)[-1])

    assert everywhere(ranks, call) == [([1, 2, 3], 6 * 10**at) for at in range(SIZE)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_ring_of_sends(ranks: list[Any], kind: str) -> None:
    def call() -> float:
        rank, tensor = collective.get_rank(), own(kind)
        came = own(kind) * 0
        if rank == 0:  # one begins: gloo's sends wait for their receivers
            collective.send(tensor, 1)
            collective.recv(came, SIZE - 1)
        else:
            collective.recv(came, rank - 1)
            collective.send(tensor, (rank + 1) % SIZE)
        collective.barrier()
        return float(came.reshape(-1)[0])

    assert everywhere(ranks, call) == [3, 1, 2]


def test_wrong_calls_say_what_is_wrong(ranks: list[Any]) -> None:
    one = torch.ones(1)

    def raises(error: type[Exception], match: str, function: Callable[[], Any]) -> None:
        with pytest.raises(error, match=match):
            ray.get(ranks[0].call.remote(function))

    raises(RuntimeError, "second time", lambda: collective.init_collective_group(2, 0, "gloo"))
    raises(RuntimeError, "'nope' is not initialized", lambda: collective.allreduce(one, "nope"))
    raises(RuntimeError, "Unrecognized tensor type", lambda: collective.allreduce([1]))
    raises(RuntimeError, "is self", lambda: collective.send(one, 0))
    raises(ValueError, "less than world size '3'", lambda: collective.broadcast(one, 7))
    raises(RuntimeError, "length of the tensor list", lambda: collective.allgather([one], one))
    with pytest.raises(RuntimeError, match="only used inside a Ray actor or task"):
        collective.init_collective_group(1, 0, "gloo")


def test_actors_are_declared_a_group_under_a_name_that_is_free_again_afterwards(
    ray_start: Any,
) -> None:
    def total() -> tuple[float, int, int]:
        tensor = torch.ones(1)
        collective.allreduce(tensor, "declared")
        rank, size = (
            collective.get_rank("declared"),
            collective.get_collective_group_size("declared"),
        )
        return float(tensor[0]), rank, size

    for _ in range(2):
        made = [Rank.remote() for _ in range(2)]
        with pytest.raises(RuntimeError, match="Ranks must be a permutation"):
            collective.create_collective_group(made, 2, [0, 2], "gloo", "declared")
        collective.create_collective_group(made, 2, [1, 0], "gloo", "declared")
        with pytest.raises(RuntimeError, match="initialize a group twice"):
            collective.create_collective_group(made, 2, [0, 1], "gloo", "declared")
        assert everywhere(made, total) == [(2, 1, 2), (2, 0, 2)]
        everywhere(made, collective.destroy_collective_group, "declared")
        assert not any(everywhere(made, collective.is_group_initialized, "declared"))
        assert everywhere(made, collective.get_rank, "declared") == [-1, -1]


def test_a_rank_that_does_not_come_is_not_waited_for_for_ever(ray_start: Any) -> None:
    alone = Rank.remote()
    with pytest.raises(RuntimeError, match=r"waited 0\.5 s for rank 0"):
        ray.get(alone.join.remote(2, 1, "alone", 500), timeout=60)
    # The name is free: nothing is left of the attempt.
    both = [Rank.remote(), alone]
    joined = [rank.join.remote(2, at, "alone") for at, rank in enumerate(both)]
    assert ray.get(joined, timeout=120) == [0, 1]


def test_a_rank_that_dies_ends_the_calls_of_the_others(ray_start: Any) -> None:
    both = [Rank.remote(), Rank.remote()]
    ray.get([rank.join.remote(2, at, "dying") for at, rank in enumerate(both)], timeout=120)
    waiting = both[0].call.remote(lambda: collective.allreduce(torch.ones(1), "dying"))
    ray.kill(both[1])
    with pytest.raises(RuntimeError):
        ray.get(waiting, timeout=120)


def test_names_of_backends(ray_start: Any) -> None:
    assert collective.gloo_available()
    assert collective.is_backend_available("gloo")
    assert not collective.is_backend_available("mpi")
    assert Backend("gloo") == Backend.GLOO
    with pytest.raises(ValueError, match="'mpi'"):
        Backend("mpi")


LARGE = 200_000  # elements that no message carries: they lie in the object store


def handed(name: str) -> Any:
    """An array as an actor may be handed one: of few elements, in the store, by columns, as a part."""
    return {
        "small": lambda: np.full((2, 3), 1.0),
        "large": lambda: np.full(LARGE, 1.0),
        "columns": lambda: np.full((2, LARGE), 1.0, order="F"),
        "part": lambda: [np.full((LARGE, 2), 1.0)[:, 0], 3],
        "none": lambda: np.empty(0),
    }[name]()


@pytest.mark.parametrize("name", ["small", "large", "columns", "none"])
def test_an_array_that_the_actor_was_handed_is_reduced_in_place(
    ranks: list[Any], name: str
) -> None:
    def reduced(array: Any) -> Any:
        for _ in range(2):
            collective.allreduce(array)
        return array.shape, bool((array == SIZE * SIZE).all())

    given = [rank.call.remote(reduced, handed(name)) for rank in ranks]
    assert ray.get(given, timeout=120) == [(handed(name).shape, True)] * SIZE


def test_results_go_into_lists_and_parts_that_the_actor_was_handed(ranks: list[Any]) -> None:
    def gathered(arrays: Any, part: Any) -> Any:
        mine = np.full(LARGE, collective.get_rank() + 1.0)
        collective.allgather(arrays, mine)
        collective.broadcast(part[0], 1)
        collective.reducescatter(arrays[0], [mine] * SIZE)
        return [float(array[-1]) for array in (*arrays, part[0])]

    empty = [np.zeros(LARGE) for _ in range(SIZE)]
    given = [rank.call.remote(gathered, empty, handed("part")) for rank in ranks]
    assert ray.get(given, timeout=120) == [[6.0, 2.0, 3.0, 1.0]] * SIZE


@pytest.mark.heliostat_only("Ray writes into the object that all see")
def test_an_array_of_the_object_store_is_reduced_without_changing_the_object(
    ranks: list[Any],
) -> None:
    ref = ray.put(np.ones(LARGE))

    def reduced(array: Any) -> Any:
        views = array[1:], memoryview(array[:1])
        collective.allreduce(array)
        return float(array.sum()), array.flags.writeable, float(views[0].sum()), views[1][0]

    done = (SIZE * float(LARGE), True, LARGE - 1.0, 1.0)
    assert ray.get([rank.call.remote(reduced, ref) for rank in ranks], timeout=120) == [done] * SIZE
    assert ray.get(ref).sum() == LARGE


def test_an_array_of_the_object_store_is_sent_as_it_lies(ranks: list[Any]) -> None:
    def ring(array: Any) -> Any:
        where = array.ctypes.data
        if (rank := collective.get_rank()) == 0:
            collective.send(array, 1)
        elif rank == 1:
            got = np.zeros(LARGE)
            collective.recv(got, 0)
            return float(got.sum())
        return array.ctypes.data == where and not array.flags.writeable

    ref = ray.put(np.ones(LARGE))
    results = ray.get([rank.call.remote(ring, ref) for rank in ranks], timeout=120)
    assert results == [True, float(LARGE), True]

"""Batches for JAX. Tests do not install it: a stand-in has the functions that batches need of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

CLUSTER = {"num_cpus": 2}


class FakeJax:
    """The functions of JAX that batches use, for processes that are threads of this one."""

    def __init__(self, processes: int, local_devices: int) -> None:
        self.processes, self.local_devices = processes, local_devices
        self.own = threading.local()  # `index` is the number of the process
        self.barrier = threading.Barrier(processes, timeout=60)
        self.given: list[Any] = [None] * processes

    def make_array_from_process_local_data(self, sharding: Any, array: Any, shape: Any) -> Any:
        assert sharding == ("devices", "data")
        assert array.dtype.kind not in "OSU"
        assert shape == (len(array) * self.processes, *array.shape[1:])
        return array

    def process_allgather(self, array: Any) -> Any:
        self.given[self.own.index] = array
        self.barrier.wait()
        gathered = np.stack(self.given)
        self.barrier.wait()
        return gathered

    def modules(self) -> dict[str, ModuleType]:
        made = {
            name: ModuleType(name)
            for name in (
                "jax",
                "jax.sharding",
                "jax.experimental",
                "jax.experimental.mesh_utils",
                "jax.experimental.multihost_utils",
            )
        }
        jax: Any = made["jax"]
        jax.local_device_count = lambda: self.local_devices
        jax.device_count = lambda: self.local_devices * self.processes
        jax.process_count = lambda: self.processes
        jax.make_array_from_process_local_data = self.make_array_from_process_local_data
        sharding: Any = made["jax.sharding"]
        sharding.Mesh = lambda devices, names: (devices, *names)
        sharding.PartitionSpec = lambda name: name
        sharding.NamedSharding = lambda mesh, spec: mesh
        experimental: Any = made["jax.experimental"]
        experimental.mesh_utils = made["jax.experimental.mesh_utils"]
        experimental.mesh_utils.create_device_mesh = lambda shape: "devices"
        experimental.multihost_utils = made["jax.experimental.multihost_utils"]
        experimental.multihost_utils.process_allgather = self.process_allgather
        return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeJax]:
    def use(processes: int = 1, local_devices: int = 1) -> FakeJax:
        made = FakeJax(processes, local_devices)
        for name, module in made.modules().items():
            monkeypatch.setitem(sys.modules, name, module)
        return made

    return use


@pytest.fixture
def dataset(rd: Any) -> Any:
    rows = [
        {"x": float(i), "y": i, "f": np.full((2, 3), i, np.float32), "l": [i, i]} for i in range(5)
    ]
    return rd.from_items(rows, override_num_blocks=2)


@pytest.mark.contract("F10.23")
def test_without_jax_the_error_says_what_to_install(
    dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'heliostat\[jax\]'"):
        dataset.iter_jax_batches()


@pytest.mark.contract("F10.23")
def test_columns_of_numbers_arrays_and_lists(dataset: Any, fake: Callable[..., FakeJax]) -> None:
    fake()
    batches = dataset.iter_jax_batches(batch_size=2, dtypes={"x": np.float16})
    for _ in range(2):  # each is an epoch
        found = list(batches)
        assert [b["y"].tolist() for b in found] == [[0, 1], [2, 3], [4]]
        assert {n: (a.dtype.name, a.shape) for n, a in found[0].items()} == {
            "x": ("float16", (2,)),
            "y": ("int64", (2,)),
            "f": ("float32", (2, 2, 3)),
            "l": ("int64", (2, 2)),
        }


@pytest.mark.contract("F10.23")
def test_the_last_batch_is_padded_left_out_or_refused(
    dataset: Any, fake: Callable[..., FakeJax]
) -> None:
    fake(local_devices=2)

    def ids(**options: Any) -> list[list[int]]:
        given = dataset.select_columns(["y", "x"]).iterator()
        batches = given.iter_jax_batches(batch_size=2, **options)
        return [batch["y"].tolist() for batch in batches]

    assert ids(drop_last=True) == [[0, 1], [2, 3]]
    assert ids(paddings=-1) == [[0, 1], [2, 3], [4, -1]]
    assert ids(paddings={"y": 9, "x": 0.5}) == [[0, 1], [2, 3], [4, 9]]
    with pytest.raises(ValueError, match="1 rows cannot be split among the 2 local JAX devices"):
        ids()
    with pytest.raises(ValueError, match="no value for column 'x'"):
        ids(paddings={"y": 9})
    with pytest.raises(ValueError, match="multiple of the 2 local JAX devices, but it is 3"):
        dataset.iter_jax_batches(batch_size=3)


@pytest.mark.contract("F10.23")
def test_a_collate_fn_may_give_an_array_without_a_name(
    dataset: Any, fake: Callable[..., FakeJax]
) -> None:
    from ray.data.collate_fn import ArrowBatchCollateFn, NumpyBatchCollateFn

    class Product(NumpyBatchCollateFn):
        def __call__(self, batch: Any) -> Any:
            return batch["x"] * batch["y"]

    class Names(ArrowBatchCollateFn):
        def __call__(self, batch: Any) -> Any:
            return {"z": batch.column("y").to_numpy() + 1}

    fake()
    made = dataset.iter_jax_batches(batch_size=3, collate_fn=Product(), paddings=0, dtypes="int32")
    assert [(b.dtype.name, b.tolist()) for b in made] == [
        ("int32", [0, 1, 4]),
        ("int32", [9, 16, 0]),
    ]
    made = dataset.iter_jax_batches(batch_size=4, collate_fn=Names())
    assert [b["z"].tolist() for b in made] == [[1, 2, 3, 4], [5]]
    with pytest.raises(ValueError, match="NumpyBatchCollateFn"):
        dataset.iter_jax_batches(collate_fn=lambda batch: batch)


@pytest.mark.contract("F10.23")
def test_columns_that_jax_has_no_arrays_of(rd: Any, fake: Callable[..., FakeJax]) -> None:
    fake()
    with pytest.raises(TypeError, match="column 's': JAX has no arrays of str"):
        list(rd.from_items([{"s": "a"}]).iter_jax_batches())
    with pytest.raises(ValueError, match="column 'l': its rows have the shapes"):
        list(rd.from_items([{"l": [1]}, {"l": [1, 2]}]).iter_jax_batches())


@pytest.mark.contract("F10.23")
def test_the_state_counts_what_the_loop_was_given(
    dataset: Any, fake: Callable[..., FakeJax]
) -> None:
    fake()
    first, second = dataset.iterator(), dataset.iterator()
    next(iter(first.iter_jax_batches(batch_size=2, prefetch_batches=3)))
    second.load_state_dict(first.state_dict())
    assert [b["y"].tolist() for b in second.iter_jax_batches(batch_size=2)] == [[2, 3], [4]]


def of_processes(jax: FakeJax, parts: list[list[int]], **options: Any) -> list[Any]:
    """What each process gets of its part, or the error that it gets."""
    from heliostat.data.iterate.jax_batches import Placing

    found: list[Any] = [None] * len(parts)
    given = {"batch_size": 2, "drop_last": False, "dtypes": None, "paddings": None, **options}

    def read(index: int) -> None:
        jax.own.index = index

        def batches() -> Iterator[Any]:
            for begin in range(0, len(parts[index]), 2):
                yield {"y": np.array(parts[index][begin : begin + 2])}

        try:
            placing = Placing(**given, in_step=True)
            found[index] = [b["y"].tolist() for b in placing.batches(batches())]
        except ValueError as error:
            found[index] = str(error)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@pytest.mark.contract("F10.23")
def test_processes_in_step_have_the_same_batches(fake: Callable[..., FakeJax]) -> None:
    jax = fake(processes=2)
    parts = [[1, 2, 3, 4, 5], [6]]
    assert of_processes(jax, [[1, 2], [3, 4]]) == [[[1, 2]], [[3, 4]]]
    padded = of_processes(jax, parts, paddings=0)
    assert padded == [[[1, 2], [3, 4], [5, 0]], [[6, 0], [0, 0], [0, 0]]]
    assert of_processes(jax, [[1, 2, 3, 4], [5, 6]], drop_last=True) == [[[1, 2]], [[5, 6]]]
    for said in of_processes(jax, [[1, 2, 3, 4], [5, 6]]):
        assert "1 of 2 JAX processes have no more batches" in said
    for said in of_processes(jax, parts):
        assert "batches of 1 to 2 rows" in said


@pytest.mark.contract("F10.23")
def test_with_jax_itself(dataset: Any) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    devices = jax.local_device_count()
    batches = dataset.iter_jax_batches(
        batch_size=2 * devices, dtypes={"x": jax.numpy.bfloat16}, paddings=0
    )
    rows = [row for batch in batches for row in batch["y"].tolist()]
    assert rows[:5] == [0, 1, 2, 3, 4]
    first = next(iter(batches))
    assert isinstance(first["x"], jax.Array)
    assert first["x"].dtype == jax.numpy.bfloat16
    assert len(first["f"].sharding.device_set) == devices

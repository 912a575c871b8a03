"""Batches for a training loop."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

CLUSTER = {"num_cpus": 4}


def sizes(batches: Any) -> list[int]:
    return [len(next(iter(b.values()))) for b in batches]


@pytest.mark.contract("F10.19")
@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_do_not_depend_on_blocks(rd: Any, prefetch: int) -> None:
    dataset = rd.range(100, override_num_blocks=7)
    batches = list(dataset.iter_batches(batch_size=30, prefetch_batches=prefetch))
    assert sorted(sizes(batches)) == [10, 30, 30, 30]
    assert sorted(np.concatenate([b["id"] for b in batches]).tolist()) == list(range(100))
    dropped = dataset.iter_batches(batch_size=30, drop_last=True, prefetch_batches=prefetch)
    assert sizes(dropped) == [30, 30, 30]
    assert sum(sizes(dataset.iter_batches(batch_size=None))) == 100


@pytest.mark.contract("F10.19")
def test_uneven_and_empty_blocks(rd: Any) -> None:
    dataset = rd.range(60, override_num_blocks=6).filter(
        lambda row: row["id"] % 10 < row["id"] // 10
    )
    assert sum(sizes(dataset.iter_batches(batch_size=4))) == 15
    assert all(n == 4 for n in sizes(dataset.iter_batches(batch_size=4))[:-1])


@pytest.mark.contract("F10.19")
@pytest.mark.parametrize(
    ("batch_format", "kind"),
    [("numpy", "dict"), ("default", "dict"), ("pandas", "DataFrame"), ("pyarrow", "Table")],
)
def test_formats(rd: Any, batch_format: str, kind: str) -> None:
    for batch in rd.range(5).iter_batches(batch_size=2, batch_format=batch_format):
        assert type(batch).__name__ == kind


@pytest.mark.contract("F10.19")
def test_wrong_arguments(rd: Any) -> None:
    with pytest.raises(ValueError, match="zz"):
        list(rd.range(1).iter_batches(batch_format="zz"))
    with pytest.raises(ValueError, match="batch_size"):
        list(rd.range(1).iter_batches(batch_size=None, local_shuffle_buffer_size=2))


@pytest.mark.contract("F10.18", "F10.19")
def test_each_for_is_an_epoch(rd: Any) -> None:
    batches = rd.range(10).iter_torch_batches(batch_size=4)
    epochs = [sum(int(b["id"].sum()) for b in batches) for _ in range(3)]
    assert epochs == [45, 45, 45]
    iterator = rd.range(10).iterator()
    assert [len(list(iterator.iter_rows())) for _ in range(2)] == [10, 10]


@pytest.mark.contract("F10.19")
def test_local_shuffle(rd: Any) -> None:
    dataset = rd.range(200, override_num_blocks=8)

    def order(**options: Any) -> list[int]:
        batches = dataset.iter_batches(batch_size=16, **options)
        return [int(i) for b in batches for i in b["id"]]

    plain, mixed = order(), order(local_shuffle_buffer_size=64, local_shuffle_seed=1)
    assert sorted(mixed) == sorted(plain) == list(range(200))
    assert mixed != plain
    assert sizes(dataset.iter_batches(batch_size=16, local_shuffle_buffer_size=64)) == [16] * 12 + [
        8
    ]


@pytest.mark.contract("F10.19")
@pytest.mark.heliostat_only("Ray's blocks come in any order, so its shuffle differs")
def test_local_shuffle_repeats_with_its_seed(rd: Any) -> None:
    dataset = rd.range(200, override_num_blocks=8)
    runs = [
        [
            b["id"].tolist()
            for b in dataset.iter_batches(
                batch_size=16, local_shuffle_buffer_size=64, local_shuffle_seed=seed
            )
        ]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.contract("F10.18")
def test_torch_batches(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    dataset = rd.range_tensor(6, shape=(2, 2))
    for batch in dataset.iter_torch_batches(batch_size=4, dtypes=torch.float32):
        assert batch["data"].dtype is torch.float32
        assert batch["data"].shape[1:] == (2, 2)
        assert batch["data"].device.type == "cpu"
    by_name = next(iter(dataset.iter_torch_batches(dtypes={"data": torch.int32})))
    assert by_name["data"].dtype is torch.int32


@pytest.mark.contract("F10.18")
@pytest.mark.heliostat_only("Ray's tensors may be the object store's memory")
def test_writing_to_a_batch_leaves_the_dataset_as_it_is(rd: Any) -> None:
    pytest.importorskip("torch")
    dataset = rd.from_numpy(np.zeros((64, 4096)))
    for batch in dataset.iter_torch_batches(batch_size=16):
        batch["data"] += 1
    assert all(float(b["data"].sum()) == 0 for b in dataset.iter_torch_batches(batch_size=16))


@pytest.mark.contract("F10.18")
@pytest.mark.parametrize("batch_size", [16, 24, None])
def test_writing_to_batches_of_made_blocks_changes_no_other_batch(
    rd: Any, batch_size: int | None
) -> None:
    torch = pytest.importorskip("torch")
    source = rd.from_numpy([np.full((32, 4096), float(i)) for i in range(3)])
    dataset = source.map_batches(lambda batch: {"data": batch["data"], "twice": batch["data"] * 2})
    for _ in range(2):
        seen = []
        for batch in dataset.iter_torch_batches(batch_size=batch_size):
            seen += batch["data"][:, 0].tolist()
            assert torch.equal(batch["twice"], batch["data"] * 2)
            batch["data"] -= 7
            assert torch.equal(batch["twice"], (batch["data"] + 7) * 2)
            batch["twice"].zero_()
        assert seen == [float(i) for i in range(3) for _ in range(32)]
    assert {float(row["data"][9]) for row in source.iter_rows()} == {0.0, 1.0, 2.0}


@pytest.mark.contract("F10.18", "F10.22")
def test_collating(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    from ray.data.collate_fn import ArrowBatchCollateFn, NumpyBatchCollateFn, PandasBatchCollateFn

    dataset = rd.from_items([{"s": "a", "label": 0}, {"s": "b", "label": 1}])

    def collate(batch: dict[str, Any]) -> dict[str, Any]:
        return {"s": list(batch["s"]), "labels": torch.LongTensor(batch["label"])}

    (batch,) = dataset.iter_torch_batches(collate_fn=collate)
    assert batch["s"] == ["a", "b"]
    assert batch["labels"].tolist() == [0, 1]

    def kinds(base: type) -> str:
        class Kind(base):  # type: ignore[misc, valid-type]
            def __call__(self, batch: Any) -> Any:
                return type(batch).__name__

        return next(iter(dataset.iter_torch_batches(collate_fn=Kind())))

    found = [kinds(k) for k in (ArrowBatchCollateFn, NumpyBatchCollateFn, PandasBatchCollateFn)]
    assert found == ["Table", "dict", "DataFrame"]


@pytest.mark.contract("F10.18")
def test_a_mapping_of_tensors_comes_back_as_a_dict(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    from collections import UserDict

    def collate(batch: dict[str, Any]) -> Any:
        return UserDict(x=torch.as_tensor(np.array(batch["id"])))

    (batch,) = rd.range(3).iter_torch_batches(collate_fn=collate)
    assert type(batch) is dict
    assert batch["x"].tolist() == [0, 1, 2]


@pytest.mark.contract("F10.18")
def test_what_tensors_cannot_hold(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="str"):
        list(rd.from_items(["a", "b"]).iter_torch_batches())
    with pytest.raises(ValueError, match="collate_fn cannot be used with dtypes"):
        list(rd.range(3).iter_torch_batches(collate_fn=lambda b: b, dtypes=torch.int8))


@pytest.mark.contract("F10.19")
@pytest.mark.heliostat_only("Ray's threads go on for a while")
def test_leaving_a_loop_early_ends_the_execution(rd: Any) -> None:
    before = threading.active_count()
    for _ in range(3):
        for batch in rd.range(1000, override_num_blocks=20).iter_batches(batch_size=10):
            assert len(batch["id"]) == 10
            break
    assert threading.active_count() <= before + 1


@pytest.mark.contract("F10.19")
def test_an_error_comes_out_of_the_loop(rd: Any) -> None:
    def fail(batch: dict[str, Any]) -> dict[str, Any]:
        if 7 in batch["id"]:
            raise RuntimeError("seven")
        return batch

    with pytest.raises(Exception, match="seven"):
        list(rd.range(10, override_num_blocks=5).map_batches(fail).iter_batches())


@pytest.mark.contract("F10.20")
def test_statistics(rd: Any) -> None:
    dataset = rd.range(100, override_num_blocks=4).map(lambda row: row)
    for _ in dataset.iter_batches():
        pass
    stats = dataset.stats()
    assert "Map" in stats
    assert "4 tasks executed" in stats
    for line in (
        "* Remote wall time: ",
        "* Output num rows per block: 25 min, 25 max, 25 mean, 100 total",
        "* Output size bytes per block: ",
        "* Operator throughput:",
        "\t* Total output num rows: 100 rows",
        "\t* Estimated single task throughput: ",
        "Dataset throughput:",
    ):
        assert line in stats
    materialized = dataset.materialize()
    assert "4 blocks produced" in materialized.stats()


@pytest.mark.contract("F10.20")
@pytest.mark.heliostat_only(
    "Ray counts the blocks that an operator without tasks passes on otherwise"
)
def test_statistics_count_the_rows_that_come_in_and_go_out(rd: Any) -> None:
    dataset = rd.range(100, override_num_blocks=4).random_shuffle(seed=1)
    kept = dataset.map(lambda row: row).filter(lambda row: row["id"] < 10)
    assert len(kept.take_all()) == 10
    stats = kept.stats()
    assert "\t* Total input num rows: 100 rows\n\t* Total output num rows: 10 rows" in stats


@pytest.mark.contract("F10.19")
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [1, 3, 7, 10, 64])
def test_batches_of_arrays_across_blocks(rd: Any, size: int, drop_last: bool) -> None:
    """Blocks of 10 rows of numbers, then some with missing values, text and tensors."""
    first = rd.range(30, override_num_blocks=3).add_column("x", lambda b: b["id"] / 2)
    rows = [{"id": n, "x": None if n % 2 else 1.0, "s": "y"} for n in range(30, 41)]
    for dataset in (first, first.union(rd.from_items(rows, override_num_blocks=2))):
        wanted = dataset.take_all()
        batches = list(dataset.iter_batches(batch_size=size, drop_last=drop_last))
        kept = len(wanted) // size * size if drop_last else len(wanted)
        assert [len(b["id"]) for b in batches] == [
            min(size, kept - at) for at in range(0, kept, size)
        ]
        assert [n for b in batches for n in b["id"].tolist()] == [r["id"] for r in wanted[:kept]]
        found = [v for b in batches for v in b["x"].tolist()]
        assert all(
            f == r["x"] or (f != f and r["x"] is None) for f, r in zip(found, wanted, strict=False)
        )
    tensors = rd.range_tensor(20, shape=(2, 3), override_num_blocks=2)
    batches = list(tensors.iter_batches(batch_size=6))
    assert [b["data"].shape for b in batches] == [(6, 2, 3)] * 3 + [(2, 2, 3)]
    assert np.concatenate([b["data"] for b in batches])[:, 1, 2].tolist() == list(range(20))

"""Mixes, seeds of executions, splits that are streamed, rows by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

CLUSTER = {"num_cpus": 4}


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def of(rd: Any, name: str, rows: int, each: int) -> Any:
    """Rows named alike, in blocks of ``each`` rows."""
    items = [{"of": name, "n": n} for n in range(rows)]
    return rd.from_items(items, override_num_blocks=rows // each)


def order(dataset: Any) -> str:
    return "".join(row["of"] for row in dataset.take_all())


# --- mixes -----------------------------------------------------------------------------------------


@pytest.mark.contract("F10.10")
@pytest.mark.parametrize(
    ("weights", "stopping", "expected"),
    [
        (None, "STOP_ON_LONGEST_DROP", "aabbaabbbbbb"),
        ([1, 1], "STOP_ON_SHORTEST", "aabbaabb"),
        ([1, 3], "STOP_ON_LONGEST_DROP", "bbaabbbbbbaa"),
    ],
)
def test_a_mix_takes_blocks_by_turns(rd: Any, weights: Any, stopping: str, expected: str) -> None:
    a, b = of(rd, "a", 4, 2), of(rd, "b", 8, 2)
    how = rd.MixStoppingCondition[stopping]
    mixed = a.mix(b, weights=weights, stopping_condition=how)
    found = order(mixed)
    if stopping == "STOP_ON_SHORTEST":  # Ray may end with a block more or fewer of the longer
        assert found.startswith("aabbaa")
        assert found.count("a") == 4
        assert mixed.count() == len(found)
    else:
        assert found == expected
        assert mixed.count() == 12
    assert set(mixed.columns()) == {"of", "n"}


@pytest.mark.contract("F10.10")
def test_wrong_mixes(rd: Any) -> None:
    with pytest.raises(ValueError, match=r"Number of datasets \(2\) must match number of weights"):
        rd.range(1).mix(rd.range(1), weights=[1.0])
    with pytest.raises(ValueError, match="Weights must be positive"):
        rd.range(1).mix(rd.range(1), weights=[1.0, -1.0]).take_all()


@pytest.mark.contract("F10.10", "F10.29")
@pytest.mark.heliostat_only("how much waits at a time is ours to say")
@pytest.mark.parametrize("how", ["mix", "union"])
def test_sources_whose_turn_comes_later_do_not_fill_the_store(rd: Any, how: str) -> None:
    def widen(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "x": np.ones((len(batch["id"]), 250_000))}  # 2 MB a row

    several = [rd.range(60, override_num_blocks=60).map_batches(widen) for _ in range(3)]
    for dataset in several:
        dataset.context.execution_options.resource_limits = rd.ExecutionResources(
            object_store_memory=24 << 20
        )
    first, *others = several
    whole = getattr(first, how)(*others)
    assert sum(len(b["id"]) for b in whole.iter_batches(batch_size=None)) == 180
    assert whole._stats.peak_bytes < 60 << 20


# --- seeds -----------------------------------------------------------------------------------------


@pytest.mark.contract("F10.17")
@pytest.mark.parametrize("how", ["random_shuffle", "randomize_block_order", "random_sample"])
def test_a_seed_may_draw_anew_at_each_execution(rd: Any, how: str) -> None:
    def made(anew: bool, seed: int = 5) -> Any:
        config = rd.RandomSeedConfig(seed=seed, reseed_after_execution=anew)
        base = rd.range(400, override_num_blocks=20)
        return getattr(base, how)(*([0.5] if how == "random_sample" else []), seed=config)

    same, anew, again = made(False), made(True), made(True)
    assert ids(same) == ids(same)
    first, second = ids(anew), ids(anew)
    assert first != second
    assert [ids(again), ids(again)] == [first, second]
    with pytest.raises(ValueError, match="Seed must be an integer or None"):
        rd.RandomSeedConfig(seed="a")


# --- splits ----------------------------------------------------------------------------------------


@pytest.mark.contract("F10.17")
@pytest.mark.parametrize(
    "options", [{}, {"seed": 3}, {"split_type": "hash", "hash_column": "id"}], ids=str
)
def test_a_streamed_split_gives_each_row_to_one_side(
    rd: Any, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = rd.DataContext.get_current().execution_options
    monkeypatch.setattr(execution, "preserve_order", True)  # without which Ray promises nothing
    rd.range(2000, override_num_blocks=4).add_column("x", lambda b: b["id"] * 2).write_parquet(
        str(tmp_path)
    )
    train, test = rd.read_parquet(str(tmp_path)).streaming_train_test_split(0.25, **options)
    narrow = test.select_columns(["id"])
    assert sorted(ids(train) + ids(narrow)) == list(range(2000))
    assert 350 < test.count() < 650
    assert sorted(ids(test)) == sorted(ids(narrow))


@pytest.mark.contract("F10.17")
@pytest.mark.parametrize(
    ("size", "options", "said"),
    [
        (0.0, {}, "test_size must be between 0 and 1"),
        (0.5, {"split_type": "hash"}, "hash_column is required for hash split"),
        (0.5, {"split_type": "hash", "hash_column": "id", "seed": 1}, "seed is not supported"),
        (0.5, {"hash_column": "id"}, "hash_column is not supported for random split"),
        (0.5, {"split_type": "odd"}, "Invalid split type"),
    ],
)
def test_wrong_streamed_splits(rd: Any, size: float, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rd.range(10).streaming_train_test_split(size, **options)


# --- rows by key -----------------------------------------------------------------------------------


@pytest.mark.contract("F10.17")
def test_rows_are_found_by_their_key(rd: Any) -> None:
    items = [{"k": (n * 37) % 100 * 2, "v": str(n)} for n in range(100)]
    value_of = {item["k"]: item for item in items}
    there = rd.from_items(items, override_num_blocks=5).to_random_access_dataset("k", 2)
    wanted = [0, 1, 198, 199, -1, 74, 74]
    assert there.multiget(wanted) == [value_of.get(k) for k in wanted]
    assert ray.get([there.get_async(k) for k in wanted]) == [value_of.get(k) for k in wanted]
    assert "Num workers: 2" in there.stats()


@pytest.mark.contract("F10.17")
@pytest.mark.heliostat_only("Ray fails on missing keys and on none")
def test_rows_by_key_of_missing_keys_and_of_none(rd: Any) -> None:
    missing = rd.from_items([{"k": None}, {"k": "b"}, {"k": "a"}]).to_random_access_dataset("k", 1)
    assert missing.multiget(["a", None, "c", "b"]) == [{"k": "a"}, None, None, {"k": "b"}]
    with pytest.raises(TypeError, match="the keys of this dataset are of type str, and 3 is none"):
        missing.get_async(3)
    empty = rd.range(3).filter(lambda _: False).to_random_access_dataset("id", 1)
    assert empty.multiget([1]) == [None]
    with pytest.raises(ValueError, match="num_workers"):
        rd.range(3).to_random_access_dataset("id", 0)

"""Going on in the middle of an epoch: the rest of the rows comes, each once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.data.expressions import random
from ray.train import Checkpoint, RunConfig, ScalingConfig

CLUSTER = {"num_cpus": 6}

pytestmark = [
    pytest.mark.contract("F10.15", "F10.18", "F10.19"),
    pytest.mark.heliostat_only("Ray's iterators have no state"),
]


def ids(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]


def some(batches: Any, count: int) -> list[int]:
    """The rows of the first batches; the loop is left after them."""
    found: list[int] = []
    loop = iter(batches)
    for _ in range(count):
        found += [int(i) for i in next(loop)["id"]]
    loop.close()
    return found


LOOPS: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda it: it.iter_batches(batch_size=7),
    "pandas": lambda it: it.iter_batches(batch_size=7, batch_format="pandas", prefetch_batches=0),
    "ahead": lambda it: it.iter_batches(batch_size=7, prefetch_batches=9),
    "torch": lambda it: it.iter_torch_batches(batch_size=7),
    "collated": lambda it: it.iter_torch_batches(batch_size=7, collate_fn=lambda b: b),
    "blocks": lambda it: it.iter_batches(batch_size=None),
    "drop_last": lambda it: it.iter_batches(batch_size=7, drop_last=True),
    "shuffled": lambda it: it.iter_batches(batch_size=7, local_shuffle_buffer_size=30),
    "seeded": lambda it: it.iter_torch_batches(
        batch_size=7, local_shuffle_buffer_size=30, local_shuffle_seed=4
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_rest_of_an_epoch_comes_in_another_iterator(rd: Any, name: str) -> None:
    def dataset() -> Any:
        return rd.range(100, override_num_blocks=9).random_shuffle(seed=3)

    loop, first = LOOPS[name], dataset().iterator()
    before = some(loop(first), 4)
    state = json.loads(json.dumps(first.state_dict()))
    assert (state["epoch"], state["rows"]) == (0, len(before))

    second = dataset().iterator()
    second.load_state_dict(state)
    rest = ids(loop(second))
    kept = 98 if name == "drop_last" else 100
    assert len(before + rest) == len(set(before + rest)) == kept
    if name not in ("shuffled", "seeded"):
        assert before + rest == ids(loop(dataset().iterator()))[:kept]
    # The loop after it is an epoch as usual, and says so.
    assert second.state_dict()["epoch"] == 1
    assert second.state_dict()["rows"] == 0
    assert len(ids(loop(second))) == kept


def test_a_shuffled_epoch_goes_on_in_the_order_it_had(rd: Any) -> None:
    loop, dataset = LOOPS["shuffled"], rd.range(100, override_num_blocks=9)
    it = dataset.iterator()
    batches = iter(loop(it))
    before = some_of(batches, 3)
    state = it.state_dict()
    after = ids(batches)
    again = dataset.iterator()
    again.load_state_dict(state)
    assert ids(loop(again)) == after
    assert before + after != sorted(before + after)


def some_of(batches: Iterator[Any], count: int) -> list[int]:
    return [int(i) for _ in range(count) for i in next(batches)["id"]]


def test_an_epoch_draws_again_what_it_has_drawn(rd: Any) -> None:
    """A dataset whose epochs differ by their number: the third is resumed as the third."""

    def dataset() -> Any:
        return rd.range(60, override_num_blocks=6).with_column(
            "x", random(seed=5, reseed_after_execution=True)
        )

    def drawn(batches: Any) -> list[float]:
        return [float(x) for batch in batches for x in batch["x"]]

    it = dataset().iterator()
    epochs = [drawn(it.iter_batches(batch_size=5)) for _ in range(4)]
    assert len({tuple(epoch) for epoch in epochs}) == 4
    other = dataset().iterator()
    for _ in range(2):
        drawn(other.iter_batches(batch_size=5))
    some(other.iter_batches(batch_size=5), 5)
    state = other.state_dict()
    assert (state["epoch"], state["rows"]) == (2, 25)
    again = dataset().iterator()
    again.load_state_dict(state)
    assert drawn(again.iter_batches(batch_size=5)) == epochs[2][25:]
    assert drawn(again.iter_batches(batch_size=5)) == epochs[3]


def test_rows_are_counted_one_by_one(rd: Any) -> None:
    dataset = rd.range(20, override_num_blocks=3)
    it = dataset.iterator()
    rows = iter(it.iter_rows())
    before = [next(rows)["id"] for _ in range(9)]
    again = dataset.iterator()
    again.load_state_dict(it.state_dict())
    assert before + [row["id"] for row in again.iter_rows()] == list(range(20))


def test_blocks_that_lie_before_are_not_fetched(rd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heliostat.data.plan.operators import Bundle

    dataset = rd.range(100, override_num_blocks=10).materialize()
    it = dataset.iterator()
    it.load_state_dict({**it.state_dict(), "rows": 75})
    fetched = []
    cut = Bundle.cut
    monkeypatch.setattr(Bundle, "cut", lambda b, table: fetched.append(b) or cut(b, table))
    assert ids(it.iter_batches(batch_size=10)) == list(range(75, 100))
    assert len(fetched) == 3


def test_consumers_of_a_split_go_on(rd: Any) -> None:
    def shards() -> list[Any]:
        dataset = rd.range(120, override_num_blocks=11).random_shuffle(seed=1)
        return list(dataset.streaming_split(3, equal=True))

    def all_of(use: Callable[[Any], list[int]], parts: list[Any]) -> list[list[int]]:
        with ThreadPoolExecutor(3) as threads:
            return list(threads.map(use, parts))

    first = shards()
    all_of(lambda it: ids(it.iter_batches(batch_size=4)), first)
    before = all_of(lambda it: some(it.iter_batches(batch_size=4), 5), first)
    states = [it.state_dict() for it in first]
    assert {state["epoch"] for state in states} == {1}
    second = shards()
    for it, state in zip(second, states, strict=True):
        it.load_state_dict(state)
    rest = all_of(lambda it: ids(it.iter_batches(batch_size=4)), second)
    assert [len(a + b) for a, b in zip(before, rest, strict=True)] == [40] * 3
    assert sorted(chain.from_iterable(before + rest)) == list(range(120))
    whole = all_of(lambda it: ids(it.iter_batches(batch_size=4)), second)
    assert sorted(chain.from_iterable(whole)) == list(range(120))


def test_states_that_do_not_fit_are_refused(rd: Any) -> None:
    dataset = rd.range(40, override_num_blocks=4)
    it = dataset.iterator()
    state = it.state_dict()
    for wrong in ({}, None, {**state, "version": 99}, {**state, "rows": -1}, {"epoch": 1}):
        with pytest.raises(ValueError, match="takes what state_dict gave"):
            it.load_state_dict(wrong)
    shards = dataset.streaming_split(2, equal=True)
    with pytest.raises(ValueError, match="with 1 consumers in all; here are 2"):
        shards[0].load_state_dict(state)
    it.load_state_dict({**state, "rows": 41})
    with pytest.raises(ValueError, match="after 41 rows of its epoch, and this epoch has only 40"):
        ids(it.iter_batches(batch_size=5))
    mixed = dataset.iterator()
    some(LOOPS["shuffled"](mixed), 1)
    it.load_state_dict(mixed.state_dict())
    with pytest.raises(ValueError, match="local_shuffle_buffer_size=30 and batch_size=7; the loop"):
        ids(it.iter_batches(batch_size=5))


def test_consumers_that_resume_different_epochs_are_told(rd: Any) -> None:
    shards = rd.range(40, override_num_blocks=4).streaming_split(2, equal=True)
    shards[1].load_state_dict({**shards[1].state_dict(), "rows": 4, "execution": 3})
    said = []

    def use(it: Any) -> None:
        try:
            ids(it.iter_batches(batch_size=5))
        except ValueError as error:
            said.append(str(error))
            it.load_state_dict(
                {**it.state_dict(), "rows": 0, "execution": 3 if it is shards[0] else None}
            )
            ids(it.iter_batches(batch_size=5))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(use, shards))
    assert len(said) == 1
    assert "load states of one epoch into all of them" in said[0]


def test_training_goes_on_in_the_epoch_in_which_it_died(
    rd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")
    flag, log = tmp_path / "died", tmp_path / "log"
    log.mkdir()

    def loop(config: dict[str, Any]) -> None:
        shard, rank = train.get_dataset_shard("train"), train.get_context().get_world_rank()
        seen: list[list[int]] = [[], []]
        checkpoint = train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                kept = json.loads(Path(folder, f"{rank}.json").read_text())
            shard.load_state_dict(kept["data"])
            seen = kept["seen"]
        for epoch in range(shard.state_dict()["epoch"], 2):
            for step, batch in enumerate(shard.iter_batches(batch_size=5)):
                seen[epoch] += [int(i) for i in batch["id"]]
                folder = Path(config["folder"], f"{rank}-{epoch}-{step}-{checkpoint is None}")
                folder.mkdir()
                state = {"data": shard.state_dict(), "seen": seen}
                (folder / f"{rank}.json").write_text(json.dumps(state))
                train.report({}, checkpoint=Checkpoint(str(folder)))
                if rank == 1 and epoch == 1 and step == 2 and not flag.exists():
                    flag.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        Path(config["log"], f"{rank}.json").write_text(json.dumps(seen))

    made = tmp_path / "made"
    made.mkdir()
    DataParallelTrainer(
        loop,
        train_loop_config={"folder": str(made), "log": str(log)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path),
            failure_config=train.FailureConfig(max_failures=1),
        ),
        datasets={"train": rd.range(60, override_num_blocks=6)},
    ).fit()
    assert flag.exists()
    ranks = [json.loads(p.read_text()) for p in sorted(log.iterdir())]
    for epoch in range(2):
        assert sorted(chain.from_iterable(rank[epoch] for rank in ranks)) == list(range(60))

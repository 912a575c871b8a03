"""How datasets are executed: bounded memory, back-pressure, failures, settings."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from tests.helpers.harness import wait_until

MIB = 1 << 20
STORE = 80 * MIB
CLUSTER = {"num_cpus": 4, "object_store_memory": STORE}

NODE_STATE_LAG_S = 1.0


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """``made(name)`` for tasks to call: how often it was called is ``made.count(name)``."""

    class Made:
        def __init__(self) -> None:
            self.folder = str(tmp_path)

        def __call__(self, name: str) -> None:
            Path(self.folder, f"{name}-{os.urandom(8).hex()}").touch()

        def count(self, name: str) -> int:
            return len(list(Path(self.folder).glob(f"{name}-*")))

    return Made()


def megabytes(batch: dict[str, Any]) -> dict[str, Any]:
    """A MiB for each id."""
    return {"x": np.repeat(batch["id"][:, None], MIB // 8, axis=1)}


@pytest.mark.contract("F10.29")
def test_three_times_the_store_passes_through(rd: Any) -> None:
    blocks = 3 * STORE // MIB
    dataset = rd.range(blocks, override_num_blocks=blocks // 2).map_batches(megabytes)
    seen = [int(i) for b in dataset.iter_batches(batch_size=3) for i in b["x"][:, 0]]
    assert sorted(seen) == list(range(blocks))


@pytest.mark.contract("F10.11", "F10.12", "F10.29")
@pytest.mark.heliostat_only("looks at the figures of our executor")
def test_one_key_with_half_of_all_rows_of_more_than_the_store(rd: Any) -> None:
    rows, width = 12_000, 1000  # 8 kB a row

    def skewed(batch: dict[str, Any]) -> dict[str, Any]:
        ids = batch["id"]
        wide = np.repeat(ids[:, None], width, axis=1)
        return {"k": np.where(ids % 2 == 0, 7, ids % 100), "x": wide}

    dataset = rd.range(rows, override_num_blocks=20).map_batches(skewed)
    ordered, seen = dataset.sort("k"), []
    for batch in ordered.iter_batches(batch_size=None):
        assert (batch["x"][:, 0] == batch["x"][:, -1]).all()
        seen += batch["k"].tolist()
    expected = [7 if i % 2 == 0 else i % 100 for i in range(rows)]
    assert seen == sorted(expected)
    grouped = dataset.groupby("k")
    sizes = {key: expected.count(key) for key in set(expected)}
    assert {r["k"]: r["count()"] for r in grouped.count().take_all()} == sizes
    whole = grouped.map_groups(lambda g: {"k": g["k"][:1], "n": np.array([len(g["x"])])})
    assert {r["k"]: r["n"] for r in whole.take_all()} == sizes
    assert ordered._stats.peak_bytes < STORE


@pytest.mark.contract("F10.18", "F10.29")
def test_tensors_that_are_kept_do_not_fill_the_store(rd: Any) -> None:
    pytest.importorskip("torch")
    rows = 2 * STORE // MIB
    dataset = rd.range(rows, override_num_blocks=rows // 2).map_batches(megabytes)
    kept = [batch["x"] for batch in dataset.iter_torch_batches(batch_size=2)]
    assert sorted(int(row[0]) for x in kept for row in x) == list(range(rows))
    assert all(bool((row == row[0]).all()) for x in kept for row in x)


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("looks at the figures of our executor")
def test_what_exists_at_a_time_is_bounded(rd: Any) -> None:
    dataset = rd.range(120, override_num_blocks=40).map_batches(megabytes)
    for _ in dataset.iter_batches(batch_size=3):
        pass
    stats = dataset._stats
    assert stats.budget_bytes == STORE // 4
    # Tasks that had begun when the budget was reached go on to their end, with a block each.
    assert stats.peak_bytes <= stats.budget_bytes + 3 * stats.operators[0].most_at_once * MIB


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("looks at the figures of our executor")
def test_blocks_that_exist_anyway_do_not_hold_up_the_tasks(rd: Any) -> None:
    given = rd.from_numpy([np.zeros((2, MIB // 8)) for _ in range(25)])
    assert given.size_bytes() > STORE // 4
    dataset = given.map_batches(lambda batch: {"n": [len(batch["data"])]})
    assert [row["n"] for row in dataset.take_all()] == [2] * 25
    assert dataset._stats.operators[0].most_at_once > 1


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("Ray may run ahead by half of the store")
def test_a_slow_consumer_slows_the_tasks(rd: Any, made: Any) -> None:
    def make(batch: dict[str, Any]) -> dict[str, Any]:
        made("block")
        return megabytes(batch)

    dataset = rd.range(200, override_num_blocks=200).map_batches(make)
    batches = iter(dataset.iter_batches(batch_size=1, prefetch_batches=1))
    next(batches)
    # Whatever may still start has started when the number has stopped growing.
    before, since = -1, time.monotonic()
    while time.monotonic() - since < NODE_STATE_LAG_S:
        now = made.count("block")
        if now != before:
            before, since = now, time.monotonic()
    assert before <= STORE // 4 // MIB + 8
    assert sum(1 for _ in batches) == 199


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only(
    "Ray cuts at target_max_block_size alone, which is larger than this store"
)
def test_large_outputs_are_cut_into_blocks(rd: Any) -> None:
    dataset = rd.range(30, override_num_blocks=1).map_batches(megabytes)
    sizes = [b.size_bytes() for b in dataset.iter_internal_ref_bundles()]
    assert len(sizes) >= 8
    assert max(sizes) <= 5 * MIB


@pytest.mark.contract("F10.29")
def test_a_generator_may_make_more_than_the_store_holds(rd: Any) -> None:
    def many(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for _ in range(30):
            yield megabytes({"id": batch["id"][:1].repeat(4)})

    dataset = rd.range(1).map_batches(many)
    assert sum(len(b["x"]) for b in dataset.iter_batches(batch_size=4)) == 120


@pytest.mark.contract("F10.29")
def test_only_what_is_taken_is_made(rd: Any, made: Any) -> None:
    def make(batch: dict[str, Any]) -> dict[str, Any]:
        made("block")
        return batch

    assert rd.range(100, override_num_blocks=100).map_batches(make).take(2) == [
        {"id": 0},
        {"id": 1},
    ]
    assert made.count("block") < 50


@pytest.mark.contract("F10.29")
def test_a_killed_worker_is_replaced(rd: Any, made: Any) -> None:
    def die_once(batch: dict[str, Any]) -> dict[str, Any]:
        if 7 in batch["id"] and not made.count("died"):
            made("died")
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    dataset = rd.range(20, override_num_blocks=10).map_batches(die_once)
    assert sorted(row["id"] for row in dataset.take_all()) == list(range(20))
    assert made.count("died") == 1


@pytest.mark.contract("F10.06", "F10.29")
def test_a_killed_actor_is_replaced(rd: Any, made: Any) -> None:
    class DieOnce:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            if 7 in batch["id"] and not made.count("died"):
                made("died")
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    pool = rd.ActorPoolStrategy(size=2)
    dataset = rd.range(20, override_num_blocks=10).map_batches(DieOnce, compute=pool)
    assert sorted(row["id"] for row in dataset.take_all()) == list(range(20))
    assert made.count("died") == 1


@pytest.mark.contract("F10.29")
def test_a_task_that_dies_after_some_of_its_blocks_gives_each_once(rd: Any, made: Any) -> None:
    def many(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for i in range(8):
            if i == 5 and not made.count("died"):
                made("died")
                os.kill(os.getpid(), signal.SIGKILL)
            yield megabytes({"id": np.full(3, i)})

    dataset = rd.range(1).map_batches(many)
    seen = [int(i) for b in dataset.iter_batches(batch_size=3) for i in b["x"][:, 0]]
    assert sorted(seen) == sorted([*range(8)] * 3)
    assert made.count("died") == 1


@pytest.mark.contract("F10.06")
def test_pools_grow_and_end(rd: Any) -> None:
    class Where:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"pid": [os.getpid()] * len(batch["id"])}

    pool = rd.ActorPoolStrategy(min_size=1, max_size=3)
    rows = rd.range(60, override_num_blocks=30).map_batches(Where, compute=pool).take_all()
    pids = {row["pid"] for row in rows}
    assert len(rows) == 60
    assert 1 <= len(pids) <= 3


@pytest.mark.contract("F10.06")
@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": 2, "min_size": 1},
        {"min_size": 3, "max_size": 2},
    ],
)
def test_wrong_pools(rd: Any, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="size"):
        rd.ActorPoolStrategy(**options)


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("with Ray this waits for ever")
def test_data_flows_although_every_cpu_is_taken(rd: Any) -> None:
    @ray.remote(num_cpus=4)
    class Holder:
        def read(self, iterator: Any) -> int:
            return sum(len(b["id"]) for b in iterator.iter_batches())

    holder = Holder.remote()
    (iterator,) = rd.range(100).map(lambda row: row).streaming_split(1)
    assert ray.get(holder.read.remote(iterator), timeout=40) == 100
    ray.kill(holder)


@pytest.mark.contract("F10.29")
def test_two_executions_at_a_time(rd: Any) -> None:
    totals: list[int] = []

    def read(factor: int) -> None:
        dataset = rd.range(40, override_num_blocks=8).map(lambda row: {"id": row["id"] * factor})
        totals.append(sum(int(b["id"].sum()) for b in dataset.iter_batches()) // factor)

    threads = [threading.Thread(target=read, args=(f,)) for f in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [780, 780, 780]


@pytest.mark.contract("F10.27")
def test_settings_are_taken_when_a_dataset_is_made(rd: Any) -> None:
    current = rd.DataContext.get_current()
    assert current.target_max_block_size == 128 * MIB
    assert current.max_errored_blocks == 0
    before = rd.range(3)
    current.max_errored_blocks = 7
    try:
        assert before.context.max_errored_blocks == 0
        assert rd.range(3).context.max_errored_blocks == 7
    finally:
        current.max_errored_blocks = 0


@pytest.mark.contract("F10.28")
def test_limits(rd: Any) -> None:
    limits = rd.ExecutionResources.for_limits(cpu=2)
    assert limits.cpu == 2
    assert limits.gpu == float("inf")
    options = rd.ExecutionOptions(resource_limits=limits)
    assert options.preserve_order is False
    dataset = rd.range(10)
    dataset.context.execution_options = options
    assert dataset.map(lambda row: row).count() == 10


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("Ray shows its own bars")
def test_progress_of_a_long_execution(
    rd: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heliostat.data.execute import progress

    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)

    def lines(shown: bool) -> list[str]:
        caplog.clear()
        dataset = rd.range(20, override_num_blocks=4).map(lambda row: row)
        dataset.context.enable_progress_bars = shown
        with caplog.at_level("INFO", logger="heliostat.data"):
            dataset.materialize()
        return [r.message for r in caplog.records if "rows/s" in r.message]

    assert any("ReadRange->Map" in line for line in lines(True))
    assert lines(False) == []


class Terminal(io.StringIO):
    """Keeps what is written to it, and says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.heliostat_only("Ray shows its own bars")
def test_bars_of_a_loop_over_batches(rd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heliostat.data.execute import progress

    pytest.importorskip("rich", reason="it draws the bars")
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress, "LIVE_EVERY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def shown(run: Callable[[Any], object]) -> str:
        terminal = Terminal()
        dataset = rd.range(20, override_num_blocks=4).map(lambda row: row)
        dataset.context.enable_progress_bars = True
        with monkeypatch.context() as patched:
            patched.setattr("sys.stderr", terminal)
            run(dataset)
        return terminal.getvalue()

    # A loop over batches executes in a thread of its own.
    said = shown(lambda dataset: list(dataset.iter_batches()))
    assert "ReadRange->Map" in said
    assert "bound by" in said
    assert "bound by" in shown(
        lambda dataset: dataset.materialize()
    )  # it has let go of the terminal


@pytest.mark.contract("F10.29")
@pytest.mark.heliostat_only("Heliostat's import is lazy")
def test_importing_the_package_imports_no_arrow(run_driver: Any) -> None:
    code = """
        import sys, ray, ray.data
        print("heavy=" + ",".join(m for m in ("pyarrow", "numpy", "pandas") if m in sys.modules))
    """
    assert run_driver(code).check().value("heavy") == ""


@pytest.mark.contract("F10.29")
def test_the_cpus_of_more_than_a_hundred_actors_are_counted(rd: Any) -> None:
    from heliostat.data.execute.limits import _cpus_of_actors

    before = _cpus_of_actors()
    # They wait for a resource that is nowhere: no process is started.
    waiting = ray.remote(type("Waits", (), {})).options(num_cpus=1, resources={"nowhere": 1})
    actors = [waiting.remote() for _ in range(120)]
    wait_until(lambda: _cpus_of_actors() == before + 120)
    del actors


@pytest.mark.contract("F10.23")
def test_what_an_execution_did_in_numbers(rd: Any) -> None:
    made = (
        rd.range(100, override_num_blocks=4).map(lambda row: row).filter(lambda row: row["id"] < 40)
    )
    empty = made.get_stats_summary()
    assert (empty.operators_stats, empty.num_rows_per_s, empty.to_string()) == ([], 0.0, "")
    assert made.materialize().count() == 40
    done = made.materialize().sort("id").materialize()
    summary = done.get_stats_summary()
    sort = summary.operators_stats[-1]
    assert sort.operator_name.startswith("Sort")
    assert sort.output_num_rows is not None
    assert sort.output_num_rows.sum == 40
    assert sort.output_num_rows.to_dict()["count"] == sort.output_num_rows.count > 0
    assert sort.output_size_bytes is not None
    assert sort.output_size_bytes.min > 0
    assert summary.get_total_time_all_blocks() > 0
    assert summary.get_total_wall_time() > 0
    assert summary.get_total_cpu_time() >= 0
    assert sort.num_rows_per_s > 0
    assert summary.to_string() == done.stats()

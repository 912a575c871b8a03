"""A full disk, a lost node, Ctrl-C in the middle of a dataset: told in a sentence, nothing half done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import OutOfDiskError

from tests.helpers.shared import cluster as shared

STORE = 120 << 20


def numbers(rd: Any, blocks: int, rows: int = 20) -> Any:
    """Blocks of about 8 MB at 20 rows."""

    def widen(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "x": np.ones((len(batch["id"]), 50_000)) * batch["id"][:, None]}

    return rd.range(blocks * rows, override_num_blocks=blocks).map_batches(widen)


@pytest.mark.contract("F10.11", "F10.29")
@pytest.mark.heliostat_only("the text of the error")
def test_a_full_disk_ends_an_exchange_with_one_sentence(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_local_fs_capacity_threshold", "0.000001")
    ray_fresh(num_cpus=2, object_store_memory=STORE)
    import ray.data as rd

    rd.DataContext.get_current().enable_progress_bars = False
    with pytest.raises(OutOfDiskError, match="the disk has no room either: /"):
        numbers(rd, 40).random_shuffle(seed=1).materialize()
    # What it had made is gone, and the session goes on.
    assert sum(r["id"] for r in numbers(rd, 2).drop_columns(["x"]).take_all()) == sum(range(40))


@pytest.mark.contract("F10.11", "F10.29")
def test_an_exchange_survives_the_loss_of_a_node() -> None:
    shared.stop()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 4 * STORE}
    )
    node = cluster.add_node(num_cpus=2, object_store_memory=4 * STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    try:
        import ray.data as rd

        rd.DataContext.get_current().enable_progress_bars = False
        lost: list[bool] = []
        dataset = numbers(rd, 24, 5).random_shuffle(seed=1).map_batches(lambda b: b)
        found: list[tuple[int, float]] = []
        for batch in dataset.iter_batches(batch_size=None, prefetch_batches=0):
            if not lost:  # blocks have come out of the exchange, and others have not
                cluster.remove_node(node, allow_graceful=False)
                lost.append(True)
            found += [
                (int(i), float(x)) for i, x in zip(batch["id"], batch["x"][:, 0], strict=True)
            ]
        assert lost
        assert sorted(found) == [(i, float(i)) for i in range(120)]
    finally:
        ray.shutdown()
        cluster.shutdown()


INTERRUPTED = """
    import os, signal, sys, time
    from pathlib import Path
    import ray, ray.data

    ray.init("local", num_cpus=2, include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    marks, out, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

    def slow(batch):
        (marks / str(batch["id"][0])).touch()
        if len(list(marks.iterdir())) == 5:
            os.kill(driver, signal.SIGINT)
        time.sleep(0.2)
        return batch

    driver = os.getpid()
    dataset = ray.data.range(2000, override_num_blocks=200).map_batches(slow)
    try:
        if how == "write":
            dataset.write_csv(out)
        elif how == "sort":
            dataset.sort("id", descending=True).materialize()
        else:
            list(dataset.streaming_split(1)[0].iter_batches())
    except KeyboardInterrupt:
        print("interrupted=yes")
    end = time.monotonic() + 30  # tasks that were still running delete their own
    while os.path.isdir(out) and os.listdir(out) and time.monotonic() < end:
        time.sleep(0.05)
    print("files=" + str(len(os.listdir(out)) if os.path.isdir(out) else 0))
    print("began=" + str(len(list(marks.iterdir())) < 200))
    print("again=" + str(ray.data.range(10).map(lambda r: r).sum("id")))
"""


@pytest.mark.contract("F10.24", "F10.29")
@pytest.mark.heliostat_only("what Ray leaves behind is not certain")
@pytest.mark.parametrize("how", ["write", "sort", "split"])
def test_ctrl_c_ends_a_dataset_and_leaves_no_part_of_a_write(
    run_driver: Any, tmp_path: Path, how: str
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    done = run_driver(INTERRUPTED, args=[str(marks), str(tmp_path / "out"), how]).check()
    assert done.value("interrupted") == "yes"
    assert done.value("files") == "0"
    assert done.value("began") == "True"
    assert done.value("again") == "45"


@pytest.mark.contract("F10.24")
@pytest.mark.heliostat_only("Ray leaves the files of the tasks that had ended")
@pytest.mark.parametrize("partitions", [None, ["part"]])
def test_a_write_that_fails_leaves_what_was_there_and_nothing_of_its_own(
    rd: Any, tmp_path: Path, partitions: list[str] | None
) -> None:
    out = str(tmp_path / "out")
    rd.from_items([{"id": -1, "part": 0}]).write_parquet(out)
    before = sorted(p for p in Path(out).rglob("*.parquet"))

    def fail_late(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 199:
            while len(list(Path(out).rglob("*.parquet"))) < 4:
                time.sleep(0.02)  # other tasks have written
            raise ValueError("at the end")
        return {"id": row["id"], "part": row["id"] % 2}

    dataset = rd.range(200, override_num_blocks=20).map(fail_late)
    with pytest.raises(ValueError, match="at the end"):
        dataset.write_parquet(out, partition_cols=partitions)
    deadline = time.monotonic() + 60
    while sorted(Path(out).rglob("*.parquet")) != before:  # of tasks that were still running
        assert time.monotonic() < deadline, sorted(Path(out).rglob("*.parquet"))
        time.sleep(0.05)

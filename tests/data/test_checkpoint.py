"""Writes that go on where an earlier program ended."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ray.data.checkpoint import (
    CheckpointBackend,
    CheckpointConfig,
    CheckpointFilter,
    CheckpointManager,
)
from ray.data.checkpoint.interfaces import (
    InvalidCheckpointingConfig,
    InvalidCheckpointingOperators,
)

ROWS, BLOCKS = 400, 20


@pytest.fixture
def remembered(rd: Any, tmp_path: Path) -> Iterator[CheckpointConfig]:
    """Datasets made from here on have a checkpoint."""
    context = rd.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "ids"))
    yield context.checkpoint_config
    context.checkpoint_config = None


def ids_of(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder).column("id").to_pylist())


@pytest.mark.contract("F10.33")
def test_a_write_goes_on_where_an_error_ended_it(
    rd: Any, remembered: CheckpointConfig, tmp_path: Path
) -> None:
    out, seen = tmp_path / "out", tmp_path / "seen"

    def step(batch: dict[str, Any], failing: bool) -> dict[str, Any]:
        if failing and 250 in batch["id"]:
            raise ValueError("not this one")
        with seen.open("a") as file:
            file.write("".join(f"{one}\n" for one in batch["id"]))
        return {**batch, "more": batch["id"] * 2, "unused": batch["id"]}

    def write(failing: bool, mode: str = "append") -> None:
        made = rd.range(ROWS, override_num_blocks=BLOCKS, concurrency=1)
        made = made.map_batches(step, fn_kwargs={"failing": failing}, concurrency=1)
        made.select_columns(["id", "more"]).write_parquet(str(out), mode=mode)

    with pytest.raises(Exception, match="not this one"):
        write(failing=True)
    first = ids_of(out)
    assert first  # the rows of tasks that were through stay
    assert 250 not in first
    begun = len(seen.read_text().split())
    # What would empty the folder, or refuse it, is for the first attempt.
    write(failing=False, mode="overwrite")
    assert ids_of(out) == list(range(ROWS))
    assert len(seen.read_text().split()) - begun == ROWS - len(first)
    assert not (tmp_path / "ids").exists()  # it is complete
    write(failing=False)
    assert ids_of(out) == sorted(2 * list(range(ROWS)))  # another write, from the begin


def test_a_driver_that_was_killed_goes_on(tmp_path: Path) -> None:
    out, ids = tmp_path / "out", tmp_path / "ids"
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, sys, time
        import ray
        from ray.data.checkpoint import CheckpointConfig

        ray.init(num_cpus=2, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.checkpoint_config = CheckpointConfig(
            "id", {str(ids)!r}, delete_checkpoint_on_success=False
        )

        is_held = sys.argv[1] == "held"

        def step(batch):
            if is_held and 300 in batch["id"]:
                time.sleep(3600)
            return batch

        made = ray.data.range({ROWS}, override_num_blocks={BLOCKS}).map_batches(step)
        made.write_parquet({str(out)!r})
        """)
    )
    first = subprocess.Popen([sys.executable, str(script), "held"], start_new_session=True)
    try:
        while not list(ids.glob("*.parquet")):
            assert first.poll() is None
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(60)
    # A task that had begun and had written: its file is found by its name.
    (ids / "abc_000001.pending").touch()
    pq.write_table(pa.table({"id": [1]}), out / "abc_000001_000000-0.parquet")
    subprocess.run([sys.executable, str(script), "on"], check=True, timeout=300)
    assert ids_of(out) == list(range(ROWS))
    assert ids_of(ids) == list(range(ROWS))
    assert not list(ids.glob("*.pending"))
    again = {path.name for path in out.iterdir()}
    subprocess.run([sys.executable, str(script), "on"], check=True, timeout=300)
    assert {path.name for path in out.iterdir()} == again  # nothing is left to write


def test_sinks_and_filters_of_the_program(
    rd: Any, remembered: CheckpointConfig, tmp_path: Path
) -> None:
    from ray.data import Datasink

    class Rows(Datasink[None]):
        def write(self, blocks: Any, ctx: Any) -> None:
            with (tmp_path / "rows").open("a") as file:
                for block in blocks:
                    file.write("".join(f"{one}\n" for one in block.column("id").to_pylist()))

    class Manager(CheckpointManager):
        def load_checkpoint(self, *of_files: Any) -> tuple[Any, int]:
            ref, size = super().load_checkpoint(*of_files)
            return ref, size

    class Odd(CheckpointFilter):
        def filter_rows_for_block(self, block: Any) -> Any:
            return block.filter(pa.array([one % 2 == 1 for one in block.column("id").to_pylist()]))

    remembered.checkpoint_filter_cls, remembered.checkpoint_manager_cls = Odd, Manager
    remembered.delete_checkpoint_on_success = False
    rd.range(100, override_num_blocks=4).write_datasink(Rows())
    written = sorted(int(line) for line in (tmp_path / "rows").read_text().split())
    assert written == list(range(1, 100, 2))
    assert ids_of(tmp_path / "ids") == written
    remembered.checkpoint_filter_cls = None
    rd.range(100, override_num_blocks=4).write_datasink(Rows())
    assert sorted(int(line) for line in (tmp_path / "rows").read_text().split()) == list(range(100))


def test_what_has_no_checkpoint_is_refused(
    rd: Any, remembered: CheckpointConfig, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with pytest.raises(InvalidCheckpointingOperators, match="which Sort does not"):
        rd.range(10).sort("id").write_parquet(out)
    with pytest.raises(Exception, match=re.escape("written have no column 'id'")):
        rd.range(10).rename_columns({"id": "other"}).write_parquet(out)
    with pytest.raises(Exception, match=re.escape("read have no column 'id'")):
        rd.from_items([{"x": 1}]).write_parquet(out)
    assert not list((tmp_path / "out").glob("*.parquet"))
    pq.write_table(pa.table({"key": [1]}), tmp_path / "ids" / "a_000000.parquet")
    with pytest.raises(InvalidCheckpointingConfig, match="by the column 'key', not by 'id'"):
        rd.range(10).write_parquet(out)


def test_what_is_said_of_a_checkpoint_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ray.data import DataContext

    monkeypatch.delenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", raising=False)
    for made, said in [
        (lambda: CheckpointConfig(), "`id_column` must name a column"),
        (lambda: CheckpointConfig("id"), "RAY_DATA_CHECKPOINT_PATH_BUCKET"),
        (lambda: CheckpointConfig("id", "nothing://x"), "`checkpoint_path`"),
        (
            lambda: CheckpointConfig("id", "/x", checkpoint_filter_cls=int),  # type: ignore[arg-type]
            "subclass of CheckpointFilter",
        ),
        (
            lambda: CheckpointConfig("id", "/x", checkpoint_filter_cls=CheckpointFilter),
            "must implement all abstract methods",
        ),
    ]:
        with pytest.raises(InvalidCheckpointingConfig, match=said):
            made()
    monkeypatch.setenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", str(tmp_path))
    context = DataContext()
    context.checkpoint_config = {"id_column": "id"}  # type: ignore[assignment]
    assert context.checkpoint_config is not None
    assert context.checkpoint_config.checkpoint_path == f"{tmp_path}/ray_data_checkpoint"
    assert context.checkpoint_config.backend is CheckpointBackend.FILE_STORAGE
    with pytest.raises(TypeError, match="takes a CheckpointConfig"):
        context.checkpoint_config = "id"  # type: ignore[assignment]

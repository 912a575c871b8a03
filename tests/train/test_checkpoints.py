"""Checkpoints: merging, keeping, resuming, uploading; visible whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    FailureConfig,
    Result,
    WorkerGroupError,
    get_all_reported_checkpoints,
)

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("quiet")

SNAPSHOT = "checkpoint_manager_snapshot.json"


@pytest.mark.contract("F9.06")
def test_a_local_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "w.txt").write_text("w")
    checkpoint = Checkpoint.from_directory(tmp_path / "a")
    with checkpoint.as_directory() as folder:
        assert folder == str(tmp_path / "a")
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": 2})
    assert checkpoint.get_metadata() == {"a": 1, "b": 2}
    copy = checkpoint.to_directory(tmp_path / "b")
    assert copy == str(tmp_path / "b")
    assert Path(copy, "w.txt").read_text() == "w"
    assert f"path={tmp_path / 'a'}" in repr(checkpoint)


@pytest.mark.contract("F9.15")
def test_files_of_all_ranks_are_merged(fit: Any) -> None:
    def loop() -> None:
        rank = train.get_context().get_world_rank()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "sub").mkdir()
            Path(folder, "sub", f"shard{rank}").write_text(str(rank))
            Path(folder, "model").write_text("same")
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))

    result = fit(loop, 3)
    with result.checkpoint.as_directory() as folder:
        found = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())
    assert found == ["model", "sub/shard0", "sub/shard1", "sub/shard2"]


@pytest.mark.contract("F9.08")
@pytest.mark.parametrize(("order", "kept"), [("max", [3, 4, 9]), ("min", [1, 2, 9])])
def test_the_best_are_kept_and_the_latest(fit: Any, order: str, kept: list[int]) -> None:
    scores = {1: 0.1, 2: 0.2, 3: 0.8, 4: 0.9, 9: 0.5}

    def loop() -> None:
        for key, score in scores.items():
            with tempfile.TemporaryDirectory() as folder:
                train.report(
                    {"key": key, "score": score}, checkpoint=Checkpoint.from_directory(folder)
                )

    keep = CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="score", checkpoint_score_order=order
    )
    result = fit(loop, 1, checkpoint_config=keep)
    assert sorted(m["key"] for _, m in result.best_checkpoints) == kept
    assert result.metrics["key"] == 9
    best = result.get_best_checkpoint("score", order)
    assert best.path == next(
        c.path for c, m in result.best_checkpoints if m["key"] == (4 if order == "max" else 1)
    )
    folders = [p for p in Path(result.path).iterdir() if p.name.startswith("checkpoint_2")]
    assert len(folders) == 3
    with pytest.raises(ValueError):
        result.get_best_checkpoint("score", "best")


@pytest.mark.contract("F9.10")
def test_the_layout_on_the_disk(fit: Any) -> None:
    def loop() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "w").write_text("w")
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))

    result = fit(loop, 1)
    snapshot = json.loads(Path(result.path, SNAPSHOT).read_text())
    (row,) = snapshot["checkpoint_results"]
    assert row["metrics"] == {"a": 1}
    assert Path(result.path, row["checkpoint_dir_name"], "w").read_text() == "w"
    assert Path(result.path, ".validate_storage_marker").exists()


def adder() -> Callable[[], str]:
    """A training function that saves the last checkpoint's text and a plus sign, and returns that text."""

    def loop() -> str:  # within a function: workers do not import this module
        checkpoint = train.get_checkpoint()
        before = ""
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                before = Path(folder, "w").read_text()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "w").write_text(before + "+")
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))
        return before

    return loop


@pytest.mark.contract("F9.10", "F9.05")
def test_the_same_name_resumes(fit: Any) -> None:
    assert fit(adder(), 1, name="again").return_value == ""
    second = fit(adder(), 1, name="again")
    assert second.return_value == "+"
    read = Result.from_path(second.path)
    assert read.checkpoint.path == second.checkpoint.path
    assert read.metrics == {"a": 1}


@pytest.mark.contract("F9.04", "F9.10")
@pytest.mark.heliostat_only("Ray's runs take longer than a second")
@pytest.mark.parametrize("workers", [0, 1])
def test_runs_without_a_name_never_resume_each_other(fit: Any, workers: int) -> None:
    """However many of them begin in the same second."""

    def loop() -> bool:
        with tempfile.TemporaryDirectory() as folder:
            resumed = train.get_checkpoint() is not None
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))
        return resumed

    results = [fit(loop, workers, name=None) for _ in range(6)]
    assert [result.return_value for result in results] == [False] * 6
    assert len({result.path for result in results}) == 6
    assert all("/ray_train_run-20" in result.path for result in results)


@pytest.mark.contract("F9.15")
def test_a_name_of_ones_own(fit: Any) -> None:
    def loop() -> None:
        for i in range(2):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "w").write_text("w")
                train.report(
                    {"i": i},
                    checkpoint=Checkpoint.from_directory(folder),
                    checkpoint_dir_name=f"mine_{i}",
                )

    assert Path(fit(loop, 2).checkpoint.path).name == "mine_1"


@pytest.mark.contract("F9.08", "F9.10")
@pytest.mark.heliostat_only("Ray leaves them there for ever")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_removal_that_was_cut_off_is_made_up_for(fit: Any, workers: int) -> None:
    """Whoever died between the snapshot and the removal has left a folder that is not kept."""

    def loop() -> None:
        with tempfile.TemporaryDirectory() as folder:
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))

    keep = CheckpointConfig(num_to_keep=1)
    path = Path(fit(loop, workers, checkpoint_config=keep).path)
    snapshot = path / "checkpoint_manager_snapshot.json"
    content = json.loads(snapshot.read_text())
    assert content["leaving_checkpoint_dir_names"] == []
    kept = content["checkpoint_results"][0]["checkpoint_dir_name"]
    (path / "checkpoint_left").mkdir()
    (path / "checkpoint_left" / "file").write_text("large")
    content["leaving_checkpoint_dir_names"] = ["checkpoint_left", "gone", kept]
    snapshot.write_text(json.dumps(content))
    result = fit(loop, workers, checkpoint_config=keep)
    assert [p.name for p in path.glob("checkpoint_*") if p.is_dir()] == [
        Path(result.checkpoint.path).name
    ]


@pytest.mark.contract("F9.08", "F9.15")
@pytest.mark.heliostat_only("looks inside of the coordinator")
def test_a_name_that_comes_again_while_the_old_one_is_removed(tmp_path: Path) -> None:
    """Removing "a" takes its time; meanwhile "a" is reported again, and must stay."""
    from heliostat.train.coordinator.checkpoint_book import CheckpointBook
    from heliostat.train.coordinator.publish import Publisher
    from heliostat.train.messages import ReportEntry
    from heliostat.train.storage.local import LocalStorage

    removing = threading.Event()

    class Slow(LocalStorage):
        def delete(self, name: str) -> None:
            removing.wait(30)
            super().delete(name)

    async def scenario() -> None:
        storage = Slow(str(tmp_path / "run"), None, False)
        publisher = Publisher(storage, CheckpointBook(num_to_keep=1))
        for step, name in enumerate("aba"):
            source = tmp_path / f"step{step}"
            source.mkdir()
            (source / "file").write_text(str(step))
            storage.upload(str(source), str(step), name)
            entries = {0: ReportEntry({"step": step}, staged=True, dir_name=name)}
            if step == 2:
                asyncio.get_running_loop().call_later(0.1, removing.set)
            await publisher.publish(str(step), entries, None, step)
            publisher.prune_soon(lambda kind, data: None)
        await publisher.settle()

    asyncio.run(scenario())
    assert (tmp_path / "run" / "a" / "file").read_text() == "2"
    assert not (tmp_path / "run" / "b").exists()


@pytest.mark.heliostat_only("looks inside of the coordinator")
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_checkpoint_has_the_files_of_those_who_reported_it(
    tmp_path: Path, is_remote: bool
) -> None:
    """Rank 1 of a replica group is lost when its files are there, and before it has reported."""
    from heliostat.train.coordinator.checkpoint_book import CheckpointBook
    from heliostat.train.coordinator.publish import Publisher
    from heliostat.train.messages import ReportEntry
    from heliostat.train.storage.arrow import ArrowStorage
    from heliostat.train.storage.base import Storage, files_below
    from heliostat.train.storage.local import LocalStorage

    storage: Storage = LocalStorage(str(tmp_path / "run"), None, False)
    if is_remote:
        fs = pytest.importorskip("pyarrow.fs", reason="an object store is pyarrow's")
        storage = ArrowStorage(str(tmp_path / "run"), fs.LocalFileSystem(), False)
    storage.prepare()

    def brought(rank: int, name: str) -> ReportEntry:
        source = tmp_path / f"{name}-{rank}"
        (source / "deep").mkdir(parents=True)
        for file in (f"part-{rank}", f"deep/part-{rank}"):
            (source / file).write_text(f"rank {rank}")
        storage.upload(str(source), name, name)
        files = files_below(str(source))
        return ReportEntry({"step": 1}, staged=True, files=files, dir_name=name)

    async def published(name: str, lost: int | None) -> list[str]:
        entries = {rank: brought(rank, name) for rank in range(2)}
        if lost is not None:
            del entries[lost]
        publisher = Publisher(storage, CheckpointBook())
        await publisher.publish(name, entries, None, 0, 2)
        return sorted(files_below(str(tmp_path / "run" / name)))

    both = ["deep/part-0", "deep/part-1", "part-0", "part-1"]
    assert asyncio.run(published("all", None)) == both
    assert asyncio.run(published("less", 1)) == ["deep/part-0", "part-0"]


@pytest.mark.heliostat_only("looks inside of the storage")
@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 5])
@pytest.mark.parametrize("fsync", [False, True])
def test_files_of_any_size_are_copied_whole(tmp_path: Path, size: int, fsync: bool) -> None:
    from heliostat.train.storage.local import LocalStorage

    source = tmp_path / "source"
    source.mkdir()
    data = os.urandom(size)
    (source / "file").write_bytes(data)
    storage = LocalStorage(str(tmp_path / "run"), None, fsync)
    storage.prepare()
    storage.upload(str(source), "stage", "final")
    storage.publish("stage", "final")
    assert (tmp_path / "run" / "final" / "file").read_bytes() == data
    assert (source / "file").read_bytes() == data


@pytest.mark.heliostat_only("looks inside of the storage")
def test_a_disk_that_takes_a_part_of_each_write_gets_all_of_it_or_says_so(tmp_path: Path) -> None:
    from heliostat.train.storage.local import _copy_bytes

    class Slow(io.FileIO):
        """Takes a part of what is written, and is full behind some bytes."""

        left = 0

        def write(self, data: Any) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            part = bytes(data)[: min(1000, self.left)]
            self.left -= len(part)
            return super().write(part)

    data = os.urandom(50_000)
    (tmp_path / "source").write_bytes(data)
    with io.FileIO(tmp_path / "source") as source, Slow(tmp_path / "target", "wb") as target:
        target.left = len(data)
        _copy_bytes(source, target)
    assert (tmp_path / "target").read_bytes() == data
    with io.FileIO(tmp_path / "source") as source, Slow(tmp_path / "target", "wb") as target:
        target.left = len(data) - 1
        with pytest.raises(OSError, match="No space left"):
            _copy_bytes(source, target)


@pytest.mark.contract("F9.20")
def test_asynchronous_uploads(fit: Any, tmp_path: Path) -> None:
    def loop() -> list[int]:
        for i in range(3):
            folder = tmp_path / f"local{i}"
            folder.mkdir()
            (folder / "w").write_text(str(i))
            train.report(
                {"i": i},
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            )
        return [r.metrics["i"] for r in get_all_reported_checkpoints()]

    result = fit(loop, 1)
    assert result.return_value == [0, 1, 2]
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "w").read_text() == "2"
    assert not any((tmp_path / f"local{i}").exists() for i in range(3))


@pytest.mark.contract("F9.20")
def test_a_failed_asynchronous_upload_is_a_failure(fit: Any, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")

    def loop() -> None:
        train.report(
            {"i": 0},
            checkpoint=Checkpoint.from_directory(gone),
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
        )

    with pytest.raises(train.WorkerGroupError):
        fit(loop, 1)


@pytest.mark.contract("F9.20")
def test_a_checkpoint_that_lies_in_the_storage(fit: Any) -> None:
    def loop() -> None:
        storage = train.get_context().get_storage()
        folder = Path(storage.path if hasattr(storage, "path") else storage.experiment_fs_path)
        folder = folder / "by_hand"
        folder.mkdir()
        (folder / "w").write_text("w")
        train.report(
            {"i": 0},
            checkpoint=Checkpoint(str(folder)),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    result = fit(loop, 1)
    assert Path(result.checkpoint.path).name == "by_hand"
    assert Path(result.checkpoint.path, "w").read_text() == "w"


@pytest.mark.heliostat_only("CKPT-1")
def test_a_checkpoint_is_visible_whole_or_not_at_all(fit: Any, tmp_path: Path) -> None:
    """A worker dies in the middle of writing; nobody ever sees a folder with missing files."""
    died = tmp_path / "died"
    size, files = 200_000, 20

    def die_half_way() -> None:
        """From now on a part of the fifth copied file is the last thing that this process does."""
        from heliostat.train.storage import local

        copied, plain = [], local._copy_bytes

        def copy(source: io.FileIO, target: io.FileIO) -> None:
            copied.append(source)
            if len(copied) == 5:
                target.write(b"half of it")
                os._exit(1)
            plain(source, target)

        local._copy_bytes = copy  # its process ends with it

    def loop() -> None:
        rank = train.get_context().get_world_rank()
        for step in range(8):
            if step == 4 and rank == 1 and not died.exists():
                died.write_text("")
                die_half_way()
            with tempfile.TemporaryDirectory() as folder:
                for i in range(files):
                    Path(folder, f"{rank}-{i}").write_bytes(bytes(size))
                train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))

    seen: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            for folder in (tmp_path / "run").glob("checkpoint_2*"):
                try:
                    sizes = [p.stat().st_size for p in folder.iterdir()]
                except FileNotFoundError:
                    continue
                if len(sizes) != 2 * files or set(sizes) != {size}:
                    seen.append(f"{folder}: {len(sizes)} files")
            time.sleep(0.002)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        result = fit(loop, 2, failure_config=FailureConfig(max_failures=1))
    finally:
        stop.set()
        watcher.join()
    assert died.exists()
    assert seen == []
    assert len(result.best_checkpoints) == 12
    assert not list((tmp_path / "run" / ".staging").glob("*"))


@pytest.mark.contract("F9.19")
def test_all_reported_checkpoints(fit: Any) -> None:
    def loop() -> list[int]:
        for i in range(3):
            with tempfile.TemporaryDirectory() as folder:
                train.report({"i": i}, checkpoint=Checkpoint.from_directory(folder))
        return [c.metrics["i"] for c in get_all_reported_checkpoints()]

    assert fit(loop, 2).return_value == [0, 1, 2]


@pytest.mark.contract("F9.10")
def test_a_filesystem_of_pyarrow(fit: Any, tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

    options = {"storage_path": "runs", "storage_filesystem": store, "name": "arrow"}
    first = fit(adder(), 2, **options)
    assert (tmp_path / first.checkpoint.path / "w").read_text() == "+"
    assert fit(adder(), 2, **options).return_value == "+"


@pytest.mark.contract("F9.05")
@pytest.mark.heliostat_only("Ray takes NaN for the best where it comes first")
def test_the_best_is_never_nan(fit: Any) -> None:
    def loop() -> None:
        for value in (float("nan"), 2.0, "none", 3.0):
            with tempfile.TemporaryDirectory() as folder:
                saved = Checkpoint.from_directory(folder)
                train.report({"score": value, "text": "x"}, checkpoint=saved)

    result = fit(loop, 1)
    paths = [checkpoint.path for checkpoint, _ in result.best_checkpoints]
    assert result.get_best_checkpoint("score", "max").path == paths[3]
    assert result.get_best_checkpoint("score", "min").path == paths[1]
    with pytest.raises(ValueError, match="'text' is a number in no checkpoint"):
        result.get_best_checkpoint("text", "max")
    (Path(result.path) / "reports.json").write_text("{")
    with pytest.raises(RuntimeError, match="cannot be read"):
        type(result).from_path(result.path)


@pytest.mark.contract("F9.20")
@pytest.mark.heliostat_only("Ray says what its own code trips over")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"checkpoint_upload_mode": "ASYNC"}, "CheckpointUploadMode.ASYNC"),
        ({"checkpoint_upload_fn": "copy"}, "must be a function"),
        ({"checkpoint_upload_fn": lambda checkpoint, name: None}, "must return the Checkpoint"),
        ({"checkpoint_dir_name": 3}, "must be a string"),
        ({"checkpoint_dir_name": "a/b"}, "hold '/'"),
        ({"checkpoint_dir_name": ".staging"}, "file of the run"),
    ],
)
def test_wrong_options_of_a_report(fit: Any, options: dict[str, Any], says: str) -> None:
    def loop() -> None:
        with tempfile.TemporaryDirectory() as folder:
            train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder), **options)

    with pytest.raises(WorkerGroupError, match=says):
        fit(loop, 1)


@pytest.mark.contract("F9.10")
@pytest.mark.heliostat_only("on Ray both write into the folder")
def test_two_runs_at_a_time_in_one_folder(fit: Any, tmp_path: Path) -> None:
    """The second would remove what the first one is uploading."""
    running, go_on = tmp_path / "running", tmp_path / "go_on"

    def loop() -> int:
        running.touch()
        wait_until(go_on.exists, what="the other run")
        return 7

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(fit(loop, 1)))
    thread.start()
    try:
        wait_until(running.exists, what="the first run")
        with pytest.raises(ValueError, match=rf"Another run is using .*pid {os.getpid()} on"):
            fit(loop, 1)
    finally:
        go_on.touch()
        thread.join()
    assert results[0].return_value == 7
    assert fit(loop, 1).return_value == 7

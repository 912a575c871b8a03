"""Searches whose storage is no disk: ``storage_filesystem`` and URIs (F11.01, F11.08)."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import cloudpickle
import pytest
from heliostat.train.storage.arrow import ArrowStorage
from heliostat.tune.runner import mirror
from heliostat.tune.runner.mirror import JOURNAL, PARTS, Mirror
from heliostat.tune.trainable import checkpoint_objects
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from tests.helpers.harness import start_driver, wait_until

fs = pytest.importorskip("pyarrow.fs", reason="it is what reads and writes there")
# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.01", "F11.08")


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    """A filesystem that all processes reach, and that is not the local one."""
    (tmp_path / "bucket").mkdir()
    return fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())


def counts(config: dict[str, Any]) -> None:
    checkpoint, begin = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            begin = int(Path(folder, "at").read_text())
    for i in range(begin, 3):
        if i == 2 and os.path.exists(config.get("fails", "")):
            raise RuntimeError("bad luck")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "at").write_text(str(i + 1))
            tune.report(
                {"score": i * config["x"], "begin": begin},
                checkpoint=tune.Checkpoint.from_directory(folder),
            )


class Steps(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.at = 0

    def step(self) -> dict[str, Any]:
        self.at += 1
        return {"score": self.at}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "at").write_text(str(self.at))

    def load_checkpoint(self, checkpoint: str) -> None:
        self.at = int(Path(checkpoint, "at").read_text())


def at(checkpoint: Any) -> int:
    with checkpoint.as_directory() as folder:
        return int(Path(folder, "at").read_text())


def test_files_and_checkpoints_are_in_the_storage(fit: Any, stored: Any, tmp_path: Path) -> None:
    run = {
        "storage_path": "runs",
        "storage_filesystem": stored,
        "checkpoint_config": tune.CheckpointConfig(num_to_keep=2),
    }
    grid = fit(counts, {"x": tune.grid_search([1, 2])}, run=run)
    folder = tmp_path / "bucket" / "runs" / "search"
    assert (grid.experiment_path, grid.filesystem) == ("runs/search", stored)
    assert (folder / JOURNAL).exists()
    assert not (folder / PARTS).exists()
    for result in grid:
        assert result.filesystem == stored
        assert at(result.checkpoint) == 3
        assert [at(one) for one, _ in result.best_checkpoints] == [2, 3]
        assert len(result.metrics_dataframe) == 3
        files = sorted(path.name for path in (tmp_path / "bucket" / result.path).iterdir())
        assert files == [
            "checkpoint_000001",
            "checkpoint_000002",
            "params.json",
            "params.pkl",
            "progress.csv",
            "result.json",
        ]
    found = tune.ExperimentAnalysis("runs/search", storage_filesystem=stored)
    best = found.get_best_trial("score", "max")
    assert at(found.get_best_checkpoint(best, "score", "max")) == 3
    assert len(found.trial_dataframes[best.trial_id]) == 3
    with pytest.raises(ValueError, match="has a search already"):
        fit(counts, {"x": 1}, run=run)


def test_failed_trials_go_on_from_the_storage(fit: Any, stored: Any, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    run = {"storage_path": "runs", "storage_filesystem": stored}
    grid = fit(counts, {"x": 1, "fails": str(flag)}, run=run)
    assert grid.num_errors == 1
    flag.unlink()
    assert tune.Tuner.can_restore("runs/search", storage_filesystem=stored)
    assert not tune.Tuner.can_restore("runs/other", storage_filesystem=stored)
    left = tune.Tuner.restore("runs/search", counts, storage_filesystem=stored)
    assert "bad luck" in str(left.get_results()[0].error)
    tuner = tune.Tuner.restore(
        "runs/search", counts, resume_errored=True, storage_filesystem=stored
    )
    (result,) = tuner.fit()
    assert (result.metrics["begin"], result.metrics["score"]) == (2, 2)
    again = tune.Tuner.restore("runs/search", counts, storage_filesystem=stored).get_results()
    assert (again.num_errors, len(again[0].metrics_dataframe)) == (0, 3)


class Removes(tune.Callback):
    """Takes each checkpoint out of the storage as soon as it is there."""

    def on_checkpoint(self, checkpoint: Any, **info: Any) -> None:
        checkpoint.filesystem.delete_dir(checkpoint.path)


@pytest.mark.parametrize("trainable", [Steps, counts])
def test_populations_hand_checkpoints_on_without_reading_the_storage(
    fit: Any, stored: Any, trainable: Any
) -> None:
    pbt = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=1,
        hyperparam_mutations={"x": [1, 2]},
        synch=True,
    )
    grid = fit(
        trainable,
        {"x": tune.grid_search([1, 2])},
        run={
            "storage_path": "runs",
            "storage_filesystem": stored,
            "stop": {"training_iteration": 3},
            "callbacks": [Removes()],
        },
        scheduler=pbt,
    )
    assert grid.num_errors == 0
    assert [result.metrics["training_iteration"] for result in grid] == [3, 3]
    if trainable is Steps:
        assert [result.metrics["score"] for result in grid] == [3, 3]


def test_files_of_a_checkpoint_are_the_same_where_they_are_handed(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "file").write_bytes(b"12")
    (tmp_path / "a" / "empty").write_bytes(b"")
    files = checkpoint_objects.packed(str(tmp_path / "a"), "bucket/a")
    assert files is not None
    storage = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    checkpoint = checkpoint_objects.HandedCheckpoint(files, storage)
    with checkpoint.as_directory() as folder:
        assert Path(folder, "deep", "file").read_bytes() == b"12"
        assert Path(folder, "empty").read_bytes() == b""
    elsewhere = pickle.loads(pickle.dumps(checkpoint))
    assert (type(elsewhere), elsewhere.path) == (tune.Checkpoint, "bucket/a")
    (tmp_path / "a" / "link").symlink_to("empty")
    assert checkpoint_objects.packed(str(tmp_path / "a"), "bucket/a") is None


def test_memory_keeps_what_the_driver_writes(fit: Any) -> None:
    pytest.importorskip("fsspec", reason="it has a filesystem in memory")

    def plain(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})

    place = f"memory:///{os.getpid()}"
    (result,) = fit(plain, {"x": 3}, run={"storage_path": place})
    assert result.metrics["score"] == 3
    restored = tune.Tuner.restore(f"{place}/search", plain).get_results()
    assert restored[0].metrics["score"] == 3
    (failed,) = fit(counts, {"x": 3}, run={"storage_path": place, "name": "other"})
    assert "takes no checkpoints of trials" in str(failed.error)


def test_a_uri_that_nobody_knows_is_named(fit: Any) -> None:
    with pytest.raises(ValueError, match="nosuch://"):
        fit(counts, {"x": 1}, run={"storage_path": "nosuch://a/b"})


# --- the journal in parts ---


@pytest.fixture
def mirrored(tmp_path: Path, stored: Any) -> tuple[Path, ArrowStorage]:
    (tmp_path / "local").mkdir()
    return tmp_path / "local", ArrowStorage("runs/search", stored, False)


def append(folder: Path, data: bytes) -> None:
    with open(folder / JOURNAL, "ab") as file:
        file.write(data)


def read(storage: ArrowStorage) -> bytes:
    return Path(mirror.fetch(storage), JOURNAL).read_bytes()


def test_parts_are_read_as_one(mirrored: tuple[Path, ArrowStorage]) -> None:
    folder, storage = mirrored
    copies = Mirror(folder=str(folder), storage=storage)
    for data in (b"one", b"two", b"three"):
        append(folder, data)
        copies._copy_journal()
    assert read(storage) == b"onetwothree"
    # The end, cut off between its two writes: the parts say what is in the whole one, too.
    storage.write(JOURNAL, b"onetwothree")
    assert read(storage) == b"onetwothree"
    storage.write(JOURNAL, b"onetw")
    assert read(storage) == b"onetwothree"
    # A part that is not there yet: nothing behind it is read.
    storage.filesystem.delete_file(storage.join(PARTS, f"{3:016d}"))
    storage.filesystem.delete_file(storage.join(JOURNAL))
    assert read(storage) == b"one"


def test_what_was_cut_off_does_not_come_back(mirrored: tuple[Path, ArrowStorage]) -> None:
    folder, storage = mirrored
    append(folder, b"one")
    first = Mirror(str(folder), storage)
    first._copy_journal()
    append(folder, b"to")  # a record that its writer's death tore
    first._copy_journal()
    (folder / JOURNAL).write_bytes(b"one")
    second = Mirror(str(folder), storage)
    second.begin(is_there=True)
    append(folder, b"two")
    second._ends.set()
    second._copy_journal()
    assert read(storage) == b"onetwo"
    second.close()
    assert read(storage) == b"onetwo"


def test_a_storage_that_comes_back_gets_what_it_missed(
    mirrored: tuple[Path, ArrowStorage], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    folder, storage = mirrored
    monkeypatch.setattr(mirror, "EVERY_S", 0.01)
    write, is_away = storage.write, True

    def away(name: str, data: bytes) -> None:
        if is_away and data:
            raise OSError("it is away")
        write(name, data)

    append(folder, b"one")
    copies = Mirror(str(folder), storage)
    copies.begin(is_there=False)
    monkeypatch.setattr(storage, "write", away)
    with caplog.at_level(logging.WARNING, "heliostat"):
        append(folder, b"two")
        wait_until(lambda: "it is away" in caplog.text, what="a warning")
    with pytest.raises(tune.TuneError, match=f"it is away. They are in {folder}"):
        copies.close()
    is_away = False
    copies.close()
    assert read(storage) == b"onetwo"


# --- an S3 server ---


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of a bucket."""
    server_of = pytest.importorskip("moto.server", reason="it is the server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    urlopen(Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")).close()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    client, _ = fs.FileSystem.from_uri(f"s3://bucket?{options}&allow_bucket_creation=true")
    client.create_dir("bucket")
    yield options
    server.stop()


DRIVER = """
import os, sys, tempfile
import ray
from pathlib import Path
from ray import tune
from pyarrow import fs

def work(config):
    for i in range(3):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "at").write_text(str(i + 1))
            tune.report({"score": i}, checkpoint=tune.Checkpoint.from_directory(folder))
        while i == 1 and not Path(config["go"]).exists():
            __import__("time").sleep(0.05)

def main(options, go, restores):
    ray.init(num_cpus=2, include_dashboard=False)
    s3, _ = fs.FileSystem.from_uri("s3://bucket?" + options)
    if restores:
        tuner = tune.Tuner.restore("bucket/runs/search", work, storage_filesystem=s3)
    else:
        run = tune.RunConfig(
            name="search", storage_path="bucket/runs", storage_filesystem=s3, verbose=0)
        tuner = tune.Tuner(work, param_space={"x": tune.grid_search([1, 2]), "go": go}, run_config=run)
    grid = tuner.fit()
    told = []
    for result in grid:
        with result.checkpoint.as_directory() as folder:
            told.append((result.metrics["score"], Path(folder, "at").read_text()))
    print("told=" + str(told))

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], len(sys.argv) > 3)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # moto's sockets
def test_a_killed_driver_leaves_its_search_on_s3(s3: str, tmp_path: Path) -> None:
    client, _ = fs.FileSystem.from_uri(f"s3://bucket?{s3}")
    storage = ArrowStorage("bucket/runs/search", client, False)
    args = [s3, str(tmp_path / "go")]
    first = start_driver(tmp_path, DRIVER, args=args, name="first")

    def two_wait() -> bool:
        assert first.process.poll() is None, first.stderr()
        journal = mirror._whole(
            storage,
            sorted(
                info.path.removeprefix("bucket/runs/search/")
                for info in client.get_file_info(
                    fs.FileSelector(storage.join(PARTS), allow_not_found=True)
                )
            ),
        )
        return journal.count(b"checkpoint_000001") >= 2

    wait_until(two_wait, what="two checkpoints of each trial in the bucket")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    (tmp_path / "go").touch()
    second = start_driver(tmp_path, DRIVER, args=[*args, "restore"], name="second")
    assert second.finish().check().value("told") == "[(2, '3'), (2, '3')]"

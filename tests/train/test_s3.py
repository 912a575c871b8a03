"""Runs whose storage is an S3-compatible server, which may go away in the middle."""

from __future__ import annotations

import io
import json
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from heliostat.train.storage.arrow import ArrowStorage
from ray import train
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    FailureConfig,
    Result,
    WorkerGroupError,
)

from tests.helpers.harness import wait_until
from tests.helpers.modules import loaded

fs = pytest.importorskip("pyarrow.fs")
server_of = pytest.importorskip("moto.server")
pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # moto's sockets
]

RUN = "bucket/runs/run"
SNAPSHOT = "checkpoint_manager_snapshot.json"


def load_gate() -> Any:
    """The module beside this one (tests are imported without packages)."""
    return loaded(Path(__file__).with_name("gate.py"))


@dataclass
class Server:
    """A server with a bucket: through the gate, as runs see it, and past it, as the test does."""

    gate: Any
    through: Any
    past: Any

    def names(self) -> list[str]:
        """What lies in the folder of the run."""
        return sorted(f.base_name for f in self.past.get_file_info(fs.FileSelector(RUN)))

    def folders(self) -> list[str]:
        """The checkpoints that lie in the folder of the run."""
        return [name for name in self.names() if name.startswith("checkpoint_2")]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    # All servers of a process share their buckets.
    urlopen(Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")).close()
    gate = load_gate().Gate(port)

    def client(at: int) -> Any:
        return fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            endpoint_override=f"http://127.0.0.1:{at}",
            region="us-east-1",
            allow_bucket_creation=True,
            connect_timeout=2,
            request_timeout=5,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
        )

    past = client(port)
    past.create_dir("bucket")
    yield Server(gate, client(gate.port), past)
    gate.close()
    server.stop()


@pytest.fixture
def fit_s3(fit: Any, s3: Server) -> Any:
    def run(*args: Any, **options: Any) -> Result:
        options.update(storage_path="bucket/runs", storage_filesystem=s3.through)
        result: Result = fit(*args, **options)
        return result

    return run


def wait_for(file: Path) -> None:
    wait_until(file.exists, what=file.name)


def steps(count: int, at_step: Any = None, **options: Any) -> Any:
    """A loop that counts, saves each step, and goes on behind the last one that was saved."""

    def loop() -> list[int]:
        rank = train.get_context().get_world_rank()
        checkpoint, first = train.get_checkpoint(), 0
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                assert sorted(os.listdir(folder)) == ["rank0", "rank1"]
                first = int(Path(folder, f"rank{rank}").read_text()) + 1
        for step in range(first, count):
            if at_step is not None:
                at_step(step, rank)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, f"rank{rank}").write_text(str(step))
                train.report(
                    {"step": step}, checkpoint=Checkpoint.from_directory(folder), **options
                )
        return list(range(first, count))

    return loop


@pytest.mark.contract("F9.08", "F9.10", "F9.15")
def test_reports_retention_and_resuming(fit_s3: Any, s3: Server) -> None:
    keep = CheckpointConfig(num_to_keep=2)
    result = fit_s3(steps(4), checkpoint_config=keep)
    assert [m["step"] for _, m in result.best_checkpoints] == [2, 3]
    # What is no longer kept is gone from the bucket, too.
    assert s3.folders() == sorted(Path(c.path).name for c, _ in result.best_checkpoints)
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "rank1").read_text() == "3"
    assert {SNAPSHOT, ".validate_storage_marker"} <= set(s3.names())
    # The same name goes on behind the last step.
    again = fit_s3(steps(6), checkpoint_config=keep)
    assert again.return_value == [4, 5]
    read = Result.from_path(RUN, storage_filesystem=s3.past)
    assert read.metrics == {"step": 5}
    assert read.checkpoint.path == again.checkpoint.path


@pytest.mark.contract("F9.20")
def test_asynchronous_uploads(fit_s3: Any, s3: Server) -> None:
    def loop() -> None:
        for step in range(3):
            folder = tempfile.mkdtemp()
            Path(folder, "w").write_text(str(step))
            train.report(
                {"step": step},
                checkpoint=Checkpoint.from_directory(folder),
                checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            )

    result = fit_s3(loop, 1)
    assert [m["step"] for _, m in result.best_checkpoints] == [0, 1, 2]
    with s3.past.open_input_stream(f"{result.checkpoint.path}/w") as stream:
        assert stream.read() == b"2"


@pytest.mark.contract("F9.09", "F9.10")
@pytest.mark.heliostat_only("CKPT-1")
def test_a_server_that_goes_away_and_comes_back(fit_s3: Any, s3: Server, tmp_path: Path) -> None:
    """The step whose upload was cut off is repeated; no half of a checkpoint stays behind."""
    reached, closed = tmp_path / "reached", tmp_path / "closed"

    def at_step(step: int, rank: int) -> None:
        if step == 3 and rank == 1 and not closed.exists():
            reached.write_text("")
            wait_for(closed)

    def close_and_open() -> None:
        wait_for(reached)
        # Rank 0 has stored its half.
        wait_until(lambda: len(s3.folders()) == 4, what="the upload of rank 0")
        s3.gate.close()
        closed.write_text("")
        threading.Event().wait(2.0)
        s3.gate.open()

    thread = threading.Thread(target=close_and_open)
    thread.start()
    try:
        result = fit_s3(steps(6, at_step), failure_config=FailureConfig(max_failures=20))
    finally:
        reached.write_text("")
        thread.join()
    assert [m["step"] for _, m in result.best_checkpoints] == list(range(6))
    assert result.return_value[0] <= 3
    assert s3.folders() == sorted(Path(c.path).name for c, _ in result.best_checkpoints)
    for folder in s3.folders():
        found = s3.past.get_file_info(fs.FileSelector(f"{RUN}/{folder}"))
        assert sorted(f.base_name for f in found) == ["rank0", "rank1"]


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("CKPT-1")
def test_an_upload_that_is_cut_off_as_its_file_is_closed(tmp_path: Path) -> None:
    """An object store says only then that a file did not arrive."""
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/weights").write_bytes(b"123")
    (folder / "empty").mkdir()
    local = fs.LocalFileSystem()
    ArrowStorage(str(tmp_path / "run"), local, False).upload(str(folder), "stage", "whole")
    assert (tmp_path / "run/whole/deep/weights").read_bytes() == b"123"
    assert (tmp_path / "run/whole/empty").is_dir()

    class Stream(io.BytesIO):
        def close(self) -> None:
            if not self.closed:
                super().close()
                raise OSError("cut off")

    class Broken:
        def create_dir(self, path: str, recursive: bool) -> None: ...

        def open_output_stream(self, path: str) -> Stream:
            return Stream()

    with pytest.raises(OSError, match="cut off"):
        ArrowStorage(str(tmp_path / "run"), Broken(), False).upload(str(folder), "stage", "lost")


@pytest.mark.contract("F9.09")
def test_ranks_that_report_files_of_one_name(tmp_path: Path) -> None:
    """The last one wins, as on Ray; none of them takes the other's writing for a broken upload."""
    storage = ArrowStorage(str(tmp_path / "run"), fs.LocalFileSystem(), False)

    def report(rank: int) -> None:
        folder = tmp_path / f"rank{rank}"
        folder.mkdir()
        (folder / "state").write_bytes(bytes(1000 * (rank + 1)))
        for _ in range(100):
            storage.upload(str(folder), "stage", "final")

    with ThreadPoolExecutor(2) as ranks:
        list(ranks.map(report, range(2)))
    assert (tmp_path / "run/final/state").stat().st_size in (1000, 2000)


@pytest.mark.contract("F9.09", "F9.10")
@pytest.mark.heliostat_only("CKPT-1")
def test_a_server_that_is_gone_for_good(fit_s3: Any, s3: Server, tmp_path: Path) -> None:
    """The run ends with the cause, and what was published before stays whole."""
    reached, closed = tmp_path / "reached", tmp_path / "closed"

    def at_step(step: int, rank: int) -> None:
        if step == 2:
            reached.write_text("")
            wait_for(closed)

    def close() -> None:
        wait_for(reached)
        s3.gate.close()
        closed.write_text("")

    thread = threading.Thread(target=close)
    thread.start()
    try:
        with pytest.raises(WorkerGroupError, match=r"bucket.*Could(n't| not) connect"):
            fit_s3(steps(6, at_step))
    finally:
        reached.write_text("")
        thread.join()
    with s3.past.open_input_stream(f"{RUN}/{SNAPSHOT}") as stream:
        rows = json.loads(stream.read())["checkpoint_results"]
    assert [row["metrics"] for row in rows] == [{"step": 0}, {"step": 1}]


@pytest.mark.heliostat_only("Ray reports it from a worker")
def test_a_server_that_is_not_there(fit_s3: Any, s3: Server) -> None:
    """It fails before workers start and says what to look at."""
    s3.gate.close()
    with pytest.raises(ValueError, match="storage_path"):
        fit_s3(steps(1))

"""``num_workers=0``: the training function in this process, without any actor."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import Session, TrainContext, set_session, the_dataset
from heliostat.train.controller.checks import checkpoint_of
from heliostat.train.controller.record import AttemptRecord, RunRecord
from heliostat.train.controller.results import ResultBuilder
from heliostat.train.controller.spec import RunSpec
from heliostat.train.coordinator.publish import new_name
from heliostat.train.data_config import made
from heliostat.train.errors import WorkerGroupError
from heliostat.train.messages import ReportedRow
from heliostat.train.metrics import checked
from heliostat.train.reported import CheckpointUploadMode, ReportedCheckpoint
from heliostat.train.result import Result
from heliostat.train.storage.base import SNAPSHOT_FILE
from heliostat.train.validation import ValidationTaskConfig, validate


def run_locally(spec: RunSpec) -> Result:
    """Run the function here. The variables that ``torchrun`` sets give the rank, if they are set.

    Raises:
        WorkerGroupError: The function failed.
    """
    record = RunRecord(
        name=spec.storage.name, run_id=spec.run_id, path=spec.storage.path, config=spec.describe()
    )
    record.attempts.append(AttemptRecord(0, time.time(), 1, started_at=time.time()))
    results = ResultBuilder(spec, record)
    set_session(LocalSession(spec, record, results))
    job = spec.job
    values: dict[int, Any] = {}
    failure: WorkerGroupError | None = None
    try:
        values[0] = job.function(job.config) if job.takes_config else job.function()
        record.state = "finished"
    except Exception as error:
        record.state = "failed"
        failure = WorkerGroupError(f"Training failed in this process: {error!r}", {0: error})
        failure.__cause__ = error
    finally:
        set_session(None)
        record.finished_at = time.time()
    results.write_page(failure)
    if failure is not None:
        raise failure
    return results.build(spec.book, values)


class LocalSession(Session):
    """A session without peers; under ``torchrun`` only rank 0 keeps what is reported."""

    def __init__(self, spec: RunSpec, record: RunRecord, results: ResultBuilder) -> None:
        self._spec = spec
        self._record = record
        self._results = results
        latest = spec.book.latest
        self._latest = checkpoint_of(spec.storage, latest.name) if latest else None

        def number(name: str, default: int) -> int:
            return int(os.environ.get(name, default))

        self.context = TrainContext(
            world_rank=number("RANK", 0),
            world_size=number("WORLD_SIZE", 1),
            local_rank=number("LOCAL_RANK", 0),
            local_world_size=number("LOCAL_WORLD_SIZE", 1),
            node_rank=number("GROUP_RANK", number("NODE_RANK", 0)),
            experiment_name=spec.storage.name,
            storage=spec.storage,
        )

    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Checkpoint | None,
        *,
        dir_name: str | None = None,
        mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
        delete: bool | None = None,
        upload_fn: Any = None,
        validation: bool | ValidationTaskConfig = False,
        **_: Any,
    ) -> None:
        """See ``heliostat.train.report``."""
        config = self._spec.job.validation
        if validation and config is None:
            raise ValueError("report(validation=...) needs a trainer with a ValidationConfig.")
        row = ReportedRow(self._record.report_count, time.time(), checked(metrics))
        if self.context.get_world_rank() != 0:
            return
        if checkpoint is not None:
            if validation and config is not None:  # here, since there is nobody else
                task = config.task(validation)
                row.metrics |= validate(config, checkpoint, task.fn_kwargs or {})
            row.checkpoint = self._keep(checkpoint, row, dir_name, mode, delete, upload_fn)
        self._results.reported(row, os.getpid())
        self._record.add_report(row)

    def _keep(
        self,
        checkpoint: Checkpoint,
        row: ReportedRow,
        dir_name: str | None,
        mode: CheckpointUploadMode,
        delete: bool | None,
        upload_fn: Any,
    ) -> str:
        storage, book = self._spec.storage, self._spec.book
        name = dir_name or new_name()
        if upload_fn is not None:
            name = upload_fn(checkpoint, name).path
        elif mode is CheckpointUploadMode.NO_UPLOAD:
            name = checkpoint.path
        else:
            stage = f"local-{row.index}"
            with checkpoint.as_directory() as folder:
                storage.upload(folder, stage, name)
            storage.publish(stage, name)
            if delete or (delete is None and mode is CheckpointUploadMode.ASYNC):
                with contextlib.suppress(OSError):
                    shutil.rmtree(checkpoint.path)
        book.add(name, row.metrics, book.reports)
        book.reports += 1
        storage.write(SNAPSHOT_FILE, book.to_json())
        while book.leaving:  # those of an earlier process too
            storage.delete(book.leaving.pop())
        self._latest = checkpoint_of(storage, name)
        return name

    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint of the run."""
        return self._latest

    def shard(self, name: str | None) -> Any:
        """The whole dataset: there are no other workers."""
        datasets = self._spec.datasets
        if not datasets:
            return None
        chosen = the_dataset(datasets, name)
        return made(chosen, datasets[chosen]).iterator()

    def meet(self, kind: str, data: Any) -> Any:
        """There is nobody to wait for; under ``torchrun`` torch's own collectives do it."""
        if self.context.get_world_size() == 1:
            return data
        import torch.distributed as dist

        box = [data]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def reported(self, validated: bool, timeout_s: float | None) -> list[ReportedCheckpoint]:
        """All checkpoints of the run."""
        storage = self._spec.storage
        return [
            ReportedCheckpoint(checkpoint_of(storage, e.name), e.metrics)
            for e in self._spec.book.entries
        ]

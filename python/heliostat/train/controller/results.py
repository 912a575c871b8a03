"""From the record of a run to its ``Result`` and its page."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.controller.checks import checkpoint_of
from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.saved import SavedRun, dump
from heliostat.train.controller.spec import RunSpec
from heliostat.train.controller.summary import summary
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.errors import TrainingFailedError
from heliostat.train.messages import ReportedRow
from heliostat.train.metrics import LegacyFields
from heliostat.train.result import Result
from heliostat.train.storage.base import SNAPSHOT_FILE, Storage
from heliostat.train.storage.opening import open_storage
from heliostat.train.view.page import render

PAGE_FILE = "run.html"
REPORTS_FILE = "reports.json"


class ResultBuilder:
    """Builds what ``fit()`` returns and what it leaves in the folder of the run."""

    def __init__(self, spec: RunSpec, record: RunRecord) -> None:
        self._spec = spec
        self._record = record
        self._legacy: LegacyFields | None = None
        if spec.settings.legacy_metrics:
            address = socket.gethostbyname(socket.gethostname())
            self._legacy = LegacyFields(spec.run_id, spec.job.config, address)

    def attempt_started(self) -> None:
        """A new attempt begins."""
        if self._legacy is not None:
            self._legacy.restored()

    def reported(self, row: ReportedRow, pid: int) -> None:
        """Fill a report's metrics up, where the user asks for the first generation's fields."""
        if self._legacy is not None:
            number = len(self._record.checkpoints)
            row.metrics = self._legacy.fill(row.metrics, row.checkpoint is not None, number, pid)

    def build(
        self, book: CheckpointBook, values: dict[int, Any], error: TrainingFailedError | None = None
    ) -> Result:
        """The result of the run."""
        spec, record = self._spec, self._record
        last = record.latest.metrics if record.latest is not None else None
        if self._legacy is not None and record.latest is not None and last is not None:
            last["done"] = record.latest.checkpoint is None
        best = [(checkpoint_of(spec.storage, e.name), e.metrics) for e in book.ranked()]
        latest = book.latest
        metrics, rows = last, [r.metrics for r in record.reports]
        if self._legacy is None and latest is not None:
            metrics, rows = latest.metrics, [e.metrics for e in book.entries]
        return Result(
            metrics=metrics,
            checkpoint=checkpoint_of(spec.storage, latest.name) if latest else None,
            error=error,
            path=spec.storage.path,
            best_checkpoints=best,
            _storage_filesystem=spec.storage.filesystem,
            # Rank 0's value; a replica group that is away at the end of an elastic run is not waited for.
            return_value=values[min(values)] if values else None,
            config=spec.job.config,
            page=record.page,
            summary=summary(record),
            _rows=lambda: rows,
        )

    def write_page(self, error: BaseException | None) -> str:
        """Write the page and the reports into the folder of the run; a full disk is not an error.

        Returns:
            What went wrong, "" if nothing did.
        """
        storage, record = self._spec.storage, self._record
        try:
            storage.write(REPORTS_FILE, dump(record, summary(record)))
            if self._spec.settings.html:
                record.page = storage.join(PAGE_FILE)
                storage.write(PAGE_FILE, render(record, error).encode(errors="replace"))
        except Exception as problem:  # what was trained is worth more than its page
            record.page = None
            return f"the page of the run was not written: {problem!r}"
        return ""


def result_from_path(path: str, filesystem: Any | None) -> Result:
    """See ``Result.from_path``."""
    root, _, name = path.rstrip("/").rpartition("/")
    storage = open_storage(root or ".", name, filesystem)
    snapshot = storage.read(SNAPSHOT_FILE)
    reports = storage.read(REPORTS_FILE)
    if snapshot is None and reports is None:
        found = _result_of_trial(storage)
        if found is not None:
            return found
        raise RuntimeError(
            f"There is no run at {path}: neither {SNAPSHOT_FILE} nor {REPORTS_FILE} is in it."
        )
    book = CheckpointBook()
    try:
        if snapshot is not None:
            book.load(snapshot)
        saved = SavedRun.load(reports) if reports is not None else SavedRun()
        rows = saved.reports
    except ValueError as error:
        raise RuntimeError(f"The files of the run at {path} cannot be read: {error}") from error
    latest = book.latest
    if latest is not None:
        rows = [e.metrics for e in book.entries]
    page = storage.join(PAGE_FILE)
    checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = [
        (checkpoint_of(storage, e.name), e.metrics) for e in book.entries
    ]
    return Result(
        metrics=rows[-1] if rows else None,
        checkpoint=checkpoint_of(storage, latest.name) if latest else None,
        error=None,
        path=storage.path,
        best_checkpoints=checkpoints,
        _storage_filesystem=storage.filesystem,
        page=page if storage.filesystem is None and os.path.exists(page) else None,
        summary=saved.summary,
        _rows=lambda: rows,
    )


def _result_of_trial(storage: Storage) -> Result | None:
    """The result of a search's trial, by the files of its folder; None where it has none of these."""
    file = storage.read(TRIAL_FILE)
    if file is None:
        return None
    rows: list[dict[str, Any]] = []
    for line in file.decode().splitlines():
        with contextlib.suppress(ValueError):  # the torn line of a process that was killed
            rows.append(json.loads(line))
    named = [(row.get("checkpoint_dir_name"), row) for row in rows]
    kept = [
        (checkpoint_of(storage, name), row) for name, row in named if name and storage.exists(name)
    ]
    error = storage.read("error.pkl")
    config = rows[-1].pop("config", None) if rows else None
    return Result(
        metrics={**rows[-1], "config": config} if rows else None,
        checkpoint=kept[-1][0] if kept else None,
        error=None if error is None else pickle.loads(error),
        path=storage.path,
        best_checkpoints=kept,
        config=config,
        _storage_filesystem=storage.filesystem,
        _rows=lambda: rows,
    )


# The reports of a trial, a line of JSON each.
TRIAL_FILE = "result.json"

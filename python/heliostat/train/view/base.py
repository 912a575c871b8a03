"""The events that a view hears. This one shows nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from heliostat.train.controller.record import Failure, RunRecord
from heliostat.train.messages import ReportedRow


class View:
    """Reads the record of a run; all methods are called on the driver's thread."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def start(self) -> None:
        """The run begins."""

    def attempt_started(self) -> None:
        """The training function runs on all workers."""

    def reported(self, row: ReportedRow) -> None:
        """All ranks have reported."""

    def failed(self, failure: Failure, budget: str, then: str) -> None:
        """Workers have failed; what is done then, in words."""

    def note(self, text: str) -> None:
        """Something worth saying."""

    def refresh(self) -> None:
        """Something may have changed."""

    def finish(self) -> None:
        """The run is over."""


class Guarded(View):
    """Hands on to another view until that one fails, and shows nothing from then on.

    What a view writes to may go away while the run goes on: a terminal that is closed, a pipe that
    nobody reads any more.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view.record)
        self._view = view

    def _try(self, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            with contextlib.suppress(Exception):  # what it has taken over of the terminal
                self._view.finish()
            self._view = View(self.record)
            self.record.notes.append((time.time(), f"the view of the run ended: {error!r}"))

    def start(self) -> None:
        self._try(self._view.start)

    def attempt_started(self) -> None:
        self._try(self._view.attempt_started)

    def reported(self, row: ReportedRow) -> None:
        self._try(self._view.reported, row)

    def failed(self, failure: Failure, budget: str, then: str) -> None:
        self._try(self._view.failed, failure, budget, then)

    def note(self, text: str) -> None:
        self._try(self._view.note, text)

    def refresh(self) -> None:
        self._try(self._view.refresh)

    def finish(self) -> None:
        self._try(self._view.finish)

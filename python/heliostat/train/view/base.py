"""What a view hears. This one shows nothing."""

from __future__ import annotations

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

    def failed(self, failure: Failure, budget: str, restart: bool) -> None:
        """Workers have failed."""

    def note(self, text: str) -> None:
        """Something worth saying."""

    def refresh(self) -> None:
        """Something may have changed."""

    def finish(self) -> None:
        """The run is over."""

"""Workers that die as they join: the group goes on without them, and that is not a failure of the run."""

from __future__ import annotations

from collections.abc import Callable

from heliostat.train.controller.failures import RankFailure
from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.resizing import Resizer
from heliostat.train.group.worker_group import WorkerGroup
from heliostat.train.messages import WorkerInfo

# So many attempts in a row may end like that; then it counts as a failure.
_MAX_IN_A_ROW = 3


class Newcomers:
    """Says whether an attempt has ended only since workers died that had just joined."""

    def __init__(
        self,
        record: RunRecord,
        group: WorkerGroup,
        resizer: Resizer,
        note: Callable[[str], None],
    ) -> None:
        self._record, self._group, self._resizer, self._note = record, group, resizer, note
        self._in_a_row = 0

    def reported(self) -> None:
        """The group has made progress."""
        self._in_a_row = 0

    def have_kept_from_beginning(self) -> bool:
        """Whether an attempt that could not begin has lost newcomers, and no one else. Drops the dead."""
        attempt = self._record.attempt
        dead = self._group.lose_dead() if attempt.started_at is None else None
        if not dead or not self._may_go_on():
            return False
        self._died([worker.info for worker in dead])
        return True

    def have_failed_alone(self, failures: list[RankFailure]) -> bool:
        """Whether nobody but newcomers died before the first report, and their nodes with them."""
        died = [f for f in failures if f.died and f.info is not None]
        fresh = [f.info for f in died if f.info and self._group.workers[f.rank].fresh]
        if self._record.has_reported or not died or len(fresh) < len(died):
            return False
        if not self._may_go_on() or not all(self._resizer.is_gone(i.node_id) for i in fresh):
            return False
        self._died(fresh)
        return True

    def _may_go_on(self) -> bool:
        return self._record.attempt.number > 0 and self._in_a_row < _MAX_IN_A_ROW

    def _died(self, infos: list[WorkerInfo]) -> None:
        self._in_a_row += 1
        hosts = ", ".join(sorted({info.node_ip for info in infos}))
        self._note(f"workers died while they joined, on {hosts}: the group goes on without them")

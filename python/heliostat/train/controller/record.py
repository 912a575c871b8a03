"""Everything that happened in a run, kept for the terminal view, the page and the result. Pure."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.messages import ReportedRow, WorkerInfo
from heliostat.train.steps.messages import StepTimes

# Reports that are remembered one by one; older ones are dropped.
MAX_REPORTS = 100_000
# Quorums that are remembered; one is made when a replica group is lost, and one when it is in again.
MAX_QUORUMS = 2_000


@dataclass
class WorkerSpan:
    """A worker process in an attempt."""

    rank: int
    node_ip: str
    hostname: str
    pid: int
    start: float
    reused: bool
    end: float | None = None
    # "running", "finished", "ended" (by the failure of another or a resize), "failed", "died"
    state: str = "running"
    node_id: str = ""
    worker_id: str = ""
    actor_id: str = ""

    @staticmethod
    def of(rank: int, info: WorkerInfo, is_fresh: bool) -> WorkerSpan:
        """A worker that begins now."""
        return WorkerSpan(
            rank,
            info.node_ip,
            info.hostname,
            info.pid,
            time.time(),
            not is_fresh,
            node_id=info.node_id,
            worker_id=info.worker_id,
            actor_id=info.actor_id,
        )


@dataclass
class AttemptRecord:
    """A run of the training function by a group."""

    number: int
    requested_at: float
    world_size: int
    started_at: float | None = None
    ended_at: float | None = None
    workers: list[WorkerSpan] = field(default_factory=list)
    from_checkpoint: str | None = None


@dataclass
class Failure:
    """A failure of an attempt."""

    time: float
    attempt: int
    ranks: list[int]
    title: str
    detail: str
    # Seconds from the failure to the first report after it (None: there was none).
    recovered_s: float | None = None
    # The others went on within the step; seconds until the lost replica group was in again.
    went_on: bool = False
    replaced_s: float | None = None


@dataclass
class Storing:
    """A checkpoint that is on its way: not all ranks have stored their files, or it is not published."""

    since: float
    # The ranks that have begun.
    ranks: set[int] = field(default_factory=set)


@dataclass
class QuorumRecord:
    """The replica groups that take steps together from a time on."""

    time: float
    attempt: int
    number: int
    # The step that it begins with; None: it was made within a step, of those that were left.
    step: int | None
    groups: tuple[int, ...]
    # How many groups there are with those that are being replaced, and workers in each.
    of: int
    size: int


@dataclass
class RunRecord:
    """The record of one ``fit()``."""

    name: str
    run_id: str
    path: str
    config: dict[str, Any]
    started_at: float = field(default_factory=time.time)
    finished_at: float | None = None
    # "starting", "scheduling", "running", "recovering", "resizing", "finished", "failed", "interrupted"
    state: str = "starting"
    attempts: list[AttemptRecord] = field(default_factory=list)
    reports: deque[ReportedRow] = field(default_factory=lambda: deque(maxlen=MAX_REPORTS))
    report_count: int = 0
    checkpoints: list[ReportedRow] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    resumed_from: str | None = None
    # The mean step of each rank, of late.
    step_times: list[StepTimes] = field(default_factory=list)
    # By rank: how many reports its worker has made in the current attempt, and when the last one.
    reported: dict[int, tuple[int, float]] = field(default_factory=dict)
    # By the number of the report in the attempt.
    storing: dict[int, Storing] = field(default_factory=dict)
    quorums: deque[QuorumRecord] = field(default_factory=lambda: deque(maxlen=MAX_QUORUMS))
    # Ranks that were replaced for being slow.
    slow_replaced: int = 0
    page: str | None = None
    # Sentences that say what the run waits for; empty while nothing takes long.
    waits: list[str] = field(default_factory=list)

    @property
    def attempt(self) -> AttemptRecord:
        """The current attempt."""
        return self.attempts[-1]

    @property
    def latest(self) -> ReportedRow | None:
        """The last report."""
        return self.reports[-1] if self.reports else None

    @property
    def has_reported(self) -> bool:
        """Whether the current attempt has reported."""
        return self.latest is not None and self.latest.time > self.attempt.requested_at

    @property
    def quorum(self) -> QuorumRecord | None:
        """The quorum of the current attempt; None without replica groups."""
        last = self.quorums[-1] if self.quorums else None
        return last if last is not None and last.attempt == self.attempt.number else None

    def begin_storing(self, report: int, rank: int, at: float) -> None:
        """A rank begins to store the checkpoint of a report."""
        self.storing.setdefault(report, Storing(at)).ranks.add(rank)

    def stored(self, report: int, row: ReportedRow | None = None) -> None:
        """A report is complete, with its checkpoint or, where the storage has refused it, without."""
        storing = self.storing.pop(report, None)
        if storing is not None and row is not None and row.checkpoint is not None:
            row.in_flight_s = max(0.0, row.time + row.publish_s - storing.since)

    def add_report(self, row: ReportedRow) -> None:
        """Note a complete report."""
        self.reports.append(row)
        self.report_count += 1
        if row.checkpoint is not None:
            self.checkpoints.append(row)
        if self.failures and self.failures[-1].recovered_s is None:
            self.failures[-1].recovered_s = row.time - self.failures[-1].time

    def rate(self, window_s: float = 20.0) -> float | None:
        """Reports per second, of late; None while there are too few."""
        if len(self.reports) < 2:
            return None
        last = self.reports[-1]
        count, first = 0, last
        for row in reversed(self.reports):
            if last.time - row.time > window_s or count > 1000:
                break
            count, first = count + 1, row
        span = last.time - first.time
        return (count - 1) / span if span > 0 else None

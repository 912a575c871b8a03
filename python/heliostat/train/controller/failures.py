"""The decisions of ``FailureConfig`` about failures, and failures in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from heliostat.core.platform.user_errors import user_error
from heliostat.train.config import FailureConfig
from heliostat.train.coordinator.attempt import ranks_text
from heliostat.train.messages import WorkerInfo

_MAX_TRACEBACKS, _MAX_TITLE = 3, 400
_MAX_RANKS = 16  # that are named beside a traceback which is the same on all
_DEAD_BECAUSE = re.compile(
    r"The actor is dead because (?:The worker process \(pid \d+\) (?:was )?)?(.+)"
)

_BROKEN = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|remote process exited"
)


@dataclass
class RankFailure:
    """The failure of one rank."""

    rank: int
    error: Exception
    traceback: str = ""
    died: bool = False
    info: WorkerInfo | None = None

    @property
    def is_echo(self) -> bool:
        """Whether it may be no more than that a peer is gone: its connections are broken."""
        return isinstance(self.error, RuntimeError) and bool(_BROKEN.search(str(self.error)))

    def title(self) -> str:
        """The failure in one line."""
        where = f" (pid {self.info.pid} on {self.info.node_ip})" if self.info else ""
        if self.died:
            return f"rank {self.rank}{where} died: {_cut(_cause_of_death(str(self.error)))}"
        error = user_error(self.error)
        text, name = _first_line(str(error)), type(error).__name__
        if self.is_echo:
            return f"rank {self.rank}{where} raised {name}: its connection to another rank broke"
        return f"rank {self.rank}{where} raised {name}" + (f": {_cut(text)}" if text else "")


def _first_line(text: str) -> str:
    """The first line of a message, with the next one where it only begins a list."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[1].startswith("Original Traceback"):  # of torch's DataLoader
        return f"{lines[0]} {lines[-1]}"
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def _cut(line: str) -> str:
    """Cut a text to two lines of the terminal: the whole text is in the details."""
    return line if len(line) <= _MAX_TITLE else line[:_MAX_TITLE] + "..."


def _cause_of_death(text: str) -> str:
    """From the error of an actor that is gone to what happened to its process."""
    found = _DEAD_BECAUSE.search(text)
    if found is not None:
        return found[1].strip().rstrip(".")
    return (text.strip().splitlines() or ["for no reason that is known"])[0]


@dataclass
class FailurePolicy:
    """Counts failures against their limits."""

    config: FailureConfig
    worker_failures: int = 0
    preemptions: int = 0
    controller_failures: int = 0
    causes: list[str] = field(default_factory=list)

    def allows_restart(self) -> bool:
        """Count a failure of workers; whether the group may be restarted."""
        self.worker_failures += 1
        limit = self.config.max_failures
        return limit < 0 or self.worker_failures <= limit

    def allows_preemption(self) -> bool:
        """Count a node that was taken away before the run had left it; whether to go on."""
        self.preemptions += 1
        limit = self.config.max_preemption_failures
        return limit < 0 or self.preemptions <= limit

    def would_allow(self, preempted: bool) -> bool:
        """Whether one more failure of workers, or loss of an announced node, is within its limit."""
        limit, count = self.config.max_failures, self.worker_failures
        if preempted:
            limit, count = self.config.max_preemption_failures, self.preemptions
        return limit < 0 or count < limit

    def allows_controller_restart(self) -> bool:
        """Count a failure outside the workers; whether to try again."""
        self.controller_failures += 1
        limit = self.config.controller_failure_limit
        return limit < 0 or self.controller_failures <= limit

    def budget(self, preempted: bool = False) -> str:
        """The failures that are left, in words."""
        if preempted:
            limit = self.config.max_preemption_failures
            counted = f"node taken away, number {self.preemptions}"
            if limit < 0:
                return f"{counted}; such losses are not limited"
            return f"{counted}, FailureConfig(max_preemption_failures={limit})"
        limit = self.config.max_failures
        if limit < 0:
            return f"failure {self.worker_failures}, restarts are not limited"
        return f"failure {self.worker_failures}, FailureConfig(max_failures={limit})"


def by_cause(failures: Iterable[RankFailure]) -> list[RankFailure]:
    """A death comes first, then what is more than a broken connection: it is the cause of the others'."""
    return sorted(failures, key=lambda f: (not f.died, f.is_echo, f.rank))


def describe(
    failures: list[RankFailure],
    world_size: int,
    policy: FailurePolicy,
    preempted: bool = False,
    not_replaced: Sequence[RankFailure] = (),
) -> str:
    """The text of the exception that ends a run.

    ``not_replaced`` are losses of replica groups before it, which were not in again.
    """
    count, died = len(failures), sum(f.died for f in failures)
    what = f"{count} of {world_size} workers {'died' if died == count else 'failed'}"
    if 0 < died < count:
        what = f"{died} of {world_size} workers died, and {count - died} more failed with it"
    lines = [
        f"Training failed: {what} ({policy.budget(preempted)}).",
        *(f"  {f.title()}" for f in failures[:16]),
    ]
    if count > 16:
        lines.append(f"  ... and {count - 16} more")
    lines += [f"  {f.title()}, before that, and was not replaced yet" for f in not_replaced[:16]]
    # The errors of other ranks once a peer is gone are much the same everywhere.
    shown = failures[: died + 1] if died else failures
    ranks: dict[str, list[int]] = {}  # of each text: most failures are the same on all ranks
    for failure in shown:
        text = failure.traceback or (str(failure.error) if failure.died else "")
        ranks.setdefault(text.strip(), []).append(failure.rank)
    ranks.pop("", None)
    for text, those in list(ranks.items())[:_MAX_TRACEBACKS]:
        named, others = ranks_text(those[:_MAX_RANKS]).capitalize(), len(those) - _MAX_RANKS
        lines.append(f"\n{named}{f' and {others} more' if others > 0 else ''}:\n{text}")
    if policy.config.max_failures == 0 and not preempted:
        lines.append(
            "\nTo restart from the latest checkpoint after a failure, set "
            "RunConfig(failure_config=FailureConfig(max_failures=...))."
        )
    return "\n".join(lines)

"""What ``FailureConfig`` says about a failure, and how failures are put into words. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from heliostat.train.config import FailureConfig
from heliostat.train.messages import WorkerInfo

_MAX_TRACEBACKS = 3


@dataclass
class RankFailure:
    """How one rank failed."""

    rank: int
    error: Exception
    traceback: str = ""
    died: bool = False
    info: WorkerInfo | None = None

    def title(self) -> str:
        """One line."""
        where = f" (pid {self.info.pid} on {self.info.node_ip})" if self.info else ""
        text = str(self.error).strip().splitlines()
        kind = "died" if self.died else f"raised {type(self.error).__name__}"
        return f"rank {self.rank}{where} {kind}" + (f": {text[0]}" if text else "")


@dataclass
class FailurePolicy:
    """Counts failures against their limits."""

    config: FailureConfig
    worker_failures: int = 0
    controller_failures: int = 0
    causes: list[str] = field(default_factory=list)

    def allows_restart(self) -> bool:
        """Count a failure of workers; whether the group may be restarted."""
        self.worker_failures += 1
        limit = self.config.max_failures
        return limit < 0 or self.worker_failures <= limit

    def allows_controller_restart(self) -> bool:
        """Count a failure outside the workers; whether to try again."""
        self.controller_failures += 1
        limit = self.config.controller_failure_limit
        return limit < 0 or self.controller_failures <= limit

    def budget(self) -> str:
        """How much is left, in words."""
        limit = self.config.max_failures
        if limit < 0:
            return f"failure {self.worker_failures}, restarts are not limited"
        return f"failure {self.worker_failures}, FailureConfig(max_failures={limit})"


def describe(failures: list[RankFailure], world_size: int, policy: FailurePolicy) -> str:
    """The text of the exception that ends a run."""
    count = len(failures)
    lines = [
        f"Training failed: {count} of {world_size} workers failed ({policy.budget()}).",
        *(f"  {f.title()}" for f in failures[:16]),
    ]
    if count > 16:
        lines.append(f"  ... and {count - 16} more")
    for failure in failures[:_MAX_TRACEBACKS]:
        text = failure.traceback or (str(failure.error) if failure.died else "")
        if text.strip():
            lines.append(f"\nRank {failure.rank}:\n{text.rstrip()}")
    if policy.config.max_failures == 0:
        lines.append(
            "\nTo restart from the latest checkpoint after a failure, set "
            "RunConfig(failure_config=FailureConfig(max_failures=...))."
        )
    return "\n".join(lines)

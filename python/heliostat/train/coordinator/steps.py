"""The coordinator's side of step times: tells the driver of them, and of a rank that is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.train.config import FailureConfig
from heliostat.train.steps.messages import Beat
from heliostat.train.steps.pace import Pace, Slow

# The driver hears of new times no more often.
_TELL_S = 1.0


class StepMonitor:
    """The step times of an attempt.

    A slow rank that is to be replaced is told at once where replica groups go on without it; else it is
    ``due``, and whoever publishes a checkpoint ends the attempt behind it.
    """

    def __init__(
        self,
        world_size: int,
        failures: FailureConfig,
        replacements: dict[int, int],
        emit: Callable[[str, dict[str, Any]], None],
        ask_to_save: Callable[[], None],
    ) -> None:
        self._pace = Pace(
            world_size, failures.slow_rank_factor, failures.slow_rank_after_s, replacements
        )
        self._emit = emit
        self._ask_to_save = ask_to_save
        self._is_new = False
        self._told_at = self._warned_at = 0.0
        self.replaces_at_once = False
        # The rank that is replaced after the next checkpoint.
        self._due: Slow | None = None

    def beat(self, rank: int, beat: Beat | None, now: float) -> None:
        """A rank tells of its steps; None: it takes no times."""
        if beat is not None:
            self._pace.beat(rank, beat, now)
            self._is_new |= beat.count > 0

    @property
    def steps(self) -> int:
        """Steps that all ranks have made together, as far as they have told."""
        return self._pace.steps

    def standstill(self, now: float, after_s: float) -> tuple[list[int], list[int], float] | None:
        """Ranks that have waited for others for ``after_s`` seconds, those others, and for how long.

        The same is told once in that time.
        """
        if now - self._warned_at < after_s:
            return None
        found = self._pace.standstill(now, after_s)
        if found is not None:
            self._warned_at = now
        return found

    def grow(self, world_size: int) -> None:
        """Add ranks, up to so many."""
        self._pace.grow(world_size)

    def lost(self, ranks: range) -> None:
        """These ranks are being replaced."""
        self._pace.forget(ranks)

    def look(self, now: float) -> None:
        """Tell what is new."""
        if self._is_new and now - self._told_at >= _TELL_S:
            self._told_at = now
            self.tell()
        slow = self._pace.look(now)
        if slow is None or not slow.replace:
            self._take_back()
            if slow is not None:
                self._emit("note", {"text": slow.text})
        elif self.replaces_at_once:
            self._replace(slow)
        elif self._due is None or self._due.rank != slow.rank:
            self._due = slow
            self._emit("note", {"text": f"{slow.text}: it is replaced after the next checkpoint"})
            self._ask_to_save()

    def tell(self) -> None:
        """Have the driver know the times."""
        self._is_new = False
        times = self._pace.times()
        if times:
            self._emit("steps", {"times": times})

    @property
    def is_due(self) -> bool:
        """Whether a rank waits for a checkpoint to be replaced."""
        return self._due is not None

    def take_due(self) -> bool:
        """A checkpoint is published: whether a rank is replaced now, which the driver hears."""
        due, self._due = self._due, None
        if due is not None:
            self._replace(due)
        return due is not None

    def _replace(self, slow: Slow) -> None:
        self._pace.replaced(slow.rank)
        self._emit("slow", {"rank": slow.rank, "text": slow.text})

    def _take_back(self) -> None:
        if self._due is not None:
            self._emit(
                "note",
                {"text": f"rank {self._due.rank} has caught up before it was replaced: it stays"},
            )
            self._due = None

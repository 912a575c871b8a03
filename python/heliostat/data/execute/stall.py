"""The message of an execution in which nothing moves: which operator waits for what (WHY-1)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliostat.data.execute.physical import Physical

TOLD_AFTER_S = 30.0  # that nothing moves; again after twice the time, and so on

logger = logging.getLogger("heliostat.data")


class Stall:
    """Tells of one execution, rarely."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._next_s = TOLD_AFTER_S

    def moved(self) -> None:
        """Something moves again."""
        self._next_s = TOLD_AFTER_S

    def still(self, seconds: float, operators: Sequence[Physical]) -> None:
        """Act on an execution that has not moved for so long."""
        if seconds >= self._next_s:
            self._next_s = 2 * seconds
            logger.warning(
                "%s: nothing has moved for %.0f s. %s", self._label, seconds, waits(operators)
            )


def waits(operators: Sequence[Physical]) -> str:
    """Return a sentence about the wait of each operator that has not ended; the last one first."""
    left = [operator for operator in reversed(operators) if not operator.done]
    return " ".join(f"{operator.name} {operator.waits_for()}." for operator in left)

"""Times of steps, as workers, coordinator and driver tell each other of them. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

# Phases of a rank in a step. "forward" is all that is nothing else: the forward pass, the loss, and what
# the loop does besides. "communication" is waiting for other ranks: in collectives and at reports.
PHASES = ("data", "forward", "backward", "communication", "optimizer", "report")
DATA, FORWARD, BACKWARD, COMMUNICATION, OPTIMIZER, REPORT = range(len(PHASES))


@dataclass
class Beat:
    """The message that the control thread of a rank sends now and then."""

    # Steps that this rank has taken in the attempt.
    steps: int
    # The rank's present phase, and its seconds so far.
    phase: int
    phase_s: float
    # Steps since the last beat, and the seconds that they spent in each phase.
    count: int = 0
    spent: tuple[float, ...] = (0.0,) * len(PHASES)


@dataclass(frozen=True)
class StepTimes:
    """The mean step of a rank, in seconds by phase."""

    rank: int
    steps: int
    spent: tuple[float, ...]

    @property
    def total(self) -> float:
        """The whole step."""
        return sum(self.spent)

    @property
    def own(self) -> float:
        """The time that the step takes without waiting for other ranks."""
        return self.total - self.spent[COMMUNICATION]

    @property
    def longest(self) -> int:
        """The phase, of this rank's own ones, that takes longest."""
        mine = [p for p in range(len(PHASES)) if p != COMMUNICATION]
        return max(mine, key=lambda phase: self.spent[phase])

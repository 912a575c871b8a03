"""Values that change with the number of steps sampled."""

from __future__ import annotations

import itertools
from typing import Any


class Scheduler:
    """A number, or pairs ``[timestep, value]`` between which values lie on a line.

    Args:
        fixed_value_or_schedule: The number, or the pairs; the first one is of timestep 0.
    """

    def __init__(self, fixed_value_or_schedule: Any, **kwargs: Any) -> None:
        self._given = fixed_value_or_schedule
        self._value = self.value_at(0)

    def value_at(self, timestep: int) -> float:
        """Return the value at a timestep."""
        if not isinstance(self._given, (list, tuple)):
            return float(self._given)
        pairs = [(float(at), float(value)) for at, value in self._given]
        for (begin, low), (end, high) in itertools.pairwise(pairs):
            if timestep < end:
                return low + (high - low) * max(0.0, timestep - begin) / max(end - begin, 1e-9)
        return pairs[-1][1]

    def update(self, timestep: int) -> float:
        """Go to a timestep, and return its value."""
        self._value = self.value_at(timestep)
        return self._value

    def get_current_value(self) -> float:
        """Return the value of the timestep that :meth:`update` went to last."""
        return self._value

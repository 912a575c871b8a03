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

    @staticmethod
    def validate(
        *, fixed_value_or_schedule: Any, setting_name: str, description: str = "value"
    ) -> None:
        """Check what a scheduler is made of.

        Args:
            fixed_value_or_schedule: The number, or the pairs.
            setting_name: The setting that has it.
            description: What its values are, for the error.

        Raises:
            ValueError: It is neither; the message says what it should be.
        """
        given = fixed_value_or_schedule
        if given is None or isinstance(given, (int, float)):
            return
        try:
            pairs = [(float(at), float(value)) for at, value in given]
        except (TypeError, ValueError):
            pairs = []
        if len(pairs) < 2 or pairs[0][0] != 0 or pairs != sorted(pairs, key=lambda pair: pair[0]):
            raise ValueError(
                f"{setting_name}={given!r}: a {description} is a number, or two or more pairs "
                "[timestep, value] in their order, the first of timestep 0."
            )

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

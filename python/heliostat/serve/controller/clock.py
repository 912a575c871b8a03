"""The controller's time: seconds since 1970 where it began, and from then on as long as things take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Called, it says how late it is, in seconds since 1970.

    Setting the computer's time does not move it: else a replica that failed would be tried again an hour
    later, and no number of replicas would change for as long.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._ahead = wall() - steady()

    def __call__(self) -> float:
        return self._steady() + self._ahead

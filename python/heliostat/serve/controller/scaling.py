"""How many replicas a load needs: counts in, a number out. No clock."""

from __future__ import annotations

import math
from collections import deque

from heliostat.serve.config import AutoscalingConfig


class Scaler:
    """The load of one deployment, and how long it has asked for another number of replicas."""

    def __init__(self, config: AutoscalingConfig, before: Scaler | None) -> None:
        self._config = config
        self._counts: dict[str, int] = before._counts if before is not None else {}
        # (since when, how many requests there were from then on)
        self._totals: deque[tuple[float, int]] = before._totals if before is not None else deque()
        self._more_since: float | None = None
        self._fewer_since: float | None = None

    def count(self, source: str, requests: int, now: float) -> None:
        """So many requests are at a replica, or wait at a router."""
        if requests:
            self._counts[source] = requests
        else:
            self._counts.pop(source, None)
        self._totals.append((now, self.total))

    def forget(self, source: str) -> None:
        """A replica is gone."""
        self._counts.pop(source, None)

    @property
    def total(self) -> int:
        """Requests that are there now."""
        return sum(self._counts.values())

    def _mean(self, now: float) -> float:
        """Requests that there were on average, within the time that is looked back on."""
        begin = now - self._config.look_back_period_s
        while len(self._totals) > 1 and self._totals[1][0] <= begin:
            self._totals.popleft()
        if not self._totals:
            return 0.0
        weighted, first = 0.0, max(begin, self._totals[0][0])
        at, number = first, self._totals[0][1]
        for when, total in list(self._totals)[1:]:
            weighted += number * (when - at)
            at, number = when, total
        weighted += number * (now - at)
        return weighted / (now - first) if now > first else float(self.total)

    def decide(self, target: int, serving: int, now: float) -> int:
        """The number of replicas from now on."""
        config = self._config
        low, high = config.min_replicas, config.max_replicas
        if serving == 0 and target == 0:
            # A request is held until there is a replica: nothing to average over.
            return min(max(1, low), high) if self.total else low
        load = self._mean(now) / config.target_ongoing_requests
        up = config.upscaling_factor or config.upscale_smoothing_factor or config.smoothing_factor
        down = (
            config.downscaling_factor
            or config.downscale_smoothing_factor
            or config.smoothing_factor
        )
        change = load - target
        wanted = math.ceil(target + change * (up if change > 0 else down) - 1e-9)
        wanted = min(max(wanted, low), high)
        if wanted > target:
            self._fewer_since = None
            if self._more_since is None:
                self._more_since = now
            if now - self._more_since >= config.upscale_delay_s:
                self._more_since = None
                return wanted
        elif wanted < target:
            self._more_since = None
            if self._fewer_since is None:
                self._fewer_since = now
            delay = config.downscale_delay_s
            if wanted == 0 and target == 1 and config.downscale_to_zero_delay_s is not None:
                delay = config.downscale_to_zero_delay_s
            if wanted == 0 and self.total:
                wanted = 1
            if now - self._fewer_since >= delay:
                self._fewer_since = None
                return wanted
        else:
            self._more_since = self._fewer_since = None
        return target

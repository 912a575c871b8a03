"""How many workers an attempt gets; with ``num_workers=(min, max)``, when a group may grow."""

from __future__ import annotations

import time

from heliostat.train.config import ScalingConfig
from heliostat.train.group.cluster import room_now

_SETTLE_S, _SETTLE_STEP_S = 1.0, 0.05


class Sizes:
    """Decides on sizes. Looks at the cluster; changes nothing."""

    def __init__(self, scaling: ScalingConfig) -> None:
        self._scaling = scaling
        self._looked_at = time.monotonic()

    def choose(self, there: int) -> int:
        """The size of the next group, of which ``there`` workers are running already."""
        scaling = self._scaling
        if not scaling.elasticity_enabled:
            return scaling.max_workers
        # What ended workers held comes back within moments: give it that time.
        deadline = time.monotonic() + _SETTLE_S
        while True:
            fits = there + room_now(scaling.worker_resources)
            if fits >= scaling.max_workers or time.monotonic() > deadline:
                break
            time.sleep(_SETTLE_STEP_S)
        self._looked_at = time.monotonic()
        return max(scaling.min_workers, min(scaling.max_workers, fits))

    def may_grow(self, size: int) -> bool:
        """Whether an elastic group of ``size`` has room for more; looks now and then only."""
        scaling = self._scaling
        if not scaling.elasticity_enabled or size >= scaling.max_workers:
            return False
        now = time.monotonic()
        if now - self._looked_at < scaling.elastic_resize_monitor_interval_s:
            return False
        self._looked_at = now
        return room_now(scaling.worker_resources) > 0

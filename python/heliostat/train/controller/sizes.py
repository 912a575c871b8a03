"""The number of workers of an attempt."""

from __future__ import annotations

import time

from heliostat.train.config import ScalingConfig
from heliostat.train.group.cluster import room_now

_SETTLE_S, _SETTLE_STEP_S = 1.0, 0.05


class Sizes:
    """Decides on sizes, in multiples of ``unit``. Looks at the cluster; changes nothing."""

    def __init__(self, scaling: ScalingConfig, unit: int = 1) -> None:
        self._scaling = scaling
        self._unit = unit

    def choose(self, there: int, settles: bool = True) -> int:
        """The size of the next group, of which ``there`` workers are running already.

        ``settles``: what ended workers held comes back within moments, and is given that time.
        """
        scaling = self._scaling
        if not scaling.elasticity_enabled:
            return scaling.max_workers
        deadline = time.monotonic() + (_SETTLE_S if settles else 0.0)
        while True:
            fits = there + room_now(scaling.worker_resources)
            if fits >= scaling.max_workers or time.monotonic() >= deadline:
                break
            time.sleep(_SETTLE_STEP_S)
        return max(scaling.min_workers, min(scaling.max_workers, fits // self._unit * self._unit))

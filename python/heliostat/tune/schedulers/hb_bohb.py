"""``HyperBandForBOHB`` where programs import it from."""

from __future__ import annotations

from heliostat.tune.schedulers.hyperband import HyperBandForBOHB

__all__ = ["HyperBandForBOHB"]

"""The values of a report that loggers of other tools take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Number
from typing import Any

from heliostat.tune.aliases import Report
from heliostat.tune.stopper import flattened

# Values that say where a trial ran, and when.
SYSTEM = ("date", "hostname", "node_ip", "pid")
NAMES = ("experiment_tag", "trial_id")


def numbers(result: Report) -> dict[str, float]:
    """The finite numbers of a report by their flat names, without the configuration."""
    kept = {name: value for name, value in result.items() if name != "config"}
    found = {}
    for name, value in flattened(kept).items():
        plain = value.item() if callable(getattr(value, "item", None)) else value
        is_number = isinstance(plain, Number) and not isinstance(plain, bool | complex)
        if is_number and math.isfinite(plain):
            found[name] = plain
    return found


def storable(value: object) -> Any:
    """Containers of plain values; what is none is shown as text."""
    if isinstance(value, Mapping):
        return {str(name): storable(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [storable(one) for one in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    item = getattr(value, "tolist", None)
    return storable(item()) if callable(item) else str(value)

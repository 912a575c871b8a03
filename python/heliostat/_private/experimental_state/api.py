"""``ray.experimental.state.api``: the path of old to :mod:`heliostat.util.state`."""

from __future__ import annotations

import warnings

from heliostat.util import state
from heliostat.util.state import *  # noqa: F403 - the path of old has what the new one has

__all__ = state.__all__

warnings.warn(
    "ray.experimental.state is deprecated: import from ray.util.state instead.",
    DeprecationWarning,
    stacklevel=2,
)

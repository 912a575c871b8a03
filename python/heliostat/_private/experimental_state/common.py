"""``ray.experimental.state.common``: the older path to the rows of ``heliostat.util.state.common``."""

from heliostat.util.state.common import *  # noqa: F403 # the same names

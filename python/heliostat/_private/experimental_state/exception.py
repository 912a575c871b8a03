"""``ray.experimental.state.exception``: the older path to the errors of ``heliostat.util.state``."""

from heliostat.util.state.exception import *  # noqa: F403 # the same names

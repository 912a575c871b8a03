"""The version of the API."""

from __future__ import annotations

# The release of Ray whose API this package has; what `ray.__version__` says.
RAY_VERSION = "2.60.0"

# The commit of this package; a build may fill it in.
COMMIT = "unknown"

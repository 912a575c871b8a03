"""Whether ``import ray`` gives Heliostat, or something that was installed beside it.

Packages that require the distribution ``ray`` bring the real one unless Heliostat's own distribution of
that name is there (decision 0018). It lies in a folder of its own, so that nothing gets mixed; but what
a program imports as ``ray`` then is not what it imports as ``heliostat``.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.machinery import PathFinder

from heliostat.core.platform.version import RAY_VERSION

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_INSTALLED = os.path.join(_PACKAGE, "_alias", "ray")
# In a checkout both packages lie side by side; where a wheel is installed, the real Ray would lie there.
_OURS = _INSTALLED if os.path.isdir(_INSTALLED) else os.path.join(os.path.dirname(_PACKAGE), "ray")


def place() -> str | None:
    """The file that ``import ray`` loads, or has loaded, if it is not Heliostat's; else ``None``."""
    loaded = sys.modules.get("ray")
    spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec("ray")
    if spec is None or spec.origin is None:
        return None  # nothing, or a folder that happens to have that name
    found = os.path.realpath(spec.origin)
    return None if os.path.dirname(found) == _OURS else found


def warn() -> None:
    """Say so if it is not Heliostat's."""
    if (found := place()) is not None:
        warnings.warn(
            f"`import ray` gives {found} here, not Heliostat: programs and libraries that import `ray` "
            "run on that. If this is not what you want (a package that requires `ray` may have brought "
            "it), run `pip uninstall ray`, and then `pip install --force-reinstall --no-deps` with both of "
            "Heliostat's wheels, itself, whose commands `ray` and `serve` went with it, and its own "
            f"distribution `ray` {RAY_VERSION}, which `make wheel` puts beside it.",
            RuntimeWarning,
            stacklevel=3,
        )

"""``ray.tune.utils.log``: levels of what a search prints, for ``RunConfig(verbose=...)``."""

from __future__ import annotations

import contextlib
from enum import Enum

__all__ = ["Verbosity", "disable_ipython", "has_verbosity", "set_verbosity"]


class Verbosity(Enum):
    """The values of ``verbose``; as a number each is what ``verbose`` takes."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3

    def __int__(self) -> int:
        return int(self.value)


_level = [Verbosity.V3_TRIAL_DETAILS]


def set_verbosity(level: int | Verbosity) -> None:
    """Set what :func:`has_verbosity` compares with."""
    _level[0] = Verbosity(level) if isinstance(level, int) else level


def has_verbosity(level: int | Verbosity) -> bool:
    """Whether what belongs to this level is to be printed."""
    return int(_level[0]) >= int(level)


def disable_ipython() -> None:
    """Have IPython's shell forgotten, so that nothing is shown as HTML."""
    with contextlib.suppress(Exception):
        from IPython.core.interactiveshell import InteractiveShell

        InteractiveShell.clear_instance()

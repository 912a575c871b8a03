"""``ray._private.ray_option_utils``: the tables of options, to see whether one is known."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.core.calls.options import ACTOR as actor_options
from heliostat.core.calls.options import TASK as task_options

__all__ = ["actor_options", "task_options", "valid_options"]

valid_options = {**task_options, **actor_options}


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.ray_option_utils.{name}"))

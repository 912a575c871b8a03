"""``ray.util.rpdb``: the debugger's entries that programs call by their own names."""

from __future__ import annotations

import pdb
import sys
from typing import Any, NoReturn

from heliostat._private import missing
from heliostat._private.worker import WORKER_MODE, global_worker
from heliostat.core.debug import debugger
from heliostat.core.platform import settings

__all__ = ["set_trace"]


def set_trace(breakpoint_uuid: Any = None) -> None:
    """Stop in the caller: in a worker as ``breakpoint()`` does there, in a driver in pdb.

    ``breakpoint_uuid`` is taken and not used: it is what Ray's own debugger client sends.
    """
    frame = sys._getframe(1)
    if global_worker.mode == WORKER_MODE:
        debugger.on_breakpoint(frame)
    else:
        pdb.Pdb().set_trace(frame)


def _is_ray_debugger_post_mortem_enabled() -> bool:
    return settings.flag("DEBUG_POST_MORTEM")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray.util.rpdb.{name}"))

"""The line of the user's code that makes a call, for ``call_site`` of references."""

from __future__ import annotations

import os
import sys
from types import FrameType

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_FRAMES_MAX = 4


def here(what: str) -> str:
    """The innermost calls outside of this package, as ``file:function:line``, after ``what``."""
    found = [what]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) <= _FRAMES_MAX:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            found.append(f"{code.co_filename}:{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " | ".join(found)

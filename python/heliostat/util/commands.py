"""What the commands that are written in Python have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable

from heliostat.core.errors import AuthenticationError


def exit_code(act: Callable[[], int]) -> int:
    """Do what a command is asked for; 1 with the error's sentence where it fails, 130 after a Ctrl-C."""
    try:
        return int(act())
    except (AuthenticationError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130

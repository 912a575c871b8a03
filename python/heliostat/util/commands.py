"""What the commands that are written in Python have in common."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

import heliostat
from heliostat.core import settings
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


def add_address(parser: argparse.ArgumentParser, when: str = "") -> None:
    """``--address``, for :func:`session`; ``when`` begins its help."""
    parser.add_argument(
        "--address",
        help=f"{when}of the cluster's head [default: $RAY_ADDRESS, else the cluster of this machine]",
    )


@contextlib.contextmanager
def session(address: str | None) -> Iterator[str]:
    """Be a quiet driver of that cluster, by default the one of ``add_address``; how it was asked for."""
    chosen = address or settings.text("ADDRESS") or "auto"
    heliostat.init(address=chosen, log_to_driver=False, logging_level="warning")
    try:
        yield chosen
    finally:
        heliostat.shutdown()

"""The part that the commands written in Python have in common."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

import heliostat
from heliostat.core.errors import AuthenticationError
from heliostat.core.platform import settings

# Errors that say what is wrong with what a command was asked for, or with the cluster.
_TOLD = (AuthenticationError, ConnectionError, RuntimeError, ValueError, OSError)


def exit_code(act: Callable[[], int], *also: type[Exception]) -> int:
    """Do what a command is asked for; 1 with the error's sentence where it fails, 130 after a Ctrl-C.

    ``also``: errors that this command has a sentence for, besides those that all commands have.
    """
    told: tuple[type[Exception], ...] = (*_TOLD, *also)
    try:
        return int(act())
    except told as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column one below the other; the first row has the heads."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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

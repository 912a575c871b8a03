"""The part that the commands written in Python have in common."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence

import heliostat
from heliostat.core.errors import AuthenticationError
from heliostat.core.platform import settings

# Columns of a table that give way are made no narrower than this.
_NARROW = 8
# Columns at most that are kept of the end of a text that is cut.
_TAIL = 16

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


def terminal_width() -> int | None:
    """The width of the terminal that the output goes to; ``None``: it goes into a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def width_of(text: str) -> int:
    """The number of columns of a terminal that a text takes: signs of East Asia take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def shortened(text: str, width: int) -> str:
    """The text in at most so many columns: of a longer one the middle is left out, as names and ids
    differ at their ends.
    """
    if width_of(text) <= width:
        return text
    tail = _begin(text[::-1], min((width - 1) // 2, _TAIL))[::-1]
    return f"{_begin(text, width - 1 - width_of(tail))}…{tail}" if width > 0 else ""


def _begin(text: str, width: int) -> str:
    taken = 0
    for place, sign in enumerate(text):
        taken += width_of(sign)
        if taken > width:
            return text[:place]
    return text


def padded(text: str, width: int, to_right: bool = False) -> str:
    """The text with spaces, behind it or before it, up to that many columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if to_right else text + spaces


def table(
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    gives_way: Collection[int] = (),
    to_right: Collection[int] = (),
) -> list[str]:
    """Lines with the cells of each column one below the other; the first row has the heads.

    ``width``: lines are at most that wide; the columns of ``gives_way`` are shortened, the widest
    first. ``to_right``: columns of numbers.
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        _narrow(widths, width, gives_way)
    lines = []
    for row in rows:
        cells = (
            padded(shortened(cell, widths[i]), widths[i], i in to_right)
            for i, cell in enumerate(row)
        )
        line = "  ".join(cells).rstrip()
        lines.append(line if width is None else shortened(line, width))
    return lines


def _narrow(widths: list[int], width: int, gives_way: Collection[int]) -> None:
    """Take from the widest of those columns until a line fits, or each is as narrow as may be."""
    while (over := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
        wide = sorted((i for i in gives_way if widths[i] > _NARROW), key=lambda i: -widths[i])
        if not wide:
            return
        # Down to the next widest, so that two long ones are cut alike.
        least = max(_NARROW, widths[wide[1]] - 1) if len(wide) > 1 else _NARROW
        widths[wide[0]] = max(least, widths[wide[0]] - over)


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

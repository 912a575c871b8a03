"""Errors of readers, raised again with the name of the file and of the same class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from heliostat.data.exceptions import UserCodeException

if TYPE_CHECKING:
    import pyarrow as pa


def unreadable(error: Exception, path: str) -> Exception:
    """The error of a file: the same where it names the file already, else one that does.

    It has the error's class, or the nearest class above that is made from a text alone.
    """
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(
            f"{path} is not there any more: it was when the files of the dataset were listed. Make the "
            "dataset again to read what is there now."
        )
    if isinstance(error, UserCodeException) or path in str(error):
        return error
    said = f"cannot read {path}: {' '.join(str(error).split())}"
    for kind in type(error).__mro__:
        try:
            made = kind(said)
        except Exception:  # a constructor with arguments of its own
            continue
        if isinstance(made, Exception):
            return made
    return RuntimeError(said)


def readable(tables: Iterator[pa.Table], path: str) -> Iterator[pa.Table]:
    """The tables of a file, whose errors name it."""
    while True:
        try:
            table = next(tables)
        except StopIteration:
            return
        except Exception as error:
            raise unreadable(error, path) from error
        yield table

"""The output of a trial, copied into files of its folder."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

# Names of the files for standard output and errors; the same name twice is one file.
LogFiles = tuple[str, str]
LOGGERS = ("heliostat", "ray")


def log_files(asked: object) -> LogFiles | None:
    """The files that ``log_to_file`` asks for.

    Raises:
        ValueError: It is not a truth value, no name and no pair of names.
    """
    if isinstance(asked, bool) or asked is None:
        return ("stdout", "stderr") if asked else None
    if isinstance(asked, str):
        return (asked, asked) if asked else None
    if isinstance(asked, Sequence) and len(asked) == 2 and all(isinstance(n, str) for n in asked):
        return asked[0], asked[1]
    raise ValueError(
        f"log_to_file={asked!r} must be True, the name of a file, or two names: for what trials print "
        "and for errors."
    )


class Copied:
    """While it is open, what the process prints and logs goes to the trial's files, too."""

    def __init__(self, folder: str, names: LogFiles) -> None:
        with contextlib.ExitStack() as opened:
            files: dict[str, TextIO] = {}
            for name in dict.fromkeys(names):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                files[name] = opened.enter_context(open(path, "a", buffering=1, errors="replace"))
            out, err = (files[name] for name in names)
            opened.enter_context(contextlib.redirect_stdout(_Both(sys.stdout, out)))
            opened.enter_context(contextlib.redirect_stderr(_Both(sys.stderr, err)))
            handler = logging.StreamHandler(err)
            for name in LOGGERS:
                logger = logging.getLogger(name)
                logger.addHandler(handler)
                opened.callback(logger.removeHandler, handler)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """The process prints as before."""
        self._opened.close()


class _Both:
    """A stream whose text goes to a file, too."""

    def __init__(self, stream: TextIO, file: TextIO) -> None:
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        """Write to both; a full disk does not end the trial."""
        # ValueError: a thread of a trial that is over, whose file is closed.
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush both."""
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

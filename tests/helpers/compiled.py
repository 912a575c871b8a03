"""Compiling of the files of tests by one process; those beside it take its bytecode.

Pytest rewrites the assertions of each file, which takes as long as all else that it does to collect them.
Python keeps nothing of it where the environment asks for that (``PYTHONDONTWRITEBYTECODE``, as images of
containers do), and processes that begin together would all find nothing. What tests import later is kept as
the environment says.
"""

from __future__ import annotations

import fcntl
import gc
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LOCK = Path(__file__).parents[2] / "target/collect.lock"


class Compiled:
    """A plugin of a process that has others beside it."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """The first one collects alone; the others wait, and then collect side by side.

        What they have collected lives to the end: Python's collector is not to look through it again, while
        it is made or when tests call it.
        """
        LOCK.parent.mkdir(exist_ok=True)
        keeps_nothing = sys.dont_write_bytecode
        sys.dont_write_bytecode = False
        gc.disable()
        try:
            with LOCK.open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    fcntl.flock(lock, fcntl.LOCK_SH)
                return (yield)
        finally:
            sys.dont_write_bytecode = keeps_nothing
            gc.freeze()
            gc.enable()

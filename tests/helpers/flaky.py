"""A filesystem whose operations fail some times; workers import it, too."""

from __future__ import annotations

import os
from typing import Any

from fsspec.implementations.local import LocalFileSystem

PASSES = "AWS Error NETWORK_CONNECTION during PutObject"


def fails(marks: str, times: int) -> bool:
    """Whether a thing fails that is to fail so many times, in whichever process it is tried."""
    os.makedirs(marks, exist_ok=True)
    for number in range(times):
        try:
            open(os.path.join(marks, str(number)), "x").close()
        except FileExistsError:  # of another process, which may be at it just now
            continue
        return True
    return False


class Flaky(LocalFileSystem):
    """Fails where it is told to: "write" and "read" of files, "info", "mkdir".

    Args:
        marks: A folder that has a file for each failure.
        where: What fails.
        error: The class and text of the error.
        times: How many times it fails.
    """

    protocol = "flaky"

    def __init__(
        self,
        marks: str,
        where: str,
        error: tuple[type[Exception], str] = (OSError, PASSES),
        times: int = 2,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.marks, self.where, self.error, self.times = marks, where, error, times

    def _may_fail(self, where: str) -> None:
        if where == self.where and fails(self.marks, self.times):
            raise self.error[0](self.error[1])

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self._may_fail("read" if "r" in mode else "write")
        return super()._open(path, mode, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._may_fail("info")
        return super().info(path, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._may_fail("mkdir")
        super().makedirs(path, exist_ok)

"""The errors of the stand-in."""

from __future__ import annotations

from typing import Any


class PyMongoError(Exception):
    pass


class AutoReconnect(PyMongoError):
    pass


class BulkWriteError(PyMongoError):
    def __init__(self, details: dict[str, Any]) -> None:
        super().__init__(f"batch op errors occurred, full error: {details}")
        self.details = details

    def __reduce__(self) -> Any:
        return type(self), (self.details,)

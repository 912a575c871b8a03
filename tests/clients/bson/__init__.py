"""A stand-in for ``bson``: ids."""

from __future__ import annotations

import functools
import os


@functools.total_ordering
class ObjectId:
    def __init__(self, value: bytes | None = None) -> None:
        self.binary = os.urandom(12) if value is None else value
        assert len(self.binary) == 12

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectId) and self.binary == other.binary

    def __lt__(self, other: ObjectId) -> bool:
        return self.binary < other.binary

    def __hash__(self) -> int:
        return hash(self.binary)

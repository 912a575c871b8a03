"""TensorBoard's files of events, written many at a time.

A file is a sequence of records: the length of an event, its checksum, the event, its checksum. An event is a
message of Protocol Buffers. Those of reports with the same names differ in the time, the step and the
values alone, which stand at fixed places: a report's record is a template with these written in. A checksum
(CRC-32C) of such a record is that of the template, with what each differing byte adds, from a table.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# LIMIT-1: sets of names whose templates are kept; each takes about 1 KiB for each byte that differs.
TEMPLATES = 64
_STEP_BYTES = 10  # any whole number as a varint that is padded
_POLYNOMIAL = 0x82F63B78

Sample = tuple[float, int, Sequence[float]]  # when, at which step, the values of the names


class Templates:
    """Makes records of reports, and keeps what reports with the same names share."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], _Template] = {}

    def records(self, names: tuple[str, ...], reports: Sequence[Sample]) -> list[bytes]:
        """The record of each report."""
        found = self._known.get(names)
        if found is None:
            if len(self._known) >= TEMPLATES:
                self._known.clear()
            found = self._known[names] = _Template(names)
        return found.records(reports)


class EventFile:
    """A file of events in a trial's folder."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self.file = open(os.path.join(folder, name), "ab")  # noqa: SIM115 # closed by its owner
        if not self.file.tell():
            version = b"brain.Event:2"
            stamp = b"\x09" + struct.pack("<d", time.time())
            self.add(stamp + b"\x1a" + _varint(len(version)) + version)

    def add(self, event: bytes) -> None:
        """Write an event."""
        self.file.write(_framed(event))


def summary_event(step: int, summary: bytes) -> bytes:
    """An event with a summary that another package has made."""
    stamp = b"\x09" + struct.pack("<d", time.time())
    return (
        stamp + b"\x10" + _varint(step & (1 << 64) - 1) + b"\x2a" + _varint(len(summary)) + summary
    )


class _Template:
    def __init__(self, names: tuple[str, ...]) -> None:
        import numpy as np

        values, places = b"", []
        for name in names:
            tag = name.encode()
            value = b"\x0a" + _varint(len(tag)) + tag + b"\x15"
            head = b"\x0a" + _varint(len(value) + 4)
            places.append(len(values) + len(head) + len(value))
            values += head + value + bytes(4)
        before = b"\x09" + bytes(8) + b"\x10" + bytes(_STEP_BYTES) + b"\x2a" + _varint(len(values))
        self._event = before + values
        where = [1 + n for n in range(8)] + [10 + n for n in range(_STEP_BYTES)]
        where += [len(before) + place + n for place in places for n in range(4)]
        self._where = np.array(where)
        self._added = _added_by(len(self._event))[self._where]
        self._checksum = _checksum(self._event)
        length = struct.pack("<Q", len(self._event))
        self._head = length + struct.pack("<I", _masked(_checksum(length)))

    def records(self, reports: Sequence[Sample]) -> list[bytes]:
        import numpy as np

        count, head = len(reports), len(self._head)
        rows = np.zeros((count, head + len(self._event) + 4), np.uint8)
        rows[:] = np.frombuffer(self._head + self._event + bytes(4), np.uint8)
        differing = np.empty((count, len(self._where)), np.uint8)
        times = np.array([when for when, _, _ in reports], "<f8")
        differing[:, :8] = times.view(np.uint8).reshape(count, 8)
        steps = np.array([step for _, step, _ in reports], np.int64).astype(np.uint64)
        for n in range(_STEP_BYTES):
            seven = (steps >> np.uint64(7 * n)) & np.uint64(0x7F)
            differing[:, 8 + n] = seven | np.uint64(0x80 if n < _STEP_BYTES - 1 else 0)
        with np.errstate(over="ignore"):  # what a float cannot hold is infinite, as there
            values = np.array([values for _, _, values in reports], "<f8").astype("<f4")
        differing[:, 8 + _STEP_BYTES :] = values.view(np.uint8).reshape(count, -1)
        rows[:, head + self._where] = differing
        added = self._added[np.arange(len(self._where)), differing]
        checksums = np.bitwise_xor.reduce(added, axis=1) ^ np.uint32(self._checksum)
        masked = ((checksums >> np.uint32(15)) | (checksums << np.uint32(17))) + np.uint32(
            0xA282EAD8
        )
        rows[:, -4:] = masked.astype("<u4").view(np.uint8).reshape(count, 4)
        return [row.tobytes() for row in rows]


def _framed(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    head = length + struct.pack("<I", _masked(_checksum(length)))
    return head + event + struct.pack("<I", _masked(_checksum(event)))


def _masked(checksum: int) -> int:
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _checksum(data: bytes) -> int:
    table = _table()
    state = 0xFFFFFFFF
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _table() -> list[int]:
    """Return the states that each byte makes of an empty one."""
    if not _TABLE:
        for byte in range(256):
            state = byte
            for _ in range(8):
                state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
            _TABLE.append(state)
    return _TABLE


_TABLE: list[int] = []


def _added_by(length: int) -> np.ndarray[Any, Any]:
    """Return the amounts that each byte adds to the checksum of so many, by its place; those of
    zero add nothing.
    """
    import numpy as np

    table = np.array(_table(), np.uint32)
    added = np.empty((length, 256), np.uint32)
    added[-1] = table
    for place in range(length - 2, -1, -1):
        later = added[place + 1]
        added[place] = table[later & 0xFF] ^ (later >> np.uint32(8))
    return added


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

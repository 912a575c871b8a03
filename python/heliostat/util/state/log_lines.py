"""A log as a person reads it: the last state of each progress bar instead of every one.

A bar of a terminal writes itself over by ``\\r``; one of ``ray.experimental.tqdm_ray`` is a line of JSON for
each of its states. The head's server does the same (``log_lines.rs``) for those who ask it.
"""

from __future__ import annotations

import json
from typing import Any

_BAR = b"__ray_tqdm_magic_token__"

# How much of a line without an end is held back, and how many bars are drawn at a time.
_HELD_MAX = 64 << 10
_BARS_MAX = 100


class Shown:
    """Takes a log in parts and gives it back as it is to be shown."""

    def __init__(self) -> None:
        self._open = b""
        self._begun = False
        self._bars: dict[str, bytes] = {}

    def take(self, part: bytes) -> bytes:
        """Take in the next part; return the bytes to show."""
        *lines, rest = (self._open + part).split(b"\n")
        out = b"".join(self._line(line, has_end=True) for line in lines)
        self._open = b""
        # The beginning of a line is shown at once unless it may be written over, or be a bar.
        if (b"\r" in rest or rest[:1] == b"{") and len(rest) <= _HELD_MAX:
            self._open = rest
        elif rest:
            out += self._line(rest, has_end=False)
        return out

    def end(self) -> bytes:
        """Return the rest when the log has ended."""
        rest, self._open = self._open, b""
        out = self._line(rest, has_end=False) if rest else b""
        bars, self._bars = self._bars, {}
        return out + b"".join(bars.values())

    def _line(self, line: bytes, *, has_end: bool) -> bytes:
        begun, self._begun = self._begun, not has_end
        if has_end and not begun and _BAR in line:
            drawn = self._bar(line)
            if drawn is not None:
                return drawn
        return _last_state(line) + (b"\n" if has_end else b"")

    def _bar(self, line: bytes) -> bytes | None:
        """Return the state of a bar as it has to be shown now; ``None``: the line is not one."""
        begin = line.index(b"{") if b"{" in line else 0
        try:
            state: dict[str, Any] = json.loads(line[begin:])
            name = str(state["uuid"])
            total = "" if state.get("total") is None else f"/{state['total']}"
            unit = state.get("unit") or ""
            text = f"{state.get('desc') or ''}: {state.get('x')}{total} {unit}".rstrip()
        except (ValueError, KeyError, TypeError):
            return None
        drawn = line[:begin] + text.encode() + b"\n"
        self._bars.pop(name, None)
        if state.get("closed"):
            return drawn
        self._bars[name] = drawn
        return self._bars.pop(next(iter(self._bars))) if len(self._bars) > _BARS_MAX else b""


def _last_state(line: bytes) -> bytes:
    if b"\r" not in line:
        return line
    return next((state for state in reversed(line.split(b"\r")) if state.strip()), b"")

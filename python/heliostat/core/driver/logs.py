"""The output of workers on the driver's terminal.

A line comes as ``(name pid=N) text``, or with ``ip=X`` from another machine. Lines that differ in
numbers at most and come from several processes within a few seconds are shown once and then
counted: ``[repeated 3x across cluster]``.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TextIO

from heliostat import _heliostat
from heliostat.core.platform import settings

if TYPE_CHECKING:
    from heliostat.core.driver.progress_bars import Bars

_NUMBERS = re.compile(r"\d+|0x[0-9a-fA-F]+")
_COLOURS = (32, 35, 36, 33, 34, 92, 95, 96, 93, 94)
_CYAN, _YELLOW = 36, 33
_WAIT_S = 1.0
_SEEN_MAX = 10_000  # kinds of lines that are remembered; what comes beyond is shown as it is
_SCAN_S = 0.5
# Two breakpoints differ by their ports only, and each port is needed: `debugger` writes these words.
_ALWAYS_SHOWN = " waits for a debugger at "
_HINT = " (Set RAY_DEDUP_LOGS=0 to see every line.)"

BAR = "__ray_tqdm_magic_token__"
"""Marks a line that is the state of a progress bar."""


def _bars() -> Bars | None:
    """The bars of this driver, once there was one."""
    module = sys.modules.get("heliostat.core.driver.progress_bars")
    return None if module is None else module.bars


class Line(NamedTuple):
    """A line that a worker printed."""

    pid: int
    host: str
    name: str
    is_stderr: bool
    text: str

    @property
    def prefix(self) -> str:
        """The process that printed the line, in brackets."""
        facts = [f"pid={self.pid}"] + ([f"ip={self.host}"] if self.host else [])
        return f"({' '.join([self.name, ', '.join(facts)]) if self.name else ', '.join(facts)})"


@dataclass
class _Seen:
    until: float
    sources: set[tuple[str, int]]
    count: int = 0
    latest: Line | None = None


@dataclass
class Folder:
    """Decides which lines are shown, and folds those that repeat."""

    enabled: bool = True
    window_s: float = 5.0
    allow: re.Pattern[str] | None = None
    skip: re.Pattern[str] | None = None
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _hinted: bool = False
    _scanned: float = 0.0

    @classmethod
    def from_settings(cls) -> Folder:
        """The settings of the environment (RAY_DEDUP_LOGS and those beside it)."""
        allow, skip = (
            settings.text("DEDUP_LOGS_ALLOW_REGEX"),
            settings.text("DEDUP_LOGS_SKIP_REGEX"),
        )
        return cls(
            settings.flag("DEDUP_LOGS") and not as_they_are(),
            settings.number("DEDUP_LOGS_AGG_WINDOW_S"),
            re.compile(allow) if allow else None,
            re.compile(skip) if skip else None,
        )

    def take(self, line: Line, now: float) -> Iterable[Line]:
        """The lines to show now that this one has come."""
        if (
            not self.enabled
            or not line.text.strip()
            or _ALWAYS_SHOWN in line.text
            or (self.allow and self.allow.search(line.text))
        ):
            return [line]
        if self.skip and self.skip.search(line.text):
            return []
        key, source = _NUMBERS.sub("", line.text), (line.host, line.pid)
        seen = self._seen.get(key)
        if seen is None and len(self._seen) >= _SEEN_MAX:
            return [line]
        if seen is None:
            self._seen[key] = _Seen(now + self.window_s, {source})
            return [line]
        if seen.count == 0 and seen.sources == {source}:
            seen.until = now + self.window_s  # one process that repeats itself is no crowd
            return [line]
        seen.sources.add(source)
        seen.count += 1
        seen.latest = line
        return []

    def due(self, now: float, everything: bool = False) -> Iterable[Line]:
        """The folded lines whose time has come."""
        if now - self._scanned < _SCAN_S and not everything:
            return
        self._scanned = now
        ripe = [key for key, seen in self._seen.items() if everything or seen.until <= now]
        for key in ripe:
            seen = self._seen.pop(key)
            if seen.latest is None:
                continue
            text = seen.latest.text
            if seen.count > 1 or len(seen.sources) > 1:
                hint = "" if self._hinted else _HINT
                self._hinted = True
                text = f"{text} [repeated {seen.count}x across cluster]{hint}"
                # The count goes on where it left off, so that a steady stream stays folded.
                self._seen[key] = (
                    _Seen(now + self.window_s, seen.sources) if not everything else seen
                )
            yield seen.latest._replace(text=text)


def as_they_are() -> bool:
    """RAY_LOG_TO_STDERR: lines are shown as if workers wrote to the driver's terminal themselves."""
    return settings.flag("LOG_TO_STDERR")


class LogPrinter:
    """A thread that shows the lines of the session's workers as they come."""

    def __init__(self, prefixed: bool = True) -> None:
        self._folder = Folder.from_settings()
        bare = settings.flag("DISABLE_WORKER_LOG_PREFIX") or as_they_are()
        self._prefixed = prefixed and not bare
        colours = settings.text("COLOR_PREFIX")
        self._coloured = colours != "0"
        self._by_process = colours == "1"
        self._ignore_unhandled = settings.flag("IGNORE_UNHANDLED_ERRORS")
        self._epoch = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="heliostat-logs", daemon=True)

    def start(self) -> None:
        """Begin, with the present session."""
        self._epoch = _heliostat.session_epoch()
        self._thread.start()

    def drain(self, flush_s: float) -> None:
        """Show what workers have printed so far."""
        with contextlib.suppress(Exception):  # the daemon is gone, and what it had to say with it
            _heliostat.flush_logs(flush_s)
            self._take(0.0)
        with self._lock:
            self._show(self._folder.due(time.monotonic(), everything=True))
        if (bars := _bars()) is not None:
            bars.close()

    def join(self, seconds: float) -> None:
        """After the end of the session: wait for the thread."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self) -> None:
        _heliostat.choose_session(self._epoch)
        with contextlib.suppress(Exception):  # raised when the session ends
            while True:
                self._take(_WAIT_S)

    def _take(self, seconds: float) -> None:
        lines = _heliostat.take_logs(seconds)
        with self._lock:
            now = time.monotonic()
            for line in (Line(*fields) for fields in lines):
                if not self._is_bar(line):
                    self._show(self._folder.take(line, now))
            self._show(self._folder.due(now))
            for is_warning, text in _heliostat.take_notices():
                _write(sys.stderr, "(heliostat)", _YELLOW if is_warning else _CYAN, text)
            if not self._ignore_unhandled:
                for payload in _heliostat.take_unhandled():
                    _unhandled(payload)

    def _show(self, lines: Iterable[Line]) -> None:
        for line in lines:
            stream = sys.stderr if line.is_stderr else sys.stdout
            prefix = line.prefix if self._prefixed else ""
            bars = _bars()
            with contextlib.nullcontext() if bars is None else bars.hidden():
                _write(stream, prefix, self._colour(line.pid), line.text)

    def _is_bar(self, line: Line) -> bool:
        """Draw the bar if the line is one."""
        if BAR not in line.text:
            return False
        from heliostat.core.driver.progress_bars import bars  # few drivers have any

        return bars.take(line.text, line.prefix if self._prefixed else "")

    def _colour(self, pid: int) -> int | None:
        if not self._coloured:
            return None
        if not self._by_process:
            return _CYAN
        return _COLOURS[pid % len(_COLOURS)]


def _write(stream: TextIO | None, prefix: str, colour: int | None, text: str) -> None:
    """Write a line at once, so that those of several threads do not mix."""
    if stream is None:
        return
    try:
        if prefix and colour is not None and stream.isatty():
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        stream.write(f"{prefix} {text}\n" if prefix else f"{text}\n")
        stream.flush()
    except (OSError, ValueError):
        pass  # closed by its owner


def _unhandled(payload: bytes) -> None:
    import logging

    try:
        error: object = _heliostat.deserialize(payload, True)
    except BaseException as raised:
        error = raised
    logging.getLogger("heliostat").error(
        "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): %s", error
    )

"""The screen of ``top``: lines in colours, and keys.

Looks are made in a thread of their own, so that keys are answered while a cluster takes long to tell.
"""

from __future__ import annotations

import contextlib
import curses
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from heliostat.util.commands import shortened, width_of
from heliostat.util.state.top_lines import SORTS, Line, Look, View, lines, summary

# How often keys are looked for while nothing else happens, in milliseconds.
_KEYS_MS = 100
# Rows below which only what is listed is shown, without the line of keys.
_ROWS_MIN = 6
_KEYS = "q quit  s sort  r reverse  ↑↓ move  p pause  +/- delay  space look"
_DELAYS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_COLOURS = {
    "good": curses.COLOR_GREEN,
    "warm": curses.COLOR_YELLOW,
    "hot": curses.COLOR_RED,
    "title": curses.COLOR_CYAN,
}
# For terminals whose locale has no more signs.
_PLAIN = str.maketrans(
    {"█": "#", "░": ".", "…": "~", "▼": "v", "▲": "^", "·": "-", "↑": "^", "↓": "v"}
)


def can_draw() -> bool:
    """Whether this terminal can be drawn on."""
    try:
        curses.setupterm()
    except curses.error:
        return False
    return curses.tigetstr("cup") is not None


def show(looks: Iterator[Look], delay: float) -> None:
    """Show looks until ``q`` or Ctrl-C, or until there are no more."""
    watch = _Watch(looks, delay)
    try:
        curses.wrapper(lambda screen: _Screen(screen, watch).run())
    finally:
        watch.end()


class _Watch:
    """A thread that makes the looks."""

    def __init__(self, looks: Iterator[Look], delay: float) -> None:
        self.delay = delay
        self.latest: Look | None = None
        self.has_ended = False
        self._error: Exception | None = None
        self._now = threading.Event()
        self._is_over = False
        self._looks = looks
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for look in self._looks:
                self.latest = look
                self._now.wait(self.delay)
                self._now.clear()
                if self._is_over:
                    break
        except Exception as error:
            self._error = error
        self.has_ended = True

    def look_now(self) -> None:
        """Look at once instead of when the delay is over."""
        self._now.set()

    def check(self) -> None:
        """Raise the error with which a look has failed."""
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Make no more looks. One that is being made is waited for."""
        self._is_over = True
        self._now.set()
        self._thread.join()


class _Screen:
    """The screen, and the effect of keys on it."""

    def __init__(self, screen: Any, watch: _Watch) -> None:
        self._screen = screen
        self._watch = watch
        self._view = View()
        self._top = 0
        self._page = 1
        self._held: Look | None = None  # the look that stays while paused
        self._styles: dict[str, int] = {"dim": curses.A_DIM, "head": curses.A_BOLD}
        self._has_signs = screen.encoding.upper().replace("-", "") == "UTF8"
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        if curses.has_colors() and "NO_COLOR" not in os.environ:
            curses.use_default_colors()
            for number, (name, colour) in enumerate(_COLOURS.items(), 1):
                curses.init_pair(number, colour, -1)
                self._styles[name] = curses.color_pair(number)
        self._styles["title"] = self._styles.get("title", 0) | curses.A_BOLD
        self._keys: dict[int, Callable[[], None]] = {
            curses.KEY_UP: lambda: self._move(-1),
            curses.KEY_DOWN: lambda: self._move(1),
            ord("k"): lambda: self._move(-1),
            ord("j"): lambda: self._move(1),
            curses.KEY_PPAGE: lambda: self._move(-self._page),
            curses.KEY_NPAGE: lambda: self._move(self._page),
            curses.KEY_HOME: lambda: self._move(-self._top),
            curses.KEY_END: lambda: self._move(1 << 30),
            ord("s"): lambda: self._sort(1),
            ord("S"): lambda: self._sort(-1),
            ord("r"): self._reverse,
            ord("p"): self._pause,
            ord(" "): watch.look_now,
            ord("+"): lambda: self._slower(1),
            ord("-"): lambda: self._slower(-1),
            curses.KEY_RESIZE: lambda: None,
        }

    def run(self) -> None:
        """Draw what is new, and do what keys ask for, until ``q``."""
        self._screen.timeout(_KEYS_MS)
        drawn: Look | None = None
        is_stale = True
        while True:
            self._watch.check()
            look = self._held or self._watch.latest
            if is_stale or look is not drawn:
                self._draw(look)
                drawn, is_stale = look, False
            if self._watch.has_ended:
                return
            key = self._screen.getch()
            if key in (ord("q"), ord("Q"), 27):
                return
            if does := self._keys.get(key):
                does()
                is_stale = True

    def _move(self, rows: int) -> None:
        self._top = max(0, self._top + rows)

    def _sort(self, by: int) -> None:
        names = list(SORTS)
        self._view.sort = names[(names.index(self._view.sort) + by) % len(names)]
        self._view.is_reversed = False

    def _reverse(self) -> None:
        self._view.is_reversed = not self._view.is_reversed

    def _pause(self) -> None:
        self._held = None if self._held else self._watch.latest

    def _slower(self, by: int) -> None:
        longer = [
            at for at in _DELAYS if (at > self._watch.delay) == (by > 0) and at != self._watch.delay
        ]
        if longer:
            self._watch.delay = min(longer) if by > 0 else max(longer)
            self._watch.look_now()

    def _draw(self, look: Look | None) -> None:
        height, width = self._screen.getmaxyx()
        self._screen.erase()
        state = "paused" if self._held else f"every {self._watch.delay:g} s"
        if look is None:
            head, body = [[("Asking the cluster …", "head")]], []
        else:
            head, body = summary(look, width - 1, state), lines(look, width - 1, self._view)
        has_keys = height >= _ROWS_MIN
        head = head[: 1 if not has_keys else None]
        self._page = max(1, height - len(head) - has_keys)
        self._top = min(self._top, max(0, len(body) - self._page))
        shown = body[self._top : self._top + self._page]
        for row, line in enumerate([*head, *shown]):
            self._put(row, line, width - 1)
        if has_keys:
            more = len(body) - self._top - len(shown)
            rest = f"  ↓ {more} more" if more > 0 else ""
            keys = shortened(_KEYS, max(0, width - 1 - len(rest))) + rest
            self._put(height - 1, [(keys, "dim")], width - 1)
        self._screen.refresh()

    def _put(self, row: int, line: Line, width: int) -> None:
        column = 0
        for text, style in line:
            cut = shortened(text, width - column)
            shown = cut if self._has_signs else cut.translate(_PLAIN)
            # A terminal that shrinks meanwhile has fewer rows and columns than it has said.
            with contextlib.suppress(curses.error):
                self._screen.addstr(row, column, shown, self._styles.get(style, 0))
            column += width_of(cut)

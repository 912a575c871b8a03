"""Loggers beside a search: a thread tells them what happened, so that the loop waits for no file or server.

What is told arrives in order and completely: it waits in a line of bounded length, and the end of the search,
also by Ctrl-C, waits until the line is empty. What a logger raises ends the search at its next turn.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Sequence
from typing import Any

from heliostat.tune.callback import Callback
from heliostat.tune.logger.columns import made_of

logger = logging.getLogger("heliostat")

# LIMIT-1: what may wait; who tells more waits, too.
LINE = 20_000
# Events travel in batches: one begins when so many wait, or so long after the first.
BATCH, GATHER_S = 2000, 0.05

Event = tuple[str, dict[str, Any]]  # a hook and its arguments


class CallbackThread:
    """Tells some loggers of a search, in a thread.

    Args:
        loggers: The ones; each hears of everything in order.
        behind: Those who hear of it when these have; they may be slow, and read what these have written.
        makes_texts: Whether they are given reports as text, too.
    """

    def __init__(
        self,
        loggers: Sequence[Callback],
        behind: CallbackThread | None = None,
        makes_texts: bool = False,
    ) -> None:
        self._makes_texts = makes_texts
        self._hooks_of = {one: hooks_of(one) for one in loggers}
        self._behind = behind
        self._hears: set[str] = set().union(*self._hooks_of.values())
        if behind is not None:
            self._hears |= behind._hears
        self._gathered: list[Event] = []  # told, and not in the line yet
        self._changed = threading.Condition()
        self._line: list[Event] = []
        self._is_busy = False  # with what was in the line
        self._is_hurried = False
        self._is_ending = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="heliostat-loggers", daemon=True)
        self._has_begun = False

    def hears(self, hook: str) -> bool:
        """Whether anybody wants to know of it."""
        return hook in self._hears

    def tell(self, hook: str, **about: object) -> None:
        """Have the loggers' method called soon after ``pass_on``; called by one thread."""
        if hook in self._hears:
            self._gathered.append((hook, about))
            if len(self._gathered) >= BATCH:
                self.pass_on()

    def pass_on(self) -> None:
        """Let the thread have what was told; waits while the line is full."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._extend(gathered)

    def _extend(self, more: list[Event]) -> None:
        with self._changed:
            if not self._has_begun:
                self._has_begun = True
                self._thread.start()
            self._changed.wait_for(lambda: len(self._line) < LINE)
            was_empty = not self._line
            self._line += more
            if was_empty or len(self._line) >= BATCH:
                self._changed.notify_all()

    def check(self) -> None:
        """Raise what a logger has raised, once."""
        if self._behind is not None:
            self._behind.check()
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def drain(self) -> None:
        """Wait until everybody knows what was told."""
        self.pass_on()
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._line and not self._is_busy)
            self._is_hurried = False
        if self._behind is not None:
            self._behind.drain()

    def close(self) -> None:
        """Wait until everybody knows what was told, and end the thread. Nothing is raised."""
        self.pass_on()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        if self._has_begun:
            self._thread.join()
        if self._behind is not None:
            self._behind.close()

    # --- the thread ---

    def _main(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or self._is_ending)
                self._changed.wait_for(self._is_due, GATHER_S)
                if not self._line:
                    return
                batch, self._line = self._line, []
                self._is_busy = True
                self._changed.notify_all()
            self._prepare(batch)
            for one, hooks in list(self._hooks_of.items()):
                self._serve(one, hooks, batch)
            if self._behind is not None:
                self._behind._extend(batch)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _is_due(self) -> bool:
        return len(self._line) >= BATCH or self._is_hurried or self._is_ending

    def _prepare(self, batch: list[Event]) -> None:
        """Make the texts of all reports of a batch together, which loggers of files share."""
        if self._makes_texts:
            reports = [about for hook, about in batch if hook == "on_trial_result"]
            made = made_of([about["result"] for about in reports])
            for about, one in zip(reports, made, strict=True):
                about["made"] = one

    def _serve(self, one: Callback, hooks: set[str], batch: list[Event]) -> None:
        """Tell one logger; who raises hears no more, and what is told others still arrives."""
        tell = {hook: getattr(one, hook) for hook in hooks}
        if "on_checkpoint" in hooks:
            tell["on_checkpoint"] = functools.partial(_warned, one)
        try:
            for hook, about in batch:
                if hook in tell:
                    tell[hook](**about)
            one.on_step_end(iteration=0, trials=[])
        except BaseException as error:
            del self._hooks_of[one]
            with self._changed:
                if self._error is None:
                    self._error = error
                    return
            logger.warning("%s failed, too:", type(one).__name__, exc_info=error)


def hooks_of(callback: Callback) -> set[str]:
    """The methods of a callback that do something."""
    own = {name for name in vars(callback) if name.startswith("on_")}
    kind = type(callback)
    return own | {
        name
        for name in dir(kind)
        if name.startswith("on_") and getattr(kind, name) is not getattr(Callback, name, None)
    }


def _warned(callback: Callback, **about: Any) -> None:
    """Tell of a checkpoint, which is there all the same where this fails."""
    try:
        callback.on_checkpoint(**about)
    except Exception:
        logger.warning(
            "A callback failed with %s's new checkpoint:", about.get("trial"), exc_info=True
        )

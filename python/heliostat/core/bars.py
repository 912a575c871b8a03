"""Progress bars of all processes on the driver's terminal, one below the other.

A worker prints each state of a bar as a line of JSON that :data:`MAGIC` marks. It comes the way of all
lines, and is drawn instead of shown.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

MAGIC = "__ray_tqdm_magic_token__"

logger = logging.getLogger("heliostat")


def line(state: dict[str, Any]) -> str:
    """The state of a bar as what a worker prints."""
    return json.dumps({MAGIC: "", **state})


class Bars:
    """The bars of a driver. ``tqdm`` draws them; without it nothing is drawn, and a warning says so."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._drawn: dict[str, Any] = {}
        self._tqdm: Any = None
        self._warned = False

    def take(self, text: str, prefix: str) -> bool:
        """Draw the bar if the line of a worker is one; else return ``False``."""
        if MAGIC not in text:
            return False
        try:
            state = json.loads(text[text.index("{") :])
        except ValueError:
            return False  # somebody else wrote into the same line: let it be seen
        self.update({**state, "desc": " ".join(filter(None, (prefix, state["desc"])))})
        return True

    def update(self, state: dict[str, Any]) -> None:
        """Draw a bar: its ``uuid``, ``desc``, ``unit``, ``total`` (perhaps ``None``), ``x``, ``closed``."""
        with self._lock:
            if self._tqdm is None and not self._load():
                return
            bar = self._drawn.get(state["uuid"])
            if bar is None:
                if state["closed"]:
                    return
                bar = self._tqdm(desc=state["desc"], unit=state["unit"], total=state["total"])
                self._drawn[state["uuid"]] = bar
            if bar.desc.rstrip(": ") != state["desc"]:
                bar.set_description(state["desc"], refresh=False)
            bar.total = state["total"]
            bar.n = state["x"]
            bar.refresh()
            if state["closed"]:
                bar.close()
                del self._drawn[state["uuid"]]

    def close(self) -> None:
        """End the bars whose processes have not."""
        with self._lock:
            for bar in self._drawn.values():
                bar.close()
            self._drawn.clear()

    def hide(self) -> None:
        """Take the bars off the terminal, so that something can be written above them."""
        with self._lock:
            for bar in self._drawn.values():
                bar.clear()

    def unhide(self) -> None:
        """Draw them again."""
        with self._lock:
            for bar in self._drawn.values():
                bar.refresh()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """While something else is written."""
        if not self._drawn:
            yield
            return
        with self._lock:
            self.hide()
            try:
                yield
            finally:
                self.unhide()

    def _load(self) -> bool:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if not self._warned:
                logger.warning(
                    "Progress bars are not shown: run `pip install 'heliostat[progress]'` for them."
                )
            self._warned = True
            return False
        self._tqdm = tqdm
        return True


bars = Bars()

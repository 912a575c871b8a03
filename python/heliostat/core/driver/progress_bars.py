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
from dataclasses import dataclass, field
from typing import Any

from heliostat.core.driver.logs import BAR

# The mark of a line of a bar; the reader of lines looks for it without this module.
MAGIC = BAR

logger = logging.getLogger("heliostat")


def line(state: dict[str, Any]) -> str:
    """The state of a bar as what a worker prints."""
    return json.dumps({MAGIC: "", **state})


@dataclass
class Bar:
    """A bar: its state as it was told, and what draws it."""

    state: dict[str, Any]
    bar: Any


@dataclass
class BarGroup:
    """The bars of a process."""

    ip: str
    pid: int
    bars_by_uuid: dict[str, Bar] = field(default_factory=dict)


class Bars:
    """The bars of a driver. ``tqdm`` draws them; without it nothing is drawn, and a warning says so."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.bar_groups: dict[tuple[str, int], BarGroup] = {}
        self.in_hidden_state = False
        self.num_hides = 0
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
        desc = " ".join(filter(None, (prefix, state["desc"])))
        self.process_state_update({**state, "desc": desc})
        return True

    def process_state_update(self, state: dict[str, Any]) -> None:
        """Draw a bar.

        Args:
            state: Its ``uuid``, ``ip``, ``pid``, ``desc``, ``unit``, ``total`` (perhaps ``None``), ``x``
                and ``closed``.
        """
        with self.lock:
            if self._tqdm is None and not self._load():
                return
            key = (state["ip"], state["pid"])
            group = self.bar_groups.get(key)
            known = None if group is None else group.bars_by_uuid.get(state["uuid"])
            if known is None:
                if state["closed"]:
                    return
                made = self._tqdm(desc=state["desc"], unit=state["unit"], total=state["total"])
                known = Bar(state, made)
                group = self.bar_groups.setdefault(key, BarGroup(*key))
                group.bars_by_uuid[state["uuid"]] = known
            known.state, bar = state, known.bar
            if bar.desc.rstrip(": ") != state["desc"]:
                bar.set_description(state["desc"], refresh=False)
            bar.total = state["total"]
            bar.n = state["x"]
            bar.refresh()
            if state["closed"] and group is not None:
                bar.close()
                del group.bars_by_uuid[state["uuid"]]
                if not group.bars_by_uuid:
                    self.bar_groups.pop(key, None)

    def close(self) -> None:
        """End the bars whose processes have not."""
        with self.lock:
            for bar in self._drawn():
                bar.close()
            self.bar_groups.clear()

    def hide_bars(self) -> None:
        """Take the bars off the terminal, so that something can be written above them."""
        with self.lock:
            if not self.in_hidden_state:
                self.in_hidden_state = True
                self.num_hides += 1
                for bar in self._drawn():
                    bar.clear()

    def unhide_bars(self) -> None:
        """Draw them again."""
        with self.lock:
            if self.in_hidden_state:
                self.in_hidden_state = False
                for bar in self._drawn():
                    bar.refresh()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """While something else is written."""
        if not self.bar_groups:
            yield
            return
        with self.lock:
            self.hide_bars()
            try:
                yield
            finally:
                self.unhide_bars()

    def _drawn(self) -> list[Any]:
        return [
            one.bar for group in self.bar_groups.values() for one in group.bars_by_uuid.values()
        ]

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

"""Views of a run: a live view in the terminal, plain lines without one, a page at the end."""

from __future__ import annotations

import importlib.util
import os
import sys

from heliostat.train.controller.record import RunRecord
from heliostat.train.view.base import Guarded, View


def open_view(record: RunRecord, chosen: str) -> View:
    """Choose a view: "live" needs a terminal and `rich`; "auto" takes it where it can.

    It never fails: a run outlives the terminal that it was started in.
    """
    return Guarded(_choose(record, chosen))


def _choose(record: RunRecord, chosen: str) -> View:
    from heliostat.train.view.lines import LineView

    if chosen == "off" or sys.stderr is None:
        return View(record)
    terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if chosen == "lines" or (chosen == "auto" and not terminal):
        return LineView(record)
    if importlib.util.find_spec("rich") is None:
        return LineView(record)
    from heliostat.train.view.live import LiveView

    return LiveView(record)

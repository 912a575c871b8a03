"""The bars of an execution in a terminal: a row for each operator, drawn by `rich`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from heliostat.data.execute.page_row import bound
from heliostat.data.execute.physical import Physical

BAR_WIDTH = 18
WIDTH_MIN = 100  # of a terminal whose rows have all columns
OPERATORS_MAX = 12  # the others are counted: rows that scroll away cannot be drawn over


class Bars:
    """The state of an execution, as wide as the terminal is."""

    def __init__(self, head: str, operators: Sequence[Physical], elapsed_s: float) -> None:
        self._head, self._operators, self._elapsed_s = head, operators, elapsed_s

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = Text(self._head, style="bold", no_wrap=True, overflow="ellipsis")
        yield Group(head, self._table(is_wide=options.max_width >= WIDTH_MIN))

    def _table(self, *, is_wide: bool) -> RenderableType:
        table = Table(box=None, padding=(0, 1), header_style="dim", expand=True)
        table.add_column("operator", ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column("", width=BAR_WIDTH)
        for title in _titles(is_wide):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("bound by", no_wrap=True)
        for operator in self._operators[:OPERATORS_MAX]:
            cells = _cells(operator, self._elapsed_s)
            chosen = [cells[title] for title in _titles(is_wide)]
            limit = bound(operator)
            style = "red" if limit == "memory" else ""
            done = "done" if operator.done else limit
            table.add_row(operator.name, _bar(operator), *chosen, Text(done, style=style))
        more = len(self._operators) - OPERATORS_MAX
        if more > 0:
            table.add_row(Text(f"and {more} more", style="dim"))
        return table


def _titles(is_wide: bool) -> list[str]:
    return ["tasks", "rows", "MB", "rows/s", "waiting"] if is_wide else ["tasks", "rows"]


def _cells(operator: Physical, elapsed_s: float) -> dict[str, str]:
    stats, running = operator.stats, operator.running()
    total = getattr(operator, "expected_blocks", 0)
    tasks = f"{stats.tasks - running}/{total}" if total else f"{stats.tasks - running}"
    blocks, size = operator.backlog()
    return {
        "tasks": f"{tasks} +{running}" if running else tasks,
        "rows": f"{stats.rows.total:,.0f}",
        "MB": f"{stats.bytes.total / 1e6:,.1f}",
        "rows/s": f"{stats.rows.total / max(elapsed_s, 1e-3):,.0f}",
        "waiting": f"{blocks} of {size / 1e6:,.1f} MB" if blocks else "",
    }


def _bar(operator: Physical) -> ProgressBar:
    """Draw the part of an operator that is done; one that cannot know it moves to and fro while it works."""
    ended = operator.stats.tasks - operator.running()
    total = getattr(operator, "expected_blocks", 0)
    if operator.done:
        return ProgressBar(total=1, completed=1, width=BAR_WIDTH)
    if total:
        return ProgressBar(total=total, completed=min(ended, total), width=BAR_WIDTH)
    waiting = sum(map(len, operator.inboxes))
    if operator.inputs_done and operator.stats.tasks:
        everything = operator.stats.tasks + waiting
        return ProgressBar(total=everything, completed=ended, width=BAR_WIDTH)
    return ProgressBar(total=1, completed=0, width=BAR_WIDTH, pulse=bool(operator.running()))

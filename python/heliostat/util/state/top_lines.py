"""The picture that ``top`` shows of the cluster: lines of texts, each text with a style."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from heliostat.util.commands import padded, shortened, width_of

# Texts of a line, one behind the other, with the names of their styles.
Line = list[tuple[str, str]]

# Characters of a bar, in a narrow terminal and in a wide one.
_BARS = {0: 5, 120: 12}
# From which part on what is used is shown as much, and as very much.
_WARM, _HOT = 0.7, 0.9
# Resources that are shown of each node, and how: a count, or bytes.
SHOWN = {"CPU": "CPU", "GPU": "GPU", "memory": "memory", "object_store_memory": "store"}
_BYTES = ("memory", "object_store_memory")
# The first column is not made narrower than this part of a line before others are left out.
_NAME_PART = 3


@dataclass
class Calls:
    """The calls of one function or method, and how many ended in a second since the look before."""

    name: str
    running: int = 0
    waiting: int = 0
    finished: int = 0
    failed: int = 0
    rate: float | None = None


@dataclass
class Node:
    """A node that is alive: what is used and what there is of each resource."""

    name: str
    is_head: bool
    used: dict[str, tuple[float, float]]


@dataclass
class Look:
    """The state at one moment; ``silent``: processes that did not tell in time."""

    at: float
    nodes: list[Node] = field(default_factory=list)
    dead: int = 0
    calls: list[Calls] = field(default_factory=list)
    actors: dict[str, Counter[str]] = field(default_factory=dict)
    silent: int = 0


@dataclass
class View:
    """The order of the calls."""

    sort: str = "running"
    is_reversed: bool = False


# The orders of calls: the heads of their table, each with its key, the first to be shown the least.
SORTS: dict[str, Callable[[Calls], tuple[float, ...]]] = {
    "running": lambda one: (-one.running, -one.waiting, -(one.rate or 0)),
    "waiting": lambda one: (-one.waiting,),
    "finished": lambda one: (-one.finished,),
    "failed": lambda one: (-one.failed,),
    "per second": lambda one: (-(one.rate or 0),),
    "function": lambda one: (),
}


def summary(look: Look, width: int | None, state: str = "") -> list[Line]:
    """The lines above the tables: the time, nodes, and sums of the calls; ``state`` stands at the right."""
    alive = f"{len(look.nodes)} node{'s' * (len(look.nodes) != 1)}"
    first: Line = [(time.strftime("%H:%M:%S"), "head"), (f"  {alive}", "")]
    if look.dead:
        first.append((f", {look.dead} dead", "hot"))
    if look.silent:
        processes = f"process{'es' * (look.silent != 1)}"
        first.append((f", {look.silent} {processes} did not answer in time", "warm"))
    taken = sum(width_of(text) for text, _ in first)
    if state and width is not None and taken + 2 + len(state) <= width:
        first.append((" " * (width - taken - len(state)) + state, "dim"))
    second: Line = []
    for name, style in (
        ("running", "good"),
        ("waiting", "warm"),
        ("finished", ""),
        ("failed", "hot"),
    ):
        count = sum(getattr(one, name) for one in look.calls)
        second.append((f"{count:,} {name}  ", style if count else "dim"))
    rates = [one.rate for one in look.calls if one.rate is not None]
    if rates:
        second.append((f"{sum(rates):,.0f} per second", ""))
    return [_fitted(first, width), _fitted(second, width)]


def lines(look: Look, width: int | None, view: View | None = None) -> list[Line]:
    """The tables of a look, as lines of at most ``width`` columns; ``None``: whole. ``view``: where
    keys can change it.
    """
    bar = max(size for least, size in _BARS.items() if width is None or width >= least)
    heads = [("node", ""), *((head, "") for head in SHOWN.values())]
    shown = _table("Nodes", heads, [_node(node, bar) for node in look.nodes], width)
    by = view or View()
    calls = sorted(sorted(look.calls, key=lambda one: one.name), key=SORTS[by.sort])
    if by.is_reversed:
        calls.reverse()
    mark = "▲" if by.is_reversed else "▼"
    names = ("function", "running", "waiting", "finished", "failed", "per second")
    heads = [(f"{name} {mark}" if view and name == by.sort else name, "") for name in names]
    shown += _table("Calls", heads, [_calls(one) for one in calls], width)
    states = sorted({state for counts in look.actors.values() for state in counts})
    actors = sorted(look.actors.items(), key=lambda item: (-item[1]["ALIVE"], item[0]))
    rows = [[(name, ""), *(_count(counts, state) for state in states)] for name, counts in actors]
    heads = [("class", ""), *((state.lower().replace("_", " "), "") for state in states)]
    return shown + _table("Actors", heads, rows, width)


def _count(counts: Counter[str], state: str) -> tuple[str, str]:
    style = {"ALIVE": "good", "DEAD": "dim"}.get(state, "warm")
    return (f"{counts[state]:,}" if counts[state] else "", style)


def _node(node: Node, bar: int) -> Line:
    cells = [(f"{node.name} (head)" if node.is_head else node.name, "")]
    for name in SHOWN:
        used, total = node.used.get(name, (0.0, 0.0))
        if not total:
            cells.append(("", ""))
            continue
        part = min(max(used / total, 0.0), 1.0)
        filled = round(bar * part)
        style = "hot" if part >= _HOT else "warm" if part >= _WARM else "good"
        amounts = f"{_amount(name, used)}/{_amount(name, total)}"
        cells.append((f"{'█' * filled}{'░' * (bar - filled)} {amounts}", style))
    return cells


def _amount(name: str, value: float) -> str:
    return f"{value / 2**30:.1f}G" if name in _BYTES else f"{round(value, 2):g}"


def _calls(one: Calls) -> Line:
    rate = "" if one.rate is None else f"{one.rate:,.0f}"
    return [
        (one.name, ""),
        (f"{one.running:,}", "good" if one.running else "dim"),
        (f"{one.waiting:,}", "warm" if one.waiting else "dim"),
        (f"{one.finished:,}", ""),
        (f"{one.failed:,}", "hot" if one.failed else "dim"),
        (rate, ""),
    ]


def _table(title: str, heads: Line, rows: list[Line], width: int | None) -> list[Line]:
    """Rows below a heading; no rows: nothing. Columns without a value are left out, and from the right
    those for which there is no room; then the first gives way.
    """
    if not rows:
        return []
    columns = [
        place for place in range(len(heads)) if not place or any(row[place][0] for row in rows)
    ]
    widths = {place: max(width_of(row[place][0]) for row in (heads, *rows)) for place in columns}

    def needed() -> int:
        return sum(size + 2 for place, size in widths.items() if place)

    first = widths[0]
    if width is not None:
        least = min(first, width // _NAME_PART)
        while len(widths) > 1 and width - needed() - 2 < least:
            widths.popitem()
        first = max(1, min(first, width - needed() - 2))
    made: list[Line] = [[], _fitted([(title, "title")], width)]
    for row in (heads, *rows):
        cells: Line = [(f"  {padded(shortened(row[0][0], first), first)}", row[0][1])]
        for place in list(widths)[1:]:
            text, style = row[place]
            cells.append((f"  {padded(text, widths[place], to_right=True)}", style))
        if row is heads:
            cells = [(text, "dim") for text, _ in cells]
        made.append(_fitted(cells, width))
    return made


def _fitted(line: Line, width: int | None) -> Line:
    """The line without the spaces at its end, cut where it is too wide."""
    shown: Line = []
    room = width
    for text, style in line:
        cut = text if room is None else shortened(text, room)
        if room is not None:
            room -= width_of(cut)
        shown.append((cut, style))
    while shown and not shown[-1][0].rstrip():
        shown.pop()
    if shown:
        shown[-1] = (shown[-1][0].rstrip(), shown[-1][1])
    return shown

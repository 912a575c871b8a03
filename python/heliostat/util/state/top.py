"""``top``: nodes, calls and actors as they change, in the terminal."""

from __future__ import annotations

import argparse
import curses
import itertools
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliostat import _heliostat
from heliostat.util.commands import add_address, exit_code, session

_PERIOD_S = 2.0
_PERIOD_MIN_S = 0.2
# Characters of a bar, in a narrow terminal and in a wide one.
_BARS = {0: 5, 120: 12}
_ENDED = ("FINISHED", "FAILED")
# Resources that are shown of each node, and how: a count, or bytes.
_SHOWN = {"CPU": "CPU", "GPU": "GPU", "memory": "memory", "object_store_memory": "store"}
_BYTES = ("memory", "object_store_memory")


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


def main(arguments: Sequence[str], program: str) -> int:
    """Show what is asked for until ``q`` or Ctrl-C; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} top",
        description="Show nodes, calls and actors of a cluster as they change. Keys: q ends, the arrows "
        "and Page Up and Down move, space looks at once.",
        allow_abbrev=False,
    )
    add_address(parser)
    parser.add_argument(
        "-d",
        "--delay",
        type=float,
        default=_PERIOD_S,
        help=f"seconds between looks [{_PERIOD_S:.0f}]",
    )
    parser.add_argument(
        "-b",
        "--batch",
        action="store_true",
        help="print one look after the other, for a file or a pipe",
    )
    parser.add_argument("-n", "--iterations", type=int, help="end after so many looks")
    options = parser.parse_args(arguments)
    if not options.delay >= _PERIOD_MIN_S:
        parser.error(f"--delay must be {_PERIOD_MIN_S} s or longer")
    if options.iterations is not None and options.iterations < 1:
        parser.error("--iterations must be 1 or more")
    return exit_code(lambda: _show(options))


def _show(options: argparse.Namespace) -> int:
    with session(options.address):
        if options.batch or not (sys.stdout.isatty() and sys.stdin.isatty()):
            _print(_looks(options.iterations, options.delay))
        else:
            curses.wrapper(_paint, _looks(options.iterations), options.delay)
    return 0


def _print(looks: Iterator[Look]) -> None:
    width = shutil.get_terminal_size().columns
    for look in looks:
        print("\n".join([*lines(look, width), ""]), flush=True)


def _paint(screen: Any, looks: Iterator[Look], delay: float) -> None:
    curses.use_default_colors()
    curses.curs_set(0)
    screen.timeout(0)
    top = 0
    for look in looks:
        until = time.monotonic() + delay
        while True:
            height, width = screen.getmaxyx()
            shown = lines(look, width - 1)
            top = max(0, min(top, len(shown) - height))
            screen.erase()
            for row, line in enumerate(shown[top : top + height]):
                style = curses.A_BOLD if line and not line.startswith(" ") else curses.A_NORMAL
                screen.addnstr(row, 0, line, width - 1, style)
            screen.refresh()
            screen.timeout(max(0, int((until - time.monotonic()) * 1000)))
            key = screen.getch()
            if key in (ord("q"), ord("Q")):
                return
            if key in (-1, ord(" ")):
                break
            pages = {curses.KEY_PPAGE: -height, curses.KEY_NPAGE: height}
            top += {curses.KEY_UP: -1, curses.KEY_DOWN: 1, **pages}.get(key, 0)


def _looks(count: int | None, pause: float = 0.0) -> Iterator[Look]:
    """Looks at the cluster, so many or without an end; ``pause``: seconds between two."""
    before: Look | None = None
    for _ in itertools.count() if count is None else range(count):
        if before is not None:
            time.sleep(pause)
        look = _look()
        if before is not None:
            _rate(before, look)
        yield look
        before = look


def _look() -> Look:
    look = Look(time.monotonic())
    for row in _heliostat.list_nodes():
        if not row["alive"]:
            look.dead += 1
            continue
        total = {name: all_ for name, all_ in row["total"].items() if name in _SHOWN}
        free = row["available"]
        used = {name: (all_ - free.get(name, 0.0), all_) for name, all_ in total.items()}
        look.nodes.append(Node(row["hostname"] or row["name"], row["is_head"], used))
    look.nodes.sort(key=lambda node: (not node.is_head, node.name))
    told, silent = _heliostat.state_summary("tasks")
    for name, row in json.loads(told)["summary"].items():
        calls = Calls(name)
        for state, number in row["state_counts"].items():
            if state == "FINISHED":
                calls.finished += number
            elif state == "FAILED":
                calls.failed += number
            elif state.startswith("RUNNING"):
                calls.running += number
            else:
                calls.waiting += number
        look.calls.append(calls)
    actors, unheard = _heliostat.state_summary("actors")
    for name, row in json.loads(actors)["summary"].items():
        look.actors[name] = Counter(row["state_counts"])
    look.silent = max(silent, unheard)
    return look


def _rate(before: Look, look: Look) -> None:
    ended = {calls.name: calls.finished + calls.failed for calls in before.calls}
    seconds = max(look.at - before.at, 1e-3)
    for calls in look.calls:
        more = calls.finished + calls.failed - ended.get(calls.name, 0)
        # Processes forget their oldest calls: what is known may become less.
        calls.rate = max(more, 0) / seconds


def lines(look: Look, width: int) -> list[str]:
    """The screen for one look, as lines of at most ``width`` characters; headings have no indent."""
    alive = f"{len(look.nodes)} node{'s' * (len(look.nodes) != 1)}"
    dead = f", {look.dead} dead" if look.dead else ""
    processes = f"process{'es' * (look.silent != 1)}"
    silent = f", {look.silent} {processes} did not answer in time" if look.silent else ""
    shown = [f"{time.strftime('%H:%M:%S')}  {alive}{dead}{silent}"]
    bar = max(size for least, size in _BARS.items() if width >= least)
    nodes = [_node(node, bar) for node in look.nodes]
    shown += _table("Nodes", [["node", *_SHOWN.values()], *nodes], width)
    calls = sorted(
        look.calls, key=lambda one: (-one.running, -one.waiting, -(one.rate or 0), one.name)
    )
    heads = ["function", "running", "waiting", "finished", "failed", "per second"]
    shown += _table("Calls", [heads, *map(_calls, calls)], width)
    states = sorted({state for counts in look.actors.values() for state in counts})
    actors = sorted(look.actors.items(), key=lambda item: (-item[1]["ALIVE"], item[0]))
    rows = [[name, *(str(counts[state] or "") for state in states)] for name, counts in actors]
    shown += _table("Actors", [["class", *(state.lower() for state in states)], *rows], width)
    return [line[:width] for line in shown]


def _node(node: Node, bar: int) -> list[str]:
    cells = [f"{node.name} (head)" if node.is_head else node.name]
    for name in _SHOWN:
        used, total = node.used.get(name, (0.0, 0.0))
        if not total:
            cells.append("")
            continue
        filled = round(bar * min(max(used / total, 0.0), 1.0))
        amounts = f"{_amount(name, used)}/{_amount(name, total)}"
        cells.append(f"{'█' * filled}{'░' * (bar - filled)} {amounts}")
    return cells


def _amount(name: str, value: float) -> str:
    return f"{value / 2**30:.1f}G" if name in _BYTES else f"{round(value, 2):g}"


def _calls(one: Calls) -> list[str]:
    rate = "" if one.rate is None else f"{one.rate:,.0f}"
    return [
        one.name,
        *(f"{n:,}" for n in (one.running, one.waiting, one.finished, one.failed)),
        rate,
    ]


def _table(title: str, rows: list[list[str]], width: int) -> list[str]:
    """Rows below a heading, the first column as wide as what is left; no rows but the heads: nothing."""
    if len(rows) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [size if any(row[i] for row in rows[1:]) else 0 for i, size in enumerate(widths)]
    rest = sum(size + 2 for size in widths[1:] if size)
    first = max(8, min(widths[0], width - rest - 2))
    made = ["", title]
    for row in rows:
        name = row[0] if len(row[0]) <= first else f"{row[0][: first - 1]}…"
        cells = [f"{cell:>{size}}" for cell, size in zip(row[1:], widths[1:], strict=True) if size]
        made.append("  ".join([f"  {name:<{first}}", *cells]).rstrip())
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

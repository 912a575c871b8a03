"""``top``: nodes, calls and actors as they change, in the terminal."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from heliostat import _heliostat
from heliostat.util.commands import add_address, exit_code, session, terminal_width
from heliostat.util.state.top_lines import SHOWN, Calls, Look, Node, lines, summary

_PERIOD_S = 2.0
_PERIOD_MIN_S = 0.2


def main(arguments: Sequence[str], program: str) -> int:
    """Show what is asked for until ``q`` or Ctrl-C; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} top",
        description="Show nodes, calls and actors of a cluster as they change. Keys: q quits; the arrows, "
        "Page Up and Down, Home and End move; s and S choose the column by which calls are sorted, r "
        "reverses it; p pauses; + and - change the delay; space looks at once.",
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
            return 0
        # curses is not there in every build of Python.
        from heliostat.util.state import top_screen

        if top_screen.can_draw():
            top_screen.show(_looks(options.iterations), options.delay)
        else:
            term = os.environ.get("TERM", "")
            print(f"A terminal of the kind {term!r} cannot be drawn on.", file=sys.stderr)
            _print(_looks(options.iterations, options.delay))
    return 0


def _print(looks: Iterator[Look]) -> None:
    width = terminal_width()
    for look in looks:
        shown = [*summary(look, width), *lines(look, width), []]
        print("\n".join("".join(text for text, _ in line) for line in shown), flush=True)


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
        total = {name: all_ for name, all_ in row["total"].items() if name in SHOWN}
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

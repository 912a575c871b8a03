"""Runs the programs, here or on the Ray of another interpreter, and prints what came of them."""

from __future__ import annotations

import argparse
import sys
import time

from tests.strangers import shelf


def main() -> int:
    parser = argparse.ArgumentParser(prog="make strangers", description=__doc__)
    parser.add_argument("themes", nargs="*", help="files of tests/strangers/programs; all if none")
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--ray", default="", help="the Python of an environment that has Ray")
    parser.add_argument("--verbose", action="store_true", help="show what the programs printed")
    args = parser.parse_args()
    on_ray = bool(args.ray)
    counts = {"right": 0, "wrong": 0, "skipped": 0, "expected": 0}
    for theme in args.themes or shelf.themes():
        wanted = args.only.split(",") if args.only else []
        asked = [e for e in shelf.entries(theme) if not wanted or e.name in wanted]
        if not asked:
            continue
        began = time.monotonic()
        rows, printed = shelf.run(theme, args.ray or sys.executable, args.only)
        print(f"{theme}: {len(asked)} programs, {time.monotonic() - began:.1f} s", flush=True)
        for entry in asked:
            kind, text = verdict(entry, rows.get(entry.name), on_ray)
            counts[kind] += 1
            if kind != "right":
                print(f"  {kind:8} {entry.name} ({entry.source}): {text}", flush=True)
        if args.verbose or any(entry.name not in rows for entry in asked):
            print(printed[-8000:])
    print(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 1 if counts["wrong"] else 0


def verdict(entry: shelf.Entry, row: dict[str, object] | None, on_ray: bool) -> tuple[str, str]:
    """What came of a program, as a word and a reason."""
    if row is None:
        return "wrong", "the process ended before it"
    if "skipped" in row:
        return "skipped", str(row["skipped"])
    wrong = str(row["wrong"])
    if entry.fails and not on_ray:
        if wrong:
            return "expected", entry.fails
        return "wrong", f"gives the right answer, though it should not: {entry.fails}"
    return ("wrong", wrong) if wrong else ("right", "")


if __name__ == "__main__":
    sys.exit(main())

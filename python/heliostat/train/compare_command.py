"""``compare-runs``: two runs or more over each other, as a table in the terminal and as a page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from heliostat.train.controller.results import REPORTS_FILE
from heliostat.train.controller.saved import SavedRun
from heliostat.train.storage.opening import open_storage
from heliostat.train.view.compared import COLORS, Fact, compared, facts
from heliostat.util.commands import exit_code


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    about = "Compare training runs: what they took, their metrics, the steps of their ranks."
    parser = argparse.ArgumentParser(prog=f"{program} compare-runs", description=about)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="its folder, or a URI of one")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("compared.html"), help="[default: compared.html]"
    )
    options = parser.parse_args(list(arguments))
    return exit_code(lambda: _compare(options.runs, options.out))


def _compare(paths: list[str], out: Path) -> int:
    if not 2 <= len(paths) <= len(COLORS):
        raise ValueError(f"give two to {len(COLORS)} runs, the earlier one first")
    runs = [_read(path) for path in paths]
    names = _names(paths, runs)
    print("\n".join(_lines(facts(runs), names)))
    out.write_text(compared(runs, names))
    print(f"page: {out.resolve()}")
    return 0


def _read(path: str) -> SavedRun:
    place = path if "://" in path else os.path.abspath(os.path.expanduser(path))
    root, _, name = place.rstrip("/").rpartition("/")
    data = open_storage(root or "/", name).read(REPORTS_FILE)
    if data is None:
        raise RuntimeError(
            f"There is no run at {path}: {REPORTS_FILE} is not in it. A run writes it when it is over."
        )
    try:
        return SavedRun.load(data)
    except ValueError as error:
        raise RuntimeError(f"{path}: {error}") from error


def _names(paths: list[str], runs: list[SavedRun]) -> list[str]:
    """The runs' own names, else those of their folders; the whole path where even these are alike."""
    folders = [path.rstrip("/").rpartition("/")[2] for path in paths]
    for names in ([run.name for run in runs], folders):
        if all(names) and len(set(names)) == len(names):
            return names
    return paths


def _lines(rows: list[Fact], names: list[str]) -> list[str]:
    table = [["", *names, "last / first"]]
    table += [[row.title, *row.texts, row.ratio] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

"""Writes the tables of `make bench` into docs/performance.md, between its marks; see README.md."""

import argparse
import datetime
import json
import os
import platform
import re
from pathlib import Path

import history
from core import show

# What bounds a row on this machine; how often the floor, in the row's own unit.
FLOORS = {
    "tasks sync": "pipe call sync",
    "tasks async": "pipe calls, 100 in flight",
    "tasks 1 small arg async": "pipe calls, 100 in flight",
    "multi client tasks async": "pipe calls, 100 in flight",
    "nested fan-out 4x200": "pipe calls, 100 in flight",
    "streaming generator items": "pipe calls, 100 in flight",
    "1:1 actor sync": "pipe call sync",
    "1:1 actor async": "pipe calls, 100 in flight",
    "1:1 actor concurrent": "pipe calls, 100 in flight",
    "1:n actor async": "pipe calls, 100 in flight",
    "n:n actor async": "pipe calls, 100 in flight",
    "n:n actor with arg async": "pipe calls, 100 in flight",
    "1:1 async-actor sync": "pipe call sync",
    "1:1 async-actor async": "pipe calls, 100 in flight",
    "1:1 async-actor with args async": "pipe calls, 100 in flight",
    "put small": "pickle round trip of a call",
    "put+get small fresh": "pickle round trip of a call",
    "multi client put": "pickle round trip of a call",
    "put multi": "copy, 2 thread, warm shared",
    "put 800MB first": "copy, 2 thread, new shared",
    "put 800MB steady": "copy, 2 thread, warm shared",
    "queued 100k drain": "pipe calls, 100 in flight",
    "actor creation 40": "fork, exit, wait",
}


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    name = model[1] if model else platform.machine()
    return f"{os.cpu_count()} cores ({name}), {pages / 2**30:.0f} GiB, Linux {platform.release()}"


def ratios(table: dict, versions: str) -> str:
    python = platform.python_version()
    lines = [
        f"Taken on {datetime.date.today()} on {machine()}, Python {python}; {versions}.",
        "",
        "| row | unit | A | B | B/A (above 1: B is better) |",
        "|---|---|--:|--:|--:|",
    ]
    for name, row in table["rows"].items():
        cells = ["-" if row[k] is None else show(row[k]) for k in ("A", "B", "ratio")]
        lines.append("| " + " | ".join([name, row["unit"], *cells]) + " |")
    means = table["geometric_mean"]
    lines += ["", f"Geometric mean of the ratios: **{means['all']:.1f}**; by group: "]
    lines[-1] += ", ".join(f"{g} {m:.1f}" for g, m in means.items() if g != "all") + "."
    return "\n".join(lines)


def floors(table: dict, found: dict) -> str:
    lines = ["| row | B | the machine's floor | | B / floor |", "|---|--:|---|--:|--:|"]
    for name, floor in FLOORS.items():
        b = table["rows"].get(name, {}).get("B")
        bound = found.get(floor, {}).get("median")
        if b and bound:
            cells = [name, show(b), floor, show(bound), f"{b / bound:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name in ("page", "table", "versions"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--floors", help="what floors.py wrote")
    p.add_argument("--section", default="ratios", help="the marks that the table goes between")
    p.add_argument(
        "--history", type=Path, default=history.FILE, help="gets a line a table of ratios"
    )
    args = p.parse_args()
    page = Path(args.page)
    table = json.loads(Path(args.table).read_text())
    text = fill(page.read_text(), args.section, ratios(table, args.versions))
    if args.floors:
        found = json.loads(Path(args.floors).read_text())["rows"]
        text = fill(text, "floors", floors(table, found))
        print(floors(table, found))
    if args.section == "ratios":
        today = str(datetime.date.today())
        about = {"date": today, "machine": machine(), "versions": args.versions}
        history.append(history.entry(table, commit=history.commit(), **about), args.history)
        measured = history.read(args.history)
        text = fill(text, "history", history.table(measured))
        page.with_name(history.PICTURE).write_text(history.picture(measured))
    page.write_text(text)
    print(f"written to {page}")

"""The measurements of `make bench` over time: history.jsonl, and the table and picture that are made of it.

A line is one measurement of all rows: when, of which commit, on which machine, each row on A and on B.
"""

import json
import math
import subprocess
from pathlib import Path

FILE = Path(__file__).with_name("history.jsonl")
PICTURE = "performance-history.svg"  # beside the page
LATEST = 20  # measurements that are shown
LABELS = 8  # commits that have room below the picture

COLOURS = {
    "tasks": "#1b9e77",
    "actors": "#d95f02",
    "objects": "#7570b3",
    "life": "#e7298a",
    "idle": "#66a61e",
    "disk": "#a6761d",
    "drain": "#1f78b4",
    "actors40": "#e6ab02",
    "put800": "#666666",
}
WIDTH, HEIGHT = 760, 340
FONT = 'font-family="sans-serif" font-size="11"'
LEFT, RIGHT, TOP, BOTTOM = 50, 110, 20, 40


def commit() -> str:
    """What is checked out; a plus says that files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        try:
            done = subprocess.run(
                command, cwd=FILE.parent, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:  # an archive of the sources, on a machine without git
            return ""
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=7", "HEAD") or "unknown") + ("+" if changed else "")


def entry(table: dict, *, date: str, commit: str, machine: str, versions: str) -> dict:
    """A line of the history, of the table that compare.py wrote."""
    rows = {name: [row[k] for k in ("A", "B", "ratio")] for name, row in table["rows"].items()}
    means = {group: round(mean, 2) for group, mean in table["geometric_mean"].items()}
    about = {"date": date, "commit": commit, "machine": machine, "versions": versions}
    return {**about, "means": means, "rows": rows}


def read(path: Path = FILE) -> list[dict]:
    """All measurements, the oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def append(measurement: dict, path: Path = FILE) -> None:
    """Adds one, at the end."""
    with path.open("a") as file:
        file.write(json.dumps(measurement) + "\n")


def table(measurements: list[dict]) -> str:
    """The geometric means of the latest, the newest first."""
    groups = list(COLOURS)
    lines = [
        "| date | commit | machine | all | " + " | ".join(groups) + " |",
        "|---|---|---|--:|" + "--:|" * len(groups),
    ]
    for one in reversed(measurements[-LATEST:]):
        means = [f"{one['means'][g]:.1f}" if g in one["means"] else "-" for g in groups]
        about = [
            one["date"],
            f"`{one['commit']}`",
            one["machine"],
            f"**{one['means']['all']:.1f}**",
        ]
        lines.append("| " + " | ".join([*about, *means]) + " |")
    return "\n".join(lines)


def picture(measurements: list[dict]) -> str:
    """The same as curves, on a logarithmic scale."""
    shown = measurements[-LATEST:]
    values = [mean for one in shown for mean in one["means"].values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(index: int) -> float:
        return LEFT + (right - LEFT) * (index / (len(shown) - 1) if len(shown) > 1 else 0.5)

    def y(mean: float) -> float:
        return bottom - (bottom - TOP) * (math.log10(mean) - low) / (high - low)

    def text(at_x: float, at_y: float, said: str, more: str = "") -> str:
        return f'<text x="{at_x:.1f}" y="{at_y:.1f}" {more}>{said}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        "<title>Ratios to Ray, by group of rows and commit</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, at + 4, f"{10**power:g}", 'text-anchor="end"'))
    step = math.ceil(len(shown) / LABELS)
    for index, one in list(enumerate(shown))[::step]:
        parts.append(text(x(index), bottom + 16, one["commit"], 'text-anchor="middle"'))
        parts.append(text(x(index), bottom + 30, one["date"], 'text-anchor="middle"'))
    taken: list[float] = []
    ends = sorted(
        {"all": "black", **COLOURS}.items(), key=lambda g: -shown[-1]["means"].get(g[0], 0)
    )
    for group, colour in ends:
        points = [(x(i), y(m["means"][group])) for i, m in enumerate(shown) if group in m["means"]]
        if not points:
            continue
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        width = 3 if group == "all" else 1.5
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points
        ]
        label = max([points[-1][1], *(at + 12 for at in taken)])
        taken.append(label)
        parts.append(text(points[-1][0] + 8, label + 4, group, f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"

"""Runs core.py (or another file of rows) with two Pythons by turns and tables B against A; see README.md."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import traceback

import core


def run(python, script, options):
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([python, script, *options, "--json", f"{d}/out"], check=False)
        return json.load(open(f"{d}/out"))["rows"] if os.path.exists(f"{d}/out") else {}


def table(runs):
    rows = {}
    for name, got in {
        name: got for side in runs.values() for one in side for name, got in one.items()
    }.items():
        medians = [
            [o[name]["median"] for o in side if "median" in o.get(name, {})]
            for side in runs.values()
        ]
        a, b = (statistics.median(m) if m else None for m in medians)
        ratio = (b / a if got["higher_is_better"] else a / b) if a and b else None
        rows[name] = {"unit": got["unit"], "group": got["group"], "A": a, "B": b, "ratio": ratio}
    return rows


def report(rows):
    print("\n| row | unit | A | B | B/A (above 1: B is better) |\n|---|---|--:|--:|--:|")
    for name, row in rows.items():
        cells = ["-" if row[k] is None else core.show(row[k]) for k in ("A", "B", "ratio")]
        print("|", " | ".join([name, row["unit"], *cells]), "|")
    groups = {}
    for row in filter(lambda row: row["ratio"], rows.values()):
        for group in ("all", row["group"]):
            groups.setdefault(group, []).append(row["ratio"])
    mean = {group: statistics.geometric_mean(ratios) for group, ratios in groups.items()}
    worst = (
        min((row["ratio"], name) for name, row in rows.items() if row["ratio"]) if groups else None
    )
    print(
        "\ngeometric means:",
        ", ".join(f"{g} {m:.3f} ({len(groups[g])} rows)" for g, m in mean.items()),
    )
    print("worst row:", worst and f"{worst[1]} ({core.show(worst[0])})")
    return {"rows": rows, "geometric_mean": mean, "worst": worst}


if __name__ == "__main__":
    p = argparse.ArgumentParser(epilog="Other options go to the script.")
    p.add_argument("--a", required=True, help="the Python interpreter that has A's ray")
    p.add_argument("--b", required=True)
    p.add_argument("--script", default=core.__file__, help="whose rows (default: core.py's)")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--json")
    args, options = p.parse_known_args()
    runs = {"A": [], "B": []}
    try:
        for side in "AB" * args.rounds:
            print(f"-- {side}", flush=True)
            runs[side].append(run(args.a if side == "A" else args.b, args.script, options))
        out = report(table(runs))
        if args.json:
            json.dump(out, open(args.json, "w"), indent=1)
    except Exception:
        traceback.print_exc()

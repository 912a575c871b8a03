"""Training here, under torchrun and on Ray, by turns: rounds into a file, from which the page has a table and a picture.

Run: python side_by_side.py --ray RAYS_PYTHON [--torchft A_PYTHON] [--rounds 3] [--only deaths,report]
     python side_by_side.py --page ../../docs/performance.md
The interpreter that runs this is Heliostat's, and torchrun's; without `--ray` or `--torchft` their runs are left out.
A round runs each program once, one after the other, and the round's own figures are compared:
other programs on the machine slow all of them down, and a ratio of neighbours stays. What fails
or takes more than `--limit` seconds is written down as that. `--page` reads what was measured and runs nothing.
"""
import argparse
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
MEASURED = HERE / "side_by_side.jsonl"
PICTURE = "performance-training.svg"  # beside the page

HELIOSTAT, TORCHRUN, PLAIN, RAY, TORCHFT = "Heliostat", "torchrun", "plain torch", "Ray", "Ray with torchft"
VIT = ("--model", "vit", "--batch-size", "16", "--epochs", "8", "--warmup-epochs", "2")
STALL = ("--pairs", "4")
# The programs: whose, and the script with its arguments. Those of a group come one after the other.
PROGRAMS = {
    "ddp torchrun": (TORCHRUN, "-m", "torch.distributed.run", "--nproc-per-node", "2", "ddp_raw.py", *VIT),
    "ddp heliostat": (HELIOSTAT, "ddp_train.py", *VIT),
    "deaths torchrun": (TORCHRUN, "deaths.py", "--way", "torchrun"),
    "deaths heliostat": (HELIOSTAT, "deaths.py", "--way", "restart"),
    "deaths ray": (RAY, "deaths.py", "--way", "restart"),
    "deaths groups": (HELIOSTAT, "deaths.py", "--way", "groups", "--more-s", "20"),
    "deaths torchft": (TORCHFT, "deaths.py", "--way", "torchft", "--more-s", "20"),
    "stall save": (PLAIN, "stall.py", "--way", "save", *STALL),
    "stall resumable": (HELIOSTAT, "stall.py", "--way", "resumable", *STALL),
    "stall memory": (HELIOSTAT, "stall.py", "--way", "memory", *STALL),
    "stall heliostat": (HELIOSTAT, "stall.py", "--way", "report", *STALL),
    "stall ray": (RAY, "stall.py", "--way", "report", *STALL),
    "report heliostat": (HELIOSTAT, "report_latency.py", "--sizes-mb", "0", "--counts", "40"),
    "report ray": (RAY, "report_latency.py", "--sizes-mb", "0", "--counts", "10"),
}


class Row(NamedTuple):
    """A figure of two programs of the same round."""

    title: str
    unit: str
    ours: str
    theirs: str
    figure: tuple[str, ...]
    more_is_better: bool = False


REPORT = ("seconds_per_call", "0MB_rank0", "median")
ROWS = (
    Row("steps of a ViT, DDP on 2 workers", "1/s", "ddp heliostat", "ddp torchrun", ("steps_per_s",), True),
    Row("program's start to the first step", "s", "ddp heliostat", "ddp torchrun", ("start_to_first_step_s",)),
    Row("death to the next step, from a checkpoint", "s", "deaths heliostat", "deaths torchrun", ("next_step_s",)),
    Row("death to the next step, from a checkpoint", "s", "deaths heliostat", "deaths ray", ("next_step_s",)),
    Row("death to the others' next step, replica groups", "s", "deaths groups", "deaths torchrun", ("next_step_s",)),
    Row("death to the others' next step, replica groups", "s", "deaths groups", "deaths torchft", ("next_step_s",)),
    Row("death to all groups' next step", "s", "deaths groups", "deaths torchft", ("all_in_s",)),
    Row("checkpoint of 100 MB by `run.report`: longest step", "s", "stall resumable", "stall save", ("longest_step_more_s",)),
    Row("the same: what all ten steps take more", "s", "stall resumable", "stall save", ("added_s",)),
    Row("100 MB by torch.save and `report`: longest step", "s", "stall heliostat", "stall ray", ("longest_step_more_s",)),
    Row("100 MB into memory: longest step", "s", "stall memory", "stall save", ("longest_step_more_s",)),
    Row("`report` without a checkpoint", "s", "report heliostat", "report ray", REPORT),
)


def run(name, pythons, limit_s):
    """What a program printed as its result, or why there is none."""
    whose, *arguments = PROGRAMS[name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HELIOSTAT_TRAIN_VIEW": "off", "RAY_USAGE_STATS_ENABLED": "0",
                   "RAY_raylet_start_wait_time_s": "200"}  # Ray gives up early on a busy machine
    process = subprocess.Popen(
        [pythons[whose], *arguments], cwd=HERE, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"error": f"it took more than {limit_s:.0f} s"}
    lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1][7:]) if lines else {"error": err.strip()[-300:]}


def measure(args):
    import history
    import page
    pythons = {HELIOSTAT: sys.executable, TORCHRUN: sys.executable, PLAIN: sys.executable,
               RAY: args.ray, TORCHFT: args.torchft}
    wanted = args.only.split(",")
    names = [name for name, (whose, *_) in PROGRAMS.items()
             if pythons[whose] and (not args.only or name.split()[0] in wanted or name in wanted)]
    for number in range(args.rounds):
        found = {}
        for name in names if number % 2 == 0 else reversed(names):
            found[name] = run(name, pythons, args.limit)
            print(f"round {number + 1}, {name}: {json.dumps(found[name])[:300]}", file=sys.stderr, flush=True)
        about = {"date": str(datetime.date.today()), "commit": history.commit(), "machine": page.machine(),
                 "load": round(os.getloadavg()[2], 1)}
        with args.measured.open("a") as file:
            file.write(json.dumps({**about, "found": found}) + "\n")


def figure(result, keys):
    """The figure of a result, None where its program failed."""
    for key in keys:
        result = result.get(key) if result else None
    return result


def compared(rounds):
    """Of each row with a pair: the medians of both, and the ratios of the rounds (above 1: ours is better)."""
    table = []
    for row in ROWS:
        pairs = [(figure(one.get(row.ours), row.figure), figure(one.get(row.theirs), row.figure)) for one in rounds]
        pairs = [(ours, theirs) for ours, theirs in pairs if ours and theirs and ours > 0 and theirs > 0]
        if pairs:
            ratios = sorted(o / t if row.more_is_better else t / o for o, t in pairs)
            table.append((row, *(statistics.median(side) for side in zip(*pairs)), ratios))
    return table


def text(rounds):
    """The Markdown table of the rounds, and in a line when and where."""
    from core import show
    last, loads = rounds[-1], [one["load"] for one in rounds]
    table = compared([one["found"] for one in rounds])
    lines = [
        f"Taken until {last['date']} on {last['machine']}, at a load of {min(loads):.0f} to {max(loads):.0f}.",
        "",
        "| | unit | Heliostat | beside | | times as good (rounds) |",
        "|---|---|--:|---|--:|--:|",
    ]
    for row, ours, theirs, ratios in table:
        middle, span = statistics.median(ratios), f"{show(ratios[0])} to {show(ratios[-1])}"
        many = f" ({len(ratios)}: {span})" if len(ratios) > 1 else " (1)"
        cells = [row.title, row.unit, show(ours), PROGRAMS[row.theirs][0], show(theirs), f"**{show(middle)}**{many}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


COLOURS = {TORCHRUN: "#1b9e77", PLAIN: "#7570b3", RAY: "#d95f02", TORCHFT: "#e7298a"}
WIDTH, LEFT, RIGHT, TOP, LANE = 860, 360, 40, 44, 24


def picture(rounds):
    """A line a row: the median of its ratios as a dot, all of them as a stroke, on a logarithmic scale."""
    import math

    from core import show
    table = compared([one["found"] for one in rounds])
    every = [ratio for *_, ratios in table for ratio in ratios]
    low, high = math.floor(math.log10(min(every + [0.5]))), math.ceil(math.log10(max(every + [10])))
    bottom = TOP + len(table) * LANE

    def x(ratio):
        return LEFT + (WIDTH - RIGHT - LEFT) * (math.log10(ratio) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" font-family="sans-serif" font-size="12">',
        "<title>Training: how many times as good as the others</title>",
        f'<rect width="{WIDTH}" height="{bottom + 30}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at, colour = x(10**power), "#555555" if power == 0 else "#dddddd"
        parts.append(f'<path d="M{at:.1f} {TOP - 6}V{bottom}" stroke="{colour}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{10.0**power:g}</text>')
    for number, (whose, colour) in enumerate(COLOURS.items()):
        parts.append(f'<circle cx="{200 + 140 * number}" cy="16" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{210 + 140 * number}" y="20">beside {whose}</text>')
    for number, (row, _, _, ratios) in enumerate(table):
        y, colour = TOP + number * LANE + LANE / 2, COLOURS[PROGRAMS[row.theirs][0]]
        middle = statistics.median(ratios)
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4:.0f}" text-anchor="end">{row.title.replace("`", "")}</text>')
        parts.append(f'<path d="M{x(ratios[0]):.1f} {y}H{x(ratios[-1]):.1f}" stroke="{colour}" stroke-width="3" opacity="0.4"/>')
        parts.append(f'<circle cx="{x(middle):.1f}" cy="{y}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x(middle) + 9:.1f}" y="{y - 4:.0f}" font-size="10">{show(middle)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def read(path=MEASURED):
    """The rounds of the latest measurement's machine, with what each program gave in them."""
    rounds = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [one for one in rounds if one["machine"] == rounds[-1]["machine"]]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ray", help="the Python interpreter that has Ray")
    p.add_argument("--torchft", help="one that has Ray and torchft")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="", help="names of programs, or their first words, with commas between")
    p.add_argument("--limit", type=float, default=300, help="seconds for one program")
    p.add_argument("--measured", type=Path, default=MEASURED, help="gets a line a round")
    p.add_argument("--page", type=Path, help="write table and picture from what was measured")
    args = p.parse_args()
    if not args.page:
        return measure(args)
    import page
    rounds = read(args.measured)
    args.page.write_text(page.fill(args.page.read_text(), "training", text(rounds)))
    args.page.with_name(PICTURE).write_text(picture(rounds))


if __name__ == "__main__":
    main()

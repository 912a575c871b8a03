"""Pipelines of datasets over the same Parquet files: here, in Polars and on Ray, by turns.

    python bench/data_pipelines.py [--rows 6000000] [--rounds 3] [--only scan,join] [--ray PYTHON]

Each side is a process of its own, begun again for each round; the sides take turns, so that what
else the machine does falls on all of them. Each row runs once to warm up and then ``--runs`` times; a
figure is the least of all rounds. The first table has seconds by the clock, the second seconds of
CPU, of the process and all that it started: these hold on a busy machine, too. Both have
Heliostat's ratio to Polars (streaming, in one process) and, with ``--ray``, to Ray.

scan: the sums of two of eight columns. filter: rows found by a condition, counted. pick: the
sums of two columns of the rows that a third one chooses, a half. map: a numpy
function of batches, written. group: the mean of 10,000 groups. sort, shuffle: written. join: with
10,000 rows, counted. text: a Python function of a row for a twentieth of the rows. batches: iterated as
dicts of numpy arrays, 4,096 rows each.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

FILES, GROUPS, BATCH = 20, 10_000, 4096
ROWS = "scan,filter,pick,map,group,sort,shuffle,join,text,batches"


def make(folder, rows):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    os.makedirs(f"{folder}/facts")
    os.makedirs(f"{folder}/dim")
    rng, n = np.random.default_rng(0), rows // FILES
    for i in range(FILES):
        columns = {
            "id": np.arange(i * n, (i + 1) * n),
            "key": rng.integers(0, GROUPS, n),
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
            "c": rng.random(n, np.float32),
            "d": rng.integers(0, 1 << 40, n),
            "s": pa.array([f"name-{x}" for x in rng.integers(0, 1000, n)]),
            "flag": rng.random(n) < 0.5,
        }
        pq.write_table(pa.table(columns), f"{folder}/facts/{i:03}.parquet")
    dim = pa.table({"key": np.arange(GROUPS), "w": rng.random(GROUPS)})
    pq.write_table(dim, f"{folder}/dim/0.parquet")


def of_ray(folder, rows):
    """The rows on whatever `import ray` gives."""
    import numpy as np
    import ray
    import ray.data
    from ray.data.expressions import col

    ray.init(
        num_cpus=os.cpu_count(),
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=4 << 30,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    out, few = f"{folder}/out", rows // FILES

    def read(*columns):
        return ray.data.read_parquet(f"{folder}/facts", columns=list(columns) or None)

    def length(batch):
        return {"y": np.sqrt(batch["a"] ** 2 + batch["b"] ** 2)}

    def text(row):
        return {"n": len(row["s"].split("-")[1])}

    def join():
        dim = ray.data.read_parquet(f"{folder}/dim")
        joined = read("key", "a").join(dim, join_type="inner", num_partitions=4, on=("key",))
        return joined.count()

    def batches():
        some = read("a", "b", "c").iter_batches(batch_size=BATCH, batch_format="numpy")
        return sum(len(b["a"]) for b in some)

    return {
        "scan": lambda: read("a", "b").sum(["a", "b"]),
        "filter": lambda: read().filter(expr=col("id") < rows // 12).count(),
        "pick": lambda: read().filter(expr=col("c") < 0.5).sum(["a", "b"]),
        "map": lambda: read("a", "b").map_batches(length, batch_format="numpy").write_parquet(out),
        "group": lambda: read("key", "a").groupby("key").mean("a").count(),
        "sort": lambda: read("a", "id").sort("a").write_parquet(out),
        "shuffle": lambda: read("a", "id").random_shuffle(seed=1).write_parquet(out),
        "join": join,
        "text": lambda: read("s").limit(few).map(text).sum("n"),
        "batches": batches,
    }


def of_polars(folder, rows):
    """The rows in Polars' streaming engine."""
    import polars as pl

    out, few = f"{folder}/out/x.parquet", rows // FILES

    def read(*columns):
        return pl.scan_parquet(f"{folder}/facts/*.parquet").select(columns or pl.all())

    def one(query):
        return query.collect(engine="streaming")

    def text():
        found = one(read("s").head(few))["s"]
        return found.map_elements(lambda s: len(s.split("-")[1]), return_dtype=pl.Int64).sum()

    def join():
        dim = pl.scan_parquet(f"{folder}/dim/*.parquet")
        return one(read("key", "a").join(dim, on="key").select(pl.len()))

    def batches():
        some = one(read("a", "b", "c")).iter_slices(BATCH)
        arrays = ({name: x[name].to_numpy() for name in x.columns} for x in some)
        return sum(len(b["a"]) for b in arrays)

    length = (pl.col("a") ** 2 + pl.col("b") ** 2).sqrt()
    return {
        "scan": lambda: one(read("a", "b").select(pl.sum("a"), pl.sum("b"))),
        "filter": lambda: one(read().filter(pl.col("id") < rows // 12).select(pl.len())),
        "pick": lambda: one(read().filter(pl.col("c") < 0.5).select(pl.sum("a"), pl.sum("b"))),
        "map": lambda: read("a", "b").select(y=length).sink_parquet(out),
        "group": lambda: one(read("key", "a").group_by("key").agg(pl.mean("a"))).height,
        "sort": lambda: read("a", "id").sort("a").sink_parquet(out),
        "shuffle": lambda: one(read("a", "id")).sample(fraction=1, shuffle=True).write_parquet(out),
        "join": join,
        "text": text,
        "batches": batches,
    }


def cpu_seconds():
    """Seconds of CPU of this process and of all that it started, ended ones too."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if name.isdigit():
            ended = sum(map(int, words[13:15])) / os.sysconf("SC_CLK_TCK")  # its children
            found[int(name)] = (int(words[1]), _own_cpu_seconds(int(name)) + ended)
    mine, more = set(), {os.getpid()}
    while more:
        mine |= more
        more = {pid for pid, (parent, _) in found.items() if parent in mine} - mine
    return sum(found[pid][1] for pid in mine if pid in found)


def _own_cpu_seconds(pid):
    """Seconds of CPU of a living process, to the nanosecond; /proc has them to the hundredth."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of its clocks
    except OSError:  # it has ended
        return 0.0


def run(folder, given):
    """Print the seconds of each row, by the clock and of CPU, as JSON."""
    warnings.simplefilter("ignore")
    side = given.side
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: daemons stay below this one
    jobs = (of_polars if side == "polars" else of_ray)(folder, given.rows)
    seconds = {"wall": {}, "cpu": {}}
    for name in given.only.split(","):
        for number in range(1 + given.runs):
            shutil.rmtree(f"{folder}/out", ignore_errors=True)
            if side == "polars":
                os.makedirs(f"{folder}/out")
            begun, used = time.perf_counter(), cpu_seconds()
            jobs[name]()
            for kind, took in (
                ("wall", time.perf_counter() - begun),
                ("cpu", cpu_seconds() - used),
            ):
                if number:
                    seconds[kind][name] = min(took, seconds[kind].get(name, took))
    print(json.dumps(seconds))


def compare(folder, given):
    pythons = {"heliostat": sys.executable, "polars": sys.executable}
    if given.ray:
        pythons["ray"] = given.ray
    best = {kind: {side: {} for side in pythons} for kind in ("wall", "cpu")}
    for _ in range(given.rounds):
        for side, python in pythons.items():
            options = ["--rows", str(given.rows), "--runs", str(given.runs), "--only", given.only]
            command = [python, os.path.abspath(__file__), *options, "--side", side]
            command += ["--folder", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for kind, rows in json.loads(done.stdout.splitlines()[-1]).items():
                for name, took in rows.items():
                    least = best[kind][side]
                    least[name] = min(took, least.get(name, took))
    for kind, unit in (("wall", "s"), ("cpu", "CPU s")):
        print(table(best[kind], unit, given.only.split(",")), "\n")
    return best


def table(best, unit, names):
    """The figures of all sides, and Heliostat's ratios to the others."""
    others = [side for side in best if side != "heliostat"]
    heads = [f"{side} {unit}" for side in best] + [f"ratio to {side}" for side in others]
    lines = [f"| row | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for name in names:
        mine = best["heliostat"][name]
        cells = [f"{best[side][name]:.3f}" for side in best]
        cells += [f"{mine / max(best[side][name], 0.001):.2f}" for side in others]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=6_000_000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--runs", type=int, default=1, help="of a row in a round, after the first")
    p.add_argument("--only", default=ROWS, help="rows, with commas between")
    p.add_argument("--ray", help="an interpreter that has Ray, pandas, pyarrow and Polars")
    p.add_argument("--json", help="where to write the figures")
    p.add_argument("--side", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.side:
        run(given.folder, given)
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        make(folder, given.rows)
        figures = compare(folder, given)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(figures, file)

"""Pipelines of datasets over the same Parquet files: here, in Polars and on Ray, by turns.

    python bench/data_pipelines.py [--rows 6000000] [--rounds 3] [--only scan,join] [--ray PYTHON]

Each side is a process of its own, begun again for each round; the sides take turns, so that what
else the machine does falls on all of them. A figure is the best round's seconds of the second of two
runs, so warm. The table has Heliostat's ratio to Polars (streaming, in one process) and, with
``--ray``, to Ray.

scan: the sums of two of eight columns. filter: rows found by a condition, counted. map: a numpy
function of batches, written. group: the mean of 10,000 groups. sort, shuffle: written. join: with
10,000 rows, counted. text: a Python function of a row for a twentieth of the rows. batches: iterated as
numpy, 4,096 rows each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

FILES, GROUPS, BATCH = 20, 10_000, 4096
ROWS = "scan,filter,map,group,sort,shuffle,join,text,batches"


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

    length = (pl.col("a") ** 2 + pl.col("b") ** 2).sqrt()
    return {
        "scan": lambda: one(read("a", "b").select(pl.sum("a"), pl.sum("b"))),
        "filter": lambda: one(read().filter(pl.col("id") < rows // 12).select(pl.len())),
        "map": lambda: read("a", "b").select(y=length).sink_parquet(out),
        "group": lambda: one(read("key", "a").group_by("key").agg(pl.mean("a"))).height,
        "sort": lambda: read("a", "id").sort("a").sink_parquet(out),
        "shuffle": lambda: one(read("a", "id")).sample(fraction=1, shuffle=True).write_parquet(out),
        "join": join,
        "text": text,
        "batches": lambda: sum(x.height for x in one(read("a", "b", "c")).iter_slices(BATCH)),
    }


def run(folder, rows, side, only):
    """Print the seconds of each row as JSON."""
    warnings.simplefilter("ignore")
    jobs = (of_polars if side == "polars" else of_ray)(folder, rows)
    seconds = {}
    for name in only:
        for _ in range(2):
            shutil.rmtree(f"{folder}/out", ignore_errors=True)
            if side == "polars":
                os.makedirs(f"{folder}/out")
            begun = time.perf_counter()
            jobs[name]()
            seconds[name] = time.perf_counter() - begun
    print(json.dumps(seconds))


def compare(folder, given):
    pythons = {"heliostat": sys.executable, "polars": sys.executable}
    if given.ray:
        pythons["ray"] = given.ray
    best = {side: {} for side in pythons}
    for _ in range(given.rounds):
        for side, python in pythons.items():
            options = ["--rows", str(given.rows), "--only", given.only, "--side", side]
            command = [python, os.path.abspath(__file__), *options, "--folder", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for name, took in json.loads(done.stdout.splitlines()[-1]).items():
                best[side][name] = min(took, best[side].get(name, took))
    print("| row |", " | ".join(f"{side} s" for side in best), "|", end="")
    others = [side for side in best if side != "heliostat"]
    print("".join(f" ratio to {side} |" for side in others))
    print("|---|" + "--:|" * (len(best) + len(others)))
    for name in given.only.split(","):
        mine = best["heliostat"][name]
        cells = [f"{best[side][name]:.3f}" for side in best]
        cells += [f"{mine / best[side][name]:.2f}" for side in others]
        print(f"| {name} |", " | ".join(cells), "|")
    return best


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=6_000_000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default=ROWS, help="rows, with commas between")
    p.add_argument("--ray", help="an interpreter that has Ray, pandas, pyarrow and Polars")
    p.add_argument("--json", help="where to write the figures")
    p.add_argument("--side", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.side:
        run(given.folder, given.rows, given.side, given.only.split(","))
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        make(folder, given.rows)
        figures = compare(folder, given)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(figures, file)

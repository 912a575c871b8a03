"""Stages of a task without Python between: by pyarrow as tasks do them, and by Polars' lazy engine.

    python bench/data_stages.py [--rows 1200000] [--times 15]

A file of so many rows, as `data_pipelines.py` makes them, is read in one process that keeps memory as workers
do. Each stage ends with an Arrow table of the types that a block has, so that Polars pays for its conversion.
Both sides take turns, and a figure is the least CPU of all turns, in milliseconds, of all threads. Polars
runs in its in-memory and in its streaming engine, each with one thread and with two.

scan: two columns. texts: a column of 1,000 texts. filter: a twelfth of the rows of eight columns by `id`,
as `write` would see them. half: half of the rows of three columns. project: `a * a + b * b` beside the two
columns. sums: of two columns. group: sums and counts of 10,000 groups. sort: two columns by a float.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

STAGES = "scan,texts,filter,half,project,sums,group,sort"


def of_tasks(path, rows):
    """The stages as a task runs them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.fs as pafs
    from heliostat.data import block, ordering
    from heliostat.data.execute import groups
    from heliostat.data.plan import transforms
    from heliostat.data.sources import parquet_polars
    from heliostat.data.sources.parquet_files import Parquet
    from ray.data.aggregate import Mean
    from ray.data.expressions import col

    local = pafs.LocalFileSystem()

    def read(*names, conditions=()):
        form = Parquet(needed=frozenset(names) if names else None, conditions=conditions)
        return form.read(local, path)

    def table(tables):
        return block.concat(list(tables))

    project = transforms.Project((("y", col("a") * col("a") + col("b") * col("b")),))
    parquet_polars.BYTES_BEFORE_IMPORT = 1 << 60  # the rows of conditions by pyarrow, too

    def sums():
        parts = [[pc.sum(t.column(c)).as_py() for c in ("a", "b")] for t in read("a", "b")]
        return pa.table({"a": [p[0] for p in parts], "b": [p[1] for p in parts]})

    def sort():
        whole = table(read("a", "id"))
        return block.take(whole, ordering.indices(whole, [("a", "ascending")]))

    return {
        "scan": lambda: table(read("a", "b")),
        "texts": lambda: table(read("s")),
        "filter": lambda: table(read(conditions=(col("id") < rows // 12,))),
        "half": lambda: table(read("a", "b", "id", conditions=(col("c") < 0.5,))),
        "project": lambda: table(project.apply(read("a", "b"), None)),
        "sums": sums,
        "group": lambda: table(groups.Parts(["key"], [Mean("a")])(read("key", "a"))),
        "sort": sort,
    }


def of_polars(path, rows, engine):
    """The stages as lazy queries of Polars, with blocks' types."""
    import polars as pl
    import pyarrow as pa

    def arrow(query):
        made = query.collect(engine=engine).to_arrow()
        texts = [
            f.with_type(pa.string()) if f.type == pa.large_string() else f for f in made.schema
        ]
        return made.cast(pa.schema(texts))

    def read(*names):
        scanned = pl.scan_parquet(path)
        return scanned.select(names) if names else scanned

    squares = pl.col("a") * pl.col("a") + pl.col("b") * pl.col("b")
    parts = (pl.sum("a"), pl.count("a").alias("n"))
    half = pl.scan_parquet(path).filter(pl.col("c") < 0.5).select("a", "b", "id")
    return {
        "scan": lambda: arrow(read("a", "b")),
        "texts": lambda: arrow(read("s")),
        "filter": lambda: arrow(read().filter(pl.col("id") < rows // 12)),
        "half": lambda: arrow(half),
        "project": lambda: arrow(read("a", "b").with_columns(y=squares)),
        "sums": lambda: arrow(read("a", "b").select(pl.sum("a"), pl.sum("b"))),
        "group": lambda: arrow(read("key", "a").group_by("key").agg(*parts)),
        "sort": lambda: arrow(read("a", "id").sort("a")),
    }


def run(path, given):
    """Print the least seconds of CPU of each stage and side, as JSON."""
    from heliostat.data.execute import kept_memory

    kept_memory.keep()
    sides = {
        "pyarrow": of_tasks(path, given.rows),
        "memory": of_polars(path, given.rows, "in-memory"),
        "streaming": of_polars(path, given.rows, "streaming"),
    }
    least = {}
    for name in given.only.split(","):
        expected = sides["pyarrow"][name]().num_rows
        for turn in range(1 + given.times):
            for side, stages in sides.items():
                begun = time.process_time()
                made = stages[name]()
                took = time.process_time() - begun
                if name != "sums" and made.num_rows != expected:
                    raise ValueError(f"{name}: {side} gives {made.num_rows} rows, not {expected}.")
                del made
                if turn:
                    of_side = least.setdefault(side, {})
                    of_side[name] = min(took, of_side.get(name, took))
    print(json.dumps(least))


def main(given):
    """Make the file, run it with one and with two threads, and print the table."""
    import data_pipelines

    with tempfile.TemporaryDirectory() as folder:
        data_pipelines.make(folder, given.rows * data_pipelines.FILES)
        path = f"{folder}/facts/000.parquet"
        found = {}
        for threads in (1, 2):
            options = ["--rows", str(given.rows), "--times", str(given.times), "--only", given.only]
            command = [sys.executable, os.path.abspath(__file__), *options, "--path", path]
            environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env=environment
            )
            found[threads] = json.loads(done.stdout.splitlines()[-1])
    print(
        "| stage | pyarrow, ms | in memory, 1 | 2 threads | streaming, 1 | 2 threads | least ratio |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in given.only.split(","):
        mine = min(found[threads]["pyarrow"][name] for threads in (1, 2))
        others = [found[n][engine][name] for engine in ("memory", "streaming") for n in (1, 2)]
        cells = [f"{1e3 * seconds:.1f}" for seconds in (mine, *others)]
        print(f"| {name} | {' | '.join(cells)} | {mine / min(others):.2f} |")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=1_200_000)
    p.add_argument("--times", type=int, default=15)
    p.add_argument("--only", default=STAGES, help="stages, with commas between")
    p.add_argument("--path", help=argparse.SUPPRESS)
    given = p.parse_args()
    if given.path:
        run(given.path, given)
    else:
        main(given)

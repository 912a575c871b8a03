"""A sort and a group of rows on three machines, beside one with the same cores, and with a loss of power.

    sudo python bench/data_machines.py [--rows 20000000] [--only sort,group] [--lose]

The machines are network namespaces of tests/machines, a core each; the one has three. Rows are made where
they are read, ``key`` being in no order. Seconds are those of one run, after one of a twentieth of the rows
that starts the workers. ``--lose`` cuts the power of a machine in the middle of another run of the first
operation, which has to give every row once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

SCRIPT = """
    import json, sys, time
    import numpy as np
    import ray, ray.data
    all_rows, only, lose = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3] == "lose"
    ray.init(log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def keyed(batch):
        return {"id": batch["id"], "key": batch["id"] * 7919 % 1000003}

    def made(rows):
        return ray.data.range(rows, override_num_blocks=24).map_batches(keyed, batch_size=None)

    def sort(rows):
        last, n, total = -1, 0, 0
        for batch in made(rows).sort("key").iter_batches(batch_size=None):
            key = batch["key"]
            assert key[0] >= last and (np.diff(key) >= 0).all()
            last, n, total = key[-1], n + len(key), total + int(batch["id"].sum())
        assert (n, total) == (rows, rows * (rows - 1) // 2), (n, total)

    def group(rows):
        groups, total = 0, 0
        for batch in made(rows).groupby("key").count().iter_batches(batch_size=None):
            groups, total = groups + len(batch["key"]), total + int(batch["count()"].sum())
        assert (groups, total) == (min(rows, 1000003), rows), (groups, total)

    def run(title, names, rows):
        for name in names:
            print("begins", title, name, flush=True)
            begun = time.perf_counter()
            {"sort": sort, "group": group}[name](rows)
            print("took", json.dumps([title, name, time.perf_counter() - begun]), flush=True)

    run("first", only, all_rows // 20)
    run("measured", only, all_rows)
    if lose:
        run("lost", only[:1], all_rows)
"""


def run(count: int, rows: int, only: str, lose: bool) -> dict[str, float]:
    from tests.machines.machines import Machines

    store = f"--object-store-memory={(3 << 30) // count}"
    with Machines(count) as all_of:
        head = all_of[0]
        head.start_head(store, f"--num-cpus={3 // count}")
        for other in all_of[1:]:
            other.join(head, store, f"--num-cpus={3 // count}")
        args = [str(rows), only, "lose" if lose else ""]
        driver = head.start_script(SCRIPT, args=args)
        took: dict[str, dict[str, float]] = {}
        is_lost = False
        while True:
            is_over = driver.process.poll() is not None
            said = driver.stdout().splitlines()
            for line in said:
                if line.startswith("took "):
                    title, name, seconds = json.loads(line[5:])
                    took.setdefault(title, {})[name] = seconds
            if is_over:
                break
            if lose and not is_lost and any(line.startswith("begins lost") for line in said):
                time.sleep(took["measured"][only.split(",", maxsplit=1)[0]] / 2)
                all_of[-1].power_off()
                is_lost = True
            time.sleep(0.1)
        if driver.process.returncode:
            sys.exit(driver.stderr()[-3000:])
        for name, seconds in took.get("lost", {}).items():
            print(f"{name} with a loss of power, every row once: {seconds:.2f} s", flush=True)
        return took["measured"]


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=20_000_000)
    p.add_argument("--only", default="sort,group", help="operations, with a comma between")
    p.add_argument("--lose", action="store_true")
    given = p.parse_args()
    one = run(1, given.rows, given.only, False)
    three = run(3, given.rows, given.only, given.lose)
    for name, seconds in three.items():
        print(
            f"{name}: {seconds:.2f} s on three machines, {one[name]:.2f} s on one, ratio "
            f"{seconds / one[name]:.2f}"
        )

"""A sort and a group of rows on three machines, beside one with the same cores, and with a loss of power.

    sudo python bench/data_machines.py [--rows 20000000] [--lose]

The machines are network namespaces of tests/machines, a core each; the one has three. Rows are made where
they are read, ``key`` being in no order. Seconds are the second of two runs. ``--lose`` cuts the power of a
machine in the middle of a third run, which has to give every row once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SCRIPT = """
    import json, sys, time
    import numpy as np
    import ray, ray.data
    rows, runs = int(sys.argv[1]), int(sys.argv[2])
    ray.init(log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def keyed(batch):
        return {"id": batch["id"], "key": batch["id"] * 7919 % 1000003}

    def made():
        return ray.data.range(rows, override_num_blocks=24).map_batches(keyed, batch_size=None)

    def sort():
        last, n, total = -1, 0, 0
        for batch in made().sort("key").iter_batches(batch_size=None):
            key = batch["key"]
            assert key[0] >= last and (np.diff(key) >= 0).all()
            last, n, total = key[-1], n + len(key), total + int(batch["id"].sum())
        assert (n, total) == (rows, rows * (rows - 1) // 2), (n, total)

    def group():
        found = made().groupby("key").count()
        assert found.sum("count()") == rows
        assert found.count() == min(rows, 1000003)

    for number in range(runs):
        took = {}
        for one in (sort, group):
            print("begins", one.__name__, number, flush=True)
            begun = time.perf_counter()
            one()
            took[one.__name__] = time.perf_counter() - begun
        print("took", json.dumps(took), flush=True)
"""


def run(count: int, rows: int, lose: bool) -> dict[str, float]:
    from machines.machines import Machines

    store = f"--object-store-memory={(3 << 30) // count}"
    with Machines(count) as all_of:
        head = all_of[0]
        head.start_head(store, f"--num-cpus={3 // count}")
        for other in all_of[1:]:
            other.join(head, store, f"--num-cpus={3 // count}")
        runs = 3 if lose else 2
        driver = head.start_script(SCRIPT, args=[str(rows), str(runs)])
        took: list[dict[str, float]] = []
        is_lost = False
        while driver.process.poll() is None:
            said = driver.stdout().splitlines()
            took = [json.loads(line[5:]) for line in said if line.startswith("took ")]
            if lose and not is_lost and any(line == "begins sort 2" for line in said):
                time.sleep(took[-1]["sort"] / 2)
                all_of[-1].power_off()
                is_lost = True
            time.sleep(0.1)
        if driver.process.returncode:
            sys.exit(driver.stderr()[-3000:])
        said = driver.stdout().splitlines()
        took = [json.loads(line[5:]) for line in said if line.startswith("took ")]
        if lose:
            print(f"with a loss of power: {took[2]}", flush=True)
        return took[1]


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=20_000_000)
    p.add_argument("--lose", action="store_true")
    given = p.parse_args()
    one = run(1, given.rows, False)
    three = run(3, given.rows, given.lose)
    for name, seconds in three.items():
        print(
            f"{name}: {seconds:.2f} s on three machines, {one[name]:.2f} s on one, ratio "
            f"{seconds / one[name]:.2f}"
        )

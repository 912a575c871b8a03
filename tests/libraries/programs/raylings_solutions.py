"""raylings, a course: the solution of each of its exercises runs and finds its own answer right."""

import concurrent.futures
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

# Why some are left out.
LEFT_OUT = {
    "basics05": "expects three tasks side by side: on two cores it fails on Ray, too",
    "cluster04": "expects the HTTP port of every cluster; here a cluster has one when it is asked for",
    "data_genai02": "expects that the second actor of a pool gets work: seen to fail on Ray, too",
    "fsdp01": "trains for minutes on two cores",
    "fsdp03": "trains for minutes on two cores",
    "fsdp04": "trains for minutes on two cores",
}

spec = find_spec("raylings")
solutions = sorted(Path(spec.submodule_search_locations[0], "solutions").glob("*/*.py"))
assert len(solutions) > 60


def solve(path):
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=environment
    )
    return path.stem, done.returncode, (done.stdout + done.stderr)[-1500:]


with concurrent.futures.ThreadPoolExecutor(1) as pool:
    rows = list(pool.map(solve, [path for path in solutions if path.stem not in LEFT_OUT]))
failed = [row for row in rows if row[1]]
for name, code, said in failed:
    print(f"--- {name} ended with {code}\n{said}")
assert not failed, [name for name, *_ in failed]
print("cluster=yes")

"""Evaluate each query of Ray's own Grafana dashboards over a cluster of two nodes with work on it.

PYTHONPATH=. .venv/bin/python tests/differential/panels.py --ray PYTHON

``PYTHON`` has Ray, whose dashboards are asked for their queries; nothing of Ray runs. Prometheus has to
be installed. The exit code is 1 when a query is none for Prometheus, or has no figures though all that
it needs is there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.helpers import harness, web

ASK_RAY = """
import json
from ray.dashboard.modules.metrics import grafana_dashboard_factory as made

def queries(panels):
    for panel in panels:
        yield from queries(panel.get("panels", []))
        for target in panel.get("targets", []):
            yield panel.get("title", ""), target["expr"]

all = {}
for name in dir(made):
    if name.startswith("generate_") and name.endswith("_grafana_dashboard"):
        board = json.loads(getattr(made, name)()[0])
        rows = [one for row in board.get("rows", []) for one in queries(row.get("panels", []))]
        all[name[len("generate_"):-len("_grafana_dashboard")]] = [*queries(board["panels"]), *rows]
print(json.dumps(all))
"""

# Boards of engines that are not installed here.
NOT_HERE = ("llm",)
# Series of what this machine, this cluster or these programs have not: devices, a container's memory,
# machines that are asked for or gone, workers and nodes that failed, retries, gRPC, models that share a
# replica.
ABSENT = re.compile(
    r"gpu|gram|tpu|cgroup|GPU|autoscaler_(pending|recently_failed)|unexpected_worker_failure"
    r'|IsRetry!="0"|grpc|multiplex|error'
)
# Heliostat has none, docs/guide/metrics.md says why.
NONE = re.compile(r"ray_data_(spilled_bytes|obj_store_mem_spilled)|num_scheduling_tasks")

SPANS = {"interval": "30s", "__interval": "30s", "__rate_interval": "30s", "__range": "5m"}

WORK = """
import sys, tempfile, threading, time, urllib.request
import ray
from ray import serve, train
from ray.train import RunConfig, ScalingConfig
from ray.train.data_parallel_trainer import DataParallelTrainer
ray.init(address="auto", log_to_driver=False)
port = int(sys.argv[1])

@serve.deployment(max_ongoing_requests=1, num_replicas=1, ray_actor_options={"num_cpus": 0})
class Echo:
    def __call__(self, request):
        time.sleep(0.05)
        return "said"

serve.start(http_options={"port": port})
serve.run(Echo.bind(), name="echo", route_prefix="/echo")

def asks():
    while True:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/echo").read()

def datasets():
    while True:
        ds = ray.data.range(3000, override_num_blocks=30)
        ds = ds.map_batches(lambda batch: (time.sleep(0.1), batch)[1], num_cpus=0.1)
        for _ in ds.iter_batches():
            pass

def loop():
    for step in range(10_000):
        time.sleep(0.2)
        with tempfile.TemporaryDirectory() as folder:
            train.report({"loss": 1 / (step + 1)}, checkpoint=train.Checkpoint.from_directory(folder))

for one in (asks, asks, datasets):
    threading.Thread(target=one, daemon=True).start()
DataParallelTrainer(
    loop,
    scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.1}),
    run_config=RunConfig(name="run", storage_path=sys.argv[2]),
).fit()
"""


def plain(query: str) -> str:
    """A query with all that a board lets people choose chosen: everything, and half a minute."""

    def chosen(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3]
        return SPANS.get(name, "30s" if query[: found.start()].endswith("[") else ".*")

    query = query.replace("{global_filters}", "")
    return re.sub(r"\$(\w+)|\[\[(\w+)\]\]|\$\{(\w+)[^}]*\}", chosen, query)


def asked(port: int, query: str) -> list[Any] | str:
    """What Prometheus has, or why it refuses the query."""
    where = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(where, timeout=60) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        return str(json.load(error)["error"])


def looked(boards: dict[str, list[tuple[str, str]]], port: int) -> tuple[list[str], list[str]]:
    """A line on each board, and what has no figures without a reason."""
    lines, bad = [], []
    for board, queries in sorted(boards.items()):
        figures, excused = 0, 0
        for title, query in queries:
            found = asked(port, plain(query))
            is_here = not any(one in board for one in NOT_HERE)
            if isinstance(found, list) and found:
                figures += 1
            elif isinstance(found, list) and not (
                is_here and not ABSENT.search(query) and not NONE.search(query)
            ):
                excused += 1
            else:
                bad.append(f"{board}, {title}: {plain(query)}: {found or 'no figures'}")
        lines.append(f"{board}: {figures} of {len(queries)}, {excused} need what is not here")
    return lines, bad


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--ray", required=True, help="an interpreter that has Ray")
    p.add_argument("--seconds", type=float, default=300, help="so long figures may take to come")
    args = p.parse_args()
    said = subprocess.run([args.ray, "-c", ASK_RAY], stdout=subprocess.PIPE, check=True, cwd="/tmp")
    boards = json.loads(said.stdout.splitlines()[-1])
    head, port = web.new(), web.free_port()
    work: subprocess.Popen[bytes] | None = None
    folder = f"--folder={head.home / 'prometheus'}"
    try:
        head.start("--num-gpus=0")
        env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
        head.run("start", f"--address=127.0.0.1:{head.port}", "--num-cpus=1")
        url = f"--address={head.url}"
        head.run("metrics", "launch-prometheus", folder, url, f"--port={port}", "--every=2s")
        code = Path(tempfile.mkdtemp(dir=head.home)) / "work.py"
        code.write_text(WORK)
        arguments = [str(web.free_port()), str(head.home)]
        work = subprocess.Popen(
            [sys.executable, code, *arguments],
            env=harness.clean_env(env),
            stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + args.seconds
        lines: list[str] = []
        bad = ["nothing was asked"]
        while bad and time.monotonic() < until:
            time.sleep(5)
            lines, bad = looked(boards, port)
        nodes = asked(port, "count(up == 1) == 2")
        print(
            *lines, *bad, "Two nodes are read." if nodes else "Not both nodes are read.", sep="\n"
        )
    finally:
        head.run("metrics", "shutdown-prometheus", folder, check=False)
        if work:
            work.kill()
            work.wait()
        web.end(head)
    sys.exit(1 if bad or not nodes else 0)


if __name__ == "__main__":
    main()

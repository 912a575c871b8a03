"""``global-gc``: have Python's garbage collector run in all workers of the cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import heliostat
from heliostat.core.debug import memory_usage, stacks
from heliostat.util.commands import add_address, exit_code, session
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from heliostat.util.state import list_workers

# How long the nodes may take to tell, and one worker to collect, in seconds.
_NODES_S, _WORKER_S = 120.0, 30.0
_ROWS_MAX = 10_000


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} global-gc",
        description="Have Python's garbage collector run in all workers of the cluster, so that "
        "references to objects go which only cycles of garbage still hold.",
        allow_abbrev=False,
    )
    add_address(parser)
    options = parser.parse_args(arguments)
    return exit_code(lambda: _act(options.address))


class Collected(NamedTuple):
    """The result of a collection in all workers."""

    workers: int
    objects: int
    # Nodes and processes that did not answer in time.
    silent: list[str]


def collect() -> Collected:
    """Have the collector run in all workers of the cluster that this process is connected to."""
    there: dict[str, list[int]] = defaultdict(list)
    for row in list_workers(limit=_ROWS_MAX, raise_on_missing_output=False):
        if row.pid and row.is_alive and row.worker_type == "WORKER":
            there[row.node_id].append(row.pid)
    task = heliostat.remote(_of_node)
    asked = {
        task.options(
            num_cpus=0,
            max_retries=0,
            name="heliostat global-gc",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(found): node
        for node, found in there.items()
    }
    if not asked:
        return Collected(0, 0, [])
    told, silent = heliostat.wait(list(asked), num_returns=len(asked), timeout=_NODES_S)
    done, objects, missing = 0, 0, [f"node {asked[ref]}" for ref in silent]
    for ref in told:
        for pid, found in heliostat.get(ref).items():
            if found is None:
                missing.append(f"process {pid} of node {asked[ref]}")
            else:
                done, objects = done + 1, objects + found
    return Collected(done, objects, missing)


def _act(address: str | None) -> int:
    with session(address):
        found = collect()
    if not found.workers and not found.silent:
        print("No workers run.")
        return 0
    print(f"Garbage was collected in {found.workers} workers: {found.objects} objects.")
    if found.silent:
        print(
            "These did not answer, as code that keeps the interpreter's lock does: "
            f"{', '.join(found.silent)}.",
            file=sys.stderr,
        )
    return 1 if found.silent else 0


def _of_node(pids: list[int]) -> dict[int, int | None]:
    """In a task: how many objects each of those workers of its node has collected."""
    found: dict[int, int | None] = {}
    for pid in pids:
        if pid == os.getpid():
            said: str | None = memory_usage.answer("collect")
        else:
            said = stacks.request(pid, "collect", _WORKER_S)
        if said is not None:
            found[pid] = json.loads(said)["collected"]
        elif stacks.is_worker(pid):
            found[pid] = None
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

"""``stack``: what the Python workers of this machine, or of all nodes, are doing right now."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence

import heliostat
from heliostat.core.debug import stacks
from heliostat.util.commands import add_address, exit_code, session, terminal_width
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from heliostat.util.state import list_workers

# How long the nodes may take to tell, in seconds.
_NODES_S = 60.0
_ROWS_MAX = 10_000

# The machine, process, title and stack of a worker.
_Told = tuple[str, int, str, str]


def main(arguments: Sequence[str], program: str) -> int:
    """Print what is asked for; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} stack",
        description="Print the Python stacks of this machine's workers: threads, coroutines of async "
        "actors, and the calls that they are in. It needs no cluster that answers, and no rights of a "
        "debugger.",
        allow_abbrev=False,
    )
    parser.add_argument("--pid", type=int, action="append", help="of this worker; may be repeated")
    parser.add_argument(
        "--all-nodes", action="store_true", help="of all nodes' workers, told by a task on each"
    )
    add_address(parser, "with --all-nodes: ")
    options = parser.parse_args(arguments)
    if options.address and not options.all_nodes:
        parser.error(
            "--address goes with --all-nodes: without that this machine's workers are asked."
        )
    if options.all_nodes:
        return exit_code(lambda: _print_nodes(options.address, options.pid))
    return exit_code(lambda: _print_here(options.pid))


def _print_here(pids: list[int] | None) -> int:
    known = stacks.workers()
    for pid in pids or []:
        if pid not in known:
            raise ValueError(f"{pid} is not a worker of this machine; they are {_listed(known)}")
    asked = known if pids is None else pids
    if not asked:
        print(f"No workers run on {platform.node()}.", file=sys.stderr)
    _print(_of_here(asked), is_whole=bool(pids))
    return 0


def _of_here(pids: Iterable[int]) -> Iterable[_Told]:
    node = platform.node()
    return ((node, *told) for told in stacks.stacks_of_all(pids))


def _print(all_told: Iterable[_Told], is_whole: bool) -> None:
    """Print the stacks of workers that do something, and name the others in a line for each title;
    ``is_whole``: those as well.
    """
    idle: dict[tuple[str, str], list[int]] = defaultdict(list)
    for machine, pid, title, text in all_told:
        if text == stacks.IDLE and not is_whole:
            idle[machine, title].append(pid)
        else:
            print(f"{machine}, process {pid}, {title}\n{text}", flush=True)
    width = terminal_width()
    for (machine, title), pids in sorted(idle.items()):
        processes = f"process{'es' * (len(pids) > 1)} {', '.join(map(str, pids))}"
        line = f"{machine}, {title}, no call runs: {processes}"
        print(textwrap.fill(line, width, subsequent_indent="  ") if width else line)


def _print_nodes(address: str | None, pids: list[int] | None) -> int:
    with session(address):
        there: dict[str, list[int]] = defaultdict(list)
        for row in list_workers(limit=_ROWS_MAX, raise_on_missing_output=False):
            if (
                row.pid
                and row.is_alive
                and row.worker_type == "WORKER"
                and (not pids or row.pid in pids)
            ):
                there[row.node_id].append(row.pid)
        if not there:
            print("No such worker runs." if pids else "No workers run.", file=sys.stderr)
            return 1 if pids else 0
        task = heliostat.remote(_of_node)
        asked = {
            task.options(
                num_cpus=0,
                name="heliostat stack",
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            ).remote(found): node
            for node, found in there.items()
        }
        told, silent = heliostat.wait(list(asked), num_returns=len(asked), timeout=_NODES_S)
        _print((one for ref in told for one in heliostat.get(ref)), is_whole=bool(pids))
        for ref in silent:
            print(f"Node {asked[ref]} did not answer within {_NODES_S:.0f} s.", file=sys.stderr)
    return 1 if silent else 0


def _of_node(pids: list[int]) -> list[_Told]:
    """In a task: the stacks of those workers of its node."""
    return list(_of_here(pid for pid in pids if pid != os.getpid()))


def _listed(pids: list[int]) -> str:
    return ", ".join(map(str, pids)) if pids else "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

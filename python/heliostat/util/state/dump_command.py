"""``cluster-dump``: logs, states, versions and processes of all nodes in one file, for a report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import heliostat
from heliostat import _heliostat
from heliostat.core.debug import stacks
from heliostat.core.platform.version import RAY_VERSION
from heliostat.util import state
from heliostat.util.commands import add_address, exit_code, session
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_ROWS_MAX = 10_000
# A level of gzip that packs logs four times as quickly as the usual one, a seventh larger.
_COMPRESSION = 3
# So many files a node reads before they are packed.
_AHEAD = 8
# Bytes at most of a file; of a longer one the end is packed.
_FILE_MAX = 64 << 20
_STATES: dict[str, Callable[..., list[Any]]] = {
    "nodes": state.list_nodes,
    "jobs": state.list_jobs,
    "actors": state.list_actors,
    "tasks": state.list_tasks,
    "objects": state.list_objects,
    "workers": state.list_workers,
    "placement_groups": state.list_placement_groups,
    "runtime_envs": state.list_runtime_envs,
    "cluster_events": state.list_cluster_events,
}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The parts of each node that are packed."""

    logs: bool
    pip: bool
    processes: bool
    command_lines: bool
    stacks: bool


def main(arguments: Sequence[str], program: str) -> int:
    """Write the file; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} cluster-dump",
        description="Pack what is known of a cluster into one .tar.gz: its states as JSON, and of each node "
        "the logs, the stacks of its workers, its Python packages and its processes. Tokens are not in it; "
        "what programs have printed is.",
        allow_abbrev=False,
    )
    parser.add_argument("cluster_config_file", nargs="?", help=argparse.SUPPRESS)
    add_address(parser)
    parser.add_argument("-o", "--output", help="the file [default: cluster-dump_<time>.tar.gz]")
    yes_or_no = argparse.BooleanOptionalAction
    parser.add_argument("--logs", action=yes_or_no, default=True, help="log files of the session")
    parser.add_argument(
        "--debug-state", action=yes_or_no, default=True, help="states, and stacks of workers"
    )
    parser.add_argument("--pip", action=yes_or_no, default=True, help="installed Python packages")
    parser.add_argument("--processes", action=yes_or_no, default=True, help="processes that run")
    parser.add_argument(
        "--processes-verbose",
        action=yes_or_no,
        default=False,
        help="also their command lines, in which there may be secrets",
    )
    parser.add_argument("-L", "--local", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if file := options.cluster_config_file:
        parser.error(
            f"A cluster of a file is packed on its head: `{program} exec {file} '{program} cluster-dump "
            f"--output dump.tar.gz'`, then `{program} rsync-down {file} dump.tar.gz .`"
        )
    return exit_code(lambda: _dump(options))


def _dump(options: argparse.Namespace) -> int:
    output = options.output or time.strftime("cluster-dump_%Y-%m-%d_%H-%M-%S.tar.gz")
    wanted = Wanted(
        options.logs, options.pip, options.processes, options.processes_verbose, options.debug_state
    )
    failed: list[str] = []
    draft = f"{output}.part"  # a file that was there before stays until the new one is whole
    try:
        with (
            session(options.address) as address,
            tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION) as archive,
        ):
            # Nodes gather what they tell while states are asked for and the nodes before them are packed.
            nodes = {_folder(row): _ask(row, wanted) for row in heliostat.nodes() if row["Alive"]}
            _add(archive, "about.txt", _about(address).encode())
            for name, rows in _states() if options.debug_state else ():
                _add(archive, f"state/{name}.json", rows.encode())
            for folder, told in nodes.items():
                failed += _add_node(archive, folder, told)
        os.replace(draft, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    for line in failed:
        print(line, file=sys.stderr)
    print(f"{output}: {os.path.getsize(output) / 2**20:.1f} MiB")
    return 1 if failed else 0


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(f"cluster-dump/{name}")
    entry.size, entry.mtime = len(data), int(time.time())
    archive.addfile(entry, io.BytesIO(data))


def _about(address: str) -> str:
    lines = [
        f"packed {time.strftime('%Y-%m-%dT%H:%M:%S%z')} of {address}",
        f"Heliostat {_heliostat.__version__}, API of Ray {RAY_VERSION}",
        f"Python {platform.python_version()} on {platform.platform()}",
    ]
    return "\n".join(lines) + "\n"


def _states() -> Iterator[tuple[str, str]]:
    for name, list_ in _STATES.items():
        try:
            rows = list_(limit=_ROWS_MAX, detail=True, raise_on_missing_output=False)
            told: Any = [dataclasses.asdict(row) for row in rows]
        except Exception as error:  # the rest is packed all the same
            told = {"error": f"{type(error).__name__}: {error}"}
        yield name, json.dumps(told, indent=1, default=str)


def _folder(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerAddress']}_{node['NodeID'][:8]}"


def _ask(node: dict[str, Any], wanted: Wanted) -> Iterator[Any]:
    """Have a node tell: references to what it does."""
    there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = heliostat.remote(_of_node).options(
        num_cpus=0,
        scheduling_strategy=there,
        num_returns="streaming",
        max_retries=0,
        _generator_backpressure_num_objects=_AHEAD,
    )
    told: Iterator[Any] = task.remote(wanted)
    return told


def _add_node(archive: tarfile.TarFile, folder: str, told: Iterator[Any]) -> list[str]:
    """Add what a node tells; a sentence, where it could not tell all."""
    print(f"{folder} …", file=sys.stderr, flush=True)
    try:
        for ref in told:
            name, data = heliostat.get(ref)
            _add(archive, f"{folder}/{name}", data)
    except heliostat.exceptions.RayError as error:
        return [f"Node {folder} did not tell all: {error}"]
    return []


def _of_node(wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """In a task: the files of its node, each with its name in the archive."""
    if wanted.stacks:
        pids = (pid for pid in stacks.workers() if pid != os.getpid())
        told = stacks.stacks_of_all(pids)
        text = "\n".join(f"process {pid}, {title}\n{text}" for pid, title, text in told)
        yield "stacks.txt", text.encode()
    if wanted.pip:
        found = {
            f"{one.metadata['Name']}=={one.version}" for one in importlib.metadata.distributions()
        }
        yield "pip.txt", "\n".join(sorted(found, key=str.lower)).encode()
    if wanted.processes:
        yield "processes.txt", _processes(wanted.command_lines).encode()
    if wanted.logs:
        context = heliostat.get_runtime_context()
        folder = os.path.join(context.get_temp_dir(), context.get_session_name(), "logs")
        for path in sorted(_files(folder)):
            with contextlib.suppress(OSError):  # gone, or another user's
                yield _read(path, os.path.relpath(path, folder))


def _files(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        paths = (os.path.join(where, name) for name in names)
        yield from (path for path in paths if os.path.isfile(path) and not os.path.islink(path))


def _read(path: str, name: str) -> tuple[str, bytes]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FILE_MAX))
        data = file.read(_FILE_MAX)
    return f"logs/{name}" if size <= _FILE_MAX else f"logs/{name}.end", data


def _processes(command_lines: bool) -> str:
    """A line each: process, parent, state, resident KiB, name or command line."""
    lines = ["pid ppid state resident_kib " + ("command" if command_lines else "name")]
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            state_, parent, resident = (rest.split()[i] for i in (0, 1, 21))
            kib = int(resident) * os.sysconf("SC_PAGE_SIZE") // 1024
            shown = (stacks.title(pid) or name) if command_lines else name
            lines.append(f"{pid} {parent} {state_} {kib} {shown}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

"""Log files of nodes, read by tasks that run there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import heliostat
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from heliostat.util.state import ask
from heliostat.util.state.exception import RayStateApiException
from heliostat.util.state.log_lines import Shown

_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_PART = 1 << 20
_FOLLOW_S = 0.5
_INDEX = ".tasks"  # ends the name of the file that says whose the text of a worker's file is


@dataclass(frozen=True)
class LogFile:
    """A file on a node, by its name or by what its name has to contain."""

    node_id: str
    name: str | None = None
    part: str | None = None
    suffix: str = "out"
    task_id: str | None = None  # only what that task has printed


def _kind(name: str) -> str:
    for kind, prefix in (
        ("worker", "worker-"),
        ("core_worker", "python-core-worker-"),
        ("driver", "python-core-driver-"),
        ("gcs_server", "gcs_server"),
        ("raylet", "node"),
        ("dashboard", "dashboard"),
    ):
        if name.startswith(prefix):
            return f"{kind}_{name.rpartition('.')[2]}" if kind == "worker" else kind
    return "internal"


def _folder() -> str:
    """The session's logs on the node where this runs."""
    context = heliostat.get_runtime_context()
    return os.path.join(context.get_temp_dir(), context.get_session_name(), "logs")


def _names(pattern: str) -> list[str]:
    import glob

    folder = _folder()
    found = glob.glob(os.path.join(folder, "**", pattern), recursive=True)
    kept = (path for path in found if os.path.isfile(path) and not path.endswith(_INDEX))
    return sorted(os.path.relpath(path, folder) for path in kept)


def _read(file: LogFile, offset: int, tail: int) -> tuple[bytes, int] | None:
    """A part of the file from there on, and where it ends; ``None``: there is no such file."""
    folder = os.path.realpath(_folder())
    if file.name is not None:
        path = os.path.realpath(os.path.join(folder, file.name))
    else:
        part = file.part or ""
        fitting = [n for n in _names(f"*.{file.suffix}") if part in os.path.basename(n)]
        if not fitting:
            # A process has a file once it has printed something.
            return None if file.task_id is None else (b"", 0)
        path = os.path.join(folder, fitting[-1])
    if not path.startswith(folder + os.sep) or not os.path.isfile(path):
        return None
    with open(path, "rb") if file.task_id is None else _of_task(path, file.task_id) as handle:
        if offset < 0:
            lines = handle.readlines()
            kept = b"".join(lines[len(lines) - tail :] if tail < len(lines) else lines)
            return kept, handle.tell()
        handle.seek(offset)
        data = handle.read(_PART)
        return data, offset + len(data)


def _of_task(path: str, task_id: str) -> BinaryIO:
    """Return the text that a task has printed into a worker's file: the daemon writes down where
    that begins.
    """
    import io

    try:
        with open(path + _INDEX) as index:
            turns = [line.rstrip("\n").partition(" ") for line in index]
    except OSError:
        turns = []
    starts = [int(offset) for offset, _, _ in turns]
    text = io.BytesIO()
    with open(path, "rb") as handle:
        ends = [*starts[1:], os.fstat(handle.fileno()).st_size]
        for (_, _, task), start, end in zip(turns, starts, ends, strict=True):
            if task == task_id:
                handle.seek(start)
                text.write(handle.read(end - start))
    text.seek(0)
    return text


def _on(node_id: str, function: Any, *args: Any, timeout: float | None = None) -> Any:
    here = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = heliostat.remote(num_cpus=0, scheduling_strategy=here, name=f"logs:{function.__name__}")
    return heliostat.get(task(function).remote(*args), timeout=timeout)


def _node(node_id: str | None, node_ip: str | None) -> str:
    found = [
        node["node_id"]
        for node in ask.rows("nodes", None).rows
        if node["state"] == "ALIVE" and node_id in (None, node["node_id"])
        if node_ip in (None, node["node_ip"])
    ]
    if not found:
        raise RayStateApiException(f"No living node is {node_id or node_ip}.")
    return str(found[0])


def _head() -> str:
    """The node on which the drivers of submitted jobs run."""
    found = [row["node_id"] for row in ask.rows("nodes", None).rows if row["is_head_node"]]
    return str(found[0])


def names(
    node_id: str | None, node_ip: str | None, pattern: str, timeout: float
) -> dict[str, list[str]]:
    """The files of a node by kind."""
    kinds: dict[str, list[str]] = {}
    for name in _on(_node(node_id, node_ip), _names, pattern, timeout=timeout):
        kinds.setdefault(_kind(name), []).append(name)
    return kinds


def which(
    node_id: str | None,
    node_ip: str | None,
    filename: str | None,
    actor_id: str | None,
    task_id: str | None,
    pid: int | None,
    suffix: str,
    submission_id: str | None,
    attempt_number: int = 0,
) -> LogFile:
    """The file that is meant."""
    if suffix not in ("out", "err"):
        raise ValueError(f"Invalid suffix: {suffix}. Must be one of 'out' or 'err'.")
    if node_id and node_ip:
        raise ValueError(
            f"Both node_id and node_ip are given. Only one of them can be provided: {node_id}, "
            f"{node_ip}"
        )
    if not any((actor_id, task_id, pid, filename, submission_id)):
        raise ValueError(
            "None of actor_id, task_id, pid, submission_id or filename is provided. At least one of "
            "them is required to fetch logs."
        )
    if submission_id:
        return LogFile(_head(), name=f"job-driver-{os.path.basename(submission_id)}.log")
    if not (node_id or node_ip or actor_id or task_id):
        raise ValueError(
            "Give node_id or node_ip too, unless it is an actor's, a task's or a job's log."
        )
    if filename:
        return LogFile(_node(node_id, node_ip), name=filename)
    if pid:
        return LogFile(_node(node_id, node_ip), part=f"-{pid}.", suffix=suffix)
    resource, wanted = ("actors", actor_id) if actor_id else ("tasks", task_id)
    key = f"{resource[:-1]}_id"
    rows = [row for row in ask.rows(resource, None).rows if row[key] == wanted]
    if not rows:
        raise RayStateApiException(f"There is no {key} {wanted}.")
    row = rows[-1]
    if not actor_id:  # one for each attempt
        row = next((one for one in rows if one["attempt_number"] == attempt_number), row)
    process = row["pid" if actor_id else "worker_pid"]
    if not process or not row["node_id"]:
        raise RayStateApiException(f"The process of {key} {wanted} is not known (any more).")
    of_task = None if actor_id else task_id
    return LogFile(row["node_id"], part=f"-{process}.", suffix=suffix, task_id=of_task)


def parts(
    file: LogFile,
    *,
    follow: bool,
    tail: int,
    interval: float | None,
    decode: tuple[str, str] | None,
    without_colours: bool,
) -> Iterator[Any]:
    """The file, part by part, with the last state of each progress bar."""
    import time

    offset, shown = -1 if tail >= 0 else 0, Shown()
    while True:
        found = _on(file.node_id, _read, file, offset, tail)
        if found is None:
            raise RayStateApiException(
                f"There is no log file {file.name or f'of {file.part}{file.suffix}'!r} on that node."
            )
        data, end = found
        is_over = not data and not follow
        text = shown.end() if is_over else shown.take(data)
        if text:
            if without_colours:
                text = _COLOURS.sub(b"", text)
            yield text if decode is None else text.decode(*decode)
        if is_over:
            return
        if not data:
            time.sleep(interval or _FOLLOW_S)
        offset = end

"""``logs cluster|actor|task|worker|job|search``: logs of any node, from the head's HTTP server."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from heliostat.util.commands import exit_code, table, terminal_width
from heliostat.util.http import Server, server_url

_LINES = 1000
_COMMANDS = ("cluster", "actor", "task", "worker", "job", "search")
_SILENCE_S = 30.0


def main(arguments: Sequence[str], program: str) -> int:
    """Do what is asked for; the exit code."""
    given = list(arguments)
    # `logs PATTERN` is `logs cluster PATTERN`.
    if not given or (given[0] not in (*_COMMANDS, "-h", "--help")):
        given.insert(0, "cluster")
    options, rest = _parser(program).parse_known_args(given)
    # A pattern behind an option, which the parser has given its default by then.
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "pattern", "") == "*":
        options.pattern = rest[0]
    elif rest:
        _parser(program).error(f"unrecognized arguments: {' '.join(rest)}")
    return exit_code(lambda: options.action(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} logs", description="Logs of any node.")
    commands = parser.add_subparsers(required=True, metavar="|".join(_COMMANDS))

    def command(name: str, does: Any, help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(action=does)
        made.add_argument(
            "--address",
            help="the head's http://host:8265, or the cluster's host:port [default: "
            "$RAY_API_SERVER_ADDRESS, $RAY_ADDRESS, or the cluster of this machine]",
        )
        return made

    def with_node(made: argparse.ArgumentParser) -> None:
        made.add_argument("-id", "--node-id", help="of this node")
        made.add_argument("-ip", "--node-ip", help="of the node with this address")

    def reading(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "-f", "--follow", action="store_true", help="what is written from now on, too"
        )
        made.add_argument("--tail", type=int, default=_LINES, help="the last lines; -1: all [1000]")
        made.add_argument("--interval", type=float, help=argparse.SUPPRESS)
        made.add_argument("--timeout", type=float, default=_SILENCE_S, help="seconds to wait [30]")
        made.add_argument("--encoding", default="utf-8", help="of the file [utf-8]")
        made.add_argument("--encoding-errors", default="replace", help=argparse.SUPPRESS)

    def streams(made: argparse.ArgumentParser) -> None:
        made.add_argument("--err", action="store_true", help="standard error instead of output")

    cluster = command(
        "cluster", _cluster, "Files by a pattern: one is printed, several are listed."
    )
    cluster.add_argument("pattern", nargs="?", default="*", help="names with * and ?")
    cluster.add_argument(
        "--wide",
        action="store_true",
        help="show names whole, however narrow the terminal is; elsewhere they always are",
    )
    with_node(cluster)
    reading(cluster)

    actor = command("actor", _actor, "What an actor has printed.")
    actor.add_argument("--id", "-a", dest="actor_id", help="the actor")
    actor.add_argument("-pid", "--pid", help="its process; with a node where several have that id")
    with_node(actor)
    reading(actor)
    streams(actor)

    task = command("task", _task, "What a task has printed.")
    task.add_argument("--id", dest="task_id", required=True, help="the task")
    task.add_argument("--attempt-number", "-a", type=int, help="from 0 [default: the last]")
    reading(task)
    streams(task)

    worker = command("worker", _worker, "What a worker's process has printed.")
    worker.add_argument(
        "-pid", "--pid", required=True, help="its process; with a node where several have that id"
    )
    with_node(worker)
    reading(worker)
    streams(worker)

    job = command("job", _job, "What a submitted job's entry point has printed.")
    job.add_argument("--id", dest="submission_id", required=True, help="the submission id")
    reading(job)

    search = command("search", _search, "Lines with a text, in whole files of all nodes.")
    search.add_argument("text", help="what the lines have")
    search.add_argument("pattern", nargs="?", default="*", help="names of files with * and ?")
    search.add_argument("-i", "--ignore-case", action="store_true", help="capitals count as small")
    search.add_argument(
        "--limit", type=int, default=_LINES, help="lines of each node at most [1000]"
    )
    with_node(search)
    return parser


def _fields(options: argparse.Namespace, *names: str, **more: Any) -> dict[str, Any]:
    found = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in {**found, **more}.items() if value is not None}


def _server(options: argparse.Namespace) -> Server:
    return Server(server_url(options.address))


def _told(server: Server, path: str, fields: dict[str, Any]) -> Any:
    answer = server.ask("GET", f"{path}?{urlencode(fields)}")
    body = answer.json()
    if not body.get("result"):
        raise RuntimeError(body.get("msg") or f"the server says {answer.status}")
    return body["data"]["result"]


def _cluster(options: argparse.Namespace) -> int:
    server = _server(options)
    wanted = _fields(options, "node_id", "node_ip", glob=options.pattern, detail=1)
    found = _told(server, "/api/v0/logs", wanted)
    files = found["files"]
    _warn(found["silent"])
    if not files:
        raise RuntimeError(f"No log file fits {options.pattern!r}.")
    if len(files) == 1:
        (file,) = files
        return _print(server, options, {"node_id": file["node_id"], "filename": file["name"]})
    print("\n".join(listing(files, None if options.wide else terminal_width())))
    return 0


def listing(files: list[dict[str, Any]], width: int | None) -> list[str]:
    """Lines with the files of each node; ``width``: of the terminal that they are to fit into."""
    lines = []
    for ip, node_id in sorted({(file["node_ip"], file["node_id"]) for file in files}):
        rows = [
            ["", f"{file['size']:,}", _when(file), file["name"], _owner(file["owner"], width)]
            for file in files
            if file["node_id"] == node_id
        ]
        lines.append(f"Node {ip} ({node_id}):")
        lines += table(rows, width, gives_way=(3, 4), to_right=(1,))
    if any("…" in line for line in lines):
        lines.append("Cut to the terminal's width; --wide shows lines whole.")
    return lines


def _when(file: dict[str, Any]) -> str:
    return f"{datetime.datetime.fromtimestamp(file['modified_ms'] / 1000):%Y-%m-%d %H:%M:%S}"


def _owner(owner: dict[str, Any] | None, width: int | None) -> str:
    """Return the owner of a file; in a terminal an actor's name or class without its id."""
    if not owner:
        return ""
    if owner.get("actor_id"):
        name = f"{owner['actor_name']!r}" if owner.get("actor_name") else ""
        if width is not None:
            return f"actor {name or owner['actor']}"
        return " ".join(filter(None, ["actor", owner["actor"], name, owner["actor_id"]]))
    return f"job {owner['submission_id']}" if owner.get("submission_id") else ""


def _actor(options: argparse.Namespace) -> int:
    if not options.actor_id and not options.pid:
        raise ValueError("Give --id, or --pid: which actor is meant?")
    server = _server(options)
    if options.actor_id:
        return _print(server, options, {"actor_id": options.actor_id})
    return _worker(options)


def _task(options: argparse.Namespace) -> int:
    return _print(_server(options), options, _fields(options, "task_id", "attempt_number"))


def _worker(options: argparse.Namespace) -> int:
    server = _server(options)
    wanted = _fields(options, "node_id", "node_ip", "pid")
    if not (options.node_id or options.node_ip):
        wanted["node_id"] = _node_of(server, options.pid)
    return _print(server, options, wanted)


def _node_of(server: Server, pid: str) -> str:
    """The one node on which a worker with that process id has printed something."""
    if not pid.isdecimal():
        raise ValueError(f"--pid is {pid!r}: write the number of a process.")
    found = _told(server, "/api/v0/logs", {"glob": f"*worker-*-{pid}.*", "detail": 1})
    _warn(found["silent"])
    nodes = {file["node_id"]: file["node_ip"] for file in found["files"]}
    if not nodes:
        raise RuntimeError(f"There is no log file of process {pid} on any node.")
    if len(nodes) > 1:
        raise ValueError(
            f"Process {pid} is there on {len(nodes)} nodes: give --node-ip or --node-id, too "
            f"({', '.join(sorted(nodes))})."
        )
    (node_id,) = nodes
    return str(node_id)


def _job(options: argparse.Namespace) -> int:
    return _print(_server(options), options, {"submission_id": options.submission_id})


def _search(options: argparse.Namespace) -> int:
    wanted = _fields(options, "node_id", "node_ip", "text", "limit", glob=options.pattern)
    if options.ignore_case:
        wanted["ignore_case"] = 1
    found = _told(_server(options), "/api/v0/logs/search", wanted)
    _warn(found["silent"])
    for line in found["lines"]:
        print(f"{line['node_ip']} {line['file']}:{line['line']}: {line['text']}")
    if not found["lines"]:
        print(f"No line of {options.pattern!r} has {options.text!r}.", file=sys.stderr)
    if found["is_cut"]:
        print(f"There are more: --limit is {options.limit} for each node.", file=sys.stderr)
    return 0 if found["lines"] else 1


def _warn(silent: list[dict[str, str]]) -> None:
    for node in silent:
        print(f"Node {node['node_id']} is left out: {node['why']}", file=sys.stderr)


def _print(server: Server, options: argparse.Namespace, which: dict[str, Any]) -> int:
    fields = {**which, "lines": options.tail}
    if getattr(options, "err", False):
        fields["suffix"] = "err"
    media = "stream" if options.follow else "file"
    timeout = None if options.follow else options.timeout
    for part in parts(server, f"/api/v0/logs/{media}?{urlencode(fields)}", timeout):
        sys.stdout.write(part.decode(options.encoding, options.encoding_errors))
        sys.stdout.flush()
    return 0


def parts(server: Server, path: str, timeout: float | None) -> Iterator[bytes]:
    """Yield the bytes that the server sends, as they come. Raises ``RuntimeError`` with its
    sentence if it refuses.
    """
    with server.streamed(path, timeout) as answer:
        if answer.status != 200:
            text = answer.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["msg"]
            raise RuntimeError(text)
        while part := answer.read1(1 << 16):
            yield part


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

"""``debug``: connect the terminal to a worker that waits at a breakpoint of ``RAY_DEBUG=legacy``."""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import sys
from collections.abc import Sequence
from typing import Any

from heliostat import _heliostat
from heliostat.core.debug.text_debugger import NAMESPACE
from heliostat.core.driver import init

_CHUNK = 65536

_NONE_WAITS = (
    "No call waits for this debugger. It needs RAY_DEBUG=legacy where the worker runs, for instance "
    'ray.init(runtime_env={"env_vars": {"RAY_DEBUG": "legacy"}}), and a breakpoint() in the task. '
    "Without it, breakpoint() waits for VS Code or another client of debugpy, and the driver's output "
    "says at which port."
)


def main(arguments: Sequence[str], program: str) -> int:
    """Choose what waits, and connect; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} debug",
        description="Connect to a task that waits at a breakpoint of RAY_DEBUG=legacy.",
    )
    parser.add_argument(
        "--address",
        help="the cluster's IP:PORT [default: $RAY_ADDRESS, else the one that runs here]",
    )
    parser.add_argument("number", nargs="?", type=int, help="which of those that wait, from 1 on")
    options = parser.parse_args(arguments)
    try:
        init.init(address=options.address or "auto", log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        return _choose(_waiting(), options.number)
    except KeyboardInterrupt:
        return 130
    finally:
        init.shutdown()


def _waiting() -> list[tuple[bytes, dict[str, Any]]]:
    found = []
    for key in sorted(_heliostat.kv_keys(b"", namespace=NAMESPACE)):
        if (value := _heliostat.kv_get(key, namespace=NAMESPACE)) is not None:
            found.append((key, json.loads(value)))
    return found


def _choose(waiting: list[tuple[bytes, dict[str, Any]]], number: int | None) -> int:
    if not waiting:
        print(_NONE_WAITS, file=sys.stderr)
        return 1
    for index, (_, one) in enumerate(waiting, 1):
        print(f"{index}: {one['what']} (pid {one['pid']} on {one['node']})", flush=True)
    if number is None and len(waiting) > 1:
        typed = input("Which one? ")
        number = int(typed) if typed.strip().isdecimal() else 0
    number = 1 if number is None else number
    if not 1 <= number <= len(waiting):
        print(f"There is no number {number}: give one from 1 to {len(waiting)}.", file=sys.stderr)
        return 1
    return _connect(*waiting[number - 1])


def _connect(key: bytes, one: dict[str, Any]) -> int:
    everywhere = one["host"] in ("0.0.0.0", "::")
    address = (one["node"] if everywhere else one["host"], one["port"])
    try:
        connection = socket.create_connection(address)
    except OSError as error:
        print(
            f"The worker (pid {one['pid']} on {one['node']}) cannot be reached at "
            f"{address[0]}:{address[1]}: {error}. If it runs on another machine, run `ray debug` there; "
            "if it has ended, run `ray debug` again.",
            file=sys.stderr,
        )
        if (
            isinstance(error, ConnectionRefusedError)
            and one["node"] == _heliostat.session()["host"]
        ):
            _heliostat.kv_del(key, namespace=NAMESPACE)  # its worker died without a word
        return 1
    with connection:
        connection.sendall(one["secret"].encode() + b"\n")
        _carry(connection)
    return 0


def _carry(connection: socket.socket) -> None:
    """Lines of the terminal to the debugger, what it says to the terminal, until it closes."""
    terminal = sys.stdin.fileno()
    sources: list[Any] = [connection, terminal]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if connection in ready:
            try:
                said = connection.recv(_CHUNK)
            except ConnectionResetError:
                return
            if not said:
                return
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
        if terminal in ready:
            typed = os.read(terminal, _CHUNK)
            try:
                if typed:
                    connection.sendall(typed)
                else:  # the end of the input: the debugger lets go
                    sources.remove(terminal)
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))

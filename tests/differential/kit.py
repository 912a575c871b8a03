"""What snippets are written with: the mark that names their contract lines, and plain outcomes.

A snippet is a function without arguments that returns plain values. It runs in a process of its
side, Ray or Heliostat, both under the name ``ray``; what it returns is compared as JSON.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LIMIT_S = 90
STORE = 100 << 20


@dataclass(frozen=True)
class Snippet:
    """One program for both sides."""

    name: str
    ids: tuple[str, ...]
    run: Callable[[], Any]
    # Options of ``ray.init``; None: the snippet begins without a session.
    cluster: Mapping[str, Any] | None = field(default_factory=lambda: {"num_cpus": 4})
    limit_s: int = LIMIT_S


SNIPPETS: list[Snippet] = []
_SAME_CLUSTER: dict[str, Any] = {"num_cpus": 4}


def snippet(
    *ids: str, cluster: Mapping[str, Any] | None = _SAME_CLUSTER, limit_s: int = LIMIT_S
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Mark a function as a snippet that shows the lines ``ids`` of the contract."""

    def mark(function: Callable[[], Any]) -> Callable[[], Any]:
        SNIPPETS.append(Snippet(function.__name__, ids, function, cluster, limit_s))
        return function

    return mark


def outcome(call: Callable[[], Any], *says: str) -> Any:
    """What the call returns, or which error it raises and which of the words its message has."""
    try:
        return {"returns": plain(call())}
    except BaseException as error:
        return described(error, *says)


def described(error: BaseException, *says: str) -> dict[str, Any]:
    """An error by its classes, and the substance of its message: which of the words it has."""
    if isinstance(error, TimeLimit):
        raise error
    text = str(error).lower()
    # What a user can catch it as; how each side built the class in between is its own.
    ours = {c.__name__ for c in type(error).__mro__ if not c.__name__.startswith("_")}
    return {
        "raises": " ".join(sorted(ours - {"object", "BaseException", "Exception"})) or "Exception",
        "says": {words: words.lower() in text for words in says},
        "#message": str(error)[:1500],  # for the reader, not compared
    }


def plain(value: Any) -> Any:
    """JSON for the value; ids, addresses, paths and process numbers become placeholders."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return normal(value)
    if isinstance(value, BaseException):
        return described(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return {"tuple": [plain(part) for part in value]}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(str, (plain(part) for part in value)))}
    if isinstance(value, type):
        return f"class {value.__name__}"
    if isinstance(value, bytes):
        return f"bytes {value!r}"
    if type(value).__module__ == "numpy":
        return f"numpy {value!r}"
    return f"{type(value).__name__}: {normal(repr(value))}"


_PLACEHOLDERS = [
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"pid=\d+"), "pid=<pid>"),
    (re.compile(r"0x[0-9a-f]+"), "<address>"),
    (re.compile(r"session_[-\w]+"), "<session>"),
    (re.compile(r"\b(heliostat|ray)\."), "ray."),
]


def normal(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    return text


class TimeLimit(BaseException):
    """The snippet did not end in its time."""


def until(probe: Callable[[], Any], within: float = 30.0) -> Any:
    """Call the probe until it returns something true; its last value after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not (value := probe()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def new_log() -> str:
    """The path of a file that tasks write into (:func:`say`) and the driver reads (:func:`said`)."""
    return os.path.join(tempfile.mkdtemp(), "log")


def say(path: str, text: str) -> None:
    """Append to it."""
    with open(path, "a") as file:
        file.write(text)


def said(path: str) -> str:
    """What has been written so far."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def driver(
    source: str,
    *,
    env: Mapping[str, str] | None = None,
    show: Iterable[str] = (),
    timeout: float = 60.0,
) -> dict[str, Any]:
    """Run a program of its own; its exit code, what it printed as ``> text``, the words it wrote.

    ``show`` are the words to look for in its whole output. ``RAY_ADDRESS`` is not passed on.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "driver.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(source))
        given = {k: v for k, v in os.environ.items() if k not in ("RAY_ADDRESS", "RAY_NAMESPACE")}
        try:
            done = subprocess.run(
                [sys.executable, path],
                cwd=folder,
                env={**given, "PYTHONUNBUFFERED": "1", **(env or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            output = b"".join(part for part in (error.stdout, error.stderr) if part)
            return {"code": f"not within {timeout:g} s", "#output": output.decode()[-3000:]}
    output = done.stdout + done.stderr
    return {
        "code": done.returncode,
        "printed": [normal(x[2:]) for x in done.stdout.splitlines() if x.startswith("> ")],
        "shows": {words: words.lower() in output.lower() for words in show},
        "#output": output[-3000:],
    }


@contextlib.contextmanager
def nodes(head: Mapping[str, Any], *others: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    """A connected cluster on this machine and the ids of its nodes, in the order they were given."""
    import ray
    from ray.cluster_utils import Cluster

    args = {"object_store_memory": STORE, **head}
    cluster = Cluster(initialize_head=True, head_node_args=args)
    try:
        ray.init(cluster.address, logging_level="error")
        made = [cluster.add_node(**{"object_store_memory": STORE, **other}) for other in others]
        cluster.wait_for_nodes()
        yield cluster, [cluster.head_node.node_id, *(node.node_id for node in made)]
    finally:
        ray.shutdown()
        cluster.shutdown()

"""All routes under requests that nobody would send by hand: no 500, no growth, and the head goes on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.16", "F6.18", "F6.27"),
    pytest.mark.heliostat_only("the routes are those of our own server"),
]

# `{}` takes a word of WORDS. Without PUT of packages, which is meant to keep what it gets.
PATHS = [
    "/",
    "/api/authentication_mode",
    "/api/cluster_status",
    "/api/gcs_healthz",
    "/api/healthz",
    "/api/jobs/",
    "/api/jobs/{}",
    "/api/jobs/{}/logs",
    "/api/jobs/{}/logs/tail",
    "/api/jobs/{}/stop",
    "/api/packages/{}/{}",
    "/api/packages/gcs/{}",
    "/api/prometheus/sd",
    "/api/v0/cluster_metadata",
    "/api/v0/logs",
    "/api/v0/logs/{}",
    "/api/v0/logs/file",
    "/api/v0/tasks/timeline",
    "/api/v0/{}",
    "/api/v0/{}/summarize",
    "/api/version",
    "/logical/actors",
    "/login",
    "/nodes",
    "/nodes/{}",
    "/static/{}",
    "/{}",
]
WORDS = [
    "",
    "..",
    "../../etc/passwd",
    "a" * 5000,
    "actors",
    "gcs",
    "\x00",
    "\n",
    "%",
    "ü" * 50,
    "<script>",
    "'; drop",
    "jobs",
    "none.zip",
    "tasks",
    "file",
    "-1",
    "1e400",
    "null",
    "\ud7ff\uffff",
]
FIELDS = [
    "actor_id",
    "detail",
    "download",
    "filename",
    "filter_keys",
    "filter_predicates",
    "filter_values",
    "glob",
    "job_id",
    "key",
    "limit",
    "lines",
    "next",
    "node_id",
    "node_ip",
    "pid",
    "submission_id",
    "suffix",
    "task_id",
    "view",
    "why",
]
METHODS = ["GET", "GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
HEADERS = [
    {},
    {"Host": "evil.example"},
    {"Origin": "null"},
    {"Cookie": "heliostat=x; ray-authentication-token=\xff"},
    {"Upgrade": "websocket", "Connection": "Upgrade"},
    {"Accept-Encoding": "gzip, \xff"},
    {"Content-Type": "application/json"},
    {"Range": "bytes=9-1"},
]


def _value(dice: random.Random, depth: int = 0) -> object:
    kinds = [None, True, -1, 1e308, "", "x" * 100, [], {}, 10**30]
    if depth < 3 and dice.random() < 0.4:
        return {dice.choice(WORDS)[:20]: _value(dice, depth + 1) for _ in range(3)}
    return dice.choice(kinds)


def _body(dice: random.Random) -> bytes | None:
    fields = [
        "submission_id",
        "runtime_env",
        "metadata",
        "entrypoint_num_cpus",
        "entrypoint_memory",
        "entrypoint_resources",
        "entrypoint_label_selector",
    ]
    match dice.randrange(5):
        case 0:
            return None
        case 1:
            return dice.randbytes(dice.randrange(2000))
        case 2:
            return json.dumps(_value(dice)).encode()
        case _:
            # Never a job that starts: an entry point of another type is refused.
            given = {name: _value(dice) for name in dice.sample(fields, 2)}
            return json.dumps({"entrypoint": dice.choice([None, 1, [], "", " "]), **given}).encode()


def _resident_kib(head: Head) -> int:
    pid = int((head.session() / "node.pid").read_text())
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _round(head: Head, dice: random.Random, number: int) -> None:
    for _ in range(number):
        path = dice.choice(PATHS)
        while "{}" in path:
            word = dice.choice(WORDS)
            path = path.replace("{}", quote(word, safe=dice.choice(["", ""])), 1)
        query = "&".join(
            f"{dice.choice(FIELDS)}={quote(dice.choice(WORDS))}" for _ in range(dice.randrange(4))
        )
        method = dice.choice(METHODS)
        sent = dice.choice(HEADERS)
        answer = head.ask(method, f"{path}?{query}", _body(dice), sent)
        allowed = answer.status < 500 or answer.status == 501  # logs of another machine
        assert allowed, (method, path[:200], query[:200], sent, answer.status, answer.text[:500])


def test_no_request_breaks_the_server(head: Head) -> None:
    dice = random.Random(14)
    _round(head, dice, 300)
    before = _resident_kib(head)
    _round(head, dice, 600)
    grown = _resident_kib(head) - before
    assert grown < 8 << 10, f"{grown} KiB more after 600 requests"
    assert head.get("/api/jobs/") == []
    assert head.ask("GET", "/api/healthz", token=False).status == 200


def test_an_idle_head_is_small(head: Head) -> None:
    """The whole daemon, after the requests above: 12 MB where this was written."""
    assert _resident_kib(head) < 25 << 10

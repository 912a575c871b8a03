"""``heliostat metrics``: a Prometheus that reads every node (contract F6.33)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.helpers.commands import CLI, ran
from tests.helpers.harness import free_port, wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.33"),
    pytest.mark.heliostat_only("Ray downloads Prometheus, and takes no address"),
]

# Stands for Prometheus: does what its configuration says once, and waits for the end.
PRETENDED = """#!{python}
import json, re, sys, time, urllib.request

given = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:])
text = open(given["config.file"]).read()
url = json.loads(re.search(r"url: (.*)", text)[1])
token = open(json.loads(re.search(r"credentials_file: (.*)", text)[1])).read()


def get(url):
    request = urllib.request.Request(url, headers={{"Authorization": "Bearer " + token}})
    return urllib.request.urlopen(request, timeout=60).read().decode()


(found,) = json.loads(get(url))
said = {{"job": found["labels"]["job"], "listens": given["web.listen-address"]}}
said["series"] = [get("http://" + target + "/metrics").count("# TYPE") for target in found["targets"]]
print(json.dumps(said), flush=True)
time.sleep(600)
"""


def run(env: dict[str, str], *args: str) -> tuple[int, str]:
    done = ran(
        [CLI, "metrics", *args],
        env=env,
        within=120,
    )
    return done.returncode, done.stdout


@pytest.fixture
def place(head: Head, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user who has that program for Prometheus."""
    (tmp_path / "bin").mkdir()
    binary = tmp_path / "bin/prometheus"
    binary.write_text(PRETENDED.format(python=sys.executable))
    binary.chmod(0o755)
    env = {**head.env, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    yield env
    run(env, "shutdown-prometheus", f"--folder={tmp_path / 'own'}")


def test_what_is_started_reads_every_node_and_ends(
    head: Head, place: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    folder, url = f"--folder={own}", f"--address=http://127.0.0.1:{head.web_port}"
    port = free_port()
    code, said = run(place, "launch-prometheus", url, folder, f"--port={port}")
    assert code == 0, said
    assert f"http://127.0.0.1:{port}" in said
    log = own / "prometheus.log"
    wait_until(lambda: "\n" in log.read_text(), what="what it reads")
    found = json.loads(log.read_text())
    assert found["job"] == "ray"
    assert found["listens"] == f"127.0.0.1:{port}"
    assert found["series"]
    assert min(found["series"]) > 20
    # The token is nobody else's.
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "token").stat().st_mode) == 0o600
    code, said = run(place, "launch-prometheus", url, folder, f"--port={port}")
    assert code == 1
    assert "runs already" in said
    code, said = run(place, "shutdown-prometheus", folder)
    assert (code, "has ended" in said) == (0, True), said
    code, said = run(place, "shutdown-prometheus", folder)
    assert (code, "No Prometheus" in said) == (0, True), said


def test_what_cannot_start_says_why(head: Head, place: dict[str, str], tmp_path: Path) -> None:
    folder, url = f"--folder={tmp_path / 'own'}", f"--address=http://127.0.0.1:{head.web_port}"
    without = {**place, "PATH": str(Path(CLI).parent)}
    code, said = run(without, "launch-prometheus", url, folder)
    assert code == 1
    assert "Prometheus is not installed here" in said
    assert "metrics config" in said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = run(place, "launch-prometheus", url, folder, f"--port={port}")
    assert (code, said) == (
        1,
        f"Prometheus cannot listen at 127.0.0.1:{port}: Address already in use. Give another --port.\n",
    )
    (tmp_path / "bin/prometheus").write_text("#!/bin/sh\necho no room for the data >&2\nexit 2\n")
    code, said = run(place, "launch-prometheus", url, folder)
    assert (code, said) == (1, "Prometheus has ended: no room for the data\n")
    code, said = run(place, "config", f"--address=http://127.0.0.1:{free_port()}", folder)
    assert code == 1
    assert said.startswith("Failed to connect")


@pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed",
)
def test_prometheus_itself_answers_queries_about_every_node(head: Head, tmp_path: Path) -> None:
    folder, url = f"--folder={tmp_path / 'own'}", f"--address=http://127.0.0.1:{head.web_port}"
    code, said = run(head.env, "config", url, folder)
    assert code == 0, said
    subprocess.run(["promtool", "check", "config", said.strip()], check=True, timeout=60)
    port = free_port()
    code, said = run(head.env, "launch-prometheus", url, folder, f"--port={port}", "--every=1s")
    assert code == 0, said

    def ask(query: str) -> list[Any]:
        where = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(where, timeout=60) as answer:
                found: list[Any] = json.loads(answer.read())["data"]["result"]
        except OSError:
            return []  # it starts
        return found

    try:
        for query in (
            "sum(ray_node_mem_used_host) / on() sum(ray_node_mem_total_host) * 100 > 0",
            'sum(ray_resources{Name="CPU",State="AVAILABLE"}) by (instance) > 0',
            "sum(rate(ray_memory_manager_worker_eviction_total[10s])) == 0",
            "sum(autoscaler_active_nodes) by (NodeType) == 1",
        ):
            wait_until(lambda query=query: ask(query), what=query)
    finally:
        run(head.env, "shutdown-prometheus", folder)

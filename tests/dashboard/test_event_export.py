"""What happens in a cluster goes to the collector of KubeRay's history server, as that takes it from Ray."""

from __future__ import annotations

import base64
import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import web
from tests.helpers.commands import CLI
from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.31"),
    pytest.mark.heliostat_only(
        "the collector takes them in the form that was taken down from Ray 2.60"
    ),
]

ADDRESS = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
MEASUREMENTS = "HELIOSTAT_OTLP_METRICS"
TYPES = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
# As KubeRay's example of a cluster with a collector has it.
ALL = """TASK_DEFINITION_EVENT,TASK_LIFECYCLE_EVENT,ACTOR_TASK_DEFINITION_EVENT,
         TASK_PROFILE_EVENT,DRIVER_JOB_DEFINITION_EVENT,DRIVER_JOB_LIFECYCLE_EVENT,
         ACTOR_DEFINITION_EVENT,ACTOR_LIFECYCLE_EVENT,NODE_DEFINITION_EVENT,NODE_LIFECYCLE_EVENT"""

PROGRAM = """
    import sys
    import ray
    from ray.exceptions import RayTaskError

    ray.init("auto", namespace="team", logging_level="error")

    @ray.remote
    def good():
        return 1

    @ray.remote(max_retries=0)
    def bad():
        raise ValueError("no")

    @ray.remote(num_cpus=0)
    class Counter:
        def count(self):
            return 1

    assert ray.get([good.remote() for _ in range(3)]) == [1, 1, 1]
    counter = Counter.options(name="named").remote()
    assert ray.get(counter.count.remote()) == 1
    try:
        ray.get(bad.remote())
    except RayTaskError:
        print("ready", flush=True)
    sys.stdin.read()
"""


class Collector(http.server.ThreadingHTTPServer):
    """Takes events as KubeRay's does: what it would not take is refused, and kept for the test."""

    def __init__(self, busy: int = 0) -> None:
        self.events: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.measured: list[dict[str, Any]] = []
        self.busy, self.turned_away = busy, 0
        super().__init__(("127.0.0.1", 0), _Taking)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_port}/v1/events"

    def points(self, name: str, **attributes: str) -> list[dict[str, Any]]:
        """The points of a measurement with those attributes, as they were told last."""
        wanted = attributes.items()
        return [
            point
            for resource in (self.measured or [{"resourceMetrics": []}])[-1]["resourceMetrics"]
            for scope in resource["scopeMetrics"]
            for metric in scope["metrics"]
            if metric["name"] == name
            for kind in ("gauge", "sum", "histogram")
            for point in metric.get(kind, {}).get("dataPoints", [])
            if wanted <= _texts(point["attributes"] + resource["resource"]["attributes"]).items()
        ]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["eventType"] == kind]

    def states(self, kind: str, body: str, key: str) -> dict[str, list[str]]:
        """The states of each thing, by its id, in the order in which they were."""
        found: dict[str, list[str]] = {}
        for event in self.of(kind):
            states = event[body]["stateTransitions"]
            found.setdefault(event[body][key], []).extend(one["state"] for one in states)
        return found


def _texts(attributes: list[dict[str, Any]]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in attributes}


class _Taking(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        why = self._wrong(body)
        if why:
            self.server.refused.append(why)
        status = 400 if why else 503 if self.server.turned_away < self.server.busy else 200
        self.server.turned_away += status == 503
        if status == 200 and self.path == "/v1/metrics":
            self.server.measured.append(json.loads(body))
        elif status == 200:
            self.server.events.extend(json.loads(body))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _wrong(self, body: bytes) -> str:
        if self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/json":
            return ""
        if self.path != "/v1/events" or self.headers["Content-Type"] != "application/json":
            return f"{self.path} {self.headers['Content-Type']}"
        for event in json.loads(body):
            if not re.fullmatch(r"[A-Za-z0-9._-]+", event["sessionName"]):
                return f"sessionName {event['sessionName']}"
            datetime.strptime(event["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
        return ""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector(busy=2)
    yield collector
    collector.shutdown()
    collector.server_close()


@pytest.fixture
def head(collector: Collector) -> Iterator[Head]:
    head = web.new()
    measured = {
        MEASUREMENTS: f"http://localhost:{collector.server_port}",
        f"{MEASUREMENTS}_EVERY_S": "1",
    }
    head.env.update({ADDRESS: collector.url, TYPES: ALL, **measured})
    head.start()
    yield head
    web.end(head)


def program(head: Head, path: Path) -> subprocess.Popen[str]:
    path.write_text(textwrap.dedent(PROGRAM))
    return subprocess.Popen(
        [sys.executable, str(path)],
        env={**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def hexed(id_: str) -> str:
    return base64.b64decode(id_).hex()


def test_a_collector_gets_what_happened(head: Head, collector: Collector, tmp_path: Path) -> None:
    running = program(head, tmp_path / "program.py")
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n", head.logs()

    def tasks() -> dict[str, list[str]]:
        return collector.states("TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", "taskId")

    def ended() -> list[str]:
        return sorted(states[-1] for states in tasks().values() if states)

    wait_until(
        lambda: ended() == ["FAILED", *["FINISHED"] * 4],
        every=0.2,
        what="five calls have ended",
    )
    (alive,) = head.get("/api/v0/nodes")["data"]["result"]["result"]

    def finished() -> float:
        told = collector.points("ray_tasks", Name="good", State="FINISHED")
        return sum(point["asDouble"] for point in told)

    wait_until(lambda: finished() == 3, what="the calls in measurements")
    session = {"SessionName": head.session().name, "service.name": "heliostat"}
    (memory,) = collector.points("ray_node_mem_total", **session)
    assert memory["asDouble"] > 1 << 20
    assert int(memory["timeUnixNano"]) > 1e18
    running.communicate("", timeout=60)
    jobs = ("DRIVER_JOB_LIFECYCLE_EVENT", "driverJobLifecycleEvent", "jobId")
    wait_until(
        lambda: list(collector.states(*jobs).values()) == [["CREATED", "FINISHED"]],
        every=0.2,
        what="the job has ended",
    )
    actors = ("ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent", "actorId")
    wait_until(
        lambda: [states[-1] for states in collector.states(*actors).values()] == ["DEAD"],
        every=0.2,
        what="the actor has ended with its job",
    )
    head.run("stop")
    assert not collector.refused
    assert collector.turned_away == 2, "what was turned away came again"
    assert len({event["eventId"] for event in collector.events}) == len(collector.events)
    assert {event["sessionName"] for event in collector.events} == {head.session().name}

    node = collector.of("NODE_DEFINITION_EVENT")
    assert len(node) == 1
    assert node[0]["nodeDefinitionEvent"]["nodeIpAddress"] == alive["node_ip"]
    assert hexed(node[0]["nodeId"]) == alive["node_id"]
    assert collector.states("NODE_LIFECYCLE_EVENT", "nodeLifecycleEvent", "nodeId") == {
        node[0]["nodeId"]: ["ALIVE"]
    }
    (job,) = collector.of("DRIVER_JOB_DEFINITION_EVENT")
    assert "program.py" in job["driverJobDefinitionEvent"]["entrypoint"]
    assert job["driverJobDefinitionEvent"]["driverPid"] == str(running.pid)
    (actor,) = collector.of("ACTOR_DEFINITION_EVENT")
    told = actor["actorDefinitionEvent"]
    assert (told["className"], told["name"], told["rayNamespace"]) == ("Counter", "named", "team")
    names = [
        event["taskDefinitionEvent"]["taskName"]
        for event in collector.of("TASK_DEFINITION_EVENT")
        if event["taskDefinitionEvent"]["taskType"] == "NORMAL_TASK"
    ]
    assert sorted(names) == ["bad", "good", "good", "good"]
    (method,) = collector.of("ACTOR_TASK_DEFINITION_EVENT")
    assert method["actorTaskDefinitionEvent"]["actorTaskName"] == "Counter.count"
    assert hexed(method["actorTaskDefinitionEvent"]["actorId"]) == hexed(told["actorId"])
    for states in tasks().values():
        assert len(states) == len(set(states)), "each state once"
        assert states[:2] == ["PENDING_ARGS_AVAIL", "RUNNING"]
    errors = [
        event["taskLifecycleEvent"]["rayErrorInfo"]
        for event in collector.of("TASK_LIFECYCLE_EVENT")
        if "rayErrorInfo" in event["taskLifecycleEvent"]
    ]
    assert [error["errorType"] for error in errors] == ["TASK_EXECUTION_EXCEPTION"]
    assert "ValueError: no" in errors[0]["errorMessage"]
    spans = [
        span
        for event in collector.of("TASK_PROFILE_EVENT")
        for span in event["taskProfileEvents"]["profileEvents"]["events"]
    ]
    assert all(int(span["startTime"]) <= int(span["endTime"]) for span in spans)
    assert sorted(span["eventName"] for span in spans) == [
        "task::Counter.count",
        "task::bad",
        *["task::good"] * 3,
    ]


def test_a_collector_finds_the_session(head: Head) -> None:
    """It looks for its own node at the head, for a session that runs, and for the zone of the times."""
    session = head.session()
    assert re.fullmatch(r"session_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}_\d{6}\w*", session.name)
    assert (session / "logs").is_dir()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(session / "sockets" / "raylet"))
    (node,) = head.get("/api/v0/nodes?limit=10000")["data"]["result"]["result"]
    assert node["node_ip"]
    assert node["state"] == "ALIVE"
    assert head.get("/timezone") == {"offset": "+00:00", "value": "Etc/UTC"}
    assert head.get("/api/v0/cluster_metadata")["data"]["sessionName"] == session.name
    assert head.get("/events") == {
        "result": True,
        "msg": "All events fetched.",
        "data": {"events": {"global": []}},
    }


def test_failures_are_a_file_among_the_logs(head: Head, tmp_path: Path) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text(
        textwrap.dedent("""
            import os
            import ray

            ray.init("auto", logging_level="error")

            @ray.remote(max_retries=0)
            def die():
                os._exit(3)

            try:
                ray.get(die.remote())
            except ray.exceptions.WorkerCrashedError:
                pass
        """)
    )
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    subprocess.run([sys.executable, str(dying)], env=env, timeout=120, check=True)
    file = head.session() / "logs" / "events" / "event_GCS.log"
    line = wait_until(lambda: file.exists() and file.read_text(), every=0.2, what="a line for it")
    event = json.loads(line.splitlines()[0])
    assert event["severity"] == "ERROR"
    assert int(event["timestamp"]) > 1_700_000_000
    shown = head.get("/events")["data"]["events"]["global"]
    assert [one["eventId"] for one in shown] == [event["event_id"]]


@pytest.mark.parametrize("setting", [ADDRESS, MEASUREMENTS])
def test_an_address_that_events_cannot_go_to_is_refused(setting: str) -> None:
    head = web.new()
    head.env[setting] = "localhost:8084"
    said = head.run(
        "start", "--head", f"--port={head.port}", f"--dashboard-port={head.web_port}", check=False
    )
    web.end(head)
    assert said.returncode != 0
    assert setting.removeprefix("RAY_").removeprefix("HELIOSTAT_") in said.stdout
    assert "http://HOST:PORT/PATH" in said.stdout


def test_a_pod_that_joins_has_its_logs_under_the_heads_session(head: Head) -> None:
    """The collector stores a pod's logs under the name of its session's folder."""
    home = Path(tempfile.mkdtemp(prefix="pod", dir="/tmp"))
    env = {**head.env, "RAY_TMPDIR": str(home), "RAY_CLUSTER_NAME": "team"}
    joining = [CLI, "start", f"--address=127.0.0.1:{head.port}", "--num-cpus=1"]
    stopping = [CLI, "stop", "--force"]
    try:
        subprocess.run(joining, env=env, stdin=subprocess.DEVNULL, timeout=120, check=True)
        session = (home / "ray" / "session_latest").resolve()
        assert session.name == head.session().name
        assert (session / "logs" / "node.log").exists()
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(session / "sockets" / "raylet"))
    finally:
        subprocess.run(stopping, env=env, timeout=120, check=False)
        shutil.rmtree(home, ignore_errors=True)

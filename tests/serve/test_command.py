"""The command `serve` and the REST routes, against a head that an operator has started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeInstanceDetails

from tests.helpers import web as heads
from tests.helpers.harness import IS_HELIOSTAT, free_port
from tests.helpers.serving import Client

# A deadline against a hang.
S = 90
COMMAND = (
    [sys.executable, "-m", "heliostat.serve.scripts"]
    if IS_HELIOSTAT
    else [str(Path(sys.executable).parent / "serve")]
)
CODE = """
from ray import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Greeter:
    def __init__(self, word="hello"):
        self.word = word
    def reconfigure(self, config):
        self.word = config["word"]
    def __call__(self, request):
        return self.word + " " + request.query_params.get("name", "world")

app = Greeter.bind()

def build(args: dict):
    return Greeter.bind(args.get("word", "none"))

def broken(args: dict):
    raise ValueError("on purpose")
"""


class Cluster:
    """A head, a folder of code that its workers import, and the command."""

    def __init__(self, head: heads.Head, folder: Path) -> None:
        self.head, self.folder, self.port = head, folder, free_port()
        (folder / "greeting.py").write_text(CODE)
        head.env["PYTHONPATH"] = os.pathsep.join((str(folder), head.env.get("PYTHONPATH", "")))
        head.env["RAY_DASHBOARD_ADDRESS"] = head.url
        self.web = Client(self.port)

    def popen(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self.head.env, "PYTHONUNBUFFERED": "1"},
            cwd=self.folder,
        )

    def serve(self, *args: str, code: int = 0) -> str:
        process = self.popen(*args)
        said, _ = process.communicate(timeout=S)
        assert process.returncode == code, said
        return said

    def file(self, *apps: dict[str, Any], name: str = "config.yaml", **fields: Any) -> str:
        config = {
            **fields,
            "http_options": {"host": "127.0.0.1", "port": self.port},
            "applications": list(apps),
        }
        (self.folder / name).write_text(yaml.safe_dump(config))
        return name

    def details(self) -> Any:
        return self.head.get("/api/serve/applications/")

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + S
        while not condition():
            assert time.monotonic() < deadline, self.details()
            time.sleep(0.1)

    def until_status(self, name: str, status: str) -> Any:
        def reached() -> bool:
            return bool(self.details()["applications"].get(name, {}).get("status") == status)

        self.until(reached)
        return self.details()["applications"][name]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(heads.new(), tmp_path)
    made.head.start()
    yield made
    heads.end(made.head)


@pytest.mark.contract("F12.07", "F12.08")
def test_a_file_is_deployed_changed_and_shut_down(cluster: Cluster) -> None:
    greeter = {"name": "Greeter", "num_replicas": 2}
    app = {
        "name": "one",
        "route_prefix": "/one",
        "import_path": "greeting:build",
        "args": {"word": "hi"},
        "deployments": [greeter],
    }
    assert cluster.details()["applications"] == {}
    assert "No Serve instance" in cluster.serve("shutdown", "-y")
    assert "Sent deploy request" in cluster.serve("deploy", cluster.file(app))
    row = cluster.until_status("one", "RUNNING")
    assert cluster.web.get("/one?name=you").text == "hi you"
    assert row["source"] == "declarative" or not IS_HELIOSTAT
    assert row["deployed_app_config"]["args"] == {"word": "hi"}
    replicas = {one["replica_id"] for one in row["deployments"]["Greeter"]["replicas"]}
    assert len(replicas) == 2

    whole = ServeInstanceDetails.model_validate(cluster.details())
    [node] = whole.proxies
    for one in whole.applications["one"].deployments["Greeter"].replicas:
        assert one.node_id == node
        assert one.worker_id
        assert one.log_file_path is not None
        assert one.log_file_path.startswith("/serve/replica_one_Greeter")
    fares = whole.controller_health_metrics
    assert fares.num_control_loops > 0
    assert fares.loop_duration_s.max >= fares.loop_duration_s.mean > 0
    assert 0 < fares.controller_start_time <= fares.last_control_loop_time <= fares.timestamp
    assert fares.process_memory_mb > 1
    told = yaml.safe_load(cluster.serve("controller-health"))
    assert set(told) == set(fares.model_dump())
    assert json.loads(cluster.serve("controller-health", "--json"))["uptime_s"] > told["uptime_s"]
    [group] = whole.target_groups
    assert (group.protocol, group.route_prefix) == ("HTTP", "/")
    assert [one.port for one in group.targets] == [cluster.web.port]
    topology = whole.applications["one"].deployment_topology
    assert topology.ingress_deployment == "Greeter"
    assert topology.nodes["Greeter"].outbound_deployments == []
    # What nobody has said applies, and is told, too.
    deployment = cluster.details()["applications"]["one"]["deployments"]["Greeter"]
    said = deployment["deployment_config"]
    assert said["backpressure_config"] == {"status_code": 503, "retry_after_s": None}
    assert said["request_router_config"]["initial_backoff_s"] == 0.025
    assert said["ray_actor_options"] == {"num_cpus": 0}
    for actor in (whole.controller_info, *whole.proxies.values()):
        assert actor.log_file_path

    status = yaml.safe_load(cluster.serve("status"))
    assert set(status["proxies"].values()) == {"HEALTHY"}
    shown = status["applications"]["one"]
    assert shown["status"] == "RUNNING"
    assert shown["deployments"]["Greeter"]["status"] == "HEALTHY"
    assert shown["deployments"]["Greeter"]["replica_states"] == {"RUNNING": 2}
    assert yaml.safe_load(cluster.serve("status", "-n", "one")) == shown
    assert yaml.safe_load(cluster.serve("config"))["deployments"] == [greeter]
    assert "No config has been deployed" in cluster.serve("config", "-n", "none")

    # Options alone: the replicas stay. A second application comes, and later the first one goes.
    greeter["user_config"] = {"word": "changed"}  # type: ignore[assignment] # of a mapping
    two = {"name": "two", "route_prefix": "/two", "import_path": "greeting:app"}
    cluster.serve("deploy", cluster.file(app, two))
    cluster.until(lambda: cluster.web.get("/one").text == "changed world")
    row = cluster.until_status("two", "RUNNING")
    row = cluster.until_status("one", "RUNNING")
    assert {one["replica_id"] for one in row["deployments"]["Greeter"]["replicas"]} == replicas
    cluster.serve("deploy", cluster.file(two))
    cluster.until(lambda: "one" not in cluster.details()["applications"])
    assert cluster.web.get("/one").status == 404
    assert cluster.web.get("/two").text == "hello world"

    # A share of four replicas.
    two["deployments"] = [{"name": "Greeter", "num_replicas": 4}]  # type: ignore[assignment]
    cluster.serve("deploy", cluster.file(two, target_capacity=50))
    cluster.until(lambda: cluster.details()["target_capacity"] == 50)
    row = cluster.until_status("two", "RUNNING")
    assert row["deployments"]["Greeter"]["target_num_replicas"] == 2
    assert yaml.safe_load(cluster.serve("status"))["target_capacity"] == 50

    cluster.serve("shutdown", "-y")
    cluster.until(lambda: cluster.details()["applications"] == {})


@pytest.mark.contract("F12.07")
def test_a_shutdown_where_there_is_no_cluster_is_no_failure() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    for words, code in ((["shutdown", "-y"], 0), (["status"], 1)):
        done = subprocess.run(
            [*COMMAND, *words, "--address", address], capture_output=True, text=True, timeout=S
        )
        assert done.returncode == code, done
        assert address in done.stderr + done.stdout


@pytest.mark.contract("F12.07", "F12.08")
def test_what_cannot_be_is_said(cluster: Cluster) -> None:
    said = cluster.serve("deploy", "nothing", code=1)
    assert "import_path" in said
    (cluster.folder / "bad.yaml").write_text("applications: [{import_path: 'a:b', name: 3}]")
    assert "applications[0].name" in cluster.serve("deploy", "bad.yaml", code=1) or (
        not IS_HELIOSTAT
    )
    answer = cluster.head.ask("PUT", "/api/serve/applications/", json.dumps({"applications": 1}))
    assert (answer.status, "applications" in answer.text) == (400, True)
    assert cluster.head.ask("PUT", "/api/serve/applications/", "no JSON").status == 400
    assert cluster.head.ask("GET", "/api/serve/applications/?api_type=x").status == 400
    assert cluster.head.ask("GET", "/api/serve/applications/", token=False).status == 401

    app = {"name": "one", "import_path": "greeting:broken"}
    cluster.serve("deploy", cluster.file(app))
    assert "on purpose" in cluster.until_status("one", "DEPLOY_FAILED")["message"]
    app["import_path"] = "greeting:app"
    wrong = {**app, "deployments": [{"name": "Other"}]}
    cluster.serve("deploy", cluster.file(wrong))
    cluster.until(lambda: "Other" in cluster.details()["applications"]["one"]["message"])
    cluster.serve("deploy", cluster.file(app))
    cluster.until_status("one", "RUNNING")
    assert cluster.web.get("/").text == "hello world"


@pytest.mark.contract("F12.06", "F12.07")
def test_a_scaler_outside_says_how_many_replicas_there_are(cluster: Cluster) -> None:
    path = "/api/v1/applications/{}/deployments/{}/scale"

    def scale(body: str, app: str = "one", name: str = "Greeter", **options: bool) -> Any:
        return cluster.head.ask("POST", path.format(app, name), body, **options)

    assert scale('{"target_num_replicas": 2}').status == 503
    one = {"name": "one", "import_path": "greeting:app", "external_scaler_enabled": True}
    other = {"name": "other", "import_path": "greeting:app", "route_prefix": "/other"}
    cluster.serve("deploy", cluster.file(one, other))
    for name in ("one", "other"):
        cluster.until_status(name, "RUNNING")

    def replicas() -> list[str]:
        found = cluster.details()["applications"]["one"]["deployments"]["Greeter"]["replicas"]
        return sorted(row["state"] for row in found)

    for number in (3, 0, 1):
        answer = scale(json.dumps({"target_num_replicas": number}))
        assert (answer.status, "Scaling request" in answer.json()["message"]) == (200, True)
        cluster.until(lambda number=number: replicas() == ["RUNNING"] * number)
    # Those that have ended are told of for a while, so that their logs are found.
    [greeter] = cluster.details()["applications"]["one"]["deployments"].values()
    ended = greeter["recent_dead_replicas"]
    assert len(ended) >= 3
    assert all(one["log_file_path"] and one["actor_id"] for one in ended) or not IS_HELIOSTAT
    assert not {one["replica_id"] for one in ended} & {
        one["replica_id"] for one in greeter["replicas"]
    }
    applications = cluster.details()["applications"]
    assert [applications[name]["external_scaler_enabled"] for name in ("one", "other")] == [1, 0]

    answer = scale('{"target_num_replicas": 2}', app="other")
    assert (answer.status, "external_scaler_enabled" in answer.json()["error"]) == (412, True)
    for wrong in ({"app": "two"}, {"name": "Other"}):
        assert scale('{"target_num_replicas": 2}', **wrong).status == 404
    for body in ("", "[]", '{"target_num_replicas": -1}', '{"target_num_replicas": true}'):
        assert scale(body).status == 400
    assert scale('{"target_num_replicas": 2}', token=False).status == 401
    assert replicas() == ["RUNNING"]

    scaled = {"name": "Greeter", "autoscaling_config": {"max_replicas": 2}}
    cluster.serve("deploy", cluster.file({**one, "deployments": [scaled]}))
    cluster.until(
        lambda: "autoscaling_config" in cluster.details()["applications"]["one"]["message"]
    )


@pytest.mark.contract("F12.07")
def test_an_application_runs_and_follows_its_files(cluster: Cluster) -> None:
    address = f"--address=127.0.0.1:{cluster.head.port}"
    cluster.serve("start", address, f"--http-port={cluster.port}")
    run = cluster.popen("run", "--reload", address, "greeting:build", "word=first")
    try:
        cluster.until(lambda: cluster.web.get("/").text == "first world")
        code = CODE.replace('+ " " +', '+ ", " +')
        (cluster.folder / "greeting.py").write_text(code)
        cluster.until(lambda: cluster.web.get("/").text == "first, world")
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=S)
        assert "Got KeyboardInterrupt" in said
        assert cluster.details()["applications"] == {}
    finally:
        run.kill()
        run.wait()


@pytest.mark.contract("F12.07")
@pytest.mark.heliostat_only("Ray has no `serve delete`")
def test_one_application_is_deleted(cluster: Cluster) -> None:
    address = f"--address=127.0.0.1:{cluster.head.port}"
    cluster.serve("start", address, f"--http-port={cluster.port}")
    cluster.serve("run", "--non-blocking", "--name=a", address, "greeting:app")
    assert cluster.web.get("/").text == "hello world"
    assert cluster.details()["applications"]["a"]["source"] == "imperative"
    assert "does not exist" in cluster.serve("delete", "b", address, code=1)
    cluster.serve("delete", "a", address)
    assert cluster.details()["applications"] == {}
    assert cluster.web.get("/").status == 404


@pytest.mark.contract("F12.07")
def test_a_file_is_written_for_an_application(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(
        CODE.replace("@serve.deployment(", "@serve.deployment(max_ongoing_requests=9, ")
    )
    subprocess.run(
        [*COMMAND, "build", "-o", "made.yaml", "greeting:app"],
        cwd=tmp_path,
        check=True,
        timeout=S,
        capture_output=True,
    )
    made = yaml.safe_load((tmp_path / "made.yaml").read_text())
    [app] = made["applications"]
    assert (app["name"], app["route_prefix"], app["import_path"]) == ("app1", "/", "greeting:app")
    assert app["deployments"][0]["name"] == "Greeter"
    assert app["deployments"][0]["max_ongoing_requests"] == 9

"""Clusters as KubeRay's operator makes them, from examples/kubernetes: pods are ready and do their work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.machines.machines import Machines
from tests.machines.operator import AGENT, METRICS, SERVE, Operator, Pod, example

pytestmark = [
    pytest.mark.heliostat_only("machines of namespaces"),
    pytest.mark.contract("F6.31"),
]

# A pod's memory is bounded by its control group, a machine of namespaces sees all there is.
STORE = str(100 << 20)


@pytest.fixture
def operator(_can_make: None) -> Iterator[Operator]:
    field = Machines(1)
    operator = Operator(field)
    try:
        yield operator
    finally:
        operator.close()
        field.close()


def cluster_of(name: str = "cluster.yaml", **changes: Any) -> dict[str, Any]:
    cluster = example(name)
    return small(cluster, cluster["spec"] | changes)


def small(resource: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        group["rayStartParams"]["object-store-memory"] = STORE
    return {**resource, "spec": spec}


def rows(pod: Pod, what: str) -> list[dict[str, Any]]:
    listed = pod.command("ray", "list", what, "--format=json", "--detail").stdout
    found: list[dict[str, Any]] = json.loads(listed)
    return found


@pytest.mark.parametrize(
    ("mode", "version"), [("token", "2.55.0"), ("disabled", "2.46.0")], ids=["token", "open"]
)
@pytest.mark.contract("F6.11", "F6.22", "F6.23", "F6.25")
def test_every_pod_becomes_ready(operator: Operator, mode: str, version: str) -> None:
    """With the probes of old releases and of new ones, and with a token and without."""
    auth = {"mode": "token"} if mode == "token" else None
    cluster = cluster_of(rayVersion=version, authOptions=auth, enableInTreeAutoscaling=False)
    cluster["spec"]["workerGroupSpecs"][1]["replicas"] = 1
    operator.apply(cluster)
    pods = operator.wait_ready("team", 3)

    head = operator.head("team")
    nodes = {row["labels"].get("ray.io/node-group"): row for row in rows(head, "nodes")}
    assert nodes.keys() == {"headgroup", "small", "large"}
    assert nodes["large"]["resources_total"]["CPU"] == 4
    assert nodes["large"]["resources_total"]["disk"] == 1
    assert nodes["small"]["resources_total"]["memory"] == 2 << 30
    assert nodes["headgroup"]["resources_total"].get("CPU", 0) == 0

    # The operator itself, and a job of a driver in the head's pod.
    status, text = operator.ask("team", "GET", "/api/jobs/")
    assert (status, json.loads(text)) == (200, [])
    program = "import ray; ray.init(); print(ray.get(ray.remote(lambda: 7 * 6).remote()))"
    assert head.command("python", "-c", program).stdout == "42\n"

    token = operator.tokens.get("team", "none")
    for pod in pods:
        ip = pod.machine.ip
        # Prometheus: a PodMonitor reads without a token where the cluster asks for none.
        status, text = operator.fetch(ip, METRICS, "GET", "/metrics")
        assert status == (401 if mode == "token" else 200), text
        shown = {"Authorization": f"Bearer {token}"}
        assert operator.fetch(ip, METRICS, "GET", "/metrics", shown)[0] == 200
        assert operator.fetch(ip, AGENT, "GET", "/api/local_raylet_healthz") == (200, "success")
        said = operator.fetch(ip, AGENT, "GET", "/api/healthz?readiness=true")
        control = "success" if pod.is_head else "success (no local gcs)"
        assert said == (200, f"raylet: success\ngcs: {control}")
        assert operator.fetch(ip, AGENT, "GET", "/api/jobs/")[0] == 404
        assert operator.fetch(ip, AGENT, "POST", "/api/healthz")[0] == 405

    # A daemon that hangs is not well.
    worker = operator.of("team", "small")[0]
    pid = worker.command("pgrep", "-f", "heliostat node").stdout.split()[0]
    worker.command("kill", "-STOP", pid)
    operator.until(lambda: not worker.is_ready, "team", f"the probe notices {pid}")
    worker.command("kill", "-CONT", pid)
    operator.until(lambda: worker.is_ready, "team", "the probe is answered again")


@pytest.mark.contract("F6.14", "F6.16")
@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_a_job_is_submitted_by_the_name_of_the_service(operator: Operator, mode: str) -> None:
    """RayJob: the operator waits for the head, a pod of its own submits and follows, the operator looks."""
    job = example("job.yaml")
    name, spec = job["metadata"]["name"], job["spec"]
    cluster = small({"metadata": {"name": name, "labels": {}}}, spec["rayClusterSpec"])
    cluster["spec"]["authOptions"] = {"mode": "token"} if mode == "token" else None
    operator.apply(cluster)
    operator.wait_ready(name, 2)

    environment = json.dumps(yaml.safe_load(spec["runtimeEnvYAML"]))
    address = f"http://{operator.service(name)}:8265"
    health = (
        f"import urllib.request; urllib.request.urlopen('{address}/api/gcs_healthz', timeout=5)"
    )
    # As `BuildJobSubmitCommand` puts it together.
    script = (
        f'until python -c "{health}" >/dev/null 2>&1 ; do echo waiting ; sleep 1 ; done ; '
        f"if ! ray job status --address {address} nightly-x1 >/dev/null 2>&1 ; then "
        f"ray job submit --address {address} --no-wait --runtime-env-json {json.dumps(environment)} "
        f"--metadata-json {json.dumps(json.dumps({'team': 'a'}))} --submission-id nightly-x1 "
        f"--entrypoint-num-cpus 1.000000 -- {spec['entrypoint']} ; fi ; "
        f"ray job logs --address {address} --follow nightly-x1"
    )
    submitter = operator.submitter(name)
    for _ in range(2):  # Kubernetes may start it again
        submitter.run("submit", "/bin/bash", "-ce", "--", script)
        assert submitter.containers["submit"].wait(120) == 0, submitter.log("submit")
    assert submitter.log("submit").count("14\n") == 2, submitter.log("submit")
    status, text = operator.ask(name, "GET", "/api/jobs/nightly-x1")
    told = json.loads(text)
    assert (status, told["status"], told["metadata"]) == (200, "SUCCEEDED", {"team": "a"})
    # A browser within Kubernetes knows the head by its service, too; names of others are refused.
    shown = {"Cookie": f"ray-authentication-token={operator.tokens.get(name, 'x')}"}
    browser = {"User-Agent": "Mozilla/5.0", **shown}
    for host, expect in ((f"{name}-head-svc:8265", 200), ("evil.example:8265", 421)):
        ip = operator.head(name).machine.ip
        assert operator.fetch(ip, 8265, "GET", "/api/jobs/", {"Host": host, **browser})[0] == expect


GREETER = """
import os
from ray import serve

@serve.deployment
class Greeter:
    async def __call__(self, request):
        return os.environ["RAY_CLOUD_INSTANCE_ID"]

app = Greeter.bind()
"""


KILL_CONTROLLER = """
import ray
ray.init()
ray.kill(ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve"), no_restart=False)
"""


@pytest.mark.contract("F12.08")
def test_a_service_answers_on_every_machine_with_a_replica(operator: Operator) -> None:
    """RayService: a worker's probe asks Serve's port of its own machine, the service sends requests there."""
    service = example("service.yaml")
    name, spec = service["metadata"]["name"], service["spec"]
    labels = {"ray.io/originated-from-crd": "RayService"}
    cluster = small({"metadata": {"name": name, "labels": labels}}, spec["rayClusterConfig"])
    code = operator.field.directory / "code"
    code.mkdir()
    (code / "greeter.py").write_text(GREETER)
    for group in (cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"][0]):
        container = group["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "PYTHONPATH", "value": str(code)}]
    operator.apply(cluster)
    operator.until(lambda: len(operator.of(name)) == 3, name, "pods")
    operator.until(lambda: operator.head(name).is_ready, name, "the head is ready")

    path = "/api/serve/applications/"
    status, text = operator.ask(name, "PUT", path, yaml.safe_load(spec["serveConfigV2"]))
    assert status == 200, text
    pods = operator.wait_ready(name, 3)

    def details() -> Any:
        status, text = operator.ask(name, "GET", f"{path}?api_type=declarative")
        assert status == 200, text
        return json.loads(text)

    def is_running() -> bool:
        found: bool = details()["applications"]["greeter"]["status"] == "RUNNING"
        return found

    operator.until(is_running, name, "the application runs")
    proxies = details()["proxies"].values()
    assert {row["node_ip"] for row in proxies} == {pod.machine.ip for pod in pods}
    assert {row["status"] for row in proxies} == {"HEALTHY"}
    workers = {pod.name for pod in pods if not pod.is_head}
    for pod in pods:
        # Each server sends requests to all replicas.
        ip = pod.machine.ip
        assert operator.fetch(ip, SERVE, "GET", "/-/healthz") == (200, "success")
        assert {operator.fetch(ip, SERVE, "GET", "/")[1] for _ in range(8)} == workers

    # A controller that dies takes no server along; the next one finds them, and tells them what changes.
    operator.head(name).command("python", "-c", KILL_CONTROLLER)
    operator.until(is_running, name, "the controller is back")

    def are_healthy() -> bool:
        rows = details()["proxies"].values()
        return [row["status"] for row in rows] == ["HEALTHY"] * 3

    operator.until(are_healthy, name, "the servers are found")
    for pod in pods:
        assert operator.fetch(pod.machine.ip, SERVE, "GET", "/")[0] == 200

    # A machine that is lost takes its server along, and its successor gets one.
    lost = operator.of(name, "replicas")[0]
    operator.lose(lost)
    operator.wait_ready(name, 3)
    for pod in operator.of(name):
        assert operator.fetch(pod.machine.ip, SERVE, "GET", "/")[0] == 200
    operator.check()


TASKS = """
import ray, sys
ray.init()

@ray.remote(num_cpus=1)
def hold(path):
    import os, time
    while not os.path.exists(path):
        time.sleep(0.05)
    return ray.get_runtime_context().get_node_id()

calls = [hold.remote(sys.argv[1]) for _ in range(3)]
print("used=" + str(len(set(ray.get(calls)))), flush=True)
"""


@pytest.mark.contract("F6.29", "F6.30", "F6.35")
def test_pods_come_for_what_waits_and_go_when_they_are_idle(operator: Operator) -> None:
    cluster = cluster_of()
    cluster["spec"]["autoscalerOptions"]["idleTimeoutSeconds"] = 3
    path = operator.apply(cluster)
    operator.wait_ready("team", 2)
    head = operator.head("team")
    operator.has_room.clear()

    gate = operator.field.directory / "gate"
    head.run("driver", "python", "-c", TASKS, str(gate))
    operator.until(lambda: _replicas(operator, path)["small"] == 3, "team", "pods are asked for")
    # Kubernetes has no room: whoever looks learns for what is waited.
    waits = "waiting for a node of type small, asked for "
    operator.until(
        lambda: waits in head.command("ray", "status").stdout, "team", "the status says it"
    )
    assert " 2 small, asked for " in head.command("ray", "status").stdout
    lines = [row for row in rows(head, "tasks") if row["state"].startswith("PENDING")]
    assert waits in head.command("heliostat", "why", lines[0]["task_id"]).stdout

    operator.has_room.set()
    operator.wait_ready("team", 4)

    def n_running() -> int:
        return sum(row["state"] == "RUNNING" for row in rows(head, "tasks"))

    operator.until(lambda: n_running() == 3, "team", "each pod has a task")
    gate.touch()
    operator.until(lambda: "used=3" in head.log("driver"), "team", "all pods are used")
    # Idle ones go, but for the least; each is drained first, so nothing is lost and nobody is killed.
    operator.until(lambda: len(operator.of("team", "small")) == 1, "team", "idle pods go")
    assert _replicas(operator, path)["small"] == 1
    doomed = [
        step for _, patch in operator.api.patches for step in patch if "workersTo" in str(step)
    ]
    assert any(step["value"]["workersToDelete"] for step in doomed)
    gone = [row for row in rows(head, "nodes") if row["state"] == "DEAD"]
    assert len(gone) == 2
    assert all("nothing to do" in row["state_message"] for row in gone), gone
    operator.check()


GANG = """
import ray
from ray.autoscaler.sdk import request_resources
ray.init()
group = ray.util.placement_group([{"CPU": 4}, {"CPU": 4}], strategy="STRICT_SPREAD")
too_many = ray.util.placement_group([{"CPU": 4}] * 3, strategy="STRICT_SPREAD")
ray.get(group.ready())
print("placed", flush=True)
ray.util.remove_placement_group(group)
ray.util.remove_placement_group(too_many)
request_resources(num_cpus=2, bundles=[{"disk": 1}])
print("requested", flush=True)
"""

NOTHING = "import ray; from ray.autoscaler import sdk; ray.init(); sdk.request_resources()"


@pytest.mark.contract("F6.29", "F6.35")
def test_gangs_come_as_a_whole_and_requested_resources_stay(operator: Operator) -> None:
    cluster = cluster_of()
    cluster["spec"]["autoscalerOptions"]["idleTimeoutSeconds"] = 2
    path = operator.apply(cluster)
    operator.wait_ready("team", 2)
    head = operator.head("team")
    head.run("driver", "python", "-c", GANG)
    operator.until(lambda: "requested" in head.log("driver"), "team", "the gang is placed")
    # One of the large ones is idle now and goes; the other one has the disk that is asked for.
    operator.until(lambda: len(operator.of("team", "large")) == 1, "team", "one of two goes")
    operator.until(
        lambda: "from request_resources()" in head.command("ray", "status").stdout,
        "team",
        "the status says what is asked for",
    )
    # The group of three was never more than two machines' worth.
    asked = [step["value"] for _, patch in operator.api.patches for step in patch]
    assert max(value for value in asked if isinstance(value, int)) == 2
    assert _replicas(operator, path)["small"] == 1
    head.command("python", "-c", NOTHING)
    operator.until(lambda: not operator.of("team", "large"), "team", "nothing is asked for")
    operator.check()


def _replicas(operator: Operator, path: str) -> dict[str, int]:
    operator.check()
    groups = operator.api.get(path)["spec"]["workerGroupSpecs"]
    return {group["groupName"]: group["replicas"] for group in groups}

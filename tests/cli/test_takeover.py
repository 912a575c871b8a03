"""What goes on beside the cluster's state when another head takes over: Serve, the page, jobs, code."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.job_submission import JobSubmissionClient

from tests.helpers import stores
from tests.helpers.harness import start_driver, wait_until
from tests.helpers.stores import Machine, Redis, lasting_port

pytestmark = [
    pytest.mark.contract("F5.10"),
    pytest.mark.heliostat_only("Ray's heads have no lease"),
]

DASHBOARD = ("--include-dashboard=true", "--dashboard-port=0")

SERVE = """
import sys
import ray
from ray import serve

ray.init(address="auto")

@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0, "resources": {"far": 0.1}})
class Answers:
    def __init__(self, said):
        self.said = said
    def __call__(self, request):
        return self.said

serve.start(http_options={"port": int(sys.argv[1])})
serve.run(Answers.bind(sys.argv[2]), name=sys.argv[2], route_prefix="/" + sys.argv[2])
states = {name: app.status.value for name, app in serve.status().applications.items()}
print("states=%s" % sorted(states.items()))
"""

# A job whose code came with it; what it makes outlives it, and has that code, too.
JOB = """
import ray
from helper import SAID

@ray.remote
def said():
    import helper
    return helper.SAID

@ray.remote(num_cpus=0, resources={"%s": 0.1})
class Keeper:
    def said(self):
        return ray.get(said.options(num_cpus=0, resources={"%s": 0.1}).remote())

ray.init()
keeper = Keeper.options(name="keeper %s", namespace="n", lifetime="detached").remote()
print("the job said", ray.get(keeper.said.remote()))
"""


@pytest.fixture
def machines(store: Redis) -> Iterator[list[Machine]]:
    variables = {**store.variables, "HELIOSTAT_CONTROL_LEASE_MS": "1000"}
    with stores.machines(variables, 4) as all_machines:
        yield all_machines


def join(worker: Machine, head: Machine, name: str) -> None:
    resources = json.dumps({name: 1})
    start = ("start", f"--address={head.address}", "--num-cpus=2", f"--resources={resources}")
    # A head whose store was slow for the length of its lease is silent for a moment.
    wait_until(lambda: worker.run(*start, check=False).returncode == 0, what="a node that joins")


def client(head: Machine) -> JobSubmissionClient:
    (session,) = head.sessions()
    token = (session / "auth_token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    return JobSubmissionClient(f"http://{head.ready()['webui_url']}", headers=headers)


def get(head: Machine, path: str) -> Any:
    (session,) = head.sessions()
    token = (session / "auth_token").read_text().strip()
    request = urllib.request.Request(
        f"http://{head.ready()['webui_url']}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


class Requests:
    """A client of Serve that asks again and again, and keeps what was answered other than well."""

    def __init__(self, url: str) -> None:
        self.url, self.count, self.wrong = url, 0, list[str]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._stop.wait(0.01):
            try:
                with urllib.request.urlopen(self.url, timeout=60) as answer:
                    said = answer.read().decode()
            except (urllib.error.URLError, OSError) as error:
                said = repr(error)
            if said != "first":
                self.wrong.append(said)
            self.count += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def serve(folder: Path, worker: Machine, port: int, name: str) -> str:
    driver = start_driver(folder, SERVE, args=[str(port), name], env=worker.env)
    return driver.finish().check().value("states")


def test_serve_the_page_and_jobs_go_on(machines: list[Machine], tmp_path: Path) -> None:
    first, second, worker, late = machines
    first.head(*DASHBOARD)
    join(worker, first, "far")
    second.standby(*DASHBOARD)
    port = lasting_port()
    assert serve(tmp_path, worker, port, "first") == "[('first', 'RUNNING')]"
    code = tmp_path / "code"
    code.mkdir()
    (code / "helper.py").write_text("SAID = 'from the package'\n")
    (code / "main.py").write_text(JOB % ("far", "far", "one"))
    (code / "later.py").write_text(JOB % ("late", "late", "two"))
    before = client(first)
    env: dict[str, Any] = {"working_dir": str(code)}
    ended = before.submit_job(entrypoint=f"{sys.executable} main.py", runtime_env=env)
    # What every node lists is in the store, and the log is there before it.
    wait_until(lambda: listed_at(worker).get(ended) == "SUCCEEDED", what="the end of the job")
    said = before.get_job_logs(ended)
    assert "the job said from the package" in said
    lost = before.submit_job(entrypoint="echo begun && sleep 600")
    wait_until(lambda: listed_at(worker).get(lost) == "RUNNING", what="a job that runs")
    requests = Requests(f"http://127.0.0.1:{port}/first")
    try:
        wait_until(lambda: requests.count > 20, what="requests")
        first.kill()
        wait_until(lambda: second.sessions() and second.ready().get("webui_url"), what="a head")
        count = requests.count
        wait_until(lambda: requests.count > count + 100, what="requests after the takeover")
        join(late, second, "late")
        assert (
            serve(tmp_path, worker, port, "second")
            == "[('first', 'RUNNING'), ('second', 'RUNNING')]"
        )
    finally:
        requests.stop()
    assert requests.wrong == []
    after = client(second)
    wait_until(lambda: len(after.list_jobs()) >= 2, what="the jobs of the head before")
    listed = {info.submission_id: info for info in after.list_jobs()}
    assert (listed[ended].status, listed[lost].status) == ("SUCCEEDED", "FAILED")
    assert after.get_job_logs(ended) == said
    assert f"job-driver-{lost}.log" in after.get_job_logs(lost)
    check_page(second)
    env = {"working_dir": dict(listed[ended].runtime_env)["working_dir"]}
    again = after.submit_job(entrypoint=f"{sys.executable} later.py", runtime_env=env)
    wait_until(lambda: after.get_job_status(again).is_terminal(), what="the end of another job")
    assert "the job said from the package" in after.get_job_logs(again)


def listed_at(machine: Machine) -> dict[str, str]:
    rows = json.loads(machine.run("list", "jobs", "--format", "json").stdout)
    return {row["submission_id"]: row["status"] for row in rows if row["submission_id"]}


def check_page(head: Machine) -> None:
    """What the page asks for is there at the head that has taken over."""
    nodes = get(head, "/api/v0/nodes")["data"]["result"]["result"]
    offered = {
        name for node in nodes if node["state"] == "ALIVE" for name in node["resources_total"]
    }
    assert {"far", "late"} <= offered
    actors = get(head, "/api/v0/actors")["data"]["result"]["result"]
    assert "keeper one" in {actor["name"] for actor in actors if actor["state"] == "ALIVE"}
    applications = get(head, "/api/serve/applications/")["applications"]
    assert {name: app["status"] for name, app in applications.items()} == {
        "first": "RUNNING",
        "second": "RUNNING",
    }
    for path in ("/api/cluster_status", "/nodes?view=summary", "/api/jobs/"):
        assert get(head, path)


# A driver that only knows the port for drivers, until the file is there.
AFAR = """
import os
import sys
import numpy as np
import ray

ray.init(sys.argv[1])

@ray.remote(num_cpus=0, resources={"far": 0.1}, max_restarts=0, max_task_retries=-1)
class Counter:
    def __init__(self):
        self.seen = set()
    def count(self, number):
        self.seen.add(number)
        return os.getpid(), number, len(self.seen)
    def total(self, values):
        return int(values.sum())

@ray.remote(num_cpus=0, resources={"far": 0.1})
def ones(size):
    return np.ones(size, dtype=np.uint8)

counter = Counter.remote()
pid, number, _ = ray.get(counter.count.remote(0))
kept, made = ray.put(np.ones(300_000, dtype=np.uint8)), ones.remote(400_000)
ray.wait([made])
print("ready=1", flush=True)
while not os.path.exists(sys.argv[2]):
    refs = [counter.count.remote(number + i) for i in range(1, 11)]
    answers = ray.get(refs)
    assert [answer[:2] for answer in answers] == [(pid, number + i) for i in range(1, 11)]
    # Calls whose replies were on their way to a head that died run again; none is left out.
    assert all(number + i < answer[2] <= number + 11 for i, answer in enumerate(answers, 1))
    number += 10
    assert ray.get([counter.total.remote(kept), counter.total.remote(made)]) == [300_000, 400_000]
    assert ray.get(ones.remote(150_000)).nbytes == 150_000
    with open(sys.argv[3], "w") as wave:
        wave.write(str(number))
print(f"calls={number}")
"""


def test_a_driver_outside_goes_on_when_a_head_takes_over_at_the_same_address(
    machines: list[Machine], tmp_path: Path
) -> None:
    first, second, worker, laptop = machines
    door = lasting_port()
    first.head(f"--ray-client-server-port={door}")
    join(worker, first, "far")
    # As behind a name or an address that follows the head.
    second.port = first.port
    second.standby(f"--ray-client-server-port={door}")
    stop, wave = tmp_path / "stop", tmp_path / "wave"
    (session,) = first.sessions()
    token = (session / "auth_token").read_text().strip()
    env = {**laptop.env, "HELIOSTAT_AUTH_TOKEN": token}
    args = [f"ray://127.0.0.1:{door}", str(stop), str(wave)]
    driver = start_driver(tmp_path, AFAR, args=args, env=env)
    driver.wait_line("ready", within=100)

    def waves() -> int:
        return int(wave.read_text() or 0) if wave.exists() else 0

    wait_until(lambda: waves() > 0, what="a wave")
    first.kill()
    wait_until(lambda: bool(second.sessions()), what="a head")
    before = waves()
    wait_until(
        lambda: waves() > before + 20 or driver.process.poll() is not None,
        what="waves after the takeover",
    )
    stop.touch()
    assert int(driver.finish().check().value("calls")) > before

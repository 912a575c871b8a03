"""State and logs over HTTP, in the shapes of Ray's clients and beyond."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import ray
from ray.util import state

from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.18", "F6.27"),
    pytest.mark.heliostat_only("Ray's dashboard needs packages that the tests do not install"),
]

DRIVER = """
import sys, time, ray
ray.init(namespace="n")

@ray.remote(num_cpus=0)
class Keeper:
    def __init__(self, number): self.number = number
    def say(self):
        print("\\x1b[31mred\\x1b[0m words of", self.number, flush=True)
        return self.number

@ray.remote
def work(n):
    print("work", n, flush=True)
    return n

@ray.remote(resources={"nowhere": 1})
def never(): ...

keepers = [Keeper.options(name=f"k{i}").remote(i) for i in range(3)]
print("said=%d" % sum(ray.get([keeper.say.remote() for keeper in keepers])), flush=True)
refs = [work.remote(i) for i in range(5)]
ray.get(refs)
waits = never.remote()
print("ready=1", flush=True)
sys.stdin.read()
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def busy(head: Head, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """The head with a driver, three actors, finished calls and one that waits."""
    from tests.helpers import harness

    driver = harness.start_driver(
        tmp_path_factory.mktemp("busy"),
        DRIVER,
        env={**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"},
    )
    try:
        driver.wait_line("ready", 90)
        yield head
    finally:
        driver.kill()


def listed(head: Head, resource: str, **query: Any) -> dict[str, Any]:
    said = head.get(f"/api/v0/{resource}?{urlencode(query, doseq=True)}")
    assert said["result"] is True
    found: dict[str, Any] = said["data"]["result"]
    return found


def equal(**columns: str) -> dict[str, list[str]]:
    return {
        "filter_keys": list(columns),
        "filter_predicates": ["="] * len(columns),
        "filter_values": list(columns.values()),
    }


def test_actors_are_listed_and_filtered(busy: Head) -> None:
    found = listed(busy, "actors", **equal(class_name="keeper"))
    assert [row["state"] for row in found["result"]] == ["ALIVE"] * 3
    assert found["num_filtered"] == 3
    one = listed(busy, "actors", detail=True, **equal(name="k1"))["result"]
    assert len(one) == 1
    assert one[0]["ray_namespace"] == "n"
    assert "why" not in one[0]


def test_pages_follow_each_other(busy: Head) -> None:
    whole = [
        row["actor_id"] for row in listed(busy, "actors", **equal(class_name="Keeper"))["result"]
    ]
    seen, after = [], {}
    while True:
        page = listed(busy, "actors", limit=1, **after, **equal(class_name="Keeper"))
        seen += [row["actor_id"] for row in page["result"]]
        if page["next"] is None:
            break
        after = {"next": page["next"]}
    assert seen == whole
    assert len(seen) == 3


def test_state_from_python_takes_the_heads_address(
    busy: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", busy.token)
    keepers = state.list_actors(busy.url, filters=[("class_name", "=", "Keeper")])
    assert [keeper.state for keeper in keepers] == ["ALIVE"] * 3
    assert state.get_actor(keepers[0].actor_id, address=busy.url).name == keepers[0].name
    assert [node.state for node in state.list_nodes(busy.url)] == ["ALIVE"]
    assert len(state.list_tasks(busy.url, limit=2)) == 2
    summary = state.summarize_tasks(busy.url)
    assert summary["cluster"]["summary"]["work"]["state_counts"] == {"FINISHED": 5}
    with pytest.raises(ConnectionError):
        state.list_nodes("http://127.0.0.1:1")


def test_commands_take_the_heads_http_address(busy: Head) -> None:
    def keepers(*where: str) -> set[str]:
        rows = busy.run("list", "actors", "--format=json", *where).stdout
        return {row["actor_id"] for row in json.loads(rows)}

    for url in (busy.url, f"{busy.url}/", busy.url.replace("127.0.0.1", "localhost")):
        assert keepers("--address", url) == keepers()
    assert "work" in busy.run("summary", "tasks", "--address", busy.url).stdout
    elsewhere = busy.run("list", "nodes", "--address", "http://127.0.0.1:1", check=False)
    assert elsewhere.returncode
    assert "no cluster on this machine answers at http://127.0.0.1:1" in elsewhere.stdout


def test_a_call_that_waits_says_why(busy: Head) -> None:
    rows = listed(busy, "tasks", detail=True, why=1, **equal(name="never"))["result"]
    assert len(rows) == 1
    assert rows[0]["state"].startswith("PENDING")
    assert "waits" in rows[0]["why"]


@pytest.mark.parametrize(
    "resource",
    [
        "actors",
        "tasks",
        "objects",
        "workers",
        "nodes",
        "jobs",
        "placement_groups",
        "runtime_envs",
        "cluster_events",
    ],
)
def test_every_list_answers(busy: Head, resource: str) -> None:
    found = listed(busy, resource, detail=True)
    assert found["total"] >= found["num_filtered"] == len(found["result"])
    assert found["partial_failure_warning"] == ""


def test_summaries_count(busy: Head) -> None:
    tasks = listed(busy, "tasks/summarize")["result"]["node_id_to_summary"]["cluster"]
    assert tasks["summary"]["work"]["state_counts"] == {"FINISHED": 5}
    actors = listed(busy, "actors/summarize")["result"]["node_id_to_summary"]["cluster"]
    assert actors["summary"]["Keeper"]["state_counts"] == {"ALIVE": 3}
    listed(busy, "objects/summarize")


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/v0/actors?limit=x", 400, "`limit`"),
        ("/api/v0/actors?limit=20000", 400, "`next`"),
        ("/api/v0/tasks?age=5000", 400, "`age`"),
        ("/api/v0/tasks/summarize?age=old", 400, "`age`"),
        ("/api/v0/actors?filter_keys=a", 400, "filter_values"),
        ("/api/v0/actors?filter_keys=a&filter_predicates=%3D&filter_values=b", 400, "`a`"),
        ("/api/v0/actors?next=nowhere", 400, "`next`"),
        ("/api/v0/tasks?next=nowhere", 400, "`next`"),
        ("/api/v0/actors?order=name", 400, "pid"),
        ("/api/v0/tasks?order=name", 400, "took, attempt_number"),
        ("/api/v0/cluster_events?order=message", 400, "no column of numbers"),
        ("/api/v0/tasks?ordr=took", 400, "did you mean `order`?"),
        ("/api/v0/tasks?colour=red", 400, "filter_values"),
        ("/api/v0/tasks?timeout=soon", 400, "`timeout`"),
        ("/api/v0/tasks?exclude_driver=perhaps", 400, "`exclude_driver`"),
        ("/api/v0/actors?filter_keys=pid&filter_predicates=%3D&filter_values=x", 400, "numbers"),
        ("/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=x", 400, "RUNNING"),
        ("/api/v0/tasks/summarize?filter_keys=name", 400, "summary_by"),
        ("/api/v0/tasks/summarize?summary_by=lineage", 400, "func_name"),
        ("/api/v0/tasks/timeline?job_id=x", 400, "`job_id`"),
        ("/api/v0/tasks/timeline?download=perhaps", 400, "`download`"),
        ("/api/v0/tasks/activity?job_id=x", 400, "`job_id`"),
        ("/api/v0/tasks/activity?most=all", 400, "`most`"),
        ("/api/v0/logs?detail=perhaps", 400, "`detail`"),
        ("/api/v0/logs/search?text=a&ignore_case=perhaps", 400, "`ignore_case`"),
        ("/api/v0/metrics/past?form=0", 400, "did you mean `from`?"),
        ("/api/v0/training?limit=1", 400, "it takes none"),
        ("/api/jobs/?status=RUNNING", 400, "it takes none"),
        ("/api/v0/cats", 404, "cats"),
        ("/api/v0/nodes/summarize", 404, "nodes"),
        ("/nodes/0000", 404, "0000"),
        ("/nodes?view=all", 400, "`view`"),
    ],
)
def test_what_makes_no_sense_is_named(busy: Head, path: str, status: int, says: str) -> None:
    answer = busy.ask("GET", path)
    assert answer.status == status
    assert says in answer.text


def test_what_rays_clients_send_is_taken(busy: Head) -> None:
    asked = {"limit": 5, "timeout": 30, "detail": False, "exclude_driver": True, "nocache": 1}
    assert listed(busy, "actors", **asked, **equal(state="ALIVE"))["result"]
    listed(busy, "tasks/summarize", timeout=30, summary_by="func_name")
    listed(busy, "objects/summarize", timeout=30, summary_by="callsite")
    actors = busy.get("/logical/actors")["data"]["actors"]
    one = next(iter(actors))
    assert set(busy.get(f"/logical/actors?ids={one}")["data"]["actors"]) == {one}
    for path in ("/api/cluster_status?format=1", "/nodes?view=hostNameList", "/api/version?x=1"):
        assert busy.ask("GET", path).status == 200, path


def test_nodes_and_the_cluster_have_figures(busy: Head) -> None:
    nodes = busy.get("/nodes?view=summary")["data"]["summary"]
    assert [node["raylet"]["state"] for node in nodes] == ["ALIVE"]
    assert nodes[0]["raylet"]["resourcesTotal"]["CPU"] == 2
    one = busy.get(f"/nodes/{nodes[0]['raylet']['nodeId']}")["data"]["detail"]
    assert one["raylet"]["isHeadNode"] is True
    status = busy.get("/api/cluster_status")["data"]["clusterStatus"]["loadMetricsReport"]
    assert status["usage"]["CPU"][1] == 2
    demand = [one for one in status["resourceDemand"] if "nowhere" in one["resources"]]
    assert demand[0]["count"] == 1
    assert demand[0]["why"]
    actors = busy.get("/logical/actors")["data"]["actors"].values()
    assert {actor["name"] for actor in actors} >= {"k0", "k1", "k2"}
    assert busy.get("/api/v0/cluster_metadata")["data"]["rayVersion"] == ray.__version__
    targets = busy.get("/api/prometheus/sd")[0]["targets"]
    assert len(targets) == 1
    assert busy.get("/api/v0/tasks/timeline?download=1")


def node_of(head: Head) -> str:
    found: str = listed(head, "nodes")["result"][0]["node_id"]
    return found


def test_log_files_are_listed_and_read(busy: Head) -> None:
    node = node_of(busy)
    kinds = busy.get(f"/api/v0/logs?node_id={node}")["data"]["result"]
    assert "node.err" in kinds["raylet"]
    only = busy.get(f"/api/v0/logs?node_id={node}&glob=node.*")["data"]["result"]
    assert set(only) == {"raylet"}

    actor = listed(busy, "actors", **equal(name="k1"))["result"][0]["actor_id"]
    path = f"/api/v0/logs/file?actor_id={actor}"
    text = wait_until(lambda: busy.ask("GET", path).text, what="the actor's words")
    assert text == "\x1b[31mred\x1b[0m words of 1\n"
    assert busy.ask("GET", f"{path}&filter_ansi_code=true").text == "red words of 1\n"

    rows = listed(busy, "tasks", **equal(name="work"))["result"]
    said = sorted(
        busy.ask("GET", f"/api/v0/logs/file?task_id={row['task_id']}").text for row in rows
    )
    assert said == [f"work {n}\n" for n in range(5)]


def test_names_of_logs_stay_in_their_folder(busy: Head) -> None:
    node = node_of(busy)
    for name in ("../auth_token", "/etc/passwd", "../../../../etc/passwd", "..", "nothing"):
        answer = busy.ask(
            "GET", f"/api/v0/logs/file?node_id={node}&filename={quote(name, safe='')}"
        )
        assert answer.status == 404, name
        assert busy.token not in answer.text
    for path, status in (
        ("/api/v0/logs", 400),
        ("/api/v0/logs?node_id=00", 404),
        ("/api/v0/logs/file", 400),
        ("/api/v0/logs/file?lines=x&filename=a", 400),
        ("/api/v0/logs/file?pid=x", 400),
        ("/api/v0/logs/file?actor_id=00", 404),
        ("/api/v0/logs/file?submission_id=none", 404),
        ("/api/v0/logs/tape", 404),
    ):
        answer = busy.ask("GET", path)
        assert answer.status == status, (path, answer.text)
        assert answer.text


def test_a_jobs_log_is_read_by_its_end(busy: Head) -> None:
    job = busy.ask("POST", "/api/jobs/", '{"entrypoint": "seq 1 1000"}').json()["submission_id"]
    wait_until(
        lambda: busy.get(f"/api/jobs/{job}")["status"] == "SUCCEEDED", what="the end of the job"
    )
    said = busy.ask("GET", f"/api/v0/logs/file?submission_id={job}&lines=2").text
    assert said == "999\n1000\n"
    assert busy.ask("GET", f"/api/v0/logs/file?submission_id={job}&lines=-1").text.startswith(
        "1\n2\n"
    )
    assert listed(busy, "jobs", **equal(submission_id=job))["num_filtered"] == 1

"""Submitted jobs wherever jobs are listed, with what they wait for, and `why` of what operators ask about."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.helpers.harness import kill_daemon, wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.15", "F6.16"),
]

LIST = """
import json, sys
import ray
from ray.util.state import get_job, list_jobs

ray.init(address=sys.argv[1], log_to_driver=False)
rows = list_jobs(detail=True, limit=1000)
print("rows=" + json.dumps([row.asdict() for row in rows]))
for wanted in sys.argv[2:]:
    print(f"{wanted}=" + json.dumps(get_job(wanted).asdict()))
"""


def submit(head: Head, entrypoint: str, **more: Any) -> str:
    body = json.dumps({"entrypoint": entrypoint, **more})
    answer = head.ask("POST", "/api/jobs/", body)
    assert answer.status == 200, answer.text
    made: str = answer.json()["submission_id"]
    return made


def job(head: Head, submission: str) -> dict[str, Any]:
    told: dict[str, Any] = head.get(f"/api/jobs/{submission}")
    return told


def listed(head: Head) -> dict[str, dict[str, Any]]:
    """What the command lists, by submission."""
    rows = json.loads(head.run("list", "jobs", "--format=json", "--detail").stdout)
    return {row["submission_id"]: row for row in rows if row["submission_id"]}


def test_submitted_jobs_are_listed_with_their_driver(head: Head, start_driver: Any) -> None:
    script = "import ray; ray.init(); print(ray.get(ray.remote(abs).remote(-1)))"
    good = submit(head, f'{sys.executable} -c "{script}"', metadata={"team": "a"})
    bad = submit(head, "echo before the end; exit 3")
    # At once, whatever it is doing.
    assert {good, bad} <= set(listed(head))
    for one in (good, bad):
        wait_until(lambda one=one: job(head, one)["end_time"], what="it has ended")
    rows = wait_until(lambda: rows if (rows := listed(head))[bad]["status"] == "FAILED" else None)
    assert rows[good]["type"] == rows[bad]["type"] == "SUBMISSION"
    assert rows[good]["status"] == "SUCCEEDED"
    assert rows[good]["message"] == "The job finished."
    assert rows[good]["metadata"]["team"] == "a"
    assert "exit code 3" in rows[bad]["message"]
    assert "before the end" in rows[bad]["message"]
    for row in (rows[good], rows[bad]):
        assert 0 < row["start_time"] <= row["end_time"]
    driver = (
        start_driver(LIST, args=[f"127.0.0.1:{head.port}", good, bad], env=head.env)
        .finish()
        .check()
    )
    seen = json.loads(driver.value("rows"))
    mine = {row["submission_id"]: row for row in seen if row["submission_id"]}
    assert mine[good]["job_id"]
    assert mine[good]["driver_info"]["id"] == mine[good]["job_id"]
    assert mine[bad]["job_id"] is None
    assert mine[bad]["status"] == "FAILED"
    drivers = [row for row in seen if row["type"] == "DRIVER"]
    assert mine[good]["job_id"] not in {row["job_id"] for row in drivers}, "it is one row"
    assert any(row["status"] == "RUNNING" for row in drivers), "this driver"
    assert json.loads(driver.value(good))["status"] == "SUCCEEDED"
    # The page and the jobs API say the same.
    for row in head.get("/api/v0/jobs?detail=true")["data"]["result"]["result"]:
        if row["submission_id"] == bad:
            assert row["status"] == "FAILED"
    assert head.ask("DELETE", f"/api/jobs/{bad}").status == 200
    assert bad not in listed(head)


@pytest.mark.heliostat_only("Ray calls such a job running")
def test_a_job_that_waits_for_resources_is_pending_and_says_for_which(head: Head) -> None:
    waits = submit(head, "echo ran", entrypoint_resources={"unheard_of": 1})

    def reason() -> str | None:
        told = job(head, waits)
        assert told["status"] == "PENDING", told
        return str(told["message"]) if "unheard_of" in told["message"] else None

    message = wait_until(reason, what="it says what it waits for")
    assert "waits for the resources of its entry point: no node has" in message
    row = wait_until(
        lambda: row if "unheard_of" in (row := listed(head)[waits])["message"] else None
    )
    assert row["status"] == "PENDING"
    said = head.run("why", waits).stdout
    assert "PENDING" in said
    assert "unheard_of" in said
    # With the resource it runs.
    address = f"--address=127.0.0.1:{head.port}"
    head.run("start", address, "--num-cpus=1", '--resources={"unheard_of": 1}')
    wait_until(lambda: job(head, waits)["status"] == "SUCCEEDED", what="it has run")
    assert head.ask("GET", f"/api/jobs/{waits}/logs").json()["logs"].endswith("ran\n")


@pytest.mark.heliostat_only("Ray has no such command")
def test_why_tells_of_jobs_nodes_and_deployments(own_head: Head, start_driver: Any) -> None:
    own_head.start()
    failed = submit(own_head, "exit 4")
    wait_until(lambda: job(own_head, failed)["end_time"])
    said = wait_until(
        lambda: said if "FAILED" in (said := own_head.run("why", failed).stdout) else None
    )
    assert "exit code 4" in said
    env = {**own_head.env, "RAY_TMPDIR": own_head.env["RAY_TMPDIR"]}
    address = f"127.0.0.1:{own_head.port}"
    own_head.run("start", f"--address={address}", "--num-cpus=1", '--resources={"other": 1}')
    nodes = json.loads(own_head.run("list", "nodes", "--format=json", "--detail").stdout)
    (other,) = [row["node_id"] for row in nodes if "other" in row["resources_total"]]
    assert "is ALIVE" in own_head.run("why", other).stdout
    own_head.run("drain-node", "--node-id", other, "--reason", "DRAIN_NODE_REASON_PREEMPTION",
                 "--reason-message", "the spot market")  # fmt: skip
    said = wait_until(
        lambda: said if "DEAD since" in (said := own_head.run("why", other).stdout) else None
    )
    assert "UTC" in said
    driver = start_driver(
        """
        import sys, threading, time
        import ray
        from ray import serve

        ray.init(address=sys.argv[1], log_to_driver=False)

        @serve.deployment(num_replicas=1, ray_actor_options={"resources": {"absent": 1}})
        class Stuck:
            def __call__(self):
                return "never"

        run = threading.Thread(target=serve.run, args=(Stuck.bind(),), kwargs={"name": "app"})
        run.daemon = True
        run.start()
        print("ready=yes", flush=True)
        time.sleep(1000)
        """,
        args=[address],
        env=env,
    )
    driver.wait_line("ready", within=100)
    for name in ("Stuck", "app"):
        said = wait_until(
            lambda name=name: (
                said
                if "absent" in (said := own_head.run("why", name, check=False).stdout)
                else None
            ),
            every=0.5,
            what="it says what the replica waits for",
        )
        assert "Stuck" in said
    driver.kill()


@pytest.mark.heliostat_only("Ray's head does not come back without Redis")
def test_the_list_outlives_a_restart_of_the_head(own_head: Head) -> None:
    own_head.start()
    done = submit(own_head, "true")
    wait_until(lambda: job(own_head, done)["end_time"])
    kill_daemon(own_head.session())
    own_head.start()
    rows = wait_until(
        lambda: rows if (rows := listed(own_head)).get(done, {}).get("end_time") else None
    )
    assert rows[done]["status"] == "SUCCEEDED"

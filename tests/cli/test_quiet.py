"""What an operator reads: no false alarm, no names of the inside, times at what happened."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import CLI, ran
from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = pytest.mark.heliostat_only("it is Heliostat's words that are read")


@pytest.fixture
def elsewhere(head: Head) -> Iterator[dict[str, str]]:
    """The environment of another machine: a place of its own for sessions."""
    home = Path(tempfile.mkdtemp(prefix="quiet", dir="/tmp"))
    env = {**head.env, "RAY_TMPDIR": str(home)}
    yield env
    subprocess.run([CLI, "stop", "--force"], env=env, timeout=60, check=True)
    shutil.rmtree(home)


def run(env: dict[str, str], *args: str) -> str:
    done = ran(
        [CLI, *args],
        env=env,
        within=60,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.contract("F6.03")
def test_a_node_that_has_nothing_stops_without_a_complaint(
    head: Head, elsewhere: dict[str, str]
) -> None:
    for _ in range(4):
        run(elsewhere, "start", f"--address=127.0.0.1:{head.port}", "--num-cpus=1")
        said = run(elsewhere, "stop")
        assert "Stopped all 1 Ray processes." in said
        for word in ("connection", "message", "at once, without", "rror"):
            assert word not in said, said


GROUP = """
import os, sys, time
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(address=sys.argv[1], log_to_driver=False)
group = ray.util.placement_group([{"CPU": 1}, {"CPU": 0.5}])
ray.get(group.ready())

@ray.remote(num_cpus=1)
def endless():
    while True:
        time.sleep(0.05)

inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
running = [endless.options(scheduling_strategy=inside).remote() for _ in range(2)]
print("ready=yes", flush=True)
sys.stdin.read() or time.sleep(1000)
"""


@pytest.mark.contract("F6.04", "F6.16", "F14.01")
def test_names_that_bundles_give_are_nowhere(head: Head, start_driver: Any) -> None:
    driver = start_driver(GROUP, args=[f"127.0.0.1:{head.port}"], env=head.env)
    driver.wait_line("ready")

    def status() -> str | None:
        said = run(head.env, "status", "-v")
        return said if "(1.0 used of 1.5 reserved in placement groups)" in said else None

    said = wait_until(status, what="the group's task is counted")
    assert re.search(r" 1\.5/2\.0 CPU \(1\.0 used of 1\.5 reserved", said), said
    assert "{'CPU': 1.0}: 1+ pending tasks/actors" in said
    texts = {"status": said}
    for what in ("nodes", "workers", "tasks", "actors"):
        texts[what] = run(head.env, "list", what, "--detail")
    for path in ("/api/cluster_status", "/nodes?view=summary", "/api/v0/nodes?detail=true"):
        texts[path] = json.dumps(head.get(path))
    target = head.get("/api/prometheus/sd")[0]["targets"][0]
    request = urllib.request.Request(
        f"http://{target}/metrics", headers={"Authorization": f"Bearer {head.token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        texts["metrics"] = answer.read().decode()
    for where, text in texts.items():
        found = re.findall(r"\w+_group_\w*[0-9a-f]{36}", text)
        assert not found, (where, found[:3])


@pytest.mark.contract("F6.11", "F6.16")
def test_events_have_times_and_a_driver_that_ended_well_is_none(
    head: Head, start_driver: Any
) -> None:
    source = """
        import os, signal, sys
        import ray

        ray.init(address=sys.argv[1], log_to_driver=False)

        @ray.remote(max_retries=0)
        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        if sys.argv[2] == "die":
            try:
                ray.get(die.remote())
            except ray.exceptions.WorkerCrashedError:
                print("died=yes")
        else:
            assert ray.get(ray.remote(abs).remote(-1)) == 1
    """
    address = f"127.0.0.1:{head.port}"
    start_driver(source, args=[address, "well"], env=head.env, name="well").finish().check()

    def events() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(
            run(head.env, "list", "cluster-events", "--format=json")
        )
        return rows

    drivers = json.loads(run(head.env, "list", "workers", "--format=json", "--detail"))
    ended = [row for row in drivers if row["worker_type"] == "DRIVER" and not row["is_alive"]]
    assert ended
    assert {row["exit_type"] for row in ended} == {"INTENDED_USER_EXIT"}
    assert all(row["end_time_ms"] > 1_600_000_000_000 for row in ended)
    assert events() == []
    start_driver(source, args=[address, "die"], env=head.env, name="dies").finish().check()
    (event,) = wait_until(events, what="the worker's end is told")
    assert event["severity"] == "ERROR"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", event["time"]), event
    assert "SIGKILL" in event["message"]

"""Counts of calls and objects are right beyond what processes remember of each, or say that they are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.harness import wait_until
from tests.helpers.web import Head, end, new

pytestmark = [
    pytest.mark.contract("F6.16", "F14.04"),
    pytest.mark.heliostat_only("Ray drops what is beyond its limits"),
]

SOURCE = """
import sys, time
import ray
from ray.util.state import summarize_tasks

ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=0.1)
def quick(n):
    return n

@ray.remote(max_retries=0)
def fails():
    raise ValueError

@ray.remote(num_cpus=0)
class Counter:
    def add(self):
        return 1

counter = Counter.remote()
for _ in range(5):
    ray.get([quick.remote(n) for n in range(5_000)])
    ray.get([counter.add.remote() for _ in range(3_000)])
for ref in [fails.remote() for _ in range(7)]:
    try:
        ray.get(ref)
    except ValueError:
        pass
kept = [ray.put(n) for n in range(15_000)]
print("summary=" + str(summarize_tasks()["cluster"]).replace(chr(10), " "), flush=True)
print("ready=yes", flush=True)
sys.stdin.read() or time.sleep(1000) if sys.argv[2] == "stay" else None
"""


@pytest.fixture(scope="module")
def head() -> Any:
    head = new()
    head.start()
    yield head
    end(head)


def check(summary: dict[str, Any]) -> None:
    functions = summary["summary"]
    assert functions["quick"]["state_counts"] == {"FINISHED": 25_000}
    assert functions["fails"]["state_counts"] == {"FAILED": 7}
    assert functions["Counter.add"]["state_counts"] == {"FINISHED": 15_000}
    assert summary["total_tasks"] == 25_007
    assert summary["total_actor_tasks"] == 15_000


def summary_of(head: Head) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(head.run("summary", "tasks", "--format=json").stdout)
    return told


def test_counts_are_right_while_the_driver_lives_and_after(head: Head, start_driver: Any) -> None:
    address = f"127.0.0.1:{head.port}"
    driver = start_driver(SOURCE, args=[address, "stay"], env=head.env)
    check(eval(driver.wait_line("summary", within=200)))
    driver.wait_line("ready")
    check(summary_of(head))
    told = head.get("/api/v0/tasks/summarize")["data"]["result"]
    check(told["result"]["node_id_to_summary"]["cluster"])
    assert told["total"] >= 40_007
    listed = head.run("list", "objects").stdout.splitlines()[-1]
    assert listed.startswith("100 of 15"), listed
    number = int(listed.split()[2])
    assert number >= 15_000
    filtered = head.run("list", "objects", "--filter", "object_size=99").stdout.splitlines()[-1]
    assert f"({number} known, of which {number - 10_000} are only counted)" in filtered
    objects = json.loads(head.run("summary", "objects", "--format=json").stdout)
    assert objects["total_objects"] == number
    assert "10000 of" in objects["note"]
    page = head.get("/api/v0/objects?limit=5")["data"]["result"]
    assert page["total"] == number
    assert len(page["result"]) == 5
    driver.kill()


def test_counts_of_a_driver_that_has_ended(start_driver: Any) -> None:
    head = new()
    try:
        head.start()
        address = f"127.0.0.1:{head.port}"
        driver = start_driver(SOURCE, args=[address, "end"], env=head.env, name="ends")
        driver.finish().check()

        def is_right() -> bool:
            summary = summary_of(head)
            return summary["total_tasks"] == 25_007

        wait_until(is_right, what="what the driver knew is counted")
        check(summary_of(head))
    finally:
        end(head)

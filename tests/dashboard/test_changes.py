"""What open pages are told as it changes, and the calls that the head keeps for them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import harness
from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05"),
    pytest.mark.heliostat_only("the routes are our own"),
]

WAIT_S = 120
BATCH, BATCHES = 1_000, 12

# A batch of calls for each file that is made.
BUSY = f"""
import os, sys, time, ray
ray.init()

@ray.remote(num_cpus=0.01)
def small(x):
    return x

@ray.remote
class Counter:
    pass

for batch in range({BATCHES}):
    while not os.path.exists(os.path.join(sys.argv[1], str(batch))):
        time.sleep(0.01)
    ray.get([small.remote(x) for x in range({BATCH})])
kept = Counter.remote()
time.sleep(3600)
"""


@contextmanager
def changes(head: Head, of: str) -> Iterator[Iterator[list[str]]]:
    """The events of those lists."""
    link = http.client.HTTPConnection("127.0.0.1", head.web_port, timeout=WAIT_S)
    link.request(
        "GET", f"/api/v0/changes?of={of}", headers={"Authorization": f"Bearer {head.token}"}
    )
    answer = link.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")

    def events() -> Iterator[list[str]]:
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    try:
        yield events()
    finally:
        link.close()


def result(head: Head, path: str) -> dict[str, Any]:
    answer = head.ask("GET", path)
    assert answer.status == 200, answer.text
    told: dict[str, Any] = answer.json()["data"]["result"]
    return told


def test_pages_are_told_what_has_changed_and_calls_outlive_their_processs_memory(
    head: Head, tmp_path: Path
) -> None:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"}
    driver = harness.start_driver(tmp_path, BUSY, args=[str(tmp_path)], env=env)
    named = "filter_keys=name&filter_predicates=%3D&filter_values=small"
    try:
        with changes(head, "tasks,actors") as events:
            assert next(events) == ["actors", "tasks"], "the first has all"
            told: set[str] = set()
            for batch in range(BATCHES):
                (tmp_path / str(batch)).touch()
                wanted = (batch + 1) * BATCH
                while True:
                    changed = set(next(events))
                    assert changed <= {"tasks", "actors"}
                    told |= changed
                    page = result(head, f"/api/v0/tasks?limit=10&order=creation_time_ms&{named}")
                    if page["num_filtered"] == wanted and not page["partial_failure_warning"]:
                        break
                    assert page["num_filtered"] < wanted
            while not (rows := result(head, "/api/v0/actors")["result"]) or "actors" not in told:
                told |= set(next(events))
            (row,) = rows
            assert row["class_name"] == "Counter"

        # The driver remembers 10,000 of its calls, whoever is asked.
        def counted() -> bool:
            summary = result(head, "/api/v0/tasks/summarize")["result"]["node_id_to_summary"]
            small = summary["cluster"]["summary"]["small"]["state_counts"]
            return bool(small == {"FINISHED": BATCH * BATCHES})

        wait_until(counted, within=WAIT_S, what="each call counted once")

        # With the actor's constructor, which is told with all that there is.
        def has_all() -> bool:
            page = result(head, "/api/v0/tasks?limit=1")
            return bool(page["num_after_truncation"] == page["total"] == BATCH * BATCHES + 1)

        wait_until(has_all, within=WAIT_S, what="a row for each call")
        page = result(head, "/api/v0/tasks?limit=10000")
        seen = {row["task_id"] for row in page["result"]}
        while page["next"]:
            page = result(head, f"/api/v0/tasks?limit=10000&next={page['next']}")
            assert not seen & {row["task_id"] for row in page["result"]}
            seen |= {row["task_id"] for row in page["result"]}
        assert len(seen) == BATCH * BATCHES + 1
    finally:
        driver.kill()


@pytest.mark.parametrize(
    ("query", "says"),
    [("", "`of` must name lists"), ("?of=tasks,colours", 'no list "colours" to follow, only')],
)
def test_what_cannot_be_followed_is_named(head: Head, query: str, says: str) -> None:
    answer = head.ask("GET", f"/api/v0/changes{query}")
    assert (answer.status, says in answer.text) == (400, True), answer.text

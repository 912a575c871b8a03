"""What the cluster used, with its past, and the file that tells Prometheus of its nodes (contract F6.23)."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.23"),
    pytest.mark.heliostat_only("Ray keeps no figures: its page shows those of a Prometheus"),
]


def curves(head: Head, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = head.get(f"/api/v0/metrics/past{query}")
    return found


def test_what_the_cluster_used_is_there_second_by_second(head: Head) -> None:
    begun = int(time.time())
    wait_until(lambda: len(curves(head)["at"]) >= 3, what="some seconds")
    found = curves(head, f"?from={begun - 60}&points=5000")
    assert found["every_s"] == 1
    assert found["at"] == sorted(found["at"])
    series = found["series"]
    assert all(len(one) == len(found["at"]) for one in series.values())
    assert {one for one in series["nodes"] if one is not None} == {1}
    assert next(one for one in series["cpus"] if one is not None) >= 1
    assert max(one or 0 for one in series["machine_memory_used"]) > 1e6
    assert all(one is None or 0 <= one <= 100 for one in series["machine_cpu_percent"])
    # A machine without GPUs has no mean of them.
    if not any(series["gpus"]):
        assert not any(series["gpu_percent"])


def test_spans_of_time_that_make_no_sense_are_refused(head: Head) -> None:
    for query, part in (
        ("?from=now", "`from` must be a whole number"),
        ("?from=5&to=3", "not after `to`"),
        ("?from=-1", "seconds since 1970"),
        ("?points=0", "`points` must be from 1 to"),
        ("?points=1000000", "`points` must be from 1 to"),
    ):
        answer = head.ask("GET", f"/api/v0/metrics/past{query}")
        assert (answer.status, part in answer.text) == (400, True), answer.text
    assert curves(head, "?from=10&to=20")["at"] == []


def test_a_head_that_is_killed_leaves_its_figures(own_head: Head) -> None:
    own_head.start()
    wait_until(lambda: len(curves(own_head)["at"]) >= 2, what="some seconds")
    kept = own_head.session() / "metrics/seconds"
    before = kept.read_bytes()
    os.kill(int((own_head.session() / "node.pid").read_text()), signal.SIGKILL)
    after = kept.read_bytes()
    assert len(after) >= len(before)
    assert after[:4096] == before[:4096]


def test_prometheus_finds_the_nodes_in_a_file(head: Head) -> None:
    file = head.home / "ray/prom_metrics_service_discovery.json"
    wait_until(file.exists, what="the file")
    assert json.loads(file.read_text()) == head.get("/api/prometheus/sd")

"""A machine that has joined asks its head's HTTP server, without being told where that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.machines import HELIOSTAT, Machines

pytestmark = [
    pytest.mark.contract("F6.14", "F6.17"),
    pytest.mark.heliostat_only("machines of namespaces"),
]

RAY = str(Path(HELIOSTAT).with_name("ray"))


@pytest.mark.usefixtures("_can_make")
def test_logs_and_jobs_of_the_cluster_from_a_worker_machine() -> None:
    with Machines(2) as (head, other):
        head.start_head("--dashboard-host=0.0.0.0")
        other.join(head)
        listed = other.run(RAY, "logs", "cluster").stdout
        assert head.ip in listed
        assert other.ip in listed
        done = other.run(RAY, "job", "submit", "--", "echo", "hello from a job").stdout
        assert "hello from a job" in done


@pytest.mark.usefixtures("_can_make")
def test_a_server_for_the_heads_machine_alone_is_said_to_be_one() -> None:
    with Machines(2) as (head, other):
        head.start_head()
        other.join(head)
        done = other.run(RAY, "logs", "cluster", check=False)
        assert done.returncode != 0
        assert f"http://{head.ip}:8265" in done.stderr
        assert "--dashboard-host=0.0.0.0" in done.stderr

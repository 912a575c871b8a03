"""What a session costs while it does nothing, and what kind of process the daemon is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from harness import Session, session_of, wait_until

pytestmark = pytest.mark.heliostat_only("Ray needs ten times as much")

CLUSTER = {"num_cpus": 4}


@pytest.fixture
def session(ray_start: Any) -> Session:
    return session_of(ray_start)


def resident_mib(pid: int) -> float:
    return (
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
    )


def cpu_ticks(pids: list[int]) -> int:
    def ticks(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return sum(ticks(pid) for pid in pids)


@pytest.mark.contract("F0.02")
def test_an_idle_session_is_one_daemon_and_small(session: Session) -> None:
    assert len(session.daemons()) == 1
    sizes = {str(proc): resident_mib(proc.pid) for proc in session.processes()}
    assert sum(sizes.values()) < 60, sizes


@pytest.mark.contract("F0.02")
def test_an_idle_session_sleeps(session: Session) -> None:
    """Less than one tick of ten milliseconds in a hundred, over two seconds."""
    pids = session.pids()
    before = cpu_ticks(pids)
    waited = iter(range(200))
    wait_until(lambda: next(waited) == 199, within=10, every=0.01)
    assert cpu_ticks(pids) - before <= 2


@pytest.mark.contract("F6.08")
def test_the_daemon_never_loads_python(session: Session) -> None:
    """NODE-1: user code cannot reach it."""
    (daemon,) = session.daemons()
    mapped = {Path(line.split()[-1]).name for line in Path(f"/proc/{daemon}/maps").open()}
    assert not {name for name in mapped if "python" in name.lower()}


@pytest.mark.contract("F0.02")
def test_init_is_quick(run_driver: Any) -> None:
    """Twenty times quicker than what it stands in for; the bench has the exact figure."""
    done = run_driver(
        """
        import time
        import ray

        began = time.perf_counter()
        ray.init(address="local", num_cpus=2, include_dashboard=False)
        print(f"took={time.perf_counter() - began}")
        """
    ).check()
    assert float(done.value("took")) < 1.0

"""What a session costs while it does nothing, and what kind of process the daemon is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import Session, session_of, wait_until

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
    # The worker that was started ahead ends when nothing needs it.
    wait_until(lambda: len(session.pids()) == 2, what="a daemon and a zygote")
    sizes = {str(proc): resident_mib(proc.pid) for proc in session.processes()}
    assert sum(sizes.values()) < 60, sizes


@pytest.mark.contract("F0.02")
def test_an_idle_session_sleeps(session: Session) -> None:
    """Once the start is over, two seconds pass with at most one tick of ten milliseconds."""

    def quiet_window() -> bool:
        pids = session.pids()
        before, end = cpu_ticks(pids), time.monotonic() + 2
        while time.monotonic() < end:
            time.sleep(0.1)
        # The worker that was started ahead ends when nothing needs it.
        return session.pids() == pids and cpu_ticks(pids) - before <= 1

    wait_until(quiet_window, what="two quiet seconds")


@pytest.mark.contract("F6.08")
def test_the_daemon_never_loads_python(session: Session) -> None:
    """NODE-1: user code cannot reach it."""
    (daemon,) = session.daemons()
    maps = Path(f"/proc/{daemon}/maps").read_text()
    mapped = {Path(line.split()[-1]).name for line in maps.splitlines()}
    assert not {name for name in mapped if "python" in name.lower()}


@pytest.mark.contract("F1.07", "F1.13")
def test_a_large_function_under_many_names_is_kept_once(session: Session) -> None:
    blob, names, mib = os.urandom(4 << 20), 60, 4

    @ray.remote
    def size() -> int:
        return len(blob)

    ray.get(size.remote())
    own = resident_mib(os.getpid())
    others = {proc.pid: resident_mib(proc.pid) for proc in session.processes()}
    calls = [size.options(name=f"call {n}").remote() for n in range(names)]
    assert ray.get(calls) == [len(blob)] * names
    assert resident_mib(os.getpid()) - own < names * mib / 3
    grown = {
        str(proc): resident_mib(proc.pid) - others.get(proc.pid, 0) for proc in session.processes()
    }
    assert max(grown.values()) < names * mib / 3, grown

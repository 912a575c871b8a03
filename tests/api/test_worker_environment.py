"""What workers find in their environment."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import ray


@pytest.mark.heliostat_only("on Ray workers see the PATH of the driver only")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/usr/bin:/bin", "{programs}:/usr/bin:/bin"),
        ("/bin:{programs}", "/bin:{programs}"),
    ],
)
def test_programs_of_the_virtual_environment(run_driver: Any, before: str, after: str) -> None:
    """Also where it was not activated: `.venv/bin/python train.py`."""
    programs = os.path.dirname(sys.executable)
    script = """
import os
import ray

ray.init(num_cpus=1)

@ray.remote
def path():
    return os.environ["PATH"]

print(f"path={ray.get(path.remote())}")
"""
    done = run_driver(script, env={"PATH": before.format(programs=programs)}).check()
    assert done.value("path") == after.format(programs=programs)


@pytest.mark.heliostat_only("on Ray all workers of a node share one session")
def test_an_actor_leads_a_session_and_a_worker_of_tasks_a_group(ray_start: Any) -> None:
    """So the kernel shares the CPU among the ranks of a training run as if each were a program."""

    @ray.remote
    class Actor:
        def places(self) -> tuple[int, int, int]:
            return os.getpid(), os.getpgrp(), os.getsid(0)

    @ray.remote
    def places() -> tuple[int, int, int]:
        return os.getpid(), os.getpgrp(), os.getsid(0)

    pid, group, session = ray.get(Actor.remote().places.remote())
    assert pid == group == session
    pid, group, session = ray.get(places.remote())
    assert pid == group != session

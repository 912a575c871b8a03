"""F7.02: the workers of a job share its code on a node, may write there, and no other job sees it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import Finished, wait_until

pytestmark = [
    pytest.mark.contract("F7.02"),
    pytest.mark.heliostat_only("what one of Ray's jobs writes, later ones with the same code see"),
]

DRIVER = """
import os
import sys
from pathlib import Path

import ray

folder, address, do = sys.argv[1:]
ray.init(address=address, namespace="views", runtime_env={"working_dir": folder})


@ray.remote(num_cpus=0)
class Actor:
    def write(self):
        Path("written").write_text("by an actor")
        Path("code.py").write_text("VALUE = 2")
        return os.getcwd()

    def read(self):
        return Path("written").read_text()


@ray.remote(num_cpus=1)
def look():
    return sorted(path.name for path in Path().iterdir()), Path("code.py").read_text()


if do == "write":
    actor = Actor.options(name="detached", lifetime="detached").remote()
    print("place=" + ray.get(actor.write.remote()))
print(f"seen={ray.get(look.remote())}")
"""


@pytest.fixture
def run_job(make_cluster: Any, run_driver: Any, tmp_path: Path) -> Callable[[str], Finished]:
    """Run a job of its own, with the same folder of code each time, to its end."""
    cluster = make_cluster()
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "code.py").write_text("VALUE = 1")

    def run(do: str) -> Finished:
        done: Finished = run_driver(DRIVER, args=[str(folder), cluster.address, do])
        return done.check()

    return run


def test_what_a_job_writes_its_workers_see_and_no_later_job(
    run_job: Callable[[str], Finished],
) -> None:
    first, second = run_job("write"), run_job("look")
    assert ast.literal_eval(first.value("seen")) == (["code.py", "written"], "VALUE = 2")
    assert ast.literal_eval(second.value("seen")) == (["code.py"], "VALUE = 1")


def test_the_folder_goes_with_the_last_worker_of_the_job(
    run_job: Callable[[str], Finished],
) -> None:
    place = Path(run_job("write").value("place"))
    view, shelf = place.parent, place.parent.parent
    run_job("look")

    def left() -> set[str]:
        return {path.name for path in shelf.iterdir() if not path.name.startswith(".")}

    wait_until(lambda: left() == {view.name}, what="the other job's folder goes")
    actor = ray.get_actor("detached", namespace="views")
    assert ray.get(actor.read.remote(), timeout=60) == "by an actor", "a detached actor keeps it"
    ray.kill(actor)
    wait_until(lambda: not view.exists(), what="the folder goes with the actor")

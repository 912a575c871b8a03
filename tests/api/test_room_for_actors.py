"""Actors and placement groups find room where short tasks never pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

CLUSTER = {"num_cpus": 2}
# Waiting for it is what the tests are about: a deadline against a hang.
WITHIN_S = 120.0


@ray.remote
def short() -> None:
    time.sleep(0.02)


@ray.remote(num_cpus=1)
class Member:
    def cpus(self) -> float:
        return float(ray.get_runtime_context().get_assigned_resources().get("CPU", 0))


@pytest.fixture
def stream(ray_start: object) -> Iterator[None]:
    """So many tasks at all times that some always wait."""
    is_over = threading.Event()
    done = 0

    def flood() -> None:
        nonlocal done
        refs = [short.remote() for _ in range(16)]
        while not is_over.is_set():
            ready, refs = ray.wait(refs, timeout=0.5)
            done += len(ready)
            refs += [short.remote() for _ in ready]

    thread = threading.Thread(target=flood)
    thread.start()
    wait_until(lambda: done > 32, within=WITHIN_S, what="a stream of tasks")
    yield
    is_over.set()
    thread.join()


@pytest.mark.contract("F2.01")
def test_an_actor_begins_while_tasks_never_pause(stream: None) -> None:
    members = [Member.remote() for _ in range(2)]
    assert ray.get([member.cpus.remote() for member in members], timeout=WITHIN_S) == [1.0, 1.0]


@pytest.mark.contract("F4.12")
def test_a_placement_group_is_placed_while_tasks_never_pause(stream: None) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    ray.get(group.ready(), timeout=WITHIN_S)
    remove_placement_group(group)


@pytest.mark.contract("F4.12")
def test_room_of_which_nothing_comes_goes_back_to_tasks(stream: None) -> None:
    waiting = Member.options(num_cpus=2).remote()
    ref = waiting.cpus.remote()
    del waiting, ref
    assert ray.get([short.remote() for _ in range(8)], timeout=WITHIN_S) == [None] * 8

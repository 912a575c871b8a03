"""Whatever waits can say what it waits for (WHY-1): `util.why`, and the same words elsewhere."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import wait_until
from ray.exceptions import GetTimeoutError

pytestmark = [
    pytest.mark.heliostat_only("Ray cannot say what something waits for"),
    pytest.mark.usefixtures("ray_start"),
]
CLUSTER = {"num_cpus": 2}


def why(what: Any) -> str:
    return str(ray.util.why(what))


@ray.remote(num_cpus=0)
def until(path: str) -> str:
    """Runs until the file is there."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote(num_cpus=0)
class Actor:
    def wait(self, path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return os.getpid()

    def echo(self, value: Any) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def waits_for(self, refs: list[Any]) -> Any:
        return ray.get(refs[0])

    def why(self, refs: list[Any]) -> str:
        return str(ray.util.why(refs[0]))


def says(what: Any, *parts: str) -> str:
    """The text, once it has all the parts."""
    last = ""

    def probe() -> str | None:
        nonlocal last
        last = why(what)
        return last if all(re.search(part, last) for part in parts) else None

    try:
        return wait_until(probe, within=10)
    except AssertionError:
        raise AssertionError(f"{last!r} lacks one of {parts}") from None


def test_a_running_task_says_where_it_runs_and_since_when(tmp_path: Path) -> None:
    go = tmp_path / "go"
    ref = until.remote(str(go))
    says(
        ref,
        r"^until was sent to a process on node \S+ ",
        r"has been running there for .* \(pid \d+\)",
    )
    go.touch()
    assert ray.get(ref) == str(go)
    assert "ready" in why(ref)


def test_a_task_that_needs_an_argument_names_it_and_who_makes_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = until.remote(str(go))
    second = echo.remote(first)
    says(
        second,
        rf"^echo waits for its argument ObjectRef\({first.hex()}\), which until makes\.",
        "running there",
    )
    third = echo.remote(second)
    says(third, f"ObjectRef\\({second.hex()}\\), which echo makes", "echo waits for its argument")
    go.touch()
    assert ray.get(third) == str(go)


def test_a_task_that_waits_for_a_worker_names_the_resource(tmp_path: Path) -> None:
    go = tmp_path / "go"
    holders = [until.options(num_cpus=1).remote(str(go)) for _ in range(2)]
    for holder in holders:
        says(holder, "running there")
    queued = [echo.remote(n) for n in range(3)]
    says(queued[0], "^echo waits for a worker", "0 of 2 CPU free and 1 CPU is needed")
    says(queued[2], "2 calls of its kind come first")
    go.touch()
    assert ray.get(queued) == [0, 1, 2]


def test_what_no_node_has_is_named_in_why_in_the_error_and_in_the_warning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    wanted = r"no node has 3 GPU \(none has any\)"
    ref = echo.options(num_gpus=3, name="greedy").remote(1)
    text = says(ref, "waits for a worker", f"(?i){wanted}")
    with pytest.raises(GetTimeoutError, match=f"(?i){wanted}") as raised:
        ray.get(ref, timeout=1.0)
    assert text.rstrip(".") in str(raised.value)
    shown = ""

    def warned() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return re.search(wanted, shown, re.I) is not None

    wait_until(warned, within=10, what="the warning")
    assert "waits for a worker" in shown
    ray.cancel(ref)


def test_a_poll_does_not_ask_around(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    with pytest.raises(GetTimeoutError, match=r"some object\(s\) not ready\. until "):
        ray.get(ref, timeout=0)
    (tmp_path / "go").touch()
    ray.get(ref)


def test_a_retried_task_says_which_attempt_failed_and_how(tmp_path: Path) -> None:
    @ray.remote(max_retries=2)
    def mortal() -> None:
        (tmp_path / f"pid{os.getpid()}").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)

    ref = mortal.remote()
    (first,) = wait_until(lambda: list(tmp_path.glob("pid*")))
    os.kill(int(first.name[3:]), signal.SIGKILL)
    says(ref, "running there", r"Attempt 1 ended: .*SIGKILL")
    (tmp_path / "go").touch()
    ray.get(ref)


def test_calls_of_an_actor_wait_behind_each_other(tmp_path: Path) -> None:
    go = tmp_path / "go"
    actor = Actor.remote()
    first = actor.wait.remote(str(go))
    second = actor.pid.remote()
    says(
        second,
        r"waits in the process \(pid \d+\)",
        r"Actor\.wait has been running there|wait has been running there",
    )
    says(actor, "^Actor is alive", "2 calls of this process to it have not ended", "running there")
    blocked = until.remote(str(go))
    third = actor.echo.remote(blocked)
    fourth = actor.pid.remote()
    says(third, "waits for its argument")
    says(fourth, "waits behind 1 call to its actor", "waits for its argument ObjectRef")
    go.touch()
    assert ray.get([first, second, fourth])


def test_an_actor_that_cannot_be_placed_names_the_resource() -> None:
    actor = Actor.options(resources={"unobtainium": 1}).remote()
    says(actor, "^Actor is not there yet: no node has 1 unobtainium")
    call = actor.pid.remote()
    says(call, "waits for its actor", "unobtainium")


def test_an_actor_whose_constructor_needs_an_argument_names_it(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Needy:
        def __init__(self, value: str) -> None:
            self.value = value

        def get(self) -> str:
            return self.value

    blocked = until.remote(str(tmp_path / "go"))
    needy = Needy.remote(blocked)
    says(
        needy,
        f"constructor of Needy waits for its argument ObjectRef\\({blocked.hex()}\\)",
        "until",
    )
    call = needy.get.remote()
    says(call, "waits for its actor. The constructor of Needy")
    (tmp_path / "go").touch()
    assert ray.get(call) == str(tmp_path / "go")


def test_a_dead_actor_says_what_ended_it() -> None:
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    says(actor, "^Actor is dead", "SIGKILL", str(pid))


def test_a_borrowed_reference_is_explained_by_its_owner(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    other = Actor.remote()
    text = ray.get(other.why.remote([ref]))
    for part in ("was asked for it", "until was sent to", "running there"):
        assert part in text
    (tmp_path / "go").touch()


def test_a_call_that_waits_in_get_says_for_what(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    actor = Actor.remote()
    call = actor.waits_for.remote([ref])
    says(call, rf"waits in get for ObjectRef\({ref.hex()}\)")
    (tmp_path / "go").touch()
    assert ray.get(call) == str(tmp_path / "go")


def test_a_generator_that_is_far_ahead_waits_for_its_reader() -> None:
    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=2)
    def count() -> Any:
        yield from range(10)

    items = count.remote()
    says(items, "has made 2 items of which 0 were read", "waits for its reader")
    assert [ray.get(item) for item in items] == list(range(10))


def test_what_is_over_says_how() -> None:
    @ray.remote
    def fails() -> None:
        raise ValueError("no")

    ref = fails.remote()
    with pytest.raises(ValueError, match="no"):
        ray.get(ref)
    assert "reading it raises" in why(ref)
    big = ray.put(b"x" * 200_000)
    assert "in the object store of node" in why(big)


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="references, actor handles"):
        ray.util.why(1)


def test_the_owner_is_not_kept_waiting_by_a_worker_that_hangs(tmp_path: Path) -> None:
    """A stopped process does not answer; what its caller knows is told all the same."""
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGSTOP)
    try:
        call = actor.pid.remote()
        began = time.monotonic()
        text = ray.util.why(call, timeout=0.5)
        assert "was sent to a process on node" in text
        assert time.monotonic() - began < 5
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(call) == pid


def test_a_placement_group_and_what_waits_for_it_name_the_resource() -> None:
    from ray.util import state
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"unobtainium": 1}])
    text = says(group, "placement group is PENDING", "unobtainium")
    ready = group.ready()
    says(ready, f"ready when placement group {group.id.hex()} is placed", "unobtainium")
    with pytest.raises(GetTimeoutError, match="unobtainium"):
        ray.get(ready, timeout=1.5)
    strategy = PlacementGroupSchedulingStrategy(group)
    ref = echo.options(num_cpus=0, scheduling_strategy=strategy).remote(1)
    says(ref, "waits for a worker", "(?i)placement group|unobtainium")
    (row,) = state.list_placement_groups(detail=True)
    assert (row.placement_group_id, row.state) == (group.id.hex(), "PENDING")
    assert row.why is not None
    assert row.why in text
    ray.util.remove_placement_group(group)
    says(group, "REMOVED")
    placed = ray.util.placement_group([{"CPU": 1}])
    ray.get(placed.ready())
    assert why(placed) == "The placement group is CREATED."
    ray.util.remove_placement_group(placed)

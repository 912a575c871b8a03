"""In which order an actor begins its calls, and which of them wait for others' arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import ray

from tests.helpers.actors import Gate

pytestmark = pytest.mark.usefixtures("ray_start")

LIMIT_S = 60


class Plain:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def log(self, number: int) -> int:
        self.seen.append(number)
        return number

    def all(self) -> list[int]:
        return self.seen


class Async:
    def __init__(self) -> None:
        self.seen: list[int] = []

    async def log(self, number: int) -> int:
        self.seen.append(number)
        return number

    async def all(self) -> list[int]:
        return self.seen


GROUPS = {"concurrency_groups": {"io": 1}}
# The class, what it is declared with, the group of the call that waits, whether the next one waits for it.
KINDS: dict[str, tuple[type, dict[str, Any], str, bool]] = {
    "plain": (Plain, {}, "", True),
    "out of order": (Plain, {"allow_out_of_order_execution": True}, "", False),
    "in order, by name": (Plain, {"allow_out_of_order_execution": False}, "", True),
    "threaded": (Plain, {"max_concurrency": 4}, "", False),
    "groups": (Plain, GROUPS, "", True),
    "groups, in order": (Plain, GROUPS | {"allow_out_of_order_execution": False}, "", True),
    "groups, another": (Plain, GROUPS, "io", False),
    "async": (Async, {}, "", False),
    "async, one at a time": (Async, {"max_concurrency": 1}, "", False),
    "async, groups": (Async, GROUPS, "", False),
}


@pytest.mark.contract("F2.12", "F2.11", "F2.13")
@pytest.mark.parametrize("retries", [0, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_whether_a_call_waits_for_the_argument_of_the_one_before(kind: str, retries: int) -> None:
    cls, options, group, waits = KINDS[kind]
    actor = ray.remote(num_cpus=0, max_task_retries=retries, **options)(cls).remote()
    assert ray.get(actor.log.remote(0)) == 0
    gate = Gate.remote()
    log = actor.log.options(concurrency_group=group) if group else actor.log
    first, second = log.remote(gate.opened.remote()), actor.log.remote(2)
    if not waits:
        assert ray.get(second, timeout=LIMIT_S) == 2
    assert ray.wait([first], timeout=0)[0] == []
    ray.get(gate.open.remote())
    assert ray.get([first, second], timeout=LIMIT_S) == [1, 2]
    assert ray.get(actor.all.remote()) == ([0, 1, 2] if waits else [0, 2, 1])


@pytest.mark.contract("F1.10", "F2.12")
@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("fails", [1, 2])
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_call_that_raised_is_tried_again_before_those_that_wait_for_it(
    size: int, fails: int, restarts: int
) -> None:
    @ray.remote(num_cpus=0, max_restarts=restarts, max_task_retries=3)
    class Actor:
        def __init__(self) -> None:
            self.tries = 0
            self.seen: list[str] = []

        @ray.method(retry_exceptions=True)
        def makes(self, gate: Any, size: int) -> bytes:
            ray.get(gate[0].opened.remote())
            self.tries += 1
            if self.tries <= fails:
                raise RuntimeError("not yet")
            self.seen.append("makes")
            return bytes(size)

        def reads(self, value: bytes, name: str) -> int:
            self.seen.append(name)
            return len(value)

        def all(self) -> list[str]:
            return self.seen

    actor, gate = Actor.remote(), Gate.remote()
    made = actor.makes.remote([gate], size)
    read = [actor.reads.remote(made, name) for name in ("first", "second")]
    other = actor.reads.remote(b"", "third")
    ray.get(gate.open.remote())
    assert ray.get([*read, other], timeout=LIMIT_S) == [size, size, 0]
    assert ray.get(actor.all.remote()) == ["makes", "first", "second", "third"]


@pytest.mark.contract("F2.12")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind][3]])
def test_an_argument_may_depend_on_a_later_call(kind: str) -> None:
    cls, options, group, _ = KINDS[kind]
    actor = ray.remote(num_cpus=0, **options)(cls).remote()

    @ray.remote(num_cpus=0)
    def forward(box: list[Any]) -> int:
        return int(ray.get(box[0]))

    @ray.remote(num_cpus=0)
    class Box:
        def __init__(self) -> None:
            self.ref: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def put(self, box: list[Any]) -> None:
            self.ref.set_result(box[0])

        async def get(self) -> Any:
            return await (await self.ref)

    box = Box.remote()
    log = actor.log.options(concurrency_group=group) if group else actor.log
    first = log.remote(box.get.remote())
    second = actor.log.remote(7)
    ray.get(box.put.remote([forward.remote([second])]))
    assert ray.get([first, second], timeout=LIMIT_S) == [7, 7]


@pytest.mark.contract("F2.12")
@pytest.mark.parametrize("kind", ["async", "threaded", "out of order"])
def test_calls_whose_arguments_fail_or_are_cancelled_leave_nothing(kind: str) -> None:
    cls, options, _, _ = KINDS[kind]
    actor = ray.remote(num_cpus=0, **options)(cls).remote()

    @ray.remote(num_cpus=0, max_retries=0)
    def fail() -> int:
        raise ValueError("no number")

    gate = Gate.remote()
    failed, cancelled = actor.log.remote(fail.remote()), actor.log.remote(gate.opened.remote())
    with pytest.raises(ValueError, match="no number"):
        ray.get(failed, timeout=LIMIT_S)
    ray.cancel(cancelled)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(cancelled, timeout=LIMIT_S)
    ray.get(gate.open.remote())
    assert ray.get(actor.log.remote(3), timeout=LIMIT_S) == 3
    assert ray.get(actor.all.remote(), timeout=LIMIT_S) == [3]


@pytest.mark.contract("F2.19")
def test_a_call_that_lacks_its_argument_counts_as_pending() -> None:
    gate = Gate.remote()
    actor = ray.remote(num_cpus=0, max_concurrency=2, max_pending_calls=2)(Plain).remote()
    calls = [actor.log.remote(gate.opened.remote()) for _ in range(2)]
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded):
        actor.log.remote(1)
    ray.get(gate.open.remote())
    assert ray.get(calls, timeout=LIMIT_S) == [1, 1]

"""A reply with references, when its actor ends at once: its caller has it or an error, and never waits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError

pytestmark = [pytest.mark.usefixtures("ray_start"), pytest.mark.contract("F2.07", "F3.09")]

LIMIT_S = 60


@ray.remote(num_cpus=0)
def number(value: int) -> int:
    return value


class Plain:
    def ready(self) -> None:
        """The actor is there."""

    def give(self, what: str, lent: list[Any]) -> list[Any]:
        match what:
            case "nothing":
                return []
            case "put":
                return [ray.put(b"x")]
            case "large put":
                return [ray.put(bytes(200_000))]
            case "result":
                ref = number.remote(1)
                ray.wait([ref])
                return [ref]
            case "pending":
                return [number.options(resources={"nowhere": 1}).remote(1)]
            case "lent":
                return [lent[0]]
            case "large":
                return [ray.put(b"x"), bytes(300_000)]
        return [ray.put(n) for n in range(100)]

    def leave(self) -> None:
        ray.actor.exit_actor()

    def crash(self) -> None:
        os._exit(1)


class Loop(Plain):
    async def give(self, what: str, lent: list[Any]) -> list[Any]:  # type: ignore[override]
        return Plain.give(self, what, lent)

    async def leave(self) -> None:  # type: ignore[override]
        ray.actor.exit_actor()


@ray.remote(num_cpus=0)
def length(value: list[Any]) -> int:
    return len(value)


@ray.remote(num_cpus=0)
def length_inside(box: list[Any]) -> int:
    return len(ray.get(box[0]))


def by_get(ref: Any) -> int:
    return len(ray.get(ref, timeout=LIMIT_S))


def by_wait(ref: Any) -> int:
    assert ray.wait([ref], timeout=LIMIT_S)[0] == [ref]
    return len(ray.get(ref, timeout=LIMIT_S))


def by_await(ref: Any) -> int:
    async def read() -> Any:
        return await asyncio.wait_for(ref, LIMIT_S)

    return len(asyncio.run(read()))


def by_argument(ref: Any) -> int:
    return int(ray.get(length.remote(ref), timeout=LIMIT_S))


def by_borrower(ref: Any) -> int:
    return int(ray.get(length_inside.remote([ref]), timeout=LIMIT_S))


def outcome(read: Any, ref: Any) -> Any:
    """What is read, or why it cannot be."""
    try:
        return read(ref)
    except RayError as error:
        return error.cause if isinstance(error, RayTaskError) else error


READERS = [by_get, by_wait, by_await, by_argument, by_borrower]
LENGTHS = {"nothing": 0, "large": 2, "many": 100}
HOWS = ["leave", "crash", "kill", "last handle"]
WHATS = ["nothing", "put", "large put", "result", "pending", "lent", "large", "many"]


def end(actor: Any, how: str) -> None:
    if how == "kill":
        ray.kill(actor)
    elif how != "last handle":
        getattr(actor, how).remote()


@pytest.mark.parametrize("kind", [Plain, Loop])
@pytest.mark.parametrize("how", HOWS)
def test_an_actor_ends_right_after_a_reply(kind: type, how: str) -> None:
    """Each two of (how it ends, what it returns, who reads that) meet."""
    mine = ray.put(b"mine")
    for place, what in enumerate(WHATS):
        read = READERS[(place + HOWS.index(how) + 2 * (kind is Loop)) % len(READERS)]
        actor = ray.remote(num_cpus=0)(kind).remote()
        ray.get(actor.ready.remote())
        reply = actor.give.remote(what, [mine])
        end(actor, how)
        del actor
        found = outcome(read, reply)
        if found != LENGTHS.get(what, 1):
            # A plain actor that ends in order has answered what came before.
            assert how in ("crash", "kill") or kind is Loop, (what, read, found)
            assert isinstance(found, RayActorError), (what, read, found)


@ray.remote(num_cpus=0)
class Owner:
    def make(self) -> tuple[int, list[Any]]:
        return os.getpid(), [ray.put(b"of another")]


@pytest.fixture
def stopped() -> Iterator[list[Any]]:
    """A reference whose owner answers nobody."""
    owner = Owner.remote()
    pid, box = ray.get(owner.make.remote())
    os.kill(pid, signal.SIGSTOP)
    yield box
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", [Plain, Loop])
@pytest.mark.parametrize("how", ["leave", "crash", "kill"])
@pytest.mark.parametrize("read", [by_get, by_wait, by_await, by_argument])
def test_an_actor_ends_while_its_reply_waits_for_an_owner(
    stopped: list[Any], kind: type, how: str, read: Any
) -> None:
    """Its reply must not overtake the news that it holds the reference."""
    actor = ray.remote(num_cpus=0)(kind).remote()
    ray.get(actor.ready.remote())
    reply = actor.give.remote("lent", stopped)
    ray.wait([reply], timeout=0.1)
    end(actor, how)
    found = outcome(read, reply)
    assert found == 1 or isinstance(found, ActorDiedError), found

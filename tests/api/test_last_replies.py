"""A reply with references, when its actor ends at once: its caller has it or an error, and never waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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


# More than a socket takes at once, in pieces that travel in the replies.
PIECES, PIECE = 6, 100_000

STOPPED_DRIVER = (
    f"PIECES, PIECE = {PIECES}, {PIECE}"
    """
import os, signal, subprocess, sys, time
import ray
how, go, waker = sys.argv[1:]
ray.init(num_cpus=2)

def wait():
    while not os.path.exists(go):
        time.sleep(0.01)

@ray.remote(max_calls=1, max_retries=0)
def generator():
    yield os.getpid()
    wait()
    for n in range(PIECES):
        yield bytes([n]) * PIECE

@ray.remote(max_calls=1, max_retries=0, num_returns=PIECES + 1)
def task(path):
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    wait()
    return [os.getpid(), *(bytes([n]) * PIECE for n in range(PIECES))]

@ray.remote
class Actor:
    def pid(self):
        return os.getpid()
    def piece(self, n):
        wait()
        return bytes([n]) * PIECE
    def leave(self):
        ray.actor.exit_actor()

if how == "generator":
    pieces = generator.remote()
    pid = ray.get(next(pieces))
elif how == "task":
    pieces = task.remote(go + ".pid")[1:]
    while not os.path.exists(go + ".pid"):
        time.sleep(0.01)
    pid = int(open(go + ".pid").read())
else:
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    pieces = [actor.piece.remote(n) for n in range(PIECES)]
    actor.leave.remote()
subprocess.Popen([sys.executable, "-c", waker, str(pid), str(os.getpid()), go])
os.kill(os.getpid(), signal.SIGSTOP)
assert [ray.get(piece) for piece in pieces] == [bytes([n]) * PIECE for n in range(PIECES)]
"""
)

# Lets the process end while its caller stands still, and waits for it as long as that may take.
WAKER = """
import os, signal, sys, time
pid, driver, go = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
open(go, "w").close()
end = time.monotonic() + 2
while time.monotonic() < end:
    try:
        if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
    except OSError:
        break
    time.sleep(0.01)
os.kill(driver, signal.SIGCONT)
"""


@pytest.mark.contract("F1.04", "F1.12", "F2.22")
@pytest.mark.parametrize("how", ["generator", "task", "actor"])
def test_a_process_ends_when_its_caller_has_all_replies(how: str, tmp_path: Path) -> None:
    """The caller stands still while the process ends: what the socket does not take is not lost."""
    subprocess.run(
        [sys.executable, "-c", STOPPED_DRIVER, how, str(tmp_path / "go"), WAKER],
        check=True,
        timeout=120,
    )

"""The end of an actor from within: `exit_actor()`, SIGTERM, and what its running calls do then."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError

from tests.helpers.actors import Gate
from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

LIMIT_S = 60


class Logged:
    """Writes into its log that it was shut down in order."""

    def __init__(self, gate: Any = None, log: str = "") -> None:
        self.gate, self.log = gate, log

    def __ray_shutdown__(self) -> None:
        if self.log:
            with Path(self.log).open("a") as out:
                out.write("shut down\n")


class Plain(Logged):
    def pid(self) -> int:
        return os.getpid()

    def work(self) -> str:
        if self.log:
            with Path(self.log).open("a") as out:
                out.write("began\n")
        ray.get(self.gate.opened.remote())
        return "worked"

    def leave(self) -> None:
        ray.actor.exit_actor()

    def quiet(self) -> str:
        try:
            ray.actor.exit_actor()
        except SystemExit:
            pass
        return "went on"

    def in_thread(self) -> str:
        thread = threading.Thread(target=self.quiet)
        thread.start()
        thread.join()
        return "went on"


class Async(Logged):
    async def pid(self) -> int:
        return os.getpid()

    async def work(self) -> str:
        if self.log:
            with Path(self.log).open("a") as out:
                out.write("began\n")
        await self.gate.opened.remote()
        return "worked"

    async def leave(self) -> None:
        ray.actor.exit_actor()

    async def quiet(self) -> str:
        try:
            ray.actor.exit_actor()
        except BaseException:
            return "went on"

    async def spawn(self) -> None:
        async def leave() -> None:
            ray.actor.exit_actor()

        self.task = asyncio.create_task(leave())
        await asyncio.wait([self.task])

    async def spawn_late(self) -> str:
        """The call is over when its task leaves."""

        async def leave() -> None:
            await self.gate.opened.remote()
            ray.actor.exit_actor()

        self.task = asyncio.create_task(leave())
        return "went on"

    async def callback(self) -> None:
        left = asyncio.Event()

        def leave() -> None:
            left.set()
            ray.actor.exit_actor()

        asyncio.get_running_loop().call_soon(leave)
        await left.wait()

    async def executor(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, ray.actor.exit_actor)

    async def in_thread(self) -> str:
        def leave() -> None:
            try:
                ray.actor.exit_actor()
            except BaseException:
                pass

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        return "went on"


KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "plain": (Plain, {}),
    "threaded": (Plain, {"max_concurrency": 3}),
    "groups": (Plain, {"concurrency_groups": {"io": 2}, "max_concurrency": 3}),
    "async": (Async, {}),
    "async groups": (Async, {"concurrency_groups": {"io": 2}}),
}
# The caller hears of the actor's end.
LEAVING = [
    (kind, how)
    for kind, (cls, _) in KINDS.items()
    for how in ["leave", "quiet", *(["spawn", "callback", "executor"] if cls is Async else [])]
]
# The call has returned, or its thread is not the one that leaves.
STAYING = [(kind, "in_thread") for kind in KINDS] + [
    (kind, "spawn_late") for kind, (cls, _) in KINDS.items() if cls is Async
]


def ends(pid: int) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), within=LIMIT_S, what="it has ended")


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize(("kind", "how"), LEAVING)
def test_whoever_leaves_has_left(kind: str, how: str) -> None:
    cls, options = KINDS[kind]
    actor = ray.remote(num_cpus=0, **options)(cls).remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError):
        ray.get(getattr(actor, how).remote(), timeout=LIMIT_S)
    ends(pid)
    with pytest.raises(RayActorError):
        ray.get(actor.pid.remote(), timeout=LIMIT_S)


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize(("kind", "how"), STAYING)
def test_a_call_that_did_not_leave_itself_is_answered(kind: str, how: str) -> None:
    cls, options = KINDS[kind]
    gate = Gate.remote()
    actor = ray.remote(num_cpus=0, **options)(cls).remote(gate)
    pid = ray.get(actor.pid.remote())
    assert ray.get(getattr(actor, how).remote(), timeout=LIMIT_S) == "went on"
    ray.get(gate.open.remote())
    ends(pid)
    with pytest.raises(RayActorError):
        ray.get(actor.pid.remote(), timeout=LIMIT_S)


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize("how", ["leave", "quiet", "SIGTERM"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_running_calls_finish_when_an_actor_ends(kind: str, how: str, tmp_path: Path) -> None:
    cls, options = KINDS[kind]
    gate, log = Gate.remote(), tmp_path / "log"
    actor = ray.remote(num_cpus=0, **{**options, "max_concurrency": 3})(cls).remote(gate, str(log))
    pid = ray.get(actor.pid.remote())
    running = [actor.work.remote() for _ in range(2)]
    wait_until(lambda: log.exists() and log.read_text() == 2 * "began\n", within=LIMIT_S)
    if how == "SIGTERM":
        os.kill(pid, signal.SIGTERM)
    else:
        getattr(actor, how).remote()
    # One that has come and not begun never does.
    waiting = actor.work.remote()
    assert ray.wait([*running], timeout=0.5)[0] == []
    ray.get(gate.open.remote())
    assert ray.get(running, timeout=LIMIT_S) == ["worked", "worked"]
    ends(pid)
    if how != "SIGTERM":
        with pytest.raises(RayActorError):
            ray.get(waiting, timeout=LIMIT_S)
        assert log.read_text() == 2 * "began\n" + "shut down\n"


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize("kind", ["threaded", "async", "async groups"])
def test_a_second_signal_ends_an_actor_at_once(kind: str, tmp_path: Path) -> None:
    cls, options = KINDS[kind]
    gate, log = Gate.remote(), tmp_path / "log"
    actor = ray.remote(num_cpus=0, **options)(cls).remote(gate, str(log))
    pid = ray.get(actor.pid.remote())
    running = actor.work.remote()
    wait_until(lambda: log.exists(), within=LIMIT_S)

    def is_over() -> bool:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_over, within=LIMIT_S, every=0.1)
    with pytest.raises(RayActorError):
        ray.get(running, timeout=LIMIT_S)


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize("kind", KINDS)
def test_a_constructor_that_leaves_makes_no_actor(kind: str) -> None:
    cls, options = KINDS[kind]

    class Quiet(cls):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            try:
                ray.actor.exit_actor()
            except BaseException:
                pass

    actor = ray.remote(num_cpus=0, **options)(Quiet).remote()
    with pytest.raises(RayActorError):
        ray.get(actor.pid.remote(), timeout=LIMIT_S)

"""Replicas, the ingress and the controller end under load; updates go through it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from heliostat.serve.router import Call
from ray import serve
from starlette.requests import Request

from tests.helpers.harness import is_alive
from tests.helpers.serving import Client, ingress_pid

CLUSTER = {"num_cpus": 8}
S = 60


@serve.deployment(num_replicas=2, max_ongoing_requests=100)
class Which:
    def __init__(self, word: str = "one") -> None:
        self.word = word

    async def __call__(self, request: Request) -> str:
        return f"{self.word} {os.getpid()}"

    async def ask(self) -> str:
        return f"{self.word} {os.getpid()}"


class Load:
    """Asks over HTTP and through a handle, until it is told to stop."""

    def __init__(self, web: Client, handle: Any) -> None:
        self.web, self.handle = web, handle
        self.is_over = threading.Event()
        self.http: list[tuple[int, str]] = []
        self.calls: list[Any] = []

    def over_http(self) -> None:
        while not self.is_over.is_set():
            answer = self.web.get("/")
            self.http.append((answer.status, answer.text))

    def by_handle(self) -> None:
        while not self.is_over.is_set():
            try:
                self.calls.append(self.handle.ask.remote().result(timeout_s=S))
            except Exception as error:
                self.calls.append(error)

    def failed(self) -> list[Any]:
        bad = [one for one in self.http if one[0] != 200]
        return bad + [one for one in self.calls if isinstance(one, Exception)]


@contextmanager
def load(web: Client, handle: Any) -> Iterator[Load]:
    found = Load(web, handle)
    threads = [threading.Thread(target=found.over_http) for _ in range(3)]
    threads += [threading.Thread(target=found.by_handle) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(found.http) > 20 and len(found.calls) > 20)
        yield found
        more = len(found.http) + 50, len(found.calls) + 50
        until(lambda: len(found.http) > more[0] and len(found.calls) > more[1])
    finally:
        found.is_over.set()
        for thread in threads:
            thread.join(S)


def until(condition: Any) -> None:
    deadline = time.monotonic() + S
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.01)


def running() -> int:
    return (
        serve.status().applications["default"].deployments["Which"].replica_states.get("RUNNING", 0)
    )


@pytest.mark.contract("F12.07")
def test_an_update_fails_no_request(web: Client) -> None:
    handle = serve.run(Which.bind("one"))
    with load(web, handle) as found:
        serve.run(Which.bind("two"))
        until(lambda: "two" in found.http[-1][1] and "two" in str(found.calls[-1]))
    assert found.failed() == []
    assert web.get("/").text.startswith("two")


@serve.deployment
class Version:
    def __init__(self, word: str) -> None:
        self.word = word

    def pid(self) -> int:
        return os.getpid()

    async def ask(self) -> str:
        return self.word

    def count(self) -> Iterator[str]:
        yield self.word
        yield "end"


async def awaited(response: Any) -> Any:
    return await response


ASKED = {
    "result": lambda handle: handle.ask.remote().result(timeout_s=S),
    "await": lambda handle: asyncio.run(awaited(handle.ask.remote())),
    "stream": lambda handle: list(handle.options(stream=True).count.remote()),
    "broadcast": lambda handle: handle.broadcast("ask").results(timeout_s=S),
}


@pytest.mark.contract("F12.07")
@pytest.mark.heliostat_only("holds a call back in the router")
@pytest.mark.parametrize("how", ASKED)
def test_a_call_that_comes_after_its_replica_has_left_goes_to_another(
    how: str, web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = serve.run(Version.bind("one"))
    old = handle.pid.remote().result(timeout_s=S)
    send, chosen, left = Call.send, threading.Event(), threading.Event()

    def held_back(call: Call, load: Any) -> None:
        monkeypatch.setattr(Call, "send", send)
        chosen.set()
        left.wait(S)
        call.send(load)

    monkeypatch.setattr(Call, "send", held_back)
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(ASKED[how](handle)))
    caller.start()
    assert chosen.wait(S)
    serve.run(Version.bind("two"))
    until(lambda: not is_alive(old))
    left.set()
    caller.join(S)
    # A broadcast is for the replicas that ran.
    assert answers == [{"stream": ["two", "end"], "broadcast": []}.get(how, "two")]


@pytest.mark.contract("F12.04")
@pytest.mark.heliostat_only("Ray's handles do not tell the two ends of a replica apart either")
def test_a_replica_that_leaves_by_its_own_code_fails_its_call(web: Client) -> None:
    @serve.deployment
    def leave(stays: bool = False) -> int:
        if not stays:
            ray.actor.exit_actor()
        return os.getpid()

    handle = serve.run(leave.bind(), route_prefix=None)
    before = handle.remote(stays=True).result(timeout_s=S)
    with pytest.raises(ray.exceptions.RayActorError):
        handle.remote().result(timeout_s=S)
    # Another takes its place, and nothing of it is left.
    assert handle.remote(stays=True).result(timeout_s=S) != before
    until(lambda: not is_alive(before))


@pytest.mark.contract("F12.01", "F12.07")
def test_fewer_replicas_fail_no_request(web: Client) -> None:
    handle = serve.run(Which.options(num_replicas=3).bind())
    with load(web, handle) as found:
        serve.run(Which.options(num_replicas=1).bind())
        until(lambda: running() == 1)
    assert found.failed() == []


@pytest.mark.contract("F12.01", "F12.04")
def test_a_replica_that_is_killed_is_replaced(web: Client) -> None:
    handle = serve.run(Which.bind())
    with load(web, handle) as found:
        victim = int(web.get("/").text.split()[1])
        os.kill(victim, signal.SIGKILL)
        until(lambda: running() == 2 and str(victim) not in found.http[-1][1])
    # GET is asked again of another replica; a handle's call is not, and says what happened.
    assert [one for one in found.http if one[0] != 200] == []
    lost = [one for one in found.calls if isinstance(one, Exception)]
    assert all(isinstance(one, ray.exceptions.ActorDiedError) for one in lost), lost
    assert len(lost) <= 3  # each of the threads had one call at most in it


@pytest.mark.contract("F12.04")
@pytest.mark.heliostat_only("Ray's proxy is an actor")
def test_the_ingress_is_started_again(web: Client) -> None:
    serve.run(Which.bind())
    assert web.get("/").status == 200
    os.kill(ingress_pid(), signal.SIGKILL)

    def answers() -> bool:
        try:
            return web.get("/").status == 200
        except OSError:
            return False

    until(answers)


@pytest.mark.contract("F12.02")
@pytest.mark.heliostat_only("kills the controller's process by its id")
def test_requests_are_answered_while_the_controller_is_away(web: Client) -> None:
    handle = serve.run(Which.bind())
    before = {int(web.get("/").text.split()[1]) for _ in range(10)}
    controller = ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    with load(web, handle) as found:
        ray.kill(controller, no_restart=False)
        until(lambda: serve.status().applications.get("default") is not None and running() == 2)
    assert found.failed() == []
    # The same replicas: the new controller found them.
    assert {int(web.get("/").text.split()[1]) for _ in range(10)} == before
    serve.run(Which.options(num_replicas=1).bind())
    until(lambda: running() == 1)

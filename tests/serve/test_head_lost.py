"""The head is killed while its HTTP server has requests: they go on to the replicas of other nodes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import web
from tests.helpers.harness import free_port, kill_daemon, wait_until
from tests.helpers.serving import Client

pytestmark = [
    pytest.mark.contract("F12.04"),
    pytest.mark.heliostat_only("on Ray the HTTP server ends with the head"),
]

DRIVER = """
import sys
import ray
from ray import serve

ray.init(address=sys.argv[1])
serve.start(http_options={"port": int(sys.argv[3])})

@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
class Far:
    def __call__(self, request):
        return "far"

if sys.argv[2] == "deploy":
    serve.run(Far.bind(), name="far", route_prefix="/far")
else:
    serve.delete("far")
print("done=1")
"""


@pytest.fixture
def run() -> Iterator[web.Shell]:
    with web.shell() as run:
        yield run


def is_refused(web: Client) -> bool:
    try:
        web.get("/-/healthz")
    except OSError:
        return True
    return False


class Asking(threading.Thread):
    """Asks for a path again and again, and counts what comes."""

    def __init__(self, web: Client, path: str) -> None:
        super().__init__()
        self.web, self.path = web, path
        self.is_over = threading.Event()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                answer = self.web.get(self.path)
                self.seen[f"{answer.status} {answer.text}"] += 1
            except OSError as error:
                self.seen[repr(error)] += 1


def test_requests_go_on_while_the_head_is_away(run: web.Shell, run_driver: Any) -> None:
    port, serve = free_port(), Client(free_port())
    head = ("start", "--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
    run(*head)
    latest = run.session
    address = f"127.0.0.1:{port}"
    run("start", f"--address={address}", "--num-cpus=2")
    run_driver(DRIVER, args=[address, "deploy", str(serve.port)]).check()
    asking = Asking(serve, "/far")
    asking.start()
    try:
        kill_daemon(latest)
        said = wait_until(
            lambda: (text := serve.get("/-/healthz").text) != "success" and text, what="its word"
        )
        assert said.startswith("success\nThe daemon of this node has ended"), said
        before = asking.seen.total()
        wait_until(lambda: asking.seen.total() > before + 20, what="requests without a head")
        assert serve.get("/none").status == 404
        assert latest.name in run(*head)
        wait_until(lambda: serve.get("/-/healthz").text == "success", what="the next daemon")
        before = asking.seen.total()
        wait_until(lambda: asking.seen.total() > before + 20, what="requests behind it")
    finally:
        asking.is_over.set()
        asking.join()
    assert set(asking.seen) == {"200 far"}, asking.seen
    # The next controller has the server again.
    run_driver(DRIVER, args=[address, "delete", str(serve.port)]).check()
    wait_until(lambda: serve.get("/far").status == 404, what="the end of the route")
    run("stop", "--force")
    wait_until(lambda: is_refused(serve), what="the end of the server")


def test_without_a_head_and_replicas_the_server_ends(run: web.Shell, run_driver: Any) -> None:
    port, serve = free_port(), Client(free_port())
    run("start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false")
    run_driver(DRIVER, args=[f"127.0.0.1:{port}", "deploy", str(serve.port)]).check()
    assert serve.get("/far").text == "far"
    kill_daemon(run.session)
    wait_until(lambda: is_refused(serve), what="the end of the server")

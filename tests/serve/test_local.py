"""Local testing mode: applications within the test's own process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.exceptions import RequestCancelledError
from ray.serve.handle import DeploymentHandle, DeploymentResponse

S = 60

pytestmark = pytest.mark.contract("F12.08")


@serve.deployment
class Adder:
    def __init__(self, more: int) -> None:
        self.more = more

    def reconfigure(self, config: dict[str, int]) -> None:
        self.more = config["more"]

    def __call__(self, x: int) -> int:
        return x + self.more


@serve.deployment
class Front:
    def __init__(self, first: DeploymentHandle, others: dict[str, DeploymentHandle]) -> None:
        self.first, self.others = first, others
        self.lock = threading.Lock()  # nothing is pickled
        self.began = asyncio.Event()

    async def __call__(self, x: int) -> int:
        return await self.others["b"].remote(self.first.remote(x))

    async def count(self, n: int) -> Any:
        for i in range(n):
            yield i

    def numbers(self, n: int) -> Any:
        yield from range(n)
        raise ValueError("on purpose")

    async def waits(self) -> None:
        self.began.set()
        await asyncio.get_running_loop().create_future()

    async def has_begun(self) -> bool:
        return await self.began.wait()

    def fails(self) -> None:
        raise KeyError("on purpose")


def run() -> DeploymentHandle:
    other = Adder.options(name="Other", user_config={"more": 100}).bind(0)
    app = Front.bind(Adder.bind(1), {"b": other})
    return serve.run(app, name="app", _local_testing_mode=True)


def test_deployments_call_each_other_without_a_cluster() -> None:
    handle = run()
    answer = handle.remote(10)
    assert isinstance(answer, DeploymentResponse)
    assert answer.result(timeout_s=S) == 111
    with pytest.raises(KeyError, match="on purpose"):
        handle.fails.remote().result(timeout_s=S)
    assert not ray.is_initialized()

    async def ask() -> Any:
        streamed = handle.options(stream=True).count.remote(3)
        with pytest.raises(RuntimeError):
            handle.remote(1).result()
        return await handle.remote(20), [item async for item in streamed]

    assert asyncio.run(ask()) == (121, [0, 1, 2])


def test_answers_come_one_by_one_and_calls_are_cancelled() -> None:
    handle = run()
    items = handle.options(stream=True).numbers.remote(2)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="on purpose"):
        next(items)
    waits = handle.waits.remote()
    assert handle.has_begun.remote().result(timeout_s=S)
    with pytest.raises(TimeoutError):
        waits.result(timeout_s=0.01)
    waits.cancel()
    with pytest.raises(RequestCancelledError):
        waits.result(timeout_s=S)


def test_a_constructor_that_raises_says_so() -> None:
    @serve.deployment
    class Broken:
        def __init__(self) -> None:
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        serve.run(Broken.bind(), _local_testing_mode=True)


def test_the_environment_asks_for_it(tmp_path: Any) -> None:
    import os
    import subprocess
    import sys

    script = (
        "import ray\nfrom ray import serve\n"
        "@serve.deployment\ndef f(x):\n    return 2 * x\n"
        "print(serve.run(f.bind()).remote(4).result(), ray.is_initialized())\n"
    )
    env = {**os.environ, "RAY_SERVE_FORCE_LOCAL_TESTING_MODE": "1"}
    (tmp_path / "program.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=env,
        timeout=S,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["8", "False"]


@pytest.mark.contract("F12.03", "F12.08")
def test_a_broadcast_is_one_call() -> None:
    @serve.deployment(num_replicas=3)
    class Adder:
        def add(self, x: int, y: int) -> int:
            return x + y

    handle = serve.run(Adder.bind(), _local_testing_mode=True)
    assert handle.broadcast("add", 1, y=2).results(timeout_s=60) == [3]

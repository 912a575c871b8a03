"""Calls through handles, and deployments that call each other."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import threading
import time
from types import ModuleType
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.config import BackpressureConfig
from ray.serve.exceptions import (
    BackPressureError,
    RayServeException,
    RequestCancelledError,
)
from ray.serve.handle import DeploymentHandle

from tests.helpers.harness import IS_HELIOSTAT
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60


@pytest.mark.contract("F12.02", "F12.03")
def test_methods_of_a_deployment_are_called(web: Client) -> None:
    @serve.deployment
    class Counter:
        def __init__(self, start: int, step: int = 1) -> None:
            self.number, self.step = start, step

        def __call__(self) -> int:
            return self.number

        async def add(self, times: int = 1) -> int:
            self.number += times * self.step
            return self.number

        def broken(self) -> None:
            raise ValueError("on purpose")

    handle = serve.run(Counter.bind(10, step=2), name="count", route_prefix=None)
    assert handle.remote().result(timeout_s=S) == 10
    assert handle.add.remote(times=2).result(timeout_s=S) == 14
    assert handle.options(method_name="add").remote().result(timeout_s=S) == 16
    assert serve.get_app_handle("count").remote().result(timeout_s=S) == 16
    with pytest.raises(KeyError, match="Nobody"):
        serve.get_deployment_handle("Nobody", "count")
    assert serve.get_deployment_handle("Counter", "count").add.remote(0).result(timeout_s=S) == 16
    with pytest.raises(ValueError, match="on purpose"):
        handle.broken.remote().result(timeout_s=S)
    with pytest.raises(AttributeError, match="absent"):
        handle.absent.remote().result(timeout_s=S)
    with pytest.raises(serve.exceptions.RayServeException, match="nothing"):
        serve.get_app_handle("nothing")
    serve.run(Counter.bind(1), name="one", route_prefix="/same")
    with pytest.raises(serve.exceptions.RayServeException, match=r"/same.*'one'"):
        serve.run(Counter.bind(1), name="two", route_prefix="/same")


@pytest.mark.contract("F12.03")
def test_answers_are_arguments_of_other_calls(web: Client) -> None:
    @serve.deployment
    class Adder:
        def __init__(self, more: int) -> None:
            self.more = more

        async def __call__(self, x: int) -> int:
            return x + self.more

    @serve.deployment
    class Chain:
        def __init__(self, first: DeploymentHandle, others: list[DeploymentHandle]) -> None:
            self.handles = [first, *others]

        async def __call__(self, x: Any) -> Any:
            for handle in self.handles:
                x = handle.remote(x)
            return await x

    adder = Adder.bind(1)
    handle = serve.run(Chain.bind(adder, [adder, Adder.bind(10)]), route_prefix=None)
    assert handle.remote(100).result(timeout_s=S) == 112
    # The same application bound twice is one deployment; another one of that name gets a number.
    assert set(serve.status().applications["default"].deployments) == {"Chain", "Adder", "Adder_1"}


@pytest.mark.contract("F12.03")
def test_answers_come_one_by_one(web: Client) -> None:
    @serve.deployment
    class Counts:
        def sync(self, n: int) -> Any:
            yield from range(n)

        async def aio(self, n: int) -> Any:
            for i in range(n):
                yield i

        def fails(self) -> Any:
            yield 1
            raise ValueError("on purpose")

        async def returned(self, n: int) -> Any:
            return self.aio(n)

        async def none(self) -> int:
            return 1

    handle = serve.run(Counts.bind(), route_prefix=None).options(stream=True)
    assert list(handle.sync.remote(5)) == [0, 1, 2, 3, 4]
    assert list(handle.aio.remote(5)) == [0, 1, 2, 3, 4]
    assert list(handle.returned.remote(3)) == [0, 1, 2]
    with pytest.raises(TypeError, match="generator"):
        list(handle.none.remote())
    items = handle.fails.remote()
    assert next(items) == 1
    with pytest.raises(ValueError, match="on purpose"):
        next(items)

    async def collect() -> list[int]:
        return [item async for item in handle.aio.remote(3)]

    assert asyncio.run(collect()) == [0, 1, 2]
    with pytest.raises(TypeError, match="stream=True"):
        handle.options(stream=False).sync.remote(1).result(timeout_s=S)


@pytest.mark.contract("F12.03")
def test_a_call_is_cancelled(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=5)
    class Waits:
        def __init__(self) -> None:
            self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

        async def wait(self) -> None:
            self.begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

        async def has_begun(self) -> bool:
            return await self.begun.wait()

        async def was_cancelled(self) -> bool:
            return await self.cancelled.wait()

    handle = serve.run(Waits.bind(), route_prefix=None)
    waits = handle.wait.remote()
    assert handle.has_begun.remote().result(timeout_s=S)
    with pytest.raises(TimeoutError):
        waits.result(timeout_s=0.1)
    waits.cancel()
    with pytest.raises(RequestCancelledError):
        waits.result(timeout_s=S)
    assert handle.was_cancelled.remote().result(timeout_s=S)


@pytest.mark.contract("F12.01", "F12.03")
def test_a_replica_has_so_many_calls_at_a_time(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=3)
    class Busy:
        def __init__(self) -> None:
            self.now = self.most = 0

        async def __call__(self) -> int:
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(10):
                await asyncio.sleep(0)
            self.now -= 1
            return self.most

    handle = serve.run(Busy.bind(), route_prefix=None)
    calls = [handle.remote() for _ in range(50)]
    assert max(call.result(timeout_s=S) for call in calls) <= 3
    # Calls whose answers nobody reads hold no place for good.
    for _ in range(20):
        handle.remote()
    assert handle.remote().result(timeout_s=S) <= 3


@pytest.mark.contract("F12.01", "F12.04")
def test_calls_beyond_the_queue_are_refused(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=2)
    class Waits:
        async def __call__(self) -> None:
            await asyncio.get_running_loop().create_future()

    handle = serve.run(Waits.bind(), route_prefix=None)
    first = handle.remote()
    with pytest.raises(TimeoutError):
        first.result(timeout_s=0.1)  # it has its place by now
    others = [handle.remote(), handle.remote()]
    with pytest.raises(BackPressureError) as caught:
        handle.remote().result(timeout_s=S)
    assert caught.value.status_code == 503
    for call in (*others, first):
        call.cancel()
    with pytest.raises(RequestCancelledError):
        others[1].result(timeout_s=S)


@pytest.mark.contract("F12.03")
def test_a_response_inside_another_object_is_refused(web: Client) -> None:
    @serve.deployment
    class Given:
        def __call__(self, value: object) -> object:
            return value

    handle = serve.run(Given.bind(), route_prefix=None)
    for nested in ([handle.remote(1)], {"a": handle.remote(1)}):
        with pytest.raises(RayServeException, match="DeploymentResponse"):
            handle.remote(nested).result(timeout_s=S)


@pytest.mark.contract("F12.01")
def test_what_cannot_be_serialised_is_named(web: Client) -> None:
    lock = threading.Lock()

    @serve.deployment
    class Takes:
        def __init__(self, value: object) -> None:
            self.value = value

    with pytest.raises(TypeError, match="lock") as caught:
        serve.run(Takes.bind(lock), route_prefix=None)
    if IS_HELIOSTAT:
        assert "arguments of the deployment 'Takes'" in str(caught.value)


@pytest.mark.contract("F12.02")
def test_what_runs_already_begins_anew_when_it_is_deployed_again(web: Client) -> None:
    @serve.deployment
    class Own:
        def __call__(self) -> int:
            return os.getpid()

    def deployed(one: Any) -> Any:
        return serve.run(one.bind(), route_prefix=None)

    seen: list[int] = []
    for _ in range(3):
        handle, deadline = deployed(Own), time.monotonic() + S
        # One that is on its way out may still be known here.
        while (pid := handle.remote().result(timeout_s=S)) in seen:
            assert time.monotonic() < deadline, seen
        seen.append(pid)
    # A version says that it is the same.
    handle = deployed(Own.options(version="1"))
    while (pid := handle.remote().result(timeout_s=S)) in seen:
        assert time.monotonic() < deadline, seen
    assert deployed(Own.options(version="1")).remote().result(timeout_s=S) == pid


@pytest.mark.contract("F12.05")
def test_calls_are_run_together(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=100)
    class Batched:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=60)
        async def double(self, numbers: list[int], plus: list[int]) -> list[tuple[int, int]]:
            return [(2 * n + p, len(numbers)) for n, p in zip(numbers, plus, strict=True)]

        @serve.batch(max_batch_size=10, batch_wait_timeout_s=0.01)
        async def fails(self, numbers: list[int]) -> list[int]:
            if 3 in numbers:
                raise ValueError("on purpose")
            return numbers[1:]

        async def __call__(self, n: int) -> tuple[int, int]:
            return await self.double(n, plus=1)

        async def broken(self, n: int) -> int:
            return await self.fails(n)

    handle = serve.run(Batched.bind(), route_prefix=None)
    calls = [handle.remote(n) for n in range(8)]
    assert [call.result(timeout_s=S) for call in calls] == [(2 * n + 1, 4) for n in range(8)]
    with pytest.raises(ValueError, match="on purpose"):
        handle.broken.remote(3).result(timeout_s=S)
    with pytest.raises(RayServeException):
        handle.broken.remote(1).result(timeout_s=S)
    with pytest.raises(TypeError, match="async def"):
        serve.batch(lambda x: x)


@pytest.mark.contract("F12.08")
def test_a_replica_keeps_so_many_models(web: Client) -> None:
    @serve.deployment
    class Models:
        def __init__(self) -> None:
            self.loaded: list[str] = []

        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, name: str) -> str:
            self.loaded.append(name)
            return name.upper()

        async def __call__(self, _request: Any = None) -> tuple[str, list[str]]:
            return await self.load(serve.get_multiplexed_model_id()), self.loaded

    handle = serve.run(Models.bind())
    for name in ("a", "b", "a", "c", "a", "b"):
        found = handle.options(multiplexed_model_id=name).remote().result(timeout_s=S)
        assert found[0] == name.upper()
    assert found[1] == ["a", "b", "c", "b"]
    assert web.get("/", {"serve_multiplexed_model_id": "a"}).json()[0] == "A"


@pytest.mark.contract("F12.01", "F12.07")
def test_another_user_config_reaches_the_same_replica(web: Client) -> None:
    @serve.deployment(user_config={"n": 1})
    class Configured:
        def __init__(self) -> None:
            self.made = time.time_ns()

        def reconfigure(self, config: dict[str, int]) -> None:
            self.config = config

        def __call__(self) -> tuple[int, int]:
            return self.config["n"], self.made

    first = serve.run(Configured.bind(), route_prefix=None).remote().result(timeout_s=S)
    handle = serve.run(Configured.options(user_config={"n": 2}).bind(), route_prefix=None)
    while (second := handle.remote().result(timeout_s=S))[0] == first[0]:
        pass
    assert (first[0], second[0]) == (1, 2)
    assert first[1] == second[1]


@pytest.mark.contract("F12.01", "F12.02")
def test_run_returns_when_replicas_have_taken_the_new_configuration(web: Client) -> None:
    @serve.deployment
    class Slow:
        async def reconfigure(self, config: dict[str, int]) -> None:
            await asyncio.sleep(config["seconds"])
            self.seconds = config["seconds"]

        def __call__(self) -> int:
            return self.seconds

    for seconds in (0, 1):
        app = Slow.options(user_config={"seconds": seconds}).bind()
        handle = serve.run(app, route_prefix=None)
        assert handle.remote().result() == seconds


@pytest.mark.contract("F12.01", "F12.02")
def test_a_constructor_that_raises_is_told(web: Client) -> None:
    @serve.deployment(max_constructor_retry_count=2)
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no model here")

    with pytest.raises(RuntimeError, match="no model here"):
        serve.run(Broken.bind())
    found = serve.status().applications["default"]
    assert found.status == "DEPLOY_FAILED"
    assert found.deployments["Broken"].status == "DEPLOY_FAILED"
    assert "no model here" in found.deployments["Broken"].message
    assert web.get("/").status == 503
    with pytest.raises(serve.exceptions.DeploymentUnavailableError):
        serve.get_app_handle("default").remote().result(timeout_s=S)


@pytest.mark.contract("F12.02")
def test_a_replica_knows_itself(web: Client) -> None:
    @serve.deployment
    class Knows:
        def __call__(self) -> tuple[str, str, bool]:
            found = serve.get_replica_context()
            return found.app_name, found.deployment, found.servable_object is self

    handle = serve.run(Knows.bind(), name="app", route_prefix=None)
    assert handle.remote().result(timeout_s=S) == ("app", "Knows", True)
    with pytest.raises(serve.exceptions.RayServeException):
        serve.get_replica_context()


@pytest.mark.contract("F12.01")
def test_wrong_options_are_refused() -> None:
    def options(**given: Any) -> Any:
        return serve.deployment(lambda: None, **given)

    with pytest.raises(ValueError, match="num_replicas"):
        options(num_replicas=0)
    with pytest.raises(ValueError, match="max_ongoing_requests"):
        options(max_ongoing_requests=0)
    with pytest.raises(ValueError, match="both"):
        options(num_replicas=2, autoscaling_config={"max_replicas": 3})
    with pytest.raises(TypeError):
        options(no_such_option=1)
    with pytest.raises(RuntimeError, match="bind"):
        serve.deployment(lambda: None)()
    with pytest.raises(TypeError, match="bind"):
        serve.run(serve.deployment(lambda: None))


@pytest.mark.heliostat_only("Ray has these options")
def test_options_that_are_refused_say_why() -> None:
    with pytest.raises(NotImplementedError, match=r"root_url.*root_path"):
        serve.start(http_options={"root_url": "x"})


@pytest.mark.contract("F12.01", "F12.09")
@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: serve.ControllerOptions(runtime_env={"pip": ["x"]}), ValueError, "env_vars"),
        (
            lambda: serve.ControllerOptions(runtime_env={"env_vars": {"A": 1}}),
            ValueError,
            "env_vars",
        ),
        (lambda: serve.deployment(max_replicas_per_node=0)(print), ValueError, "max_replicas"),
        (
            lambda: serve.deployment(max_replicas_per_node=1, placement_group_bundles=[{"CPU": 1}])(
                print
            ),
            ValueError,
            "max_replicas_per_node",
        ),
        (lambda: BackpressureConfig(status_code=500), ValueError, "503"),
        (lambda: BackpressureConfig(retry_after_s=-1), ValueError, "retry_after_s"),
    ],
)
def test_options_that_make_no_sense_are_refused(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.contract("F12.09")
def test_the_controller_has_variables_of_its_own(ray_start: Any) -> None:
    def seen(ctx: Any) -> tuple[int, dict[str, Any]]:
        return int(os.environ.get("SEEN_BY_POLICY", "1")), {}

    @serve.deployment(
        ray_actor_options={"num_cpus": 0},
        autoscaling_config={
            "max_replicas": 5,
            "upscale_delay_s": 0,
            "policy": {"policy_function": seen},
        },
    )
    class Counted:
        pass

    try:
        serve.start(
            proxy_location="Disabled",
            controller_options={"runtime_env": {"env_vars": {"SEEN_BY_POLICY": "3"}}},
        )
        serve.run(Counted.bind(), route_prefix=None)
        deadline = time.monotonic() + S
        while True:
            states = serve.status().applications["default"].deployments["Counted"].replica_states
            if states.get("RUNNING") == 3:
                break
            assert time.monotonic() < deadline, states
            time.sleep(0.05)
    finally:
        serve.shutdown()


@pytest.mark.heliostat_only("Ray has other sockets")
def test_sockets_are_as_long_as_the_system_allows() -> None:
    from heliostat.serve import sockets
    from heliostat.serve.context import ReplicaID
    from heliostat.serve.specs import DeploymentID

    replica = ReplicaID("r" * 90, DeploymentID("app", "d" * 90))
    name = sockets.of_replica("/", replica)
    assert name != sockets.of_replica("/", ReplicaID("r" * 90, DeploymentID("app", "d" * 91)))
    longest = "/" + "x" * (107 - len(name) - 1)
    sockets.check(longest)
    # The system's own word on it: there is no such folder, but the path could be one.
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(FileNotFoundError):
        one.bind(sockets.of_replica(longest, replica))
    with pytest.raises(RuntimeError, match=r"72 bytes.*71.*RAY_TMPDIR"):
        sockets.check(longest + "x")


@pytest.mark.contract("F12.01")
def test_a_deployment_may_have_a_long_name(web: Client) -> None:
    @serve.deployment(name="d" * 100)
    def named() -> str:
        return "here"

    assert serve.run(named.bind(), route_prefix=None).remote().result(timeout_s=S) == "here"


@pytest.mark.contract("F12.02")
def test_without_serve_there_is_nothing(ray_start: Any) -> None:
    assert serve.status().applications == {}
    serve.shutdown()
    with pytest.raises(serve.exceptions.RayServeException):
        serve.get_app_handle("default")
    assert ray.is_initialized()


@pytest.mark.contract("F12.02")
def test_the_decorator_stays_when_the_module_of_its_name_is_imported() -> None:
    module = importlib.import_module("ray.serve.deployment")
    assert isinstance(module, ModuleType)
    assert module.Deployment is serve.Deployment
    assert not isinstance(serve.deployment, ModuleType)


@pytest.mark.contract("F12.03")
def test_a_broadcast_calls_every_replica(web: Client) -> None:
    @serve.deployment(num_replicas=3, max_ongoing_requests=1)
    class Kept:
        def __init__(self) -> None:
            self.value = 0

        def keep(self, value: int, *, fails: bool = False) -> tuple[int, str]:
            if fails:
                raise ValueError("on purpose")
            before, self.value = self.value, value
            return before, serve.get_replica_context().replica_tag

        def __call__(self) -> int:
            return self.value

    handle = serve.run(Kept.bind(), route_prefix=None)
    first = handle.broadcast("keep", 5).results(timeout_s=S)
    assert [value for value, _ in first] == [0, 0, 0]
    assert len({replica for _, replica in first}) == 3

    async def later() -> Any:
        response = handle.broadcast("keep", handle.remote())
        return await response.results_async(timeout_s=S)

    assert [value for value, _ in asyncio.run(later())] == [5, 5, 5]
    assert [value for value, _ in handle.broadcast("keep", value=1).results(timeout_s=S)] == [5] * 3
    failing = handle.broadcast("keep", 2, fails=True)
    with pytest.raises(ValueError, match="on purpose"):
        failing.results(timeout_s=S)
    errors = failing.results(timeout_s=S, return_exceptions=True)
    assert [isinstance(error, ValueError) for error in errors] == [True] * 3
    with pytest.raises(ValueError, match="non-negative"):
        failing.results(timeout_s=-1)


@pytest.mark.contract("F12.03")
def test_a_broadcast_waits_no_longer_than_it_may(web: Client) -> None:
    @serve.deployment(num_replicas=2)
    class Waits:
        async def wait(self) -> None:
            await asyncio.get_running_loop().create_future()

    handle = serve.run(Waits.options(graceful_shutdown_timeout_s=0).bind(), route_prefix=None)
    with pytest.raises(TimeoutError):
        handle.broadcast("wait").results(timeout_s=0.5)


@pytest.mark.contract("F12.03")
@pytest.mark.heliostat_only("Ray's default router does not keep sessions")
def test_calls_of_a_session_go_to_one_replica(web: Client) -> None:
    @serve.deployment(num_replicas=3)
    class Named:
        def __call__(self) -> str:
            return serve.get_replica_context().replica_tag

    handle = serve.run(Named.bind(), route_prefix=None)
    by_session = {
        session: {
            handle.options(session_id=session).remote().result(timeout_s=S) for _ in range(10)
        }
        for session in map(str, range(20))
    }
    assert {len(replicas) for replicas in by_session.values()} == {1}
    assert len(set().union(*by_session.values())) == 3


@pytest.mark.contract("F12.03")
@pytest.mark.heliostat_only("calls of Heliostat travel in one way, Ray's by gRPC as well")
def test_options_of_handles_without_effect_are_checked(web: Client) -> None:
    @serve.deployment
    def answer() -> int:
        return 1

    handle = serve.run(answer.bind(), route_prefix=None)
    plain = handle.options(request_serialization="pickle", response_serialization="orjson")
    assert plain.remote().result(timeout_s=S) == 1
    with pytest.raises(ValueError, match="request_serialization"):
        handle.options(request_serialization="yaml")
    with pytest.raises(NotImplementedError, match="leave `_by_reference` out"):
        handle.options(_by_reference=False)


@pytest.mark.heliostat_only("Ray tells routers of an update some time later")
@pytest.mark.contract("F12.02")
def test_the_first_call_after_an_update_knows_of_it(
    web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heliostat.serve.router import Router

    def version(number: int) -> DeploymentHandle:
        answering = serve.deployment(name="Version")(type("Version", (), {}))
        answering.func_or_class.__call__ = lambda self: number
        return serve.run(answering.bind(), route_prefix=None)

    handle = version(0)
    assert handle.remote().result(timeout_s=S) == 0
    heard = Router._heard

    def hear_late(router: Router, targets: Any) -> None:
        time.sleep(0.3)
        heard(router, targets)

    monkeypatch.setattr(Router, "_heard", hear_late)
    for number in (1, 2, 3):
        version(number)
        assert handle.remote().result(timeout_s=S) == number


@pytest.mark.heliostat_only("on Ray a handle ends with the Serve that it is of")
@pytest.mark.contract("F12.02")
def test_a_router_that_saw_serve_end_knows_what_runs_in_the_next(web: Client) -> None:
    @ray.remote(num_cpus=0)
    class Elsewhere:
        def __init__(self) -> None:
            from heliostat.serve import router

            router._AGAIN_S = 3600.0  # it looks by itself once more, long after this test

        def ask(self, handle: DeploymentHandle) -> Any:
            try:
                return handle.remote().result(timeout_s=S)
            except RayServeException as error:
                return type(error).__name__

    @serve.deployment
    def answering() -> str:
        return "answer"

    elsewhere = Elsewhere.remote()
    handle = serve.run(answering.bind(), route_prefix=None)
    assert ray.get(elsewhere.ask.remote(handle)) == "answer"
    serve.delete("default")
    assert ray.get(elsewhere.ask.remote(handle)) == "DeploymentUnavailableError"
    serve.shutdown()
    assert ray.get(elsewhere.ask.remote(handle)) == "DeploymentUnavailableError"
    handle = serve.run(answering.bind(), route_prefix=None)
    assert ray.get(elsewhere.ask.remote(handle)) == "answer"

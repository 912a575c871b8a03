"""A replica that is chosen first and called later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle

CLUSTER = {"num_cpus": 6}
# A deadline against a hang.
S = 60


@serve.deployment(num_replicas=2, max_ongoing_requests=1, ray_actor_options={"num_cpus": 0})
class Place:
    def record_replica_metadata(self) -> dict[str, Any]:
        return {"color": "blue"}

    def who(self, *_: Any) -> str:
        return serve.get_replica_context().replica_tag

    async def count(self, most: int) -> AsyncIterator[int]:
        for number in range(most):
            yield number

    def fail(self) -> None:
        raise ValueError("wrong")


@pytest.fixture
def handle(ray_start: Any) -> Iterator[DeploymentHandle]:
    serve.start(proxy_location="Disabled")
    yield serve.run(Place.bind(), route_prefix=None)
    serve.shutdown()


def _run(body: Any) -> Any:
    return asyncio.run(asyncio.wait_for(body, S))


@pytest.mark.contract("F12.03")
def test_the_chosen_replica_answers(handle: DeploymentHandle) -> None:
    async def body() -> None:
        for _ in range(4):
            async with handle.who.choose_replica("a") as selection:
                assert selection.replica_metadata == {"color": "blue"}
                assert selection.to_dict()["replica_id"] == selection.replica_id
                assert selection.address.startswith(selection.node_ip)
                assert selection.node_id == ray.get_runtime_context().get_node_id()
                answer = await handle.dispatch(selection, "b")
            assert selection.replica_id.endswith(answer)
        async with handle.options(stream=True).count.choose_replica() as selection:
            assert [one async for one in handle.dispatch(selection, 3)] == [0, 1, 2]
        async with handle.fail.choose_replica() as selection:
            with pytest.raises(ValueError, match="wrong"):
                await handle.dispatch(selection)

    _run(body())


@pytest.mark.contract("F12.03")
def test_a_place_is_kept_until_the_end_of_the_block(handle: DeploymentHandle) -> None:
    async def body() -> None:
        async with handle.who.choose_replica() as one, handle.who.choose_replica() as two:
            assert one.replica_id != two.replica_id, "each has room for one"
            waiting = handle.who.remote()
            entering = asyncio.ensure_future(handle.who.choose_replica().__aenter__())
            first = await handle.dispatch(two)
            assert two.replica_id.endswith(first)
            assert await waiting == first, "the place of two is free again, that of one is not"
            entering.cancel()
        assert await asyncio.gather(*(handle.who.remote() for _ in range(4)))

    _run(body())


@pytest.mark.contract("F12.03")
def test_a_selection_is_for_one_call_of_its_deployment(handle: DeploymentHandle) -> None:
    other = serve.run(Place.options(name="Other").bind(), name="other", route_prefix=None)

    async def body() -> None:
        async with handle.who.choose_replica() as selection:
            with pytest.raises(ValueError, match="Other"):
                other.dispatch(selection)
            await handle.dispatch(selection)
            with pytest.raises(RuntimeError, match="already"):
                handle.dispatch(selection)

    _run(body())


@pytest.mark.contract("F12.03")
def test_a_chosen_replica_that_dies_is_not_replaced(handle: DeploymentHandle) -> None:
    async def body() -> None:
        async with handle.who.choose_replica() as selection:
            for row in ray.util.list_named_actors(all_namespaces=True):
                if selection.replica_id.split("#")[-1] in row["name"]:
                    ray.kill(ray.get_actor(row["name"], namespace=row["namespace"]))
            with pytest.raises(ray.exceptions.RayError):
                await handle.dispatch(selection)
        assert await handle.who.remote()

    _run(body())


@pytest.mark.heliostat_only("It is our router's rule, and the HTTP server's")
def test_equals_have_their_turn_and_the_fewest_calls_come_first() -> None:
    from heliostat.core.platform import serving
    from heliostat.serve.router import Call, Load, Router
    from heliostat.serve.specs import Targets

    router: Any = Router.__new__(Router)
    loads = [Load.__new__(Load) for _ in range(3)]
    router.targets, router.turns = Targets(1, True, max_ongoing=2), serving.Turns()
    router.order = loads

    def chosen() -> int | None:
        call = Call(router, tuple(serve.context.RequestContext()), "m", False, (), {})
        load = router._pick(call)
        if load is not None:
            load.calls.add(call)
        return None if load is None else loads.index(load)

    assert [chosen() for _ in range(4)] == [0, 1, 2, 0]
    loads[1].calls.clear()
    assert [chosen() for _ in range(3)] == [1, 2, 1], "the fewest, then whose turn it is"
    assert chosen() is None
    loads[0].calls.clear()
    loads[2].calls.clear()
    loads[0].is_leaving = True
    assert [chosen() for _ in range(3)] == [2, 2, None]


@pytest.mark.heliostat_only("It is a thread of ours")
def test_threads_that_choose_replicas_end_before_the_interpreter() -> None:
    from heliostat.serve import routing
    from heliostat.serve.router import Router
    from ray.serve.config import RequestRouterConfig

    made = routing.Routing(Router.__new__(Router), RequestRouterConfig())
    assert made._thread.is_alive()
    routing._end_all()
    assert not made._thread.is_alive()

"""Routers of the user's own: which replica a handle's call goes to."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.config import DeploymentActorConfig, RequestRouterConfig
from ray.serve.experimental.capacity_queue import CapacityQueue
from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from tests.helpers.harness import IS_HELIOSTAT, wait_until
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60
pytestmark = pytest.mark.contract("F12.03")


@serve.deployment(num_replicas=3, max_ongoing_requests=2)
class Place:
    """Says who it is, and waits for a file if it is told one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, wait: str = "", begun: str = "") -> str:
        self.calls += 1
        if begun:
            Path(begun).touch()
        while wait and not os.path.exists(wait):
            time.sleep(0.01)
        return serve.get_replica_context().replica_id.unique_id

    def pid(self) -> tuple[str, int]:
        return serve.get_replica_context().replica_id.unique_id, os.getpid()

    def record_routing_stats(self) -> dict[str, Any]:
        return {"calls": self.calls}

    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model: str) -> str:
        return model

    async def with_model(self) -> str:
        await self.load(serve.get_multiplexed_model_id())
        return serve.get_replica_context().replica_id.unique_id


def by_id(replicas: list[RunningReplica]) -> list[RunningReplica]:
    return sorted(replicas, key=lambda one: one.replica_id.unique_id)


class Numbered(RequestRouter):
    """All calls to the replica of that number, then to those after it."""

    # What the router of this process was told; the class travels by value, its state does not.
    def initialize_state(self, number: int = 0, log: str = "", only: bool = False) -> None:
        self.number, self.log, self.only = number, log, only

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        ranks = [[one] for one in by_id(candidate_replicas)[self.number :]]
        return ranks[:1] if self.only else ranks

    def on_request_routed(
        self, request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        self.note(f"routed {request.metadata.internal_request_id} {request.metadata.call_method}")

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self.note(f"completed {internal_request_id} {replica_id.deployment_id.name}")

    def note(self, line: str) -> None:
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{line}\n")


def numbered(**kwargs: Any) -> RequestRouterConfig:
    return RequestRouterConfig(request_router_class=Numbered, request_router_kwargs=kwargs)


def replicas_of(handle: Any) -> list[str]:
    """All replicas, in the order of their ids."""
    pids = handle.broadcast("pid").results(timeout_s=S)
    return sorted(name for name, _ in pids)


def test_calls_go_where_the_router_says(web: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = numbered(number=1, log=str(log))
    handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)
    names = replicas_of(handle)
    got = [handle.remote().result(timeout_s=S) for _ in range(6)]
    assert set(got) == {names[1]}
    lines = wait_until(
        lambda: (told := log.read_text().splitlines()) and len(told) == 12 and told, within=S
    )
    routed = [line.split() for line in lines if line.startswith("routed")]
    completed = [line.split() for line in lines if line.startswith("completed")]
    assert [one[2] for one in routed] == ["__call__"] * 6
    assert [one[2] for one in completed] == ["Place"] * 6
    assert {one[1] for one in routed} == {one[1] for one in completed}


class ByQuery(Numbered):
    """A request over HTTP goes to the replica whose number is its query."""

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        assert pending_request is not None
        self.note(f"model {pending_request.metadata.multiplexed_model_id}")
        asked = pending_request.args[0]["query_string"]
        return [[by_id(candidate_replicas)[int(asked) % len(candidate_replicas)]]]


@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's routers get a pickled request for an argument")
def test_requests_over_http_go_where_the_router_says(web: Client, tmp_path: Path) -> None:
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    end, log = tmp_path / "end", tmp_path / "log"

    @serve.deployment(num_replicas=3, max_ongoing_requests=1, max_queued_requests=1)
    class Web:
        async def __call__(self, request: Request) -> Any:
            name = serve.get_replica_context().replica_id.unique_id
            if request.url.path == "/name":
                return name
            if request.url.path == "/wrong":
                raise ValueError("wrong")
            if request.url.path == "/dies":
                if not os.path.exists(end):
                    end.touch()
                    os._exit(1)
                return name
            if request.url.path == "/wait":
                while not os.path.exists(end):
                    await asyncio.sleep(0.01)
                return name
            body = await request.body()
            pieces = [body[at : at + 300_000] for at in range(0, len(body), 300_000)]

            async def each() -> AsyncIterator[bytes]:
                for piece in pieces:
                    yield piece

            headers = {"x-replica": name}
            return StreamingResponse(each(), status_code=201, headers=headers)

    config = RequestRouterConfig(
        request_router_class=ByQuery, request_router_kwargs={"log": str(log)}
    )
    handle = serve.run(Web.options(request_router_config=config).bind())
    names = sorted(one["replica_id"] for one in replica_rows())
    assert handle.deployment_name == "Web"
    headers = {"serve_multiplexed_model_id": "m"}
    got = [web.get(f"/name?{number}", headers).text for number in (2, 0, 1, 2)]
    assert got == [names[2], names[0], names[1], names[2]]
    assert set(log.read_text().split()) >= {"model", "m", "routed", "__serve_answer__"}
    # Bodies of either direction, longer than what is under way at a time.
    body = os.urandom(5 << 20)
    answer = web.ask("POST", "/echo?1", body)
    assert (answer.status, answer.headers["x-replica"]) == (201, names[1])
    assert answer.body == body
    assert web.get("/wrong?1").status == 500
    # One waits at a full replica, and the next one is refused.
    with ThreadPoolExecutor(3) as threads:
        held = threads.submit(web.get, "/wait?0")
        wait_until(lambda: log.read_text().count("routed") == 7, within=S)
        second = threads.submit(web.get, "/name?0")
        wait_until(lambda: log.read_text().count("model") > 7, within=S)
        assert web.get("/name?0").status == 503
        end.touch()
        assert {held.result().text, second.result().text} == {names[0]}
    # A GET is asked again where its replica has died.
    end.unlink()
    assert web.get("/dies?2").status == 200


def replica_rows() -> list[Any]:
    """The replicas of the application ``default``, as the controller tells of them."""
    from heliostat.serve import specs

    controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
    details = ray.get(controller.details.remote())
    return list(details["applications"]["default"]["deployments"]["Web"]["replicas"])


def test_a_full_replica_gets_no_call_and_the_next_rank_does(web: Client, tmp_path: Path) -> None:
    end = tmp_path / "end"
    deployment = Place.options(request_router_config=numbered())
    handle = serve.run(deployment.bind(), route_prefix=None)
    names = replicas_of(handle)
    calls = [handle.remote(str(end)) for _ in range(4)]
    assert handle.remote().result(timeout_s=S) == names[2]
    end.touch()
    got = Counter(call.result(timeout_s=S) for call in calls)
    assert got == {names[0]: 2, names[1]: 2}


def test_calls_wait_for_the_one_replica_that_the_router_wants(web: Client, tmp_path: Path) -> None:
    end = tmp_path / "end"
    deployment = Place.options(request_router_config=numbered(only=True))
    handle = serve.run(deployment.bind(), route_prefix=None)
    names = replicas_of(handle)
    begun = [tmp_path / f"begun{i}" for i in range(6)]
    calls = [handle.remote(str(end), str(one)) for one in begun]
    wait_until(lambda: sum(one.exists() for one in begun) == 2, within=S, what="two calls")
    calls[-1].cancel()
    with pytest.raises(serve.exceptions.RequestCancelledError):
        calls[-1].result(timeout_s=S)
    assert sum(one.exists() for one in begun) == 2
    end.touch()
    assert {call.result(timeout_s=S) for call in calls[:-1]} == {names[0]}
    assert not begun[-1].exists()


class Idlest(RequestRouter):
    """The replica that has told of the fewest calls."""

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        known = [one for one in candidate_replicas if "calls" in one.routing_stats]
        return [[min(known, key=lambda one: one.routing_stats["calls"])]] if known else []


def test_what_replicas_record_reaches_the_router(web: Client) -> None:
    config = RequestRouterConfig(request_router_class=Idlest, request_routing_stats_period_s=0.05)
    handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)
    # The first call waits until a replica has told; then each is the idlest in turn.
    found: set[str] = set()

    def all_are_used() -> bool:
        found.add(handle.remote().result(timeout_s=S))
        return len(found) == 3

    wait_until(all_are_used, within=S, what="calls to all replicas")


@pytest.mark.parametrize("does", ["raise", "return", "sleep"])
def test_a_replica_that_cannot_record_answers_all_the_same(web: Client, does: str) -> None:
    @serve.deployment(
        request_router_config=RequestRouterConfig(
            request_router_class=Numbered,
            request_routing_stats_period_s=0.02,
            request_routing_stats_timeout_s=0.05,
        )
    )
    class Recorder:
        tries = 0

        async def record_routing_stats(self) -> Any:
            self.tries += 1
            if does == "raise":
                raise KeyError("nothing")
            if does == "sleep":
                import asyncio

                await asyncio.sleep(3600)
            return 7

        def __call__(self) -> int:
            return self.tries

    handle = serve.run(Recorder.bind(), route_prefix=None)
    wait_until(lambda: handle.remote().result(timeout_s=S) >= 3, within=S, what="three tries")


class Models(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """As the mixins rank."""

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        assert pending_request is not None
        model = pending_request.metadata.multiplexed_model_id
        if not model:
            return self.rank_replicas_via_locality(candidate_replicas)
        # Of several of a rank the one with the least id, so that a test knows it.
        ranks = self.rank_replicas_via_multiplex(candidate_replicas, model)
        return [[one] for rank in ranks for one in by_id(rank)]


def test_models_are_asked_for_where_they_are_loaded(web: Client) -> None:
    config = RequestRouterConfig(request_router_class=Models)
    handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)
    names = replicas_of(handle)

    def ask(model: str) -> str:
        return str(
            handle.options(multiplexed_model_id=model).with_model.remote().result(timeout_s=S)
        )

    assert ask("a") == names[0]
    # Once it is known that the first has a model, another model goes where there are fewer.
    other = wait_until(
        lambda: (got := ask(f"b{time.monotonic_ns()}")) != names[0] and got, within=S
    )
    assert other in names[1:]
    # Where it is loaded it stays: a replica that has it is chosen before those with fewer models.
    kept = [ask("kept") for _ in range(5)]
    wait_until(lambda: ask("kept") == ask("kept"), within=S)
    assert len(set(kept)) <= 2
    assert handle.remote().result(timeout_s=S) in names


def test_what_a_router_does_wrong_is_the_calls_error(web: Client) -> None:
    class Raises(RequestRouter):
        async def choose_replicas(
            self, candidate_replicas: Any, pending_request: Any = None
        ) -> Any:
            raise KeyError("no replica pleases")

    class Mistakes(RequestRouter):
        async def choose_replicas(
            self, candidate_replicas: Any, pending_request: Any = None
        ) -> Any:
            return candidate_replicas

    class Begins(Raises):
        def initialize_state(self, **kwargs: Any) -> None:
            raise OSError("no state")

    for chosen, error, words in (
        (Raises, KeyError, "no replica pleases"),
        (Mistakes, TypeError, "ranks of the replicas"),
        (Begins, OSError, "no state"),
    ):
        config = RequestRouterConfig(request_router_class=chosen)
        handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)

        def fails(handle: Any = handle, error: Any = error, words: str = words) -> bool:
            # The router of the deployment before may have the first calls.
            try:
                handle.remote().result(timeout_s=S)
            except error as raised:
                return words in str(raised)
            except (KeyError, TypeError, OSError):
                return False
            return False

        wait_until(fails, within=S, what=f"{words!r}")
    # A deployment without a router of its own again has nothing of it.
    handle = serve.run(Place.bind(), route_prefix=None)

    def answers() -> bool:
        try:
            return bool(handle.remote().result(timeout_s=S))
        except OSError:
            return False

    wait_until(answers, within=S, what="an answer")


def test_another_router_needs_no_other_replicas(web: Client) -> None:
    handle = serve.run(Place.options(request_router_config=numbered()).bind(), route_prefix=None)
    names = replicas_of(handle)
    assert handle.remote().result(timeout_s=S) == names[0]
    handle = serve.run(
        Place.options(request_router_config=numbered(number=2)).bind(), route_prefix=None
    )
    wait_until(lambda: handle.remote().result(timeout_s=S) == names[2], within=S)
    assert replicas_of(handle) == names


def test_a_replica_that_dies_is_chosen_no_more(web: Client, tmp_path: Path) -> None:
    handle = serve.run(Place.options(request_router_config=numbered()).bind(), route_prefix=None)
    pids = dict(handle.broadcast("pid").results(timeout_s=S))
    names = sorted(pids)
    begun = tmp_path / "begun"
    lost = handle.remote(str(tmp_path / "never"), str(begun))
    wait_until(begun.exists, within=S, what="the call")
    os.kill(pids[names[0]], signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        lost.result(timeout_s=S)
    got = {handle.remote().result(timeout_s=S) for _ in range(10)}
    assert names[0] not in got
    assert got


def test_bad_configurations(web: Client) -> None:
    with pytest.raises(ValueError, match="cannot be imported"):
        RequestRouterConfig(request_router_class="no.such:Router")
    with pytest.raises((TypeError, ValueError), match="subclass of RequestRouter"):
        RequestRouterConfig(request_router_class=len)
    with pytest.raises(ValueError, match="JSON"):
        RequestRouterConfig(request_router_class=Numbered, request_router_kwargs={"a": object()})
    with pytest.raises(ValueError, match="max_backoff_s"):
        RequestRouterConfig(max_backoff_s=0)
    config = numbered(number=1)
    assert config.request_router_class == f"{__name__}:Numbered"
    assert config == numbered(number=1) != numbered(number=2)


def test_the_first_burst_of_a_handle_is_refused_beyond_the_queue(
    web: Client, tmp_path: Path
) -> None:
    end = tmp_path / "end"

    @ray.remote
    def burst(handle: Any, path: str) -> int:
        # This process has never heard of the replicas when it makes its calls.
        calls = [handle.remote(path) for _ in range(8)]
        refused = 0
        for call in calls[3:]:
            try:
                call.result(timeout_s=S)
            except serve.exceptions.BackPressureError:
                refused += 1
                if refused == 5:
                    Path(path).touch()
        assert all(call.result(timeout_s=S) for call in calls[:3])
        return refused

    deployment = Place.options(num_replicas=1, max_ongoing_requests=1, max_queued_requests=2)
    handle = serve.run(deployment.bind(), route_prefix=None)
    assert ray.get(burst.remote(handle, str(end)), timeout=S) == 5


def of_experimental(name: str, **kwargs: Any) -> RequestRouterConfig:
    return RequestRouterConfig(
        request_router_class=f"ray.serve.experimental.{name}", request_router_kwargs=kwargs
    )


def test_replicas_take_turns(web: Client) -> None:
    config = of_experimental("round_robin_router:RoundRobinRouter")
    handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)
    turns = [handle.remote().result(timeout_s=S) for _ in range(9)]
    assert len(set(turns[:3])) == 3
    assert turns == turns[:3] * 3
    # Those with a model take turns where it is.
    named = handle.options(multiplexed_model_id="m").with_model
    asked = {named.remote().result(timeout_s=S)}

    def stay() -> bool:
        found = {named.remote().result(timeout_s=S) for _ in range(3)}
        known = found <= asked
        asked.update(
            found
        )  # until it is heard where the model is, another replica may load it, too
        return known

    wait_until(stay, within=S)


@ray.remote(num_cpus=0)
def asked_elsewhere(handle: Any, sessions: list[str]) -> list[str]:
    return [handle.options(session_id=one).remote().result(timeout_s=S) for one in sessions]


def test_a_session_has_one_replica_whoever_asks(web: Client) -> None:
    config = of_experimental("consistent_hash_router:ConsistentHashRouter", num_virtual_nodes=50)
    handle = serve.run(Place.options(request_router_config=config).bind(), route_prefix=None)
    sessions = [f"session {number}" for number in range(30)]
    here = [handle.options(session_id=one).remote().result(timeout_s=S) for one in sessions]
    assert len(set(here)) == 3
    assert ray.get(asked_elsewhere.remote(handle, sessions)) == here
    wrong = of_experimental("consistent_hash_router:ConsistentHashRouter", num_fallback_replicas=-1)
    handle = serve.run(Place.options(request_router_config=wrong).bind(), route_prefix=None)
    if IS_HELIOSTAT:  # on Ray a call waits forever
        with pytest.raises(ValueError, match="num_fallback_replicas"):
            handle.remote().result(timeout_s=S)


@ray.remote(num_cpus=0)
def held(handle: Any, number: int, wait: str) -> int:
    calls = [handle.remote(wait=wait) for _ in range(number)]
    return len({call.result(timeout_s=S) for call in calls})


def test_processes_share_one_count(web: Client, tmp_path: Path) -> None:
    queue = DeploymentActorConfig(
        name="queue", actor_class=CapacityQueue, init_kwargs={"acquire_timeout_s": 1}
    )
    config = of_experimental(
        "capacity_queue_router:CapacityQueueRouter", capacity_queue_actor_name="queue"
    )
    deployment = serve.deployment(
        num_replicas=3,
        max_ongoing_requests=2,
        request_router_config=config,
        deployment_actors=[queue],
    )(Place.func_or_class)
    handle = serve.run(deployment.bind(), route_prefix=None)
    wait = str(tmp_path / "go on")
    # As many as all replicas take, from two processes that do not know of each other.
    ends = [held.remote(handle, 3, wait) for _ in range(2)]
    actor = next(
        row["name"]
        for row in ray.util.list_named_actors(all_namespaces=True)
        if row["name"].endswith("::queue")
    )
    shared = ray.get_actor(actor, namespace="serve")
    wait_until(lambda: ray.get(shared.get_stats.remote()).total_in_flight == 6, within=S)
    taken = ray.get(shared.get_replica_in_flight.remote())
    assert set(taken.values()) == {(2, 2)}
    more = handle.remote()
    wait_until(lambda: ray.get(shared.get_num_waiters.remote()) == 1, within=S)
    Path(wait).touch()
    assert sum(ray.get(ends, timeout=S)) >= 4
    assert more.result(timeout_s=S) in taken
    wait_until(lambda: ray.get(shared.get_stats.remote()).total_in_flight == 0, within=S)
    assert ray.get(shared.get_queue_length.remote()) == 6

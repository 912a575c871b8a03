"""The shapes of programs in Ray's documentation that nothing else here has, in code of our own."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest
import ray
from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, DeploymentID, RequestRouterConfig
from ray.serve.dag import InputNode
from ray.serve.handle import DeploymentHandle

from tests.helpers.harness import wait_until
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}

# What a file next to the program has: policies and routers are named by their path.
MODULE = """
import asyncio
import json
import random

from ray.serve.config import AutoscalingContext, DeploymentID
from ray.serve.request_router import PendingRequest, ReplicaID, ReplicaResult, RequestRouter


class FromFile:
    def __init__(self, file_path: str, poll_interval_s: float) -> None:
        self.path, self.every_s, self.wanted, self.task = file_path, poll_interval_s, 1, None

    async def poll(self) -> None:
        while True:
            with open(self.path) as file:
                self.wanted = json.load(file)["replicas"]
            await asyncio.sleep(self.every_s)

    def __call__(self, context: AutoscalingContext):
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.poll())
        return self.wanted, {"last": self.wanted}


class Shuffled(RequestRouter):
    async def choose_replicas(self, candidate_replicas, pending_request=None):
        random.shuffle(candidate_replicas)
        return [candidate_replicas]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        self.last = replica_id
"""


class Text(BaseModel):
    text: str


def test_applications_over_http(web: Client) -> None:
    @serve.deployment
    class OwnThreads:
        def __init__(self) -> None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))

        async def __call__(self) -> Any:
            return await asyncio.to_thread(lambda: "from a thread")

    @ray.remote
    def square(number: int) -> int:
        return number * number

    @serve.deployment
    class Tasks:
        async def __call__(self, request: Any) -> Any:
            return {"squares": await asyncio.gather(*[square.remote(one) for one in range(3)])}

    @serve.deployment
    def running() -> list[str]:
        apps = serve.status().applications.items()
        return sorted(name for name, app in apps if app.status == "RUNNING")

    @serve.deployment
    class Parameters:
        def __call__(self, request: Any) -> Any:
            return request.query_params

    for made in (OwnThreads, Tasks, Parameters, running):
        serve.run(made.bind(), name=made.name, route_prefix=f"/{made.name}")
    assert web.get("/OwnThreads").text == "from a thread"
    assert web.get("/Tasks").json() == {"squares": [0, 1, 4]}
    assert web.get("/running").json() == ["OwnThreads", "Parameters", "Tasks", "running"]
    assert web.get("/Parameters?a=b&c=d").json() == {"a": "b", "c": "d"}


@pytest.mark.contract("F12.04")
def test_a_function_makes_the_fastapi_application_in_each_replica(web: Client) -> None:
    @serve.deployment
    class Length:
        def of(self, text: str) -> int:
            return len(text)

    def made() -> FastAPI:
        app = FastAPI()

        @app.middleware("http")
        async def signed(request: Any, answer: Callable[[Any], Any]) -> Any:
            response = await answer(request)
            response.headers["x-signed"] = "yes"
            return response

        @app.exception_handler(ValueError)
        async def refused(request: Any, error: Any) -> Any:
            return JSONResponse({"error": str(error)}, 400)

        def other() -> Any:
            return serve.get_deployment_handle("Length", "default")

        @app.post("/length")
        async def length(given: Text, handle: Annotated[Any, Depends(other)]) -> Any:
            if not given.text:
                raise ValueError("empty")
            return {"length": await handle.of.remote(given.text)}

        return app

    @serve.deployment
    @serve.ingress(made)
    class Front:
        def __init__(self, length: DeploymentHandle) -> None:
            self.length = length

    serve.run(Front.bind(Length.bind()))
    found = web.ask("POST", "/length", '{"text": "abc"}', {"content-type": "application/json"})
    assert (found.json(), found.headers["x-signed"]) == ({"length": 3}, "yes")
    found = web.ask("POST", "/length", '{"text": ""}', {"content-type": "application/json"})
    assert (found.status, found.json()) == (400, {"error": "empty"})

    def bare() -> FastAPI:
        app = FastAPI()
        app.get("/")(lambda: "without a class")
        return app

    serve.run(serve.deployment(serve.ingress(bare)()).bind())
    assert web.get("/").json() == "without a class"


@pytest.mark.contract("F12.06")
def test_policies_and_routers_are_named_by_their_path(
    web: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "next_to_it.py").write_text(MODULE)
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"replicas": 2}))
    monkeypatch.syspath_prepend(tmp_path)
    here: dict[str, Any] = {"runtime_env": {"env_vars": {"PYTHONPATH": str(tmp_path)}}}
    policy = AutoscalingPolicy(
        policy_function="next_to_it:FromFile",
        policy_kwargs={"file_path": str(wanted), "poll_interval_s": 0.1},
    )
    scaling = AutoscalingConfig(
        min_replicas=1, max_replicas=4, upscale_delay_s=0.1, downscale_delay_s=0.1, policy=policy
    )

    @serve.deployment(
        autoscaling_config=scaling,
        request_router_config=RequestRouterConfig(request_router_class="next_to_it:Shuffled"),
        ray_actor_options={"num_cpus": 0, **here},
    )
    class Scaled:
        def __call__(self) -> str:
            return "answered"

    handle = serve.run(Scaled.bind())

    def count() -> int:
        states = serve.status().applications["default"].deployments["Scaled"].replica_states
        return states.get("RUNNING", 0)

    wait_until(lambda: count() == 2, what="as many replicas as the file says")
    wanted.write_text(json.dumps({"replicas": 3}))
    wait_until(lambda: count() == 3, what="as many as it says now")
    assert {handle.remote().result() for _ in range(10)} == {"answered"}
    assert web.get("/").text == "answered"


def test_names_that_programs_import() -> None:
    from ray import dag
    from ray.serve.context import _get_internal_replica_context

    assert InputNode is dag.InputNode
    assert {"name", "app_name"} <= {*dir(DeploymentID)}
    assert _get_internal_replica_context() is None

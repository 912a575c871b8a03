"""The number of replicas follows the load."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from ray import serve
from ray.serve.config import AutoscalingContext, AutoscalingPolicy

from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60
QUICK = {
    "min_replicas": 0,
    "max_replicas": 3,
    "target_ongoing_requests": 1,
    "upscale_delay_s": 0.2,
    "downscale_delay_s": 0.5,
    "look_back_period_s": 0.5,
}


@serve.deployment(max_ongoing_requests=2, autoscaling_config=QUICK)
class Waits:
    async def __call__(self, _request: Any = None) -> str:
        return "here"

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


def running() -> int:
    states = serve.status().applications["default"].deployments["Waits"].replica_states
    return states.get("RUNNING", 0)


def until(number: int) -> None:
    deadline = time.monotonic() + S
    while running() != number:
        assert time.monotonic() < deadline, f"{running()} replicas run, not {number}"
        time.sleep(0.02)


@pytest.mark.contract("F12.06")
def test_a_request_is_held_until_there_is_a_replica(web: Client) -> None:
    handle = serve.run(Waits.bind())
    assert running() == 0
    assert handle.remote().result(timeout_s=S) == "here"
    until(0)
    assert web.get("/").text == "here"
    until(0)


@pytest.mark.contract("F12.06")
def test_more_requests_have_more_replicas(web: Client) -> None:
    handle = serve.run(Waits.options(graceful_shutdown_timeout_s=0.1).bind())
    calls = [handle.wait.remote() for _ in range(5)]
    until(3)
    for call in calls:
        call.cancel()
    until(0)
    threads = [threading.Thread(target=web.get, args=("/",)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(S)
        assert not thread.is_alive()


def by_depth(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    depths = ctx.aggregated_metrics.get("depth", {}).values()
    return max(depths, default=ctx.target_num_replicas), {}


@pytest.mark.contract("F12.08")
def test_a_policy_follows_what_replicas_record(web: Client) -> None:
    @serve.deployment(
        name="Waits",
        autoscaling_config={
            **QUICK,
            "min_replicas": 1,
            "metrics_interval_s": 0.2,
            "aggregation_function": "max",
            "policy": AutoscalingPolicy(policy_function=by_depth),
        },
    )
    class Deep:
        def __init__(self) -> None:
            self.depth = 1.0

        def __call__(self, depth: float) -> None:
            self.depth = depth

        def record_autoscaling_stats(self) -> dict[str, float]:
            return {"depth": self.depth}

    handle = serve.run(Deep.bind(), route_prefix=None)
    until(1)
    handle.remote(3).result(timeout_s=S)
    until(3)

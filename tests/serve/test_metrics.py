"""Metrics of deployments, as the node's daemon serves them."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from ray import serve
from starlette.requests import Request

from tests.helpers.harness import free_port
from tests.helpers.scraping import gone, lacking, until
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 4, "_metrics_export_port": free_port()}


@pytest.mark.contract("F12.08")
def test_requests_are_counted(web: Client) -> None:
    @serve.deployment
    class Works:
        def __init__(self) -> None:
            self.odd = serve.metrics.Counter("odd_ones", "", ("model", "route"))
            self.odd.set_default_tags({"model": "small"})
            self.size = serve.metrics.Histogram("sizes", "", [1.0, 10.0], ("model",))
            self.last = serve.metrics.Gauge("last_one")

        def __call__(self, request: Request) -> str:
            number = int(request.query_params["n"])
            if number % 2:
                self.odd.inc()
            self.size.observe(number, {"model": "large"})
            self.last.set(number)
            if number == 9:
                raise ValueError("on purpose")
            return "here"

    serve.run(Works.bind(), name="app", route_prefix="/works")
    for number in (1, 2, 3, 9):
        web.get(f"/works?n={number}")
    tags = {"deployment": "Works", "application": "app"}
    until("ray_odd_ones_total", 3, model="small", route="/works", **tags)
    until("ray_sizes_count", 4, model="large", **tags)
    until("ray_last_one", 9, **tags)
    until("ray_serve_deployment_request_counter_total", 4, route="/works", **tags)
    until("ray_serve_deployment_error_counter_total", 1, route="/works", **tags)
    until("ray_serve_deployment_processing_latency_ms_count", 4, **tags)
    until("ray_serve_replica_processing_queries", 0, **tags)
    until(
        "ray_serve_num_http_requests_total", 3, method="GET", status_code="200", application="app"
    )
    until("ray_serve_num_http_error_requests_total", 1, status_code="500", application="app")


@pytest.mark.contract("F12.08")
def test_outside_of_replicas_they_are_plain(ray_start: Any) -> None:
    counter = serve.metrics.Counter("plain_ones", "", ("model",))
    counter.inc(2, {"model": "x"})
    assert counter.info["tag_keys"] == ("model",)
    until("ray_plain_ones_total", 2, model="x")
    with pytest.raises(TypeError, match="tag_keys"):
        serve.metrics.Counter("bad", "", ["model"])  # type: ignore[arg-type] # on purpose
    assert ray.is_initialized()


@pytest.mark.contract("F6.23", "F12.08")
def test_what_dashboards_of_serve_ask_for_is_measured(web: Client) -> None:
    """Ray's own default dashboards show figures; test_grpc.py has those of gRPC."""

    @serve.deployment(
        max_ongoing_requests=2,
        autoscaling_config={"min_replicas": 1, "max_replicas": 2},
    )
    class Holds:
        @serve.multiplexed(max_num_models_per_replica=1)
        async def model(self, name: str) -> str:
            return name

        async def __call__(self, request: Request) -> str:
            return await self.model(request.query_params["model"])

    serve.run(Holds.bind(), name="app", route_prefix="/models")
    for name in ("a", "b", "a", "a"):
        assert web.get(f"/models?model={name}").text == name
    own = {"application", "deployment"}
    replica = {*own, "replica"}
    assert not lacking(
        {
            "ray_serve_deployment_replica_healthy": replica,
            "ray_serve_deployment_queued_queries": own,
            "ray_serve_deployment_request_counter_total": {*replica, "route"},
            "ray_serve_deployment_processing_latency_ms_bucket": {*replica, "route", "le"},
            "ray_serve_replica_processing_queries": replica,
            "ray_serve_num_http_requests_total": {"application", "route", "method"},
            "ray_serve_http_request_latency_ms_bucket": {"application", "route", "le"},
            "ray_serve_num_ongoing_http_requests": set(),
            "ray_serve_controller_num_control_loops": set(),
            "ray_serve_controller_control_loop_duration_s": set(),
            "ray_serve_multiplexed_model_load_latency_ms_bucket": {*replica, "le"},
            "ray_serve_multiplexed_model_unload_latency_ms_bucket": {*replica, "le"},
            "ray_serve_registered_multiplexed_model_id": {"model_id"},
        }
    )
    tags = {"application": "app", "deployment": "Holds"}
    until("ray_serve_deployment_replica_healthy", 1, **tags)
    until("ray_serve_multiplexed_get_model_requests_counter_total", 4, **tags)
    until("ray_serve_multiplexed_models_load_counter_total", 3, **tags)
    until("ray_serve_multiplexed_models_unload_counter_total", 2, **tags)
    until("ray_serve_num_multiplexed_models", 1, **tags)
    serve.delete("app")
    assert lacking({"ray_serve_controller_num_control_loops": set()}) == {}
    gone("ray_serve_deployment_replica_healthy", **tags)

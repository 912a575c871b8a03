"""Metrics of deployments, as the node's daemon serves them."""

from __future__ import annotations

import http.client
import re
import time
from typing import Any

import pytest
import ray
from harness import IS_HELIOSTAT, free_port
from ray import serve
from serving import Client
from starlette.requests import Request

CLUSTER = {"num_cpus": 4, "_metrics_export_port": free_port()}
# A deadline against a hang: Ray tells metrics each ten seconds.
S = 60


def scrape() -> str:
    headers = {}
    if IS_HELIOSTAT:
        from heliostat.core import auth

        headers = {"Authorization": f"Bearer {auth.token(False)}"}
    node = ray.nodes()[0]
    link = http.client.HTTPConnection(
        node["NodeManagerAddress"], node["MetricsExportPort"], timeout=S
    )
    try:
        link.request("GET", "/metrics", headers=headers)
        return link.getresponse().read().decode()
    finally:
        link.close()


def until(name: str, value: float, **tags: str) -> None:
    """Until the series with those tags has that sum."""
    deadline = time.monotonic() + S
    while True:
        text = scrape()
        found = [
            float(match[2])
            for match in re.finditer(rf"^ray_{name}{{(.*)}} (\S+)$", text, re.M)
            if all(f'{key}="{tag}"' in match[1] for key, tag in tags.items())
        ]
        if sum(found) == value:
            return
        assert time.monotonic() < deadline, (name, tags, found)
        time.sleep(0.1)


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
    until("odd_ones_total", 3, model="small", route="/works", **tags)
    until("sizes_count", 4, model="large", **tags)
    until("last_one", 9, **tags)
    until("serve_deployment_request_counter_total", 4, route="/works", **tags)
    until("serve_deployment_error_counter_total", 1, route="/works", **tags)
    until("serve_deployment_processing_latency_ms_count", 4, **tags)
    until("serve_replica_processing_queries", 0, **tags)
    until("serve_num_http_requests_total", 3, method="GET", status_code="200", application="app")
    until("serve_num_http_error_requests_total", 1, status_code="500", application="app")


@pytest.mark.contract("F12.08")
def test_outside_of_replicas_they_are_plain(ray_start: Any) -> None:
    counter = serve.metrics.Counter("plain_ones", "", ("model",))
    counter.inc(2, {"model": "x"})
    assert counter.info["tag_keys"] == ("model",)
    until("plain_ones_total", 2, model="x")
    with pytest.raises(TypeError, match="tag_keys"):
        serve.metrics.Counter("bad", "", ["model"])  # type: ignore[arg-type] # on purpose
    assert ray.is_initialized()

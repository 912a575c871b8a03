"""Traces of requests: which spans there are, whose children they are, where they go, and what is refused."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import TracingConfig
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tests.helpers.harness import free_port
from tests.helpers.serving import Client, session_dir
from tests.helpers.spans import of, spans

pytest.importorskip("opentelemetry.sdk", reason="the extra `tracing` brings it")
trace = pytest.importorskip("opentelemetry.trace")

CLUSTER = {"num_cpus": 4}
# A deadline against a hang.
S = 60
pytestmark = pytest.mark.contract("F12.01")

SPAN = "b7ad6b7169203331"


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Inner:
    def __call__(self, word: str) -> str:
        with trace.get_tracer("user").start_as_current_span("thinks"):
            if word == "wrong":
                raise ValueError("a wrong word")
            return word.upper()

    async def items(self, most: int) -> AsyncIterator[int]:
        for number in range(most):
            with trace.get_tracer("user").start_as_current_span(f"item {number}"):
                yield number


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Outer:
    def __init__(self, inner: DeploymentHandle) -> None:
        self.inner = inner

    async def __call__(self, request: Request) -> Any:
        if "stream" in request.query_params:
            items = self.inner.options(stream=True).items.remote(2)

            async def pieces() -> AsyncIterator[str]:
                async for item in items:
                    yield f"{item},"

            return StreamingResponse(pieces())
        return await self.inner.remote(request.query_params.get("word", "hello"))

    async def ask(self, word: str) -> str:
        return str(await self.inner.remote(word))


def above(is_recorded: bool = True) -> tuple[str, str]:
    """A `traceparent` as a client sends it, and its trace."""
    trace_id = uuid.uuid4().hex
    return f"00-{trace_id}-{SPAN}-0{int(is_recorded)}", trace_id


Traced = Callable[..., Client]


@pytest.fixture
def traced(ray_start: Any) -> Iterator[Traced]:
    """Starts Serve with that configuration, and the two deployments."""

    def start(config: Any) -> Client:
        port = free_port()
        serve.start(http_options={"port": port}, tracing_config=config)
        serve.run(Outer.bind(Inner.bind()), name="app")
        return Client(port)

    yield start
    serve.shutdown()


def test_spans_of_a_request_are_one_trace(traced: Traced) -> None:
    web = traced(TracingConfig(enabled=True, sampling_ratio=1))
    parent, trace_id = above()
    headers = {"traceparent": parent, "x-request-id": "mine"}
    assert web.get("/?word=hi", headers).text == "HI"
    found = of(trace_id, 5)
    server = found["proxy_http_request Outer GET /"]
    outer = found["replica_handle_request Outer __call__"]
    call = found["route_to_replica Inner __call__"]
    inner = found["replica_handle_request Inner __call__"]
    assert {one["name"]: one["parent_id"] for one in found.values()} == {
        server["name"]: f"0x{SPAN}",
        outer["name"]: server["context"]["span_id"],
        call["name"]: outer["context"]["span_id"],
        inner["name"]: call["context"]["span_id"],
        "thinks": inner["context"]["span_id"],
    }
    assert server["kind"] == outer["kind"] == inner["kind"] == "SpanKind.SERVER"
    assert server["start_time"] <= outer["start_time"] < server["end_time"]
    assert server["attributes"] == {
        "request_id": "mine",
        "deployment": "Outer",
        "app": "app",
        "request_type": "http",
        "request_method": "GET",
        "request_route_path": "/",
        "http.method": "GET",
        "http.status_code": 200,
        "http.route": "/",
    }
    told = outer["attributes"]
    assert told.pop("replica_id")
    assert told == {
        "request_id": "mine",
        "deployment": "Outer",
        "app": "app",
        "call_method": "__call__",
        "route": "/",
        "is_streaming": False,
        "http.method": "GET",
        "http.status_code": 200,
        "http.route": "/",
    }
    assert inner["attributes"]["request_id"] == "mine"
    assert outer["resource"]["attributes"]["service.name"] == "app#Outer"


def test_errors_and_streams_are_told(traced: Traced) -> None:
    web = traced({"enabled": True, "sampling_ratio": 1.0})
    parent, trace_id = above()
    assert web.get("/?word=wrong", {"traceparent": parent}).status == 500
    found = of(trace_id, 5)
    assert found["proxy_http_request Outer GET /"]["status"]["status_code"] == "ERROR"
    for deployment in ("Outer", "Inner"):
        row = found[f"replica_handle_request {deployment} __call__"]
        assert row["status"]["status_code"] == "ERROR"
        assert "a wrong word" in row["status"]["description"]
        assert row["events"][0]["name"] == "exception"
    told = found["replica_handle_request Outer __call__"]["attributes"]
    assert told["http.status_code"] == 500

    parent, trace_id = above()
    assert web.get("/?stream=1", {"traceparent": parent}).text == "0,1,"
    found = of(trace_id, 6)
    streamed = found["replica_handle_request Inner items"]
    assert streamed["attributes"]["is_streaming"] is True
    assert found["item 1"]["parent_id"] == streamed["context"]["span_id"]


def test_who_is_recorded(traced: Traced) -> None:
    web = traced({"enabled": True, "sampling_ratio": 0})
    before = len(spans())
    assert web.get("/").text == "HELLO"
    assert web.get("/", {"traceparent": above(is_recorded=False)[0]}).text == "HELLO"
    assert web.get("/", {"traceparent": "nonsense"}).text == "HELLO"
    parent, trace_id = above()
    assert web.get("/", {"traceparent": parent}).text == "HELLO"
    of(trace_id, 5)
    assert len(spans()) == before + 5


def test_calls_of_a_driver_are_below_its_span(traced: Traced) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    traced({"enabled": True, "sampling_ratio": 0})
    handle = serve.get_app_handle("app")
    assert handle.ask.remote("before").result(timeout_s=S) == "BEFORE"
    tracer = TracerProvider().get_tracer("driver")  # not the process's: other tests have none
    with tracer.start_as_current_span("drives") as span:
        assert handle.ask.remote("now").result(timeout_s=S) == "NOW"
    own = span.get_span_context()
    found = of(f"{own.trace_id:032x}", 4)
    assert found["replica_handle_request Outer ask"]["parent_id"] == f"0x{own.span_id:016x}"


EXPORTERS = """
import os
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def into_files():
    file = open(f"{os.path.dirname(__file__)}/spans/{os.getpid()}.json", "a")
    return [SimpleSpanProcessor(ConsoleSpanExporter(out=file))]

def one():
    return into_files()[0]

def of_a_name(name):
    return []
"""


@pytest.fixture
def exporters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that replicas find; the session begins with it on its path."""
    from tests.helpers.shared import cluster

    cluster.stop()
    (tmp_path / "spans").mkdir()
    (tmp_path / "own_exporters.py").write_text(EXPORTERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    ray.init(num_cpus=4)
    yield tmp_path
    serve.shutdown()
    cluster.stop()


def test_an_exporter_of_ones_own(exporters: Path) -> None:
    config = {"enabled": True, "exporter_import_path": "own_exporters:into_files"}
    port = free_port()
    serve.start(http_options={"port": port}, tracing_config={**config, "sampling_ratio": 1})
    serve.run(Outer.bind(Inner.bind()), name="app")
    parent, trace_id = above()
    assert Client(port).get("/", {"traceparent": parent}).text == "HELLO"
    of(trace_id, 5, exporters / "spans")
    assert not (Path(session_dir()) / "logs/serve/spans").exists()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("own_exporters:one", "list of OpenTelemetry's SpanProcessor"),
        ("own_exporters:of_a_name", "a function without parameters"),
        ("own_exporters:ConsoleSpanExporter", "a function without parameters"),
        ("no_such_module:of_it", "No module named 'no_such_module'"),
    ],
)
def test_exporters_that_cannot_be(exporters: Path, path: str, said: str) -> None:
    options = {"port": free_port()}
    serve.start(
        http_options=options, tracing_config={"enabled": True, "exporter_import_path": path}
    )
    with pytest.raises(RuntimeError, match=said):
        serve.run(Inner.options(max_constructor_retry_count=1).bind(), name="app")


def test_bad_configurations(ray_start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for ratio in (2, -0.1, "much", None):
        with pytest.raises(ValueError, match="sampling_ratio"):
            serve.start(tracing_config={"enabled": True, "sampling_ratio": ratio})
    with pytest.raises(ValueError, match="enable"):
        serve.start(tracing_config={"enable": True})
    with pytest.raises(ValueError, match="sampling_ratio"):
        TracingConfig(enabled=True, sampling_ratio=2)
    assert TracingConfig().model_dump() == {
        "enabled": False,
        "exporter_import_path": "",
        "sampling_ratio": 0.01,
    }
    monkeypatch.setenv("RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH", "a:b")
    monkeypatch.setenv("RAY_SERVE_TRACING_SAMPLING_RATIO", "0.5")
    assert TracingConfig().model_dump() == {
        "enabled": True,
        "exporter_import_path": "a:b",
        "sampling_ratio": 0.5,
    }
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ImportError, match=r"heliostat\[tracing\]"):
        serve.start(tracing_config={"enabled": True})

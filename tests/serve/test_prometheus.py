"""Policies of autoscaling that ask a Prometheus server."""

from __future__ import annotations

import gc
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ray.serve.autoscaling_policy import PrometheusQueryMixin, PrometheusSample

ANSWERS: dict[str, Any] = {
    "scalar(1)": {"resultType": "scalar", "result": [10.5, "3"]},
    "one": {"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [10.5, "4.5"]}]},
    "two": {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [1, "1"]}, {"metric": {}, "value": [1, "2"]}],
    },
    "idle": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "NaN"]}]},
    "range": {"resultType": "matrix", "result": []},
}


class Server(ThreadingHTTPServer):
    """One that knows those answers, and counts who asks."""

    seen: list[str | None]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        assert path == "/api/v1/query"
        assert isinstance(self.server, Server)
        self.server.seen.append(self.headers["x-who"])
        data = ANSWERS.get(urllib.parse.parse_qs(query)["query"][0])
        told = {"status": "error", "error": "no"} if data is None else {"status": "success"}
        body = json.dumps({**told, "data": data}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.seen = []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


class Policy(PrometheusQueryMixin):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(prometheus_queries=[*ANSWERS, "wrong"], fetch_interval_s=0.05, **kwargs)


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.contract("F12.06")
def test_a_policy_has_fresh_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_PROMETHEUS_HOST", f"127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("RAY_PROMETHEUS_HEADERS", '[["x-who", "me"]]')
    policies = [Policy()]
    assert server.seen == []  # nobody has read yet
    found = until(lambda: policies[0].prometheus_results)
    assert set(found) == {"scalar(1)", "one", "two", "idle"}
    assert found["one"].samples == (PrometheusSample({"a": "b"}, 4.5, 10.5),)
    assert [sample.value for sample in found["two"].samples] == [1, 2]
    assert found["idle"].samples == ()
    assert policies[0].prometheus_metrics == {"scalar(1)": 3, "one": 4.5}
    assert set(server.seen) == {"me"}
    # Old answers are none.
    assert Policy(cache_ttl_s=-1.0).prometheus_results is None
    # Who drops the policy ends its thread.
    policies.clear()
    gc.collect()
    until(lambda: "serve-prometheus" not in {one.name for one in threading.enumerate()})


@pytest.mark.contract("F12.06")
def test_without_a_server_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_PROMETHEUS_HOST", raising=False)
    monkeypatch.delenv("RAY_PROMETHEUS_HEADERS", raising=False)
    policy = Policy()
    assert (policy.prometheus_results, policy.prometheus_metrics) == (None, None)
    monkeypatch.setenv("RAY_PROMETHEUS_HEADERS", '{"a": 1}')
    with pytest.raises(ValueError, match="RAY_PROMETHEUS_HEADERS"):
        Policy()

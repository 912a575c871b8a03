"""Application metrics and the node's endpoint (contract F14.01, F6.23)."""

from __future__ import annotations

import http.client
import os
import pickle
import re
from typing import Any

import pytest
import ray
from harness import wait_until
from ray.util import metrics

pytestmark = pytest.mark.contract("F14.01")

# A cluster of one machine opens no port unless it is asked to.
CLUSTER = {"num_cpus": 4, "_metrics_export_port": 0}


def scrape(node: dict[str, Any], token: str | None, path: str = "/metrics") -> tuple[int, str]:
    connection = http.client.HTTPConnection(
        node["NodeManagerAddress"], node["MetricsExportPort"], timeout=60
    )
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def token() -> str:
    from heliostat.core import auth

    return str(auth.token(False))


def values(text: str, name: str, **labels: str) -> list[float]:
    """The values of a series with these labels."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if (
            match
            and match[1] == name
            and all(f'{k}="{v}"' in (match[2] or "") for k, v in labels.items())
        ):
            found.append(float(match[3]))
    return found


@ray.remote(num_cpus=0)
class Measured:
    def __init__(self) -> None:
        self.counter = metrics.Counter("t_calls", "how often", tag_keys=("kind",))

    def count(self, times: int) -> int:
        for _ in range(times):
            self.counter.inc(tags={"kind": "a"})
        return os.getpid()


@pytest.mark.heliostat_only("Ray exports through an agent, minutes later")
@pytest.mark.contract("F6.23")
def test_what_processes_measure_is_exported_by_their_node(ray_start: Any) -> None:
    actor = Measured.remote()
    ray.get(actor.count.remote(3))
    gauge = metrics.Gauge("t_level", "how full", tag_keys=("where",)).set_default_tags(
        {"where": "here"}
    )
    gauge.set(2.5)
    histogram = metrics.Histogram("t_time", "how long", boundaries=[1, 10])
    for value in (0.5, 5, 50):
        histogram.observe(value)
    (node,) = ray.nodes()
    status, text = scrape(node, token())
    assert status == 200
    for name in ("ray_t_calls", "ray_t_calls_total"):
        assert values(text, name, kind="a") == [3.0]
    assert values(text, "ray_t_level", where="here", NodeAddress=node["NodeManagerAddress"]) == [
        2.5
    ]
    assert [values(text, "ray_t_time_bucket", le=le) for le in ("1.0", "10.0", "+Inf")] == [
        [1],
        [2],
        [3],
    ]
    assert values(text, "ray_t_time_sum") == [55.5]
    assert values(text, "ray_t_time_count") == [3]
    assert values(text, "ray_node_drivers") == [1]
    assert values(text, "ray_resources", Name="CPU", State="AVAILABLE") == [4]
    assert sum(values(text, "ray_tasks", State="FINISHED")) >= 1
    assert values(text, "ray_object_store_memory")[0] >= 0
    assert "# TYPE ray_t_calls counter" in text


@pytest.mark.heliostat_only("Ray's endpoint is open")
def test_who_has_no_token_learns_nothing(ray_start: Any) -> None:
    """AUTH-1: no port answers an unauthenticated peer."""
    (node,) = ray.nodes()
    for wrong in (None, "", "wrong", token() + "x"):
        status, text = scrape(node, wrong)
        assert status == 401
        assert "ray_" not in text
        assert "get-auth-token" in text
    assert scrape(node, token(), "/secrets")[0] == 404


@pytest.mark.heliostat_only("a shorter way to the same text")
def test_a_scrape_does_not_wait_for_a_process_that_hangs(ray_start: Any) -> None:
    import signal

    actor = Measured.remote()
    pid = ray.get(actor.count.remote(1))
    os.kill(pid, signal.SIGSTOP)
    try:
        (node,) = ray.nodes()
        status, text = scrape(node, token())
        assert status == 200
        assert values(text, "ray_node_drivers") == [1]
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: values(scrape(node, token())[1], "ray_t_calls", kind="a"))


def test_names_tags_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match="name"):
        metrics.Counter("")
    with pytest.raises(TypeError):
        metrics.Counter("a", tag_keys=[1])  # type: ignore[arg-type] # wrong on purpose
    counter = metrics.Counter("t_checked", tag_keys=("a",))
    with pytest.raises(ValueError, match="Missing value for tag key"):
        counter.inc()
    counter.inc(tags={"a": "1", "b": "2"})  # what it was not made with is left out
    with pytest.raises(ValueError, match="Unrecognized tag key"):
        counter.set_default_tags({"b": "2"})
    with pytest.raises(TypeError):
        counter.inc(tags={"a": 1})  # type: ignore[dict-item] # wrong on purpose
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=">0"):
            counter.inc(wrong, tags={"a": "1"})
    with pytest.raises(TypeError):
        counter.inc("1", tags={"a": "1"})  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(ValueError, match="boundaries"):
        metrics.Histogram("t_h", boundaries=[])
    with pytest.raises(ValueError, match="positive"):
        metrics.Histogram("t_h", boundaries=[0, 1])
    assert counter.info["tag_keys"] == ("a",)


def test_metrics_travel_into_tasks() -> None:
    counter = pickle.loads(pickle.dumps(metrics.Counter("t_travels", "words", tag_keys=("a",))))
    assert counter.info["name"] == "t_travels"
    assert counter.info["description"] == "words"


@pytest.mark.heliostat_only("the port is an option of Ray's agent there")
def test_the_port_can_be_chosen(ray_down: None) -> None:
    from harness import free_port

    port = free_port()
    ray.init(address="local", num_cpus=1, include_dashboard=False, _metrics_export_port=port)
    assert ray.nodes()[0]["MetricsExportPort"] == port

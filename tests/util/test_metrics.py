"""Application metrics and the node's endpoint (contract F14.01, F6.23)."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import time
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util import metrics

from tests.helpers import scraping
from tests.helpers.harness import IS_HELIOSTAT, wait_until
from tests.helpers.scraping import fetch as scrape
from tests.helpers.scraping import token

pytestmark = pytest.mark.contract("F14.01")

# A cluster of one machine opens no port unless it is asked to.
CLUSTER = {"num_cpus": 4, "_metrics_export_port": 0}


def values(text: str, name: str, **labels: str) -> list[float]:
    """The values of a series with these labels."""
    return [one.value for one in scraping.chosen(scraping.samples(text), name, **labels)]


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
    assert values(text, "ray_object_store_memory", Location="MMAP_SHM")[0] >= 0
    assert "# TYPE ray_t_calls_total counter" in text


@pytest.mark.heliostat_only("Ray's endpoint is open")
def test_who_has_no_token_learns_nothing(ray_start: Any) -> None:
    """AUTH-1: no port answers an unauthenticated peer."""
    (node,) = ray.nodes()
    for wrong in (None, "", "wrong", f"{token()}x"):
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
    from tests.helpers.harness import free_port

    port = free_port()
    ray.init(address="local", num_cpus=1, include_dashboard=False, _metrics_export_port=port)
    assert ray.nodes()[0]["MetricsExportPort"] == port


# What Ray's default dashboard asks for: series, and the labels by which its panels choose and sum. GPUs are
# where the machine has them, failed and pending nodes where an autoscaler runs.
NODE = {"RayNodeType", "SessionName"}
WANTED: dict[str, set[str]] = {
    "ray_node_cpu_count": NODE,
    "ray_node_cpu_utilization": NODE,
    "ray_node_mem_total": NODE,
    "ray_node_mem_used": NODE,
    "ray_node_mem_available": NODE,
    "ray_node_mem_total_host": NODE,
    "ray_node_mem_used_host": NODE,
    "ray_node_mem_shared_bytes": NODE,
    "ray_node_disk_usage": NODE,
    "ray_node_disk_free": NODE,
    "ray_node_disk_io_read_speed": NODE,
    "ray_node_disk_io_write_speed": NODE,
    "ray_node_disk_read_iops": NODE,
    "ray_node_disk_write_iops": NODE,
    "ray_node_network_received": NODE,
    "ray_node_network_sent": NODE,
    "ray_node_network_receive_speed": NODE,
    "ray_node_network_send_speed": NODE,
    "ray_component_cpu_percentage": {"Component", "SessionName"},
    "ray_component_rss_bytes": {"Component", "SessionName"},
    "ray_component_shared_bytes": {"Component", "SessionName"},
    "ray_tasks": {"Name", "State", "IsRetry", "Source", "SessionName"},
    "ray_actors": {"Name", "State", "Source", "NodeAddress"},
    "ray_placement_groups": {"State", "SessionName"},
    "ray_resources": {"Name", "State"},
    "ray_object_store_memory": {"Location"},
    "ray_memory_manager_worker_eviction_total": {"SessionName"},
    "ray_node_manager_unexpected_worker_failure_total": {"Type", "Name"},
    "autoscaler_active_nodes": {"NodeType"},
    "autoscaler_cluster_resources": {"resource"},
}


@pytest.fixture
def two_nodes(ray_down: None) -> Any:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=1)
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.heliostat_only("Ray exports through an agent, minutes later")
@pytest.mark.contract("F6.23")
def test_what_rays_default_dashboard_asks_for_is_measured(two_nodes: Cluster) -> None:
    @ray.remote
    def done() -> None:
        pass

    @ray.remote(max_retries=0)
    def dies() -> None:
        os._exit(3)

    @ray.remote
    def sleeps() -> None:
        time.sleep(600)

    actor = Measured.remote()
    ray.get([actor.count.remote(1), *(done.remote() for _ in range(20))])
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dies.remote())
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    runs = sleeps.remote()
    assert not scraping.lacking(WANTED)
    until = scraping.until
    until("ray_tasks", 20, Name="done", State="FINISHED", IsRetry="0", Source="owner")
    until("ray_tasks", 1, Name="dies", State="FAILED")
    # A call that runs counts once: what its worker says takes it off those that were sent.
    until("ray_tasks", 1, Name="sleeps", State="RUNNING", Source="executor")
    until("ray_tasks", 0, Name="sleeps", State="SUBMITTED_TO_WORKER")
    until("ray_actors", 1, Source="gcs", State="ALIVE")
    until("ray_actors", 1, Source="executor", Name="Measured", State="IDLE")
    until("ray_placement_groups", 1, State="CREATED")
    until("ray_node_manager_unexpected_worker_failure_total", 1, Type="SYSTEM_ERROR")
    until("autoscaler_active_nodes", 2)
    until("autoscaler_cluster_resources", 3, resource="CPU")
    found = scraping.scrape()
    assert {one.tags["RayNodeType"] for one in scraping.chosen(found, "ray_node_cpu_count")} == {
        "head",
        "worker",
    }
    assert scraping.chosen(found, "ray_component_rss_bytes", Component="raylet")
    ray.cancel(runs, force=True)


@pytest.mark.heliostat_only("Ray exports through an agent, minutes later")
@pytest.mark.contract("F6.23")
def test_rates_are_those_between_two_scrapes(ray_start: Any) -> None:
    @ray.remote(max_retries=0)
    def works() -> None:
        while True:
            pass

    runs = works.remote()
    busy = {"Component": "ray::works"}
    wait_until(
        lambda: scraping.total(scraping.scrape(), "ray_component_cpu_percentage", **busy) > 1,
        what="the CPU time of a worker that works",
    )
    assert scraping.total(scraping.scrape(), "ray_node_cpu_utilization") > 1
    ray.cancel(runs, force=True)


@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's agent answers minutes later")
@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Prometheus) is not installed"
)
@pytest.mark.contract("F6.23")
def test_promtool_finds_nothing_wrong_but_rays_names(ray_start: Any) -> None:
    counter = metrics.Counter("t_linted", "", tag_keys=("kind",))
    counter.inc(tags={"kind": "a"})
    (node,) = ray.nodes()
    text = scrape(node, token())[1]
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60
    )
    # Ray's names have units in short, its labels capitals, two gauges the endings of counters, and
    # Serve's counters their type: those are here when this process has served something before.
    rays = (
        "abbreviated unit",
        "camelCase",
        "ray_node_cpu_count ",
        "ray_node_mem_total ",
        "should not include type 'counter'",
    )
    said = (checked.stdout + checked.stderr).splitlines()
    assert said
    assert [line for line in said if not any(text in line for text in rays)] == []

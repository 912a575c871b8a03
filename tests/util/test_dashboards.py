"""What Ray's default dashboards ask of Prometheus is answered with figures (contract F6.23).

A Prometheus reads two nodes on which a dataset is made, a model trained and an application asked. Each
series is asked for as panels do: chosen by labels, summed by labels, as a level, a rate, or a quantile.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import ray
from ray import serve, train
from ray.cluster_utils import Cluster
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from starlette.requests import Request

from tests.helpers import scraping
from tests.helpers.harness import free_port
from tests.helpers.serving import Client

pytestmark = [
    pytest.mark.contract("F6.23"),
    pytest.mark.heliostat_only("Ray exports through an agent, minutes later"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]

SECONDS = "[1m]"


def level(name: str, chosen: str, by: str) -> str:
    return f"sum({name}{{{chosen}}}) by ({by})"


def rate(name: str, chosen: str, by: str) -> str:
    return f"sum(rate({name}{{{chosen}}}{SECONDS})) by ({by})"


def quantile(name: str, chosen: str, by: str) -> str:
    return f"histogram_quantile(0.9, sum(rate({name}_bucket{{{chosen}}}{SECONDS})) by (le, {by}))"


# Labels by which panels choose: what is there, whatever it is called.
SESSION = 'SessionName=~".+"'
NODE = f'instance=~".+", RayNodeType=~".+", {SESSION}'
OPERATOR = f'dataset=~".+", operator=~".+", {SESSION}'
DATASET = f'dataset=~".+", {SESSION}'
RUN = f'ray_train_run_name="pictured", ray_train_run_id=~".+", {SESSION}'
RANK = f'{RUN}, ray_train_worker_world_rank=~".+", ray_train_worker_actor_id=~".+"'
ROUTE = 'application=~".+", route=~".+", route!~"/-/.*"'

Form = Callable[[str, str, str], str]
# How it is asked for, by which labels it is chosen, by which it is summed: the names. Of GPUs and of machines
# that are about to come there are figures where there are some.
WANTED: list[tuple[Form, str, str, str]] = [
    (
        level,
        NODE,
        "instance, RayNodeType",
        (
            "ray_node_cpu_count ray_node_cpu_utilization ray_node_mem_used_host ray_node_mem_total_host "
            "ray_node_mem_used ray_node_mem_total ray_node_mem_available ray_node_mem_shared_bytes "
            "ray_node_disk_usage ray_node_disk_free ray_node_disk_io_write_speed "
            "ray_node_disk_io_read_speed ray_node_disk_read_iops ray_node_disk_write_iops "
            "ray_node_network_receive_speed ray_node_network_send_speed ray_node_network_sent "
            "ray_node_network_received"
        ),
    ),
    (
        level,
        f'instance=~".+", {SESSION}',
        "Component",
        "ray_component_cpu_percentage ray_component_rss_bytes ray_component_shared_bytes",
    ),
    (level, SESSION, "NodeType", "autoscaler_active_nodes"),
    (level, f'resource="CPU", {SESSION}', "resource", "autoscaler_cluster_resources"),
    (level, f'Name="CPU", State="USED", {SESSION}', "instance", "ray_resources"),
    (level, f'Name="memory", {SESSION}', "instance", "ray_resources"),
    (level, f'Name="object_store_memory", {SESSION}', "instance", "ray_resources"),
    (level, SESSION, "Location", "ray_object_store_memory"),
    (level, f'Location="SPILLED", {SESSION}', "instance", "ray_object_store_memory"),
    (level, SESSION, "instance", "ray_memory_manager_worker_eviction_total"),
    (level, SESSION, "Type", "ray_node_manager_unexpected_worker_failure_total"),
    (level, f'IsRetry="0", State=~"FINISHED|FAILED", {SESSION}', "State", "ray_tasks"),
    (level, f'IsRetry="0", State=~"RUNNING*", {SESSION}', "Name", "ray_tasks"),
    (level, f'State=~"RUNNING*", Source="executor", {SESSION}', "instance", "ray_tasks"),
    (level, f'Source="gcs", {SESSION}', "State", "ray_actors"),
    (level, f'Source="executor", NodeAddress=~".+", {SESSION}', "State", "ray_actors"),
    (level, f'State!="DEAD", Source="executor", {SESSION}', "Name", "ray_actors"),
    (level, SESSION, "State", "ray_placement_groups"),
    (
        rate,
        OPERATOR,
        "dataset, operator",
        (
            "ray_data_bytes_task_outputs_generated ray_data_num_task_outputs_generated "
            "ray_data_rows_task_outputs_generated ray_data_num_inputs_received "
            "ray_data_bytes_inputs_received ray_data_num_task_inputs_processed "
            "ray_data_bytes_task_inputs_processed ray_data_bytes_inputs_of_submitted_tasks "
            "ray_data_num_outputs_taken ray_data_bytes_outputs_taken ray_data_output_bytes "
            "ray_data_output_rows ray_data_block_generation_time ray_data_block_transform_time_s "
            "ray_data_input_prep_time_s ray_data_function_body_time_s ray_data_output_build_time_s "
            "ray_data_task_completion_time_excl_backpressure_s ray_data_task_output_backpressure_time "
            "ray_data_task_submission_backpressure_time"
        ),
    ),
    (
        level,
        OPERATOR,
        "dataset, operator",
        (
            "ray_data_current_bytes ray_data_num_tasks_running "
            "ray_data_obj_store_mem_internal_inqueue_blocks ray_data_obj_store_mem_internal_inqueue "
            "ray_data_obj_store_mem_internal_outqueue_blocks ray_data_obj_store_mem_internal_outqueue "
            "ray_data_num_external_inqueue_blocks ray_data_num_external_inqueue_bytes "
            "ray_data_num_external_outqueue_blocks ray_data_num_external_outqueue_bytes "
            "ray_data_obj_store_mem_pending_task_inputs ray_data_obj_store_mem_freed ray_data_freed_bytes "
            "ray_data_num_tasks_have_outputs ray_data_num_tasks_submitted ray_data_num_tasks_finished "
            "ray_data_num_tasks_failed ray_data_cpu_usage_cores ray_data_gpu_usage_cores "
            "ray_data_memory_usage_bytes ray_data_max_uss_bytes_max"
        ),
    ),
    (
        quantile,
        OPERATOR,
        "operator",
        (
            "ray_data_block_size_bytes ray_data_block_size_rows ray_data_block_completion_time "
            "ray_data_task_completion_time"
        ),
    ),
    (
        rate,
        DATASET,
        "dataset, node_ip",
        (
            "ray_data_bytes_outputs_of_finished_tasks_per_node "
            "ray_data_blocks_outputs_of_finished_tasks_per_node ray_data_num_tasks_finished_per_node"
        ),
    ),
    (
        level,
        DATASET,
        "dataset",
        (
            "ray_data_cpu_budget ray_data_gpu_budget ray_data_memory_budget "
            "ray_data_object_store_memory_budget ray_data_max_bytes_to_read "
            "ray_data_sched_loop_duration_s ray_data_cluster_cpu_utilization "
            "ray_data_cluster_gpu_utilization ray_data_cluster_mem_utilization "
            "ray_data_cluster_object_store_memory_utilization"
        ),
    ),
    (
        level,
        DATASET,
        "dataset, split",
        (
            "ray_data_iter_initialize_seconds ray_data_iter_blocks_local ray_data_iter_blocks_remote "
            "ray_data_iter_unknown_location ray_data_iter_prefetched_bytes "
            "ray_data_iter_time_to_first_batch_seconds"
        ),
    ),
    (
        rate,
        DATASET,
        "dataset, split",
        (
            "ray_data_iter_total_blocked_seconds ray_data_iter_user_seconds ray_data_iter_get_seconds "
            "ray_data_iter_next_batch_seconds ray_data_iter_format_batch_seconds "
            "ray_data_iter_collate_batch_seconds ray_data_iter_finalize_batch_seconds "
            "ray_data_iter_get_ref_bundles_seconds ray_data_iter_batches_total ray_data_iter_rows_total"
        ),
    ),
    (rate, 'operator=~"split.*"', "dataset", "ray_data_output_rows"),
    (level, RUN, "ray_train_run_name, ray_train_controller_state", "ray_train_controller_state"),
    (
        level,
        RUN,
        "ray_train_run_name",
        "ray_train_worker_group_start_total_time_s ray_train_worker_group_shutdown_total_time_s",
    ),
    (
        level,
        RANK,
        "ray_train_run_name, ray_train_worker_world_rank, ray_train_worker_actor_id",
        (
            "ray_train_report_total_blocked_time_s ray_train_checkpoint_sync_total_time_s "
            "ray_train_checkpoint_transfer_total_time_s"
        ),
    ),
    (rate, ROUTE, "application, route", "ray_serve_num_http_requests_total"),
    (
        rate,
        ROUTE,
        "application, route, error_code",
        "ray_serve_num_http_error_requests_total",
    ),
    (quantile, ROUTE, "application, route", "ray_serve_http_request_latency_ms"),
    (
        rate,
        'application=~".+"',
        "application, deployment, replica",
        (
            "ray_serve_deployment_request_counter_total ray_serve_deployment_error_counter_total "
            "ray_serve_multiplexed_models_load_counter_total "
            "ray_serve_multiplexed_get_model_requests_counter_total"
        ),
    ),
    (
        quantile,
        'application=~".+"',
        "application, deployment, replica",
        (
            "ray_serve_deployment_processing_latency_ms ray_serve_multiplexed_model_load_latency_ms "
            "ray_serve_multiplexed_model_unload_latency_ms"
        ),
    ),
    (
        level,
        'application=~".+"',
        "application, deployment",
        (
            "ray_serve_deployment_queued_queries ray_serve_num_scheduling_tasks "
            "ray_serve_num_scheduling_tasks_in_backoff"
        ),
    ),
    (
        level,
        'application=~".+"',
        "application, deployment, replica",
        (
            "ray_serve_deployment_replica_healthy ray_serve_replica_processing_queries "
            "ray_serve_num_multiplexed_models ray_serve_multiplexed_models_load_counter_total "
            "ray_serve_multiplexed_models_unload_counter_total"
        ),
    ),
    (level, "", "model_id", "ray_serve_registered_multiplexed_model_id"),
    (
        level,
        SESSION,
        "instance",
        (
            "ray_serve_num_ongoing_http_requests ray_serve_controller_control_loop_duration_s "
            "ray_serve_controller_num_control_loops"
        ),
    ),
]


class Prometheus:
    """One that reads nodes each second."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "ray",
                    "authorization": {"type": "Bearer", "credentials": scraping.token()},
                    "static_configs": [{"targets": targets}],
                }
            ],
        }
        file = folder / "prometheus.json"  # which is YAML, too
        file.write_text(json.dumps(config))
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.url[7:]}",
            ],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
        )

    def ask(self, query: str) -> list[Any]:
        """The series; none as long as it starts."""
        assert self._process.poll() is None, "Prometheus has ended"
        where = f"{self.url}/api/v1/query?{urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(where, timeout=60) as answer:
                found: list[Any] = json.loads(answer.read())["data"]["result"]
        except urllib.error.HTTPError:
            raise  # the query is wrong
        except OSError:
            return []
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture
def prometheus(ray_down: None, tmp_path: Path) -> Iterator[Prometheus]:
    """Reads two nodes; this process is a driver of their cluster."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 6})
    cluster.add_node(num_cpus=2)
    cluster.connect()
    nodes = ray.nodes()
    assert len(nodes) == 2
    targets = [f"{n['NodeManagerAddress']}:{n['MetricsExportPort']}" for n in nodes]
    running = Prometheus(tmp_path, targets)
    yield running
    running.close()
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


def steady(work: Callable[[], Any], over: threading.Event) -> threading.Thread:
    """Do this again and again, in a thread, until it is over."""

    def loop() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


@serve.deployment
class Shown:
    @serve.multiplexed(max_num_models_per_replica=1)
    async def model(self, name: str) -> str:
        return name

    async def __call__(self, request: Request) -> str:
        if request.query_params["model"] == "none":
            raise ValueError("on purpose")
        return await self.model(request.query_params["model"])


def double(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"] * 2, "more": np.zeros((len(batch["id"]), 100))}


def epoch() -> None:
    """A loop that takes some seconds, so that each series has several values."""
    dataset = ray.data.range(2000, override_num_blocks=20).map_batches(double, batch_size=None)
    for _ in dataset.iter_torch_batches(batch_size=100, collate_fn=lambda batch: batch):
        time.sleep(0.05)


def learn(config: dict[str, Any]) -> None:
    folder = Path(config["folder"]) / f"checkpoint-{train.get_context().get_world_rank()}"
    folder.mkdir(exist_ok=True)
    (folder / "state").write_text("x")
    shard = train.get_dataset_shard("train")
    while not (Path(config["folder"]) / "over").exists():
        for _ in shard.iter_batches(batch_size=10):
            time.sleep(0.05)
        train.report({"at": 1}, checkpoint=train.Checkpoint.from_directory(folder))


def test_each_panel_has_figures(prometheus: Prometheus, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="loops over tensors are among what panels show")

    @ray.remote(max_retries=0, num_cpus=0)
    def dies() -> None:
        os._exit(3)

    @ray.remote(num_cpus=0)
    def ends() -> None:
        time.sleep(0.2)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dies.remote())
    group = ray.util.placement_group([{"CPU": 0.1}])
    ray.get(group.ready())
    port = free_port()
    serve.start(http_options={"port": port})
    serve.run(Shown.options(ray_actor_options={"num_cpus": 0}).bind(), name="app")
    client = Client(port)
    names = iter(["a", "b", "none"] * 10_000)
    trained = DataParallelTrainer(
        learn,
        train_loop_config={"folder": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="pictured", storage_path=str(tmp_path / "runs")),
        datasets={"train": ray.data.range(400, override_num_blocks=4)},
    )
    over = threading.Event()
    threads = [
        steady(lambda: client.get(f"/?model={next(names)}"), over),
        steady(lambda: ray.get(ends.remote()), over),
        steady(epoch, over),
    ]
    run = threading.Thread(target=trained.fit)
    run.start()
    left = {
        form(name, chosen, by): by.split(", ")
        for form, chosen, by, names in WANTED
        for name in names.split()
    }
    asked = len(left)

    def answered() -> bool:
        for query, labels in list(left.items()):
            for one in prometheus.ask(query):
                value = float(one["value"][1])
                if all(
                    one["metric"].get(label) for label in labels if label != "split"
                ) and not math.isnan(value):
                    del left[query]
                    break
        return not left

    try:
        deadline = time.monotonic() + 400
        while not answered():
            assert time.monotonic() < deadline, f"{len(left)} of {asked}: {sorted(left)}"
            time.sleep(1)
        both = prometheus.ask("sum(ray_node_cpu_count) by (instance)")
        assert len(both) == 2
    finally:
        over.set()
        (tmp_path / "over").touch()
        for thread in [*threads, run]:
            thread.join()

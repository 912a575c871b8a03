"""What executions of datasets measure, for Ray's dashboards (contract F6.23)."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from tests.helpers import scraping

pytestmark = [
    pytest.mark.contract("F6.23"),
    pytest.mark.heliostat_only("Ray exports through an agent, minutes later"),
]

CLUSTER = {"num_cpus": 4, "_metrics_export_port": 0}

OPERATOR = {"dataset", "operator"}
WANTED = {
    f"ray_data_{name}": labels
    for labels, names in (
        (
            OPERATOR,
            (
                "num_inputs_received bytes_inputs_received num_task_outputs_generated "
                "bytes_task_outputs_generated rows_task_outputs_generated num_outputs_taken "
                "bytes_outputs_taken output_rows output_bytes num_tasks_submitted num_tasks_running "
                "num_tasks_finished num_tasks_failed block_generation_time function_body_time_s "
                "cpu_usage_cores gpu_usage_cores current_bytes obj_store_mem_internal_inqueue "
                "obj_store_mem_internal_inqueue_blocks obj_store_mem_internal_outqueue "
                "obj_store_mem_internal_outqueue_blocks"
            ),
        ),
        (
            {*OPERATOR, "le"},
            "block_completion_time_bucket block_size_rows_bucket block_size_bytes_bucket",
        ),
        ({"dataset", "node_ip"}, "blocks_outputs_of_finished_tasks_per_node"),
        (
            {"dataset", "split"},
            "iter_total_blocked_seconds iter_user_seconds iter_batches_total iter_rows_total",
        ),
        ({"dataset"}, "object_store_memory_budget"),
    )
    for name in names.split()
}


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"] * 2}


def test_what_dashboards_of_data_ask_for_is_measured(ray_start: Any) -> None:
    dataset = ray.data.range(1000, override_num_blocks=10).map_batches(twice, batch_size=None)
    dataset.set_name("doubled")
    rows = sum(len(batch["id"]) for batch in dataset.iter_batches(batch_size=100))
    assert rows == 1000
    assert not scraping.lacking(WANTED)
    found = scraping.scrape()
    (name,) = {
        one.tags["dataset"]
        for one in scraping.chosen(found, "ray_data_output_rows")
        if one.tags["dataset"].startswith("doubled_")
    }
    figures = {
        one.name: one.value
        for one in found
        if one.tags.get("dataset") == name and "MapBatches" in one.tags.get("operator", "")
    }
    assert figures["ray_data_output_rows"] == 1000
    assert figures["ray_data_rows_task_outputs_generated"] == 1000
    assert figures["ray_data_num_tasks_submitted"] == figures["ray_data_num_tasks_finished"] > 0
    assert figures["ray_data_num_tasks_running"] == figures["ray_data_num_tasks_failed"] == 0
    blocks = figures["ray_data_num_task_outputs_generated"]
    assert scraping.total(found, "ray_data_block_size_rows_count", dataset=name) == blocks
    assert scraping.total(found, "ray_data_iter_batches_total", dataset=name) == 10
    assert scraping.total(found, "ray_data_iter_rows_total", dataset=name) == 1000


def test_the_figures_of_old_executions_go(ray_start: Any) -> None:
    from heliostat.data.execute.measurements import KEPT

    old = ray.data.range(2, override_num_blocks=1)
    old.set_name("old")
    assert old.take_all()
    for _ in range(KEPT + 1):
        assert ray.data.range(2, override_num_blocks=1).take_all()
    names = {
        one.tags["dataset"] for one in scraping.chosen(scraping.scrape(), "ray_data_output_rows")
    }
    assert 0 < len(names) <= KEPT
    assert not any(name.startswith("old") for name in names)

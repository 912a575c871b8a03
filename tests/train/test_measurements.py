"""What training measures, for Ray's dashboards (contract F6.23)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tests.helpers import scraping
from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.contract("F6.23"),
    pytest.mark.heliostat_only("Ray exports through an agent, minutes later"),
    pytest.mark.usefixtures("quiet"),
]

CLUSTER = {"num_cpus": 4, "_metrics_export_port": 0}
RUN = {"ray_train_run_name", "ray_train_run_id"}
WORKER = {*RUN, "ray_train_worker_world_rank"}


def test_what_dashboards_of_train_ask_for_is_measured(ray_start: Any, tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        folder = Path(config["folder"])
        (folder / "state").write_text("x")
        train.report({"step": 0}, checkpoint=train.Checkpoint.from_directory(folder))
        rank = train.get_context().get_world_rank()
        (folder.parent / f"reported-{rank}").touch()
        # The figures of a worker are there while it is.
        wait_until((folder.parent / "seen").exists, what="the end")

    folder = tmp_path / "checkpoint"
    folder.mkdir()
    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"folder": str(folder)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="measured", storage_path=str(tmp_path)),
    )
    thread = threading.Thread(target=trainer.fit)
    thread.start()
    try:
        for rank in range(2):
            wait_until((tmp_path / f"reported-{rank}").exists, what="the reports")
        run = {"ray_train_run_name": "measured"}
        assert not scraping.lacking(
            {
                "ray_train_controller_state": {*RUN, "ray_train_controller_state"},
                "ray_train_worker_group_start_total_time_s": RUN,
                "ray_train_report_total_blocked_time_s": WORKER,
                "ray_train_checkpoint_transfer_total_time_s": WORKER,
            },
            **run,
        )
        found = scraping.scrape()
        states = scraping.chosen(found, "ray_train_controller_state", **run)
        assert [one.tags["ray_train_controller_state"] for one in states if one.value] == [
            "running"
        ]
        blocked = scraping.chosen(found, "ray_train_report_total_blocked_time_s", **run)
        assert {one.tags["ray_train_worker_world_rank"] for one in blocked} == {"0", "1"}
        assert all(one.value > 0 for one in blocked)
    finally:
        (tmp_path / "seen").touch()
        thread.join()
    wait_until(
        lambda: (
            scraping.total(
                scraping.scrape(),
                "ray_train_controller_state",
                ray_train_controller_state="finished",
                **run,
            )
            == 1
        ),
        what="the run's end",
    )

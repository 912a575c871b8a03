"""``num_workers=(min, max)``: smaller after a loss, larger when there is room again."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import wait_until
from ray import train
from ray.train import Checkpoint, FailureConfig

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.contract("F9.24")
def test_an_elastic_group_starts_with_what_fits(fit: Any) -> None:
    def loop() -> int:
        return train.get_context().get_world_size()

    # Four CPUs are there.
    assert fit(loop, (2, 3)).return_value == 3
    assert fit(loop, (1, 8), name="all").return_value == 4


@pytest.mark.contract("F9.24")
@pytest.mark.heliostat_only("Ray asks for a new placement group every time")
def test_a_group_goes_on_smaller_and_grows_again(fit: Any, tmp_path: Path) -> None:
    asked, died, smaller = (tmp_path / name for name in ("asked", "died", "smaller"))

    def loop() -> list[int]:
        checkpoint = train.get_checkpoint()
        sizes: list[int] = []
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                sizes = json.loads(Path(folder, "sizes").read_text())
        size = train.get_context().get_world_size()
        rank = train.get_context().get_world_rank()
        for _ in range(200):
            if len(set(sizes)) > 1 and sizes[-1] == 4:
                break
            sizes.append(size)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "sizes").write_text(json.dumps(sizes))
                train.report({"size": size}, checkpoint=Checkpoint.from_directory(folder))
            if size == 3:
                smaller.write_text("")
            if size == 4 and rank == 3 and not died.exists():
                # Whoever takes over the room of this worker is in the queue for it.
                wait_until(asked.exists, within=60, what="the occupant's request")
                died.write_text("")
                os._exit(1)
            time.sleep(0.1)
        return sizes

    @ray.remote(num_cpus=1)
    class Occupant:
        """Takes the room of the lost worker for a while."""

    def occupy() -> None:
        wait_until((tmp_path / "run").exists, within=60, what="the run")
        wait_until(lambda: room() == 0, within=60, what="the group")
        occupant = Occupant.remote()
        asked.write_text("")
        wait_until(smaller.exists, within=60, what="a report of the smaller group")
        ray.kill(occupant)

    def room() -> float:
        free: float = ray.available_resources().get("CPU", 0.0)
        return free

    thread = threading.Thread(target=occupy)
    thread.start()
    try:
        result = fit(
            loop,
            (2, 4),
            scaling={"elastic_resize_monitor_interval_s": 0.5},
            failure_config=FailureConfig(max_failures=2),
        )
    finally:
        smaller.write_text("")
        thread.join()
    sizes = result.return_value
    changes = [size for i, size in enumerate(sizes) if i == 0 or size != sizes[i - 1]]
    assert changes == [4, 3, 4]

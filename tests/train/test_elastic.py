"""``num_workers=(min, max)``: smaller after a loss, larger when there is room again."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import train
from ray.cluster_utils import Cluster
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.contract("F9.24")
def test_an_elastic_group_starts_with_what_fits(fit: Any) -> None:
    def loop() -> int:
        return train.get_context().get_world_size()

    # Four CPUs are there.
    assert fit(loop, (2, 3)).return_value == 3
    assert fit(loop, (1, 8), name="all").return_value == 4


@pytest.mark.contract("F9.24")
@pytest.mark.heliostat_only("the race is made inside of the controller")
def test_a_group_whose_room_went_to_somebody_else_starts_smaller(
    fit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job takes two of four CPUs after the controller has counted them."""
    from heliostat.train.controller import sizes

    @ray.remote(num_cpus=2)
    class Other:
        def is_there(self) -> bool:
            return True

    others: list[Any] = []
    look = sizes.room_now

    def late(wanted: dict[str, float]) -> int:
        seen = look(wanted)
        if not others and seen >= 4:
            others.append(Other.remote())
            assert ray.get(others[0].is_there.remote())
        return seen

    monkeypatch.setattr(sizes, "room_now", late)

    def loop() -> int:
        return train.get_context().get_world_size()

    # Who waits for the limit of a start waits longer than the test may take.
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "3600")
    try:
        assert fit(loop, (1, 4), name="late").return_value == 2
    finally:
        for other in others:
            ray.kill(other)


@pytest.fixture
def nodes(ray_down: None) -> Iterator[Cluster]:
    """A cluster that gets its nodes from the test."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.contract("F9.24")
@pytest.mark.heliostat_only("Ray asks for a new placement group every time")
def test_a_group_goes_on_smaller_and_grows_again(nodes: Cluster, tmp_path: Path) -> None:
    """A node with one of four workers is lost, and another one comes."""
    full, smaller = tmp_path / "full", tmp_path / "smaller"

    def loop() -> list[int]:
        checkpoint = train.get_checkpoint()
        sizes: list[int] = []
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                sizes = json.loads(Path(folder, "sizes").read_text())
        size = train.get_context().get_world_size()
        for _ in range(400):
            if len(set(sizes)) > 1 and sizes[-1] == 4:
                break
            sizes.append(size)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "sizes").write_text(json.dumps(sizes))
                train.report({"size": size}, checkpoint=Checkpoint.from_directory(folder))
            (full if size == 4 else smaller).write_text("")
            time.sleep(0.1)
        return sizes

    node = nodes.add_node(num_cpus=1)

    def take_and_give() -> None:
        wait_until(full.exists, what="a report of the full group")
        nodes.remove_node(node, allow_graceful=False)
        wait_until(smaller.exists, what="a report of the smaller group")
        nodes.add_node(num_cpus=1)

    thread = threading.Thread(target=take_and_give)
    thread.start()
    try:
        result = DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=(2, 4), elastic_resize_monitor_interval_s=0.5),
            run_config=RunConfig(
                storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=2)
            ),
        ).fit()
    finally:
        thread.join()
    sizes = result.return_value
    changes = [size for i, size in enumerate(sizes) if i == 0 or size != sizes[i - 1]]
    assert changes == [4, 3, 4]
    page = (Path(result.path) / "run.html").read_text()
    assert page.count("there is room for more workers: the group grows after its next") == 1


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("Ray says nothing while it waits")
def test_a_group_of_a_fixed_size_waits_for_a_node_that_comes_back(
    nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is short, and does not spin meanwhile."""
    from heliostat.train.group.worker_group import WorkerGroup

    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "2")
    waits: list[int] = []
    wait = WorkerGroup.wait_for_room

    def counted(group: WorkerGroup, size: int) -> None:
        waits.append(size)
        wait(group, size)

    monkeypatch.setattr(WorkerGroup, "wait_for_room", counted)
    lost = nodes.add_node(num_cpus=3)
    running, back = tmp_path / "running", tmp_path / "back"

    def loop() -> int:
        running.touch()
        wait_until(back.exists, what="the node that comes back")
        return train.get_context().get_world_size()

    def change() -> None:
        wait_until(running.exists, what="the first start")
        nodes.remove_node(lost)
        wait_until(lambda: len(waits) == 2, what="a second wait for room")
        nodes.add_node(num_cpus=3)
        back.touch()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        result = DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=6),
            run_config=RunConfig(
                name="waits",
                storage_path=str(tmp_path),
                failure_config=FailureConfig(max_failures=1),
            ),
        ).fit()
    finally:
        back.touch()
        thread.join()
    assert result.return_value == 6
    page = (tmp_path / "waits" / "run.html").read_text()
    notes = page.count("<pre>the run waits for room for its workers. The cluster cannot hold 6")
    assert notes == len(waits) >= 2
    assert "room for 3, limited by CPU" in page
    assert page.count("attempt 2, rank 0") == 1

"""Rows of training runs over HTTP, with RAY_TRAIN_ENABLE_STATE_TRACKING."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import harness
from tests.helpers.answer_types import differences
from tests.helpers.harness import Driver, wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F15.10", "F12.01"),
    pytest.mark.heliostat_only("Ray's dashboard needs packages that the tests do not install"),
]

DRIVER = """
import os, sys, tempfile, time, ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

how, folder = sys.argv[1:]
mark = os.path.join(folder, "tried")

class Odd:
    pass

def loop(config):
    rank = ray.train.get_context().get_world_rank()
    if how == "waits":
        if rank == 0:
            open(mark, "w").close()
        time.sleep(1000)
    if how == "uploads":
        ray.train.report(
            {"loss": 0.5},
            ray.train.Checkpoint.from_directory(tempfile.mkdtemp()),
            checkpoint_upload_mode=ray.train.CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=lambda checkpoint, name: time.sleep(1000),
        )
        return
    ray.train.report({"a": 1})
    if rank == 0 and (how == "fails" or how == "recovers" and not os.path.exists(mark)):
        open(mark, "w").close()
        raise ValueError("a fault of the loop")

ray.init()
run = RunConfig(name=how, storage_path=folder,
                failure_config=FailureConfig(max_failures=int(how == "recovers")))
resources = {"nowhere": 1} if how == "no room" else None
try:
    DataParallelTrainer(
        loop,
        train_loop_config={"lr": 0.1, "odd": Odd(), "inf": float("inf")},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker=resources),
        run_config=run,
    ).fit()
except BaseException as error:
    print(type(error).__name__, flush=True)
"""

# What Ray 2.60 gives of a run, an attempt and a worker.
RUN = (
    "id name job_id controller_actor_id status status_detail start_time_ns end_time_ns "
    "controller_log_file_path framework_versions run_settings attempts job_details"
)
ATTEMPT = "run_id attempt_id status status_detail start_time_ns end_time_ns resources workers"
WORKER = (
    "world_rank local_rank node_rank actor_id node_id node_ip pid gpu_ids status resources "
    "log_file_path processStats gpus"
)
SETTINGS = "train_loop_config backend_config scaling_config datasets data_config run_config"


def start(head: Head, folder: Path, how: str, tracked: bool = True) -> Driver:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}", "HELIOSTAT_TRAIN_VIEW": "off"}
    if tracked:
        env["RAY_TRAIN_ENABLE_STATE_TRACKING"] = "1"
    return harness.start_driver(folder, DRIVER, args=[how, str(folder)], env=env)


def rows(head: Head) -> dict[str, Any]:
    """The runs by name, the latest of each."""
    answer = head.ask("GET", "/api/train/v2/runs/v1")
    if answer.status == 500:
        assert "RAY_TRAIN_ENABLE_STATE_TRACKING" in answer.text
        return {}
    return {run["name"]: run for run in reversed(answer.json()["train_runs"])}


@pytest.mark.parametrize(
    ("how", "status", "detail", "attempts"),
    [
        ("finishes", "FINISHED", None, ["FINISHED"]),
        ("recovers", "FINISHED", None, ["ERRORED", "FINISHED"]),
        ("fails", "ERRORED", "a fault of the loop", ["ERRORED"]),
        ("no room", "ERRORED", "nowhere", ["ERRORED"]),
    ],
)
def test_a_run_that_ends(
    head: Head, tmp_path: Path, how: str, status: str, detail: str | None, attempts: list[str]
) -> None:
    start(head, tmp_path, how).finish()
    run = rows(head)[how]
    assert set(run) == set(RUN.split())
    assert (run["status"], [attempt["status"] for attempt in run["attempts"]]) == (status, attempts)
    assert (detail or "") in (run["status_detail"] or "")
    assert run["end_time_ns"] > run["start_time_ns"] > 1e18
    assert run["job_details"]["driver_info"]["id"] == run["job_id"]
    settings = run["run_settings"]
    assert set(settings) == set(SETTINGS.split())
    assert settings["train_loop_config"] == {"lr": 0.1, "odd": "Odd", "inf": "inf"}
    assert settings["run_config"]["storage_path"] == str(tmp_path)
    for attempt in run["attempts"]:
        assert set(attempt) == set(ATTEMPT.split())
        assert attempt["end_time_ns"] >= attempt["start_time_ns"]
        assert len(attempt["resources"]) == 2
        if how != "no room":
            assert {worker["world_rank"] for worker in attempt["workers"]} == {0, 1}
        for worker in attempt["workers"]:
            assert set(worker) == set(WORKER.split())
            assert worker["status"] == "DEAD"
    failed = [attempt for attempt in run["attempts"] if attempt["status"] == "ERRORED"]
    assert all(attempt["status_detail"] for attempt in failed)


def test_what_the_page_is_told_of_a_run_that_goes_on(head: Head, tmp_path: Path) -> None:
    driver = start(head, tmp_path, "uploads", tracked=False)

    def told() -> dict[str, Any]:
        answer = head.get("/api/v0/training")
        assert differences(answer, "Runs<TrainingRun>") == []
        return {run["name"]: run for run in reversed(answer["runs"])}.get("uploads", {})

    def is_on_its_way() -> bool:
        storing = told().get("seen", {}).get("storing", [])
        return [row["ranks"] for row in storing] == [[0, 1]]

    try:
        wait_until(is_on_its_way, what="the checkpoint of both ranks")
        run = told()
        assert not run["is_left"]
        curves = head.get(f"/api/v0/training/{run['run_id']}/curves")
        assert differences(curves, "RunCurves") == []
        assert "Checkpoints on their way, of report 1: all ranks" in run["text"]
        # The process of each rank is one that the cluster knows.
        workers = head.get("/api/v0/workers?detail=1")["data"]["result"]["result"]
        known = {(row["worker_id"], row["pid"], row["node_id"]) for row in workers}
        actors = head.get("/api/v0/actors")["data"]["result"]["result"]
        ranks = run["seen"]["ranks"]
        assert [(row["rank"], row["state"], row["restarts"]) for row in ranks] == [
            (0, "running", 0),
            (1, "running", 0),
        ]
        assert {(row["worker_id"], row["pid"], row["node_id"]) for row in ranks} <= known
        assert {row["actor_id"] for row in ranks} <= {row["actor_id"] for row in actors}
        assert (run["seen"]["state"], run["seen"]["workers"]) == ("running", 2)
        assert run["written_at"] >= run["seen"]["storing"][0]["since"] >= run["seen"]["started_at"]
        driver.process.kill()
        driver.process.wait(120)
        wait_until(lambda: told()["is_left"], what="the run to be left behind")
    finally:
        driver.process.kill()


@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_run_that_is_cut_off(head: Head, tmp_path: Path, how: str) -> None:
    driver = start(head, tmp_path, "waits")
    try:
        driver.wait_file(tmp_path / "tried", within=120)
        run = rows(head)["waits"]
        assert (run["status"], run["attempts"][0]["status"]) == ("RUNNING", "RUNNING")
        assert [worker["status"] for worker in run["attempts"][0]["workers"]] == ["ALIVE"] * 2
        driver.process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
        driver.process.wait(120)

        def is_aborted() -> bool:
            run = rows(head)["waits"]
            return run["status"] == run["attempts"][0]["status"] == "ABORTED"

        wait_until(is_aborted, what="the run to be aborted")
        run = rows(head)["waits"]
        assert ("interrupted" in run["status_detail"]) == (how == "interrupted")
        assert [worker["status"] for worker in run["attempts"][0]["workers"]] == ["DEAD"] * 2
    finally:
        driver.kill()


def test_without_the_setting_there_are_no_rows(own_head: Head, tmp_path: Path) -> None:
    own_head.start()
    start(own_head, tmp_path, "finishes", tracked=False).finish()
    assert rows(own_head) == {}
    assert own_head.ask("GET", "/api/train/v2/runs/v1", token=False).status == 401


def test_rows_of_the_oldest_runs_make_room(own_head: Head, tmp_path: Path) -> None:
    own_head.start()
    fill = """
    import ray
    from heliostat.train.controller.state_rows import MAX_RUNS, NAMESPACE
    from ray.experimental.internal_kv import _internal_kv_put
    ray.init()
    for number in range(MAX_RUNS):
        for name in ("run", "attempt-000000"):
            _internal_kv_put(f"{number:020d}-r/{name}", '{"name": "r"}', namespace=NAMESPACE)
    """
    env = {**own_head.env, "RAY_ADDRESS": f"127.0.0.1:{own_head.port}"}
    harness.start_driver(tmp_path, fill, env=env, name="fill").finish()
    assert len(own_head.get("/api/train/v2/runs/v1")["train_runs"]) == 100
    start(own_head, tmp_path, "finishes").finish()
    runs = own_head.get("/api/train/v2/runs/v1")["train_runs"]
    assert len(runs) == 100
    assert runs[0]["status"] == "FINISHED"

"""Records of jobs: Pydantic models where that is installed, the same without it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

TOLD: dict[str, Any] = {
    "type": "DRIVER",
    "status": "FAILED",
    "entrypoint": "python a.py",
    "driver_info": {"id": "1", "node_ip_address": "10.0.0.1", "pid": "3"},
    "start_time": 5,
    "metadata": {"a": "b"},
}


def test_details_are_models() -> None:
    pydantic = pytest.importorskip("pydantic", reason="the extra `serve` brings it")
    from ray.job_submission import DriverInfo, JobDetails, JobStatus, JobType

    made = JobDetails(**TOLD, unknown="passed over")
    assert isinstance(made, pydantic.BaseModel)
    assert (made.type, made.status) == (JobType.DRIVER, JobStatus.FAILED)
    assert made.driver_info == DriverInfo(id="1", node_ip_address="10.0.0.1", pid="3")
    told = made.model_dump()
    assert told["driver_info"]["pid"] == "3"
    assert told["end_time"] is None
    assert (
        JobDetails.model_validate(told)
        == made
        == JobDetails.model_validate_json(made.model_dump_json())
    )
    assert made.model_copy(update={"message": "m"}).message == "m"
    for broken in ({"type": "X"}, {"status": None}, {"start_time": "soon"}):
        with pytest.raises(pydantic.ValidationError):
            JobDetails(**{**TOLD, **broken})
    with pytest.raises(pydantic.ValidationError):
        JobDetails(status="RUNNING", entrypoint="a")
    with pytest.raises(pydantic.ValidationError):
        DriverInfo(id="1", node_ip_address="a", pid=3)


def test_what_a_cluster_keeps_goes_through_json() -> None:
    import json

    from ray.job_submission import JobErrorType, JobInfo, JobStatus

    env = {"pip": ["a"]}
    made = JobInfo(status=JobStatus.PENDING, entrypoint="e", runtime_env=env)
    told = made.to_json()
    assert (told["status"], told["runtime_env_json"]) == ("PENDING", json.dumps(env))
    assert "runtime_env" not in told
    assert JobInfo.from_json(json.loads(json.dumps(told))) == made
    failed = JobInfo(
        status=JobStatus.FAILED,
        entrypoint="e",
        error_type=JobErrorType.RUNTIME_ENV_SETUP_FAILURE,
        message="m",
    )
    assert failed.to_json()["error_type"] == "RUNTIME_ENV_SETUP_FAILURE"
    assert JobInfo.from_json(failed.to_json()) == failed
    assert JobInfo.from_json({"status": "RUNNING", "entrypoint": "e"}).runtime_env is None


WITHOUT = """
import sys
sys.modules["pydantic"] = None
from ray.job_submission import DriverInfo, JobDetails, JobStatus
from heliostat.job_submission.types import of_details
told = %r
made = of_details().JobDetails.of({**told, "unknown": 1})
assert type(made) is JobDetails and type(made.driver_info) is DriverInfo
assert made.status is JobStatus.FAILED
assert made.dict()["driver_info"]["pid"] == "3"
"""


@pytest.mark.heliostat_only("Ray has no such classes without Pydantic")
def test_details_without_pydantic() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT % TOLD], check=True, timeout=60)


@pytest.mark.heliostat_only("the two are ours")
def test_both_kinds_have_the_same_fields() -> None:
    pytest.importorskip("pydantic", reason="the extra `serve` brings it")
    from dataclasses import fields

    from heliostat.job_submission import models, types

    for name in ("DriverInfo", "JobDetails"):
        plain = {one.name for one in fields(getattr(types, name))}
        assert set(getattr(models, name).model_fields) == plain

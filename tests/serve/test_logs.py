"""What replicas log: a file each, lines with the id of the request."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import LoggingConfig
from starlette.requests import Request

from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 4}
# A deadline against a hang.
S = 60


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Inner:
    def __call__(self) -> str:
        logging.getLogger("ray.serve").info("inner works")
        return "here"


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Outer:
    def __init__(self, inner: DeploymentHandle) -> None:
        self.inner = inner

    async def __call__(self, request: Request) -> str:
        logging.getLogger("ray.serve").debug("outer %s", "works")
        return await self.inner.remote()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def text(folder: Path, deployment: str) -> str:
    return "".join(path.read_text() for path in folder.glob(f"*{deployment}*.log"))


@pytest.mark.contract("F12.01", "F12.02")
def test_lines_name_the_request(web: Client, tmp_path: Path) -> None:
    config = LoggingConfig(
        encoding="JSON",
        log_level="DEBUG",
        logs_dir=str(tmp_path),
        additional_log_standard_attrs=["process"],
    )
    serve.run(Outer.bind(Inner.bind()), name="app", logging_config=config)
    assert web.get("/", {"x-request-id": "my-request"}).headers["x-request-id"] == "my-request"
    # Numbers of lines may be anything: of processes, say.
    until(lambda: "GET / 200" in text(tmp_path, "Outer") and "CALL" in text(tmp_path, "Inner"))
    rows = [json.loads(line) for line in text(tmp_path, "Inner").splitlines()]
    [row] = [row for row in rows if row["message"] == "inner works"]
    assert row["request_id"] == "my-request"
    assert (row["application"], row["deployment"]) == ("app", "Inner")
    assert row["process"] > 0
    messages = [json.loads(line)["message"] for line in text(tmp_path, "Outer").splitlines()]
    assert "outer works" in messages
    assert any(one.startswith("GET / 200") for one in messages)

    # A deployment's own goes before the application's, and reaches replicas that run.
    quiet = {"logs_dir": str(tmp_path), "enable_access_log": False}
    own = Outer.options(logging_config={**quiet, "log_level": "WARNING"})
    serve.run(own.bind(Inner.bind()), name="app", logging_config=config)
    before = text(tmp_path, "Outer")
    inner = text(tmp_path, "Inner")
    assert web.get("/").text == "here"
    until(lambda: text(tmp_path, "Inner") != inner)
    assert text(tmp_path, "Outer") == before


@pytest.mark.contract("F12.01")
@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"encoding": "XML"}, "encoding"),
        ({"log_level": "LOUD"}, "log_level"),
        ({"additional_log_standard_attrs": ["nothing"]}, "additional_log_standard_attrs"),
    ],
)
def test_a_wrong_configuration_is_refused(given: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        LoggingConfig(**given)

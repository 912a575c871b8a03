"""`serve why`: what a deployment that is not up waits for."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import serve

from tests.helpers.commands import ran
from tests.helpers.harness import clean_env, free_port

pytestmark = pytest.mark.heliostat_only("Ray cannot say what a deployment waits for")
# A deadline against a hang.
S = 60


@serve.deployment
def here() -> str:
    return "here"


@serve.deployment(max_constructor_retry_count=1)
class Broken:
    def __init__(self) -> None:
        raise ValueError("no model")


@serve.deployment(graceful_shutdown_timeout_s=0)
class Hangs:
    def __init__(self) -> None:
        time.sleep(1000)


@pytest.fixture
def folder() -> Iterator[str]:
    """A short path: sockets are within it."""
    with tempfile.TemporaryDirectory(prefix="why-") as path:
        yield path


@pytest.mark.contract("F12.07")
def test_a_deployment_says_why_it_is_not_up(folder: str, ray_fresh: Callable[..., Any]) -> None:
    ray_fresh(num_cpus=4, _temp_dir=f"{folder}/ray")
    env = clean_env({"RAY_TMPDIR": folder})

    def explained(*command: str | Path, code: int = 0) -> str:
        done = ran(command, env=env, within=S)
        assert done.returncode == code, done.stdout
        return done.stdout

    def why(name: str, code: int = 0) -> str:
        serve = (sys.executable, "-m", "heliostat.serve.scripts")
        return explained(*serve, "why", name, code=code)

    def why_of_all(name: str, code: int = 0) -> str:
        """The same of the command that explains everything."""
        return explained(Path(sys.executable).with_name("heliostat"), "why", name, code=code)

    def until(name: str, *words: str) -> None:
        deadline = time.monotonic() + S
        while any(word not in (text := why(name)) for word in words):
            assert time.monotonic() < deadline, text

    assert "does not run" in why("here", code=1)
    serve.start(http_options={"port": free_port()})
    try:
        serve.run(here.bind(), name="small", route_prefix="/small")
        said = why("here")
        assert said == why("small") == why("small#here")
        assert "HEALTHY: 1 of 1 replicas run." in said
        assert said == why_of_all("here") == why_of_all("small#here")
        large = here.options(name="large", ray_actor_options={"num_cpus": 64})
        serve.run_many(
            [
                serve.RunTarget(large.bind(), "large-app", "/large"),
                serve.RunTarget(Broken.bind(), "broken-app", "/broken"),
                serve.RunTarget(Hangs.bind(), "hanging-app", "/hangs"),
            ],
            wait_for_applications_running=False,
        )
        until("large", "UPDATING: 0 of 1 replicas run.", "no node has 64 CPU")
        until("Broken", "DEPLOY_FAILED: 0 of 1 replicas run.", "given up after 1", "no model")
        until("hanging-app", "'hanging-app' is DEPLOYING", "initialize. It has been running there")
        assert "neither an application nor a deployment 'nothing'" in why("nothing", code=1)
        assert (
            "no actor, submitted job, trial, training run or deployment has that name"
            in why_of_all("nothing", code=1)
        )
        assert "given up after 1" in why_of_all("broken-app")
    finally:
        serve.shutdown()

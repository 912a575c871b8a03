"""An environment that cannot be built: whoever asks for it, it is tried once, and its words are the error."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve, train
from ray.exceptions import RuntimeEnvSetupError
from ray.job_submission import JobSubmissionClient

from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.heliostat_only("Ray tries again, and its words are others"),
    pytest.mark.contract("F7.04", "F7.07"),
]

# Stands for conda: what it is to create fails, and each try leaves a line.
CONDA = """#!/bin/sh
case "$1" in
    info) echo '{"envs": []}' ;;
    *) echo "$@" >> "$TRIES"; echo "a library is missing in the channel" >&2; exit 3 ;;
esac
"""
WORDS = "a library is missing in the channel"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A cluster whose nodes have that conda; its folder."""
    folder = Path(tempfile.mkdtemp(prefix="failing", dir="/tmp"))  # short: sockets lie in it
    programs = folder / "bin"
    programs.mkdir()
    (programs / "conda").write_text(CONDA)
    (programs / "conda").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("TRIES", str(folder / "tries"))
        ray.shutdown()
        sessions = str(folder / "sessions")
        context = ray.init(
            address="local",
            num_cpus=4,
            _temp_dir=sessions,
            include_dashboard=True,
            log_to_driver=False,
        )
        (folder / "address").write_text(context.dashboard_url)
        try:
            yield folder
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def tasks(env: dict[str, Any], _: Path) -> None:
    @ray.remote(runtime_env=env)
    def call() -> None: ...

    asked = [call.remote() for _ in range(3)]
    for ref in asked:
        with pytest.raises(RuntimeEnvSetupError, match=WORDS):
            ray.get(ref, timeout=120)
    ray.get(asked[0], timeout=120)


def an_actor(env: dict[str, Any], _: Path) -> None:
    @ray.remote(runtime_env=env)
    class Actor:
        def call(self) -> None: ...

    ray.get(Actor.remote().call.remote(), timeout=120)


def replicas(env: dict[str, Any], _: Path) -> None:
    @serve.deployment(num_replicas=2, ray_actor_options={"runtime_env": env, "num_cpus": 0})
    class Replica:
        def __call__(self) -> None: ...

    serve.start(proxy_location="Disabled")
    try:
        serve.run(Replica.bind(), route_prefix=None)
    finally:
        serve.shutdown()


def a_training_run(env: dict[str, Any], folder: Path) -> None:
    train.DataParallelTrainer(
        lambda: None,
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(storage_path=str(folder / "training"), worker_runtime_env=env),
    ).fit()


def a_job(env: dict[str, Any], folder: Path) -> None:
    client = JobSubmissionClient(f"http://{(folder / 'address').read_text()}")
    job = client.submit_job(entrypoint="true", runtime_env=env)
    wait_until(lambda: client.get_job_status(job).is_terminal(), what="the end of the job")
    raise RuntimeError(client.get_job_info(job).message)


KINDS: list[Callable[[dict[str, Any], Path], None]] = [
    tasks,
    an_actor,
    replicas,
    a_training_run,
    a_job,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_tried_once_and_says_why(
    folder: Path, kind: Callable[[dict[str, Any], Path], None]
) -> None:
    (folder / "tries").unlink(missing_ok=True)
    env = {"conda": {"dependencies": ["python", f"nothing-for-{kind.__name__}"]}}
    with pytest.raises(Exception, match=WORDS):
        kind(env, folder)
    assert len((folder / "tries").read_text().splitlines()) == 1
    shelf = folder / "sessions" / "runtime_resources" / "packages"
    assert [path for path in shelf.iterdir() if path.is_dir()] == []

"""Ray's own client and command, unmodified, against a head of ours.

HELIOSTAT_RAY_PYTHON names an interpreter that has ``ray[default]`` 2.60; without it there is nothing to
run.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.commands import ran
from tests.helpers.web import Head

PYTHON = os.environ.get("HELIOSTAT_RAY_PYTHON", "")

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.contract("F6.14", "F6.15", "F6.16", "F6.18"),
    pytest.mark.heliostat_only("it is Ray's client that is tested against Heliostat"),
    pytest.mark.skipif(not PYTHON, reason="HELIOSTAT_RAY_PYTHON names no Python with ray[default]"),
]

# A deadline against a hang: on a busy machine `import ray` of Ray alone takes two minutes.
WITHIN_S = 600

PROGRAM = """
import asyncio, sys, time
from ray.job_submission import JobSubmissionClient, JobStatus
from ray.util.state import StateApiClient, list_actors, list_nodes, list_tasks, list_jobs, list_workers
from ray.util.state import list_placement_groups, list_objects, summarize_tasks, get_node, get_log, list_logs

url, folder = sys.argv[1:]
client = JobSubmissionClient(url)
script = "import ray; ray.init(); print('sum', sum(ray.get([ray.remote(abs).remote(-i) for i in range(5)])))"
job = client.submit_job(
    entrypoint=f"cat data.txt; echo $COLOUR",
    runtime_env={"working_dir": folder, "env_vars": {"COLOUR": "green"}},
    metadata={"team": "a"},
    entrypoint_num_cpus=0,
)
async def follow(job):
    return "".join([part async for part in client.tail_job_logs(job)])
log = asyncio.run(follow(job))
assert log == "read\\ngreen\\n", log
info = client.get_job_info(job)
assert info.status == JobStatus.SUCCEEDED and info.driver_exit_code == 0, info
assert info.metadata == {"team": "a"}
assert client.get_job_logs(job) == log
failed = client.submit_job(entrypoint="exit 3")
asyncio.run(follow(failed))
assert client.get_job_info(failed).driver_exit_code == 3
long = client.submit_job(entrypoint="sleep 1000")
while client.get_job_status(long) != JobStatus.RUNNING:
    time.sleep(0.05)
assert client.stop_job(long)
while not client.get_job_status(long).is_terminal():
    time.sleep(0.05)
assert client.get_job_status(long) == JobStatus.STOPPED
assert {one.submission_id for one in client.list_jobs()} >= {job, failed, long}
assert client.delete_job(long)
try:
    client.get_job_info(long)
except RuntimeError as error:
    assert "404" in str(error)
else:
    raise AssertionError("a deleted job is there")

nodes = list_nodes(url, detail=True)
assert [node.state for node in nodes] == ["ALIVE"], nodes
assert get_node(nodes[0].node_id, address=url).node_id == nodes[0].node_id
for listing in (list_actors, list_tasks, list_workers, list_objects, list_placement_groups):
    listing(url, detail=True)
assert job in [one.submission_id for one in list_jobs(url)]
assert list_jobs(url, filters=[("submission_id", "=", failed)])[0].status == "FAILED"
summarize_tasks(url)
print("all of it")
"""


@pytest.fixture
def env(head: Head, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.txt").write_text("read\n")
    # Nothing of ours is on its path.
    kept = {name: value for name, value in head.env.items() if name != "PYTHONPATH"}
    return {**kept, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": head.token}


def test_rays_client_works(head: Head, env: dict[str, str], tmp_path: Path) -> None:
    done = ran(
        [PYTHON, "-c", PROGRAM, head.url, str(tmp_path / "folder")],
        env=env,
        cwd=tmp_path,
        within=WITHIN_S,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("all of it\n")


def test_rays_command_works(head: Head, env: dict[str, str], tmp_path: Path) -> None:
    def ray(*args: str) -> subprocess.CompletedProcess[str]:
        return ran(
            [str(Path(PYTHON).parent / "ray"), *args, "--address", head.url],
            env=env,
            cwd=tmp_path,
            within=WITHIN_S,
        )

    done = ran(
        [
            str(Path(PYTHON).parent / "ray"),
            *("job", "submit", "--address", head.url, "--submission-id", "rays"),
            *("--working-dir", str(tmp_path / "folder"), "--", "cat", "data.txt"),
        ],
        env=env,
        cwd=tmp_path,
        within=WITHIN_S,
    )
    assert done.returncode == 0, done.stdout
    assert "read" in done.stdout
    assert "'rays' succeeded" in done.stdout
    assert "succeeded" in ray("job", "status", "rays").stdout
    assert "read" in ray("job", "logs", "rays").stdout
    assert "rays" in ray("job", "list").stdout
    assert "ALIVE" in ray("list", "nodes").stdout
    assert "deleted" in ray("job", "delete", "rays").stdout

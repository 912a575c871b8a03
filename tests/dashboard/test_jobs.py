"""Jobs: submitted over HTTP, by the client and by the command; what becomes of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient, JobType

from tests.helpers import wheels
from tests.helpers.commands import CLI, ran
from tests.helpers.harness import is_alive, kill_daemon, wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.14", "F6.15", "F6.16"),
    pytest.mark.heliostat_only("Ray's jobs need packages that the tests do not install"),
]

PYTHON = sys.executable


@pytest.fixture
def client(head: Head, monkeypatch: pytest.MonkeyPatch) -> JobSubmissionClient:
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", head.token)
    return JobSubmissionClient(head.url)


def ended(client: JobSubmissionClient, job_id: str, *, within: float = 90) -> Any:
    """The job's details once it has ended."""

    def probe() -> Any:
        info = client.get_job_info(job_id)
        return info if info.status.is_terminal() else None

    return wait_until(probe, within=within, what=f"the end of {job_id}", every=0.05)


def printed(client: JobSubmissionClient, job_id: str, text: str) -> str:
    """The job's log once that stands in it."""

    def probe() -> str | None:
        log = client.get_job_logs(job_id)
        return log if text in log else None

    return wait_until(probe, what=f"{text!r} in the log of {job_id}", every=0.05)


def test_a_command_runs_and_is_reported(client: JobSubmissionClient) -> None:
    job_id = client.submit_job(entrypoint="echo one; echo two >&2", metadata={"team": "a"})
    assert job_id.startswith("raysubmit_")
    info = ended(client, job_id)
    assert (info.status, info.driver_exit_code) == (JobStatus.SUCCEEDED, 0)
    assert (info.type, info.submission_id) == (JobType.SUBMISSION, job_id)
    assert info.entrypoint == "echo one; echo two >&2"
    assert info.metadata == {"team": "a"}
    assert info.end_time >= info.start_time > 1_600_000_000_000
    assert client.get_job_logs(job_id) == "one\ntwo\n"
    assert client.get_job_status(job_id) is JobStatus.SUCCEEDED
    assert job_id in [one.submission_id for one in client.list_jobs()]


def test_the_state_api_reads_what_the_driver_printed(client: JobSubmissionClient) -> None:
    first = client.submit_job(entrypoint="echo one; echo two >&2")
    ended(client, first)
    script = (
        "import ray; from ray.util import state; ray.init(); "
        f"print(repr(''.join(state.get_log(submission_id='{first}')))); "
        "state.get_log(submission_id='../../../etc/passwd'); "
        "next(state.get_log(submission_id='raysubmit_none'))"
    )
    second = client.submit_job(entrypoint=f'{PYTHON} -c "{script}"')
    ended(client, second)
    log = client.get_job_logs(second)
    assert "'one\\ntwo\\n'" in log
    assert "There is no log file 'job-driver-raysubmit_none.log'" in log


@pytest.mark.parametrize(
    ("entrypoint", "code", "says"),
    [
        ("echo so it is; exit 7", 7, "so it is"),
        ("no-such-program", 127, "not found"),
        ("kill -9 $$", -9, "-9"),
    ],
)
def test_a_failure_has_its_code_and_last_lines(
    client: JobSubmissionClient, entrypoint: str, code: int, says: str
) -> None:
    info = ended(client, client.submit_job(entrypoint=entrypoint))
    assert (info.status, info.driver_exit_code) == (JobStatus.FAILED, code)
    assert info.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert says in info.message


DRIVER = """
import os, ray
ray.init()
@ray.remote
def where():
    return os.environ["COLOUR"], os.getcwd()
print("task", *ray.get(where.remote()))
import mine
print("file", mine.WORD, open("data.txt").read())
context = ray.get_runtime_context()
print("job", context.get_job_id())
"""


def test_a_driver_gets_its_folder_and_variables(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(DRIVER)
    (tmp_path / "mine.py").write_text("WORD = 'imported'")
    (tmp_path / "data.txt").write_text("read")
    (tmp_path / ".gitignore").write_text("secret\n")
    (tmp_path / "secret").write_text("stays here")
    env = {"working_dir": str(tmp_path), "env_vars": {"COLOUR": "green"}}
    job_id = client.submit_job(entrypoint=f"{PYTHON} main.py; ls", runtime_env=env)
    info = ended(client, job_id)
    log = client.get_job_logs(job_id)
    assert info.status is JobStatus.SUCCEEDED, log
    assert "task green" in log
    assert "file imported read" in log
    assert "secret" not in log
    job = log.partition("job ")[2].split()[0]
    assert (info.job_id, info.driver_info.id) == (job, job)
    assert client.get_job_info(job).submission_id == job_id
    # The same folder is not uploaded again.
    assert client.submit_job(entrypoint="cat data.txt", runtime_env=env)


WRITER = """
from pathlib import Path

import ray

ray.init()


@ray.remote(num_cpus=0)
def look():
    return [Path("written").is_file(), Path("code.txt").read_text()]


print("before", Path("written").is_file(), ray.get(look.remote()))
Path("written").touch()
Path("code.txt").write_text("changed")
print("after", ray.get(look.remote()))
"""


@pytest.mark.heliostat_only("what one of Ray's jobs writes, later ones with the same code see")
def until_gone(place: Path) -> None:
    wait_until(lambda: not place.exists(), what="the end of the job's folder")


def test_an_entry_point_and_its_workers_share_a_folder_that_no_later_job_sees(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(WRITER)
    (tmp_path / "code.txt").write_text("as it was")
    env = {"working_dir": str(tmp_path)}
    for _ in range(2):
        job_id = client.submit_job(entrypoint=f"{PYTHON} main.py; pwd", runtime_env=env)
        info = ended(client, job_id)
        log = client.get_job_logs(job_id)
        assert info.status is JobStatus.SUCCEEDED, log
        assert "before False [False, 'as it was']" in log
        assert "after [True, 'changed']" in log
        place = Path(log.splitlines()[-1])
        until_gone(place)


def test_resources_are_held_for_the_command(client: JobSubmissionClient) -> None:
    """With resources the command runs where they are, and ends when they are free again."""
    entrypoint = (
        f"{PYTHON} -c 'import ray; ray.init(); print(ray.available_resources().get(\"CPU\", 0))'"
    )
    job_id = client.submit_job(entrypoint=entrypoint, entrypoint_num_cpus=1.5)
    info = ended(client, job_id)
    assert info.status is JobStatus.SUCCEEDED, info.message
    assert client.get_job_logs(job_id).endswith("\n0.5\n")
    job_id = client.submit_job(
        entrypoint="echo held; exit 6", entrypoint_resources={"node:__internal_head__": 0.1}
    )
    info = ended(client, job_id)
    assert (info.driver_exit_code, client.get_job_logs(job_id)) == (6, "held\n"), info.message
    job_id = client.submit_job(
        entrypoint="trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        entrypoint_num_cpus=1,
    )
    printed(client, job_id, "ready")
    client.stop_job(job_id)
    assert ended(client, job_id).status is JobStatus.STOPPED
    assert "tidied" in client.get_job_logs(job_id)


def test_modules_are_uploaded(client: JobSubmissionClient, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("NAME = 'tools of mine'")
    job_id = client.submit_job(
        entrypoint=f"{PYTHON} -c 'import tools; print(tools.NAME)'",
        runtime_env={"py_modules": [str(tmp_path / "tools")]},
    )
    ended(client, job_id)
    assert client.get_job_logs(job_id) == "tools of mine\n"


def test_a_stopped_job_takes_its_processes_and_tasks_along(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    script = """
import os, time, ray
ray.init()
@ray.remote
class Keeper:
    def pid(self): return os.getpid()
keeper = Keeper.remote()
print("pids", os.getpid(), ray.get(keeper.pid.remote()), flush=True)
time.sleep(1000)
"""
    (tmp_path / "main.py").write_text(script)
    job_id = client.submit_job(
        entrypoint=f"sleep 1000 & {PYTHON} main.py", runtime_env={"working_dir": str(tmp_path)}
    )
    log = printed(client, job_id, "pids ")
    pids = [int(pid) for pid in log.partition("pids ")[2].split()[:2]]
    assert client.get_job_status(job_id) is JobStatus.RUNNING
    with pytest.raises(RuntimeError, match="stop it first"):
        client.delete_job(job_id)
    assert client.stop_job(job_id) is True
    info = ended(client, job_id)
    assert (info.status, info.driver_exit_code) == (JobStatus.STOPPED, None)
    wait_until(lambda: not any(map(is_alive, pids)), what="the end of the driver and its actor")
    assert client.stop_job(job_id) is False
    assert client.delete_job(job_id) is True
    with pytest.raises(RuntimeError, match="404"):
        client.get_job_info(job_id)


def test_what_does_not_heed_sigterm_is_killed(client: JobSubmissionClient) -> None:
    job_id = client.submit_job(entrypoint="trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    printed(client, job_id, "deaf")
    client.stop_job(job_id)
    assert ended(client, job_id).status is JobStatus.STOPPED


def test_what_heeds_sigterm_has_the_time_to(client: JobSubmissionClient) -> None:
    job_id = client.submit_job(
        entrypoint="trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    )
    printed(client, job_id, "ready")
    client.stop_job(job_id)
    assert ended(client, job_id).status is JobStatus.STOPPED
    assert "tidied" in client.get_job_logs(job_id)


def test_a_log_is_followed_to_the_end(client: JobSubmissionClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = client.submit_job(
        entrypoint=f"echo früh; while [ ! -e {gate} ]; do sleep 0.02; done; printf spät"
    )

    async def follow() -> list[str]:
        parts = []
        async for part in client.tail_job_logs(job_id):
            parts.append(part)
            gate.touch()
        return parts

    parts = asyncio.run(asyncio.wait_for(follow(), 90))
    assert parts[0] == "früh\n"
    assert "".join(parts) == "früh\nspät"
    assert client.get_job_status(job_id) is JobStatus.SUCCEEDED


def test_an_id_can_be_given_once(client: JobSubmissionClient) -> None:
    assert client.submit_job(entrypoint="true", submission_id="mine") == "mine"
    with pytest.raises(RuntimeError, match=r"400.*already"):
        client.submit_job(entrypoint="true", submission_id="mine")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 400, "JSON"),
        ("{}", 400, "`entrypoint`"),
        ('{"entrypoint": 1}', 400, "`entrypoint`"),
        ('{"entrypoint": "x", "metadata": {"a": 1}}', 400, "`metadata`"),
        ('{"entrypoint": "x", "submission_id": "../../x"}', 400, "`submission_id`"),
        ('{"entrypoint": "x", "colour": "red"}', 400, "`colour`"),
        (json.dumps({"entrypoint": "x" * (5 << 20)}), 413, "bytes"),
    ],
)
def test_a_wrong_submission_is_named(head: Head, body: str, status: int, says: str) -> None:
    answer = head.ask("POST", "/api/jobs/", body)
    assert answer.status == status
    assert says in answer.text


def test_no_job_starts_without_the_token(head: Head, tmp_path: Path) -> None:
    """CVE-2023-48022: whoever reaches the port must not run commands."""
    witness = tmp_path / "witness"
    body = json.dumps({"entrypoint": f"touch {witness}"})
    before = len(head.get("/api/jobs/"))
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Cookie": "ray-authentication-token=x"},
    ):
        answer = head.ask("POST", "/api/jobs/", body, headers, token=False)
        assert answer.status in (401, 403)
    assert len(head.get("/api/jobs/")) == before
    assert not witness.exists()


def test_what_is_not_there_is_404(head: Head) -> None:
    for method, path in (
        ("GET", "/api/jobs/none"),
        ("DELETE", "/api/jobs/none"),
        ("POST", "/api/jobs/none/stop"),
        ("GET", "/api/jobs/none/logs"),
        ("GET", "/api/jobs/..%2f..%2fetc%2fpasswd/logs"),
        ("GET", "/api/packages/gcs/none.zip"),
    ):
        answer = head.ask(method, path)
        assert answer.status == 404, (path, answer.text)
        assert answer.text
    assert head.ask("PUT", "/api/packages/gcs/..%2fx.zip", b"x").status == 400


def test_a_package_that_was_not_uploaded_fails_the_job(head: Head) -> None:
    env = {"working_dir": "gcs://_ray_pkg_none.zip"}
    body = json.dumps({"entrypoint": "true", "runtime_env": env})
    job = head.ask("POST", "/api/jobs/", body).json()["submission_id"]

    def failed() -> Any:
        info = head.get(f"/api/jobs/{job}")
        return info if info["status"] == "FAILED" else None

    info = wait_until(failed, what="the failure")
    assert info["error_type"] == "RUNTIME_ENV_SETUP_FAILURE"
    assert "_ray_pkg_none.zip" in info["message"]


@pytest.mark.contract("F6.14", "F7.04")
def test_environments_of_entry_points_are_listed_those_that_failed_too(
    client: JobSubmissionClient, head: Head, tmp_path: Path
) -> None:
    def submit(package: Path, entrypoint: str) -> tuple[Any, dict[str, Any]]:
        options = ["--no-index", "--no-deps", "--no-build-isolation"]
        pip = {"packages": [str(package)], "pip_install_options": options}
        info = ended(client, client.submit_job(entrypoint=entrypoint, runtime_env={"pip": pip}))
        rows = head.get("/api/v0/runtime_envs?detail=true")["data"]["result"]["result"]
        (row,) = [row for row in rows if row["runtime_env"] == info.runtime_env]
        assert row["node_id"] == info.driver_node_id
        return info, row

    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "setup.py").write_text("raise RuntimeError('a library is missing')")
    info, row = submit(broken, "true")
    assert (info.status, info.error_type) == (JobStatus.FAILED, "RUNTIME_ENV_SETUP_FAILURE")
    assert "a library is missing" in info.message
    assert (row["success"], row["starts"], row["creation_time_ms"]) == (False, 0, None)
    assert "a library is missing" in row["error"]

    wheel = wheels.made(tmp_path, "of_the_job", {"of_the_job.py": "WORD = 'installed'\n"})
    # The workers of the entry point's driver run in the environment that it has: nothing is built twice.
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, of_the_job, ray\n"
        "place = ray.remote(lambda: (sys.prefix, __import__('of_the_job').WORD))\n"
        "assert ray.get(place.remote()) == (sys.prefix, of_the_job.WORD)\n"
    )
    info, row = submit(wheel, f"python {program}")
    assert info.status is JobStatus.SUCCEEDED, info.message
    assert (row["success"], row["error"]) == (True, None)
    assert row["creation_time_ms"] > 0
    assert row["size"] > 0


def test_drivers_are_listed_beside_submissions(head: Head, run_driver: Any) -> None:
    done = run_driver(
        "import ray; ray.init(); print('job=' + ray.get_runtime_context().get_job_id())",
        env={**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}"},
    ).check()
    info = head.get(f"/api/jobs/{done.value('job')}")
    assert (info["type"], info["submission_id"]) == ("DRIVER", None)
    answer = head.ask("POST", f"/api/jobs/{done.value('job')}/stop")
    assert answer.status == 400


def test_a_client_without_the_token_is_told(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", "0" * 32)
    with pytest.raises(AuthenticationError):
        JobSubmissionClient(head.url)
    with pytest.raises(ConnectionError):
        JobSubmissionClient("http://127.0.0.1:1")


def command(head: Head, *args: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [CLI, "job", *args],
        env=head.env,
        within=120,
    )


def test_the_command_submits_and_follows(head: Head, tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello from the folder")
    options = ("--working-dir", str(tmp_path), "--submission-id", "by-command")
    env = ("--runtime-env-json", '{"env_vars": {"WORD": "and a variable"}}')
    done = command(head, "submit", *options, *env, "--", "sh", "-c", "cat hello.txt; echo $WORD")
    assert done.returncode == 0, done.stdout
    assert "Job 'by-command' submitted successfully" in done.stdout
    assert "hello from the folderand a variable" in done.stdout
    assert "Job 'by-command' succeeded" in done.stdout
    assert "hello from the folder" in command(head, "logs", "by-command").stdout
    assert "succeeded" in command(head, "status", "by-command").stdout
    assert "by-command" in command(head, "list", "--address", head.url).stdout
    assert "deleted" in command(head, "delete", "by-command").stdout
    assert command(head, "status", "by-command").returncode == 1


def test_the_command_fails_with_the_job(head: Head) -> None:
    done = command(head, "submit", "--", "sh", "-c", "exit 3")
    assert done.returncode == 1
    assert "exit code 3" in done.stdout
    done = command(head, "submit", "--no-wait", "--submission-id", "long", "--", "sleep", "1000")
    assert done.returncode == 0
    stopped = command(head, "stop", "long")
    assert stopped.returncode == 0
    assert "was stopped" in stopped.stdout
    for wrong in (("submit",), ("submit", "--metadata-json", "{", "--", "x"), ("nonsense",)):
        assert command(head, *wrong).returncode != 0


def test_jobs_outlive_the_head(own_head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is killed: what ended is remembered, and what runs goes on and is reported."""
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", own_head.token)
    own_head.start()
    client = JobSubmissionClient(own_head.url)
    done = client.submit_job(entrypoint="echo before; exit 4", metadata={"k": "v"})
    before = ended(client, done)
    gate = own_head.home / "gate"
    runs = client.submit_job(
        entrypoint=f"echo began; while [ ! -e {gate} ]; do sleep 0.05; done; echo ended; exit 5"
    )
    printed(client, runs, "began")
    kill_daemon(own_head.session())
    own_head.start()
    client = JobSubmissionClient(own_head.url)
    assert client.get_job_info(done) == before
    assert client.get_job_logs(done) == "before\n"
    assert client.get_job_status(runs) is JobStatus.RUNNING
    gate.touch()
    info = ended(client, runs)
    assert (info.status, info.driver_exit_code) == (JobStatus.FAILED, 5)
    assert client.get_job_logs(runs) == "began\nended\n"


def test_jobs_end_with_a_head_that_is_stopped(
    own_head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", own_head.token)
    for how in ((), ("--force",)):
        own_head.start()
        client = JobSubmissionClient(own_head.url)
        job_id = client.submit_job(entrypoint="sleep 1000 & echo pids $$ $!; wait")
        log = printed(client, job_id, "pids ")
        pids = [int(pid) for pid in log.partition("pids ")[2].split()[:2]]
        own_head.run("stop", *how)
        wait_until(lambda pids=pids: not any(map(is_alive, pids)), what=f"the end of {pids}")


def test_the_clients_types_are_rays() -> None:
    assert [status.value for status in JobStatus] == [
        "PENDING",
        "RUNNING",
        "STOPPED",
        "SUCCEEDED",
        "FAILED",
    ]
    assert str(JobStatus.RUNNING) == "RUNNING"
    assert JobStatus("FAILED").is_terminal()
    assert ray.job_submission.JobSubmissionClient is JobSubmissionClient

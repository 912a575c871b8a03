"""``list_logs`` and ``get_log`` of a cluster that the process is no part of: no session begins."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import ray
from ray.job_submission import JobSubmissionClient
from ray.util import state
from ray.util.state.exception import RayStateApiException

from tests.helpers.harness import wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.18"),
    pytest.mark.heliostat_only("the head is Heliostat's"),
]

ENTRYPOINT = (
    f"{sys.executable} -c \"print('first'); print('\\u00e4' * 40000); "
    "print('\\x1b[31mred\\x1b[0m last')\""
)


@pytest.fixture
def job(head: Head, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a job that has printed three lines."""
    ray.shutdown()
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", head.token)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    client = JobSubmissionClient(head.url)
    env = {"env_vars": {"PYTHONIOENCODING": "utf-8"}}
    submitted = client.submit_job(entrypoint=ENTRYPOINT, runtime_env=env)
    wait_until(lambda: client.get_job_status(submitted).is_terminal(), what="the job's end")
    return submitted


def check(job: str, **where: Any) -> None:
    lines = "".join(state.get_log(submission_id=job, **where)).splitlines()
    assert lines == ["first", "ä" * 40000, "\x1b[31mred\x1b[0m last"]
    last = state.get_log(submission_id=job, tail=1, filter_ansi_code=True, **where)
    assert "".join(last) == "red last\n"
    raw = b"".join(state.get_log(submission_id=job, encoding=None, **where))
    assert raw.startswith(b"first\n\xc3\xa4")
    node = state.list_nodes(**where)[0].node_id
    kinds = state.list_logs(node_id=node, **where)
    assert any(
        list(state.get_log(node_id=node, filename=name, tail=1, **where))
        for name in kinds["raylet"]
    )
    assert state.list_logs(node_id=node, glob_filter="no-such-*", **where) == {}
    with pytest.raises(RayStateApiException, match="raysubmit_none"):
        list(state.get_log(submission_id="raysubmit_none", **where))
    with pytest.raises(RayStateApiException, match="filename"):
        list(state.get_log(node_id=node, **where))
    with pytest.raises(RayStateApiException, match="no-such-node"):
        state.list_logs(node_id="no-such-node", **where)
    assert not ray.is_initialized()


def test_logs_of_a_cluster_that_is_named(head: Head, job: str) -> None:
    check(job, address=head.url)


def test_logs_of_the_cluster_that_the_environment_names(
    head: Head, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", head.url)
    check(job)
    assert state.summarize_actors()["cluster"]["total_actors"] == 0


def test_a_log_is_followed(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    ray.shutdown()
    monkeypatch.setenv("HELIOSTAT_AUTH_TOKEN", head.token)
    client = JobSubmissionClient(head.url)
    stop = head.home / "stop"
    waits = f"while not os.path.exists({str(stop)!r}): time.sleep(0.05)"
    script = head.home / "waits.py"
    script.write_text(
        f"import os, time\nprint('begun', flush=True)\n{waits}\nprint('over', flush=True)\n"
    )
    submitted = client.submit_job(entrypoint=f"{sys.executable} {script}")
    wait_until(lambda: "begun" in client.get_job_logs(submitted), what="its first line")
    seen = ""
    for part in state.get_log(address=head.url, submission_id=submitted, follow=True):
        seen += part
        if "begun" in seen:
            stop.touch()
        if "over" in seen:
            break
    assert seen == "begun\nover\n"


def test_nothing_that_answers_is_an_error_of_the_connection() -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        list(state.get_log(address="http://127.0.0.1:1", submission_id="a"))

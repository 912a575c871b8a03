"""Submitting jobs and asking what became of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from heliostat.core.runtime_env import check_runtime_env
from heliostat.job_submission import packaging, websocket
from heliostat.job_submission.types import JobDetails, JobStatus, of_details
from heliostat.util.http import Answer, Server, server_url

_JSON = {"Content-Type": "application/json"}


class JobSubmissionClient:
    """A client of a cluster's jobs API.

    ``address`` is the head's ``http://host:8265``, the cluster's ``host:port`` as for ``init``, or
    ``None`` or ``"auto"`` for the cluster of this machine; RAY_API_SERVER_ADDRESS and RAY_ADDRESS of the
    environment go before it. The cluster's token is sent unless ``headers`` have an ``Authorization``.
    ``metadata`` is added to that of each job. ``verify=False`` accepts any certificate of an ``https``
    address, a path names the certificates to trust.

    Raises ``ConnectionError`` when nothing answers, ``AuthenticationError`` for a missing or wrong token.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        verify: str | bool = True,
        **kwargs: Any,
    ) -> None:
        for name, value, kind, word in (
            ("address", address, str | None, "a string"),
            ("create_cluster_if_needed", create_cluster_if_needed, bool, "a bool"),
            ("cookies", cookies, Mapping | None, "a dict"),
            ("metadata", metadata, Mapping | None, "a dict"),
            ("headers", headers, Mapping | None, "a dict"),
            ("verify", verify, str | bool, "a str or bool"),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} must be {word}, got {type(value)}")
        self._server = Server(server_url(address), headers, cookies, verify)
        self._metadata = dict(metadata or {})
        self._version = self._ask("GET", "/api/version").json()

    def get_address(self) -> str:
        """The server's address: ``http://host:port``."""
        return self._server.url

    def get_version(self) -> str:
        """The version of the jobs API that the server has."""
        return str(self._version["version"])

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: Mapping[str, float] | None = None,
        entrypoint_label_selector: Mapping[str, str] | None = None,
    ) -> str:
        """Run ``entrypoint``, a command for the shell, on the cluster; the job's submission id.

        A ``working_dir`` and ``py_modules`` of this machine are uploaded. ``entrypoint_num_cpus`` and
        its like are held for the command itself, beside what its tasks take; ``entrypoint_memory`` is
        bytes. Raises ``RuntimeError`` for what the server refuses, such as an id that is taken.
        """
        env = packaging.uploaded(dict(runtime_env or {}), self._has, self._upload)
        hook = env.get("worker_process_setup_hook")
        if hook is not None and not isinstance(hook, str):
            raise ValueError(
                f"worker_process_setup_hook of a job is the name of a function, got {type(hook)}"
            )
        check_runtime_env({k: v for k, v in env.items() if k not in ("working_dir", "py_modules")})
        body = {
            "entrypoint": entrypoint,
            "submission_id": submission_id or job_id,
            "runtime_env": env,
            "metadata": {**(metadata or {}), **self._metadata},
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources and dict(entrypoint_resources),
            "entrypoint_label_selector": entrypoint_label_selector
            and dict(entrypoint_label_selector),
        }
        given = {name: value for name, value in body.items() if value is not None}
        answer = self._ask("POST", "/api/jobs/", json.dumps(given).encode(), _JSON)
        return str(answer.json()["submission_id"])

    def stop_job(self, job_id: str) -> bool:
        """Ask a job to end: SIGTERM, and after 3 s SIGKILL; whether it was under way.

        Raises ``RuntimeError`` when there is no such job.
        """
        return bool(self._ask("POST", f"{_path(job_id)}/stop").json()["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Forget a job that has ended; its log stays on disk.

        Raises ``RuntimeError`` when there is no such job or it is under way.
        """
        return bool(self._ask("DELETE", _path(job_id)).json()["deleted"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """What there is to know of a job. Raises ``RuntimeError`` when there is no such job."""
        details: JobDetails = of_details().JobDetails.of(self._ask("GET", _path(job_id)).json())
        return details

    def list_jobs(self) -> list[JobDetails]:
        """All jobs, ended ones and drivers that connected by themselves too."""
        kind = of_details().JobDetails
        return [kind.of(one) for one in self._ask("GET", "/api/jobs/").json()]

    def get_job_status(self, job_id: str) -> JobStatus:
        """A job's status. Raises ``RuntimeError`` when there is no such job."""
        return self.get_job_info(job_id).status

    def get_job_logs(self, job_id: str) -> str:
        """What a job has printed. Raises ``RuntimeError`` when there is no such job."""
        return str(self._ask("GET", f"{_path(job_id)}/logs").json()["logs"])

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """What a job prints, from its beginning on, part by part until it ends.

        Raises ``RuntimeError`` when there is no such job, or the connection ends before the job does.
        """
        parts = websocket.texts(self._server, f"{_path(job_id)}/logs/tail")
        async with contextlib.aclosing(parts):
            async for part in parts:
                yield part
        if not self.get_job_status(job_id).is_terminal():
            raise RuntimeError(f"The connection for the logs of job {job_id} ended before the job.")

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        answer = self._server.ask(method, path, body, headers)
        if answer.status != 200:
            raise RuntimeError(f"Request failed with status code {answer.status}: {answer.text}")
        return answer

    def _has(self, name: str) -> bool:
        answer = self._server.ask("GET", f"/api/packages/gcs/{name}")
        if answer.status not in (200, 404):
            raise RuntimeError(f"Request failed with status code {answer.status}: {answer.text}")
        return answer.status == 200

    def _upload(self, name: str, content: bytes) -> None:
        self._ask("PUT", f"/api/packages/gcs/{name}", content)


def _path(job_id: str) -> str:
    from urllib.parse import quote

    return f"/api/jobs/{quote(job_id, safe='')}"

"""Submitting jobs and asking what became of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from heliostat.core.runtime_env.document import check_runtime_env
from heliostat.job_submission import packaging, websocket
from heliostat.job_submission.types import JobDetails, JobStatus, of_details
from heliostat.util.http import Answer, Server, server_url

_JSON = {"Content-Type": "application/json"}


class JobSubmissionClient:
    """A client of a cluster's jobs.

    The cluster's token is sent unless ``headers`` have an ``Authorization``. The server is that of the head's
    dashboard: ``heliostat start --head``, or ``ray.init(include_dashboard=True)``.

    Args:
        address: ``http://host:8265`` of the head, the cluster's ``host:port`` as for ``ray.init``, or
            ``None`` or ``"auto"`` for the cluster of this machine. RAY_API_SERVER_ADDRESS and
            RAY_ADDRESS go before it.
        create_cluster_if_needed: Has no effect: no cluster is started.
        cookies: Sent with each request.
        metadata: Texts by name, added to those of each job.
        headers: Sent with each request.
        verify: False: accept any certificate of an ``https`` address; a path: the certificates to
            trust.
        **kwargs: Has no effect.

    Raises:
        ConnectionError: Nothing answers.
        AuthenticationError: The token is missing or wrong.
        TypeError: An argument has another type.

    Examples:
        >>> import ray
        >>> from ray.job_submission import JobSubmissionClient
        >>> client = JobSubmissionClient("http://127.0.0.1:8265")  # doctest: +SKIP
        >>> job = client.submit_job(entrypoint="echo hello")  # doctest: +SKIP
        >>> client.get_job_status(job)  # doctest: +SKIP
        <JobStatus.SUCCEEDED: 'SUCCEEDED'>
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
        """Run a command on the cluster. Returns at once.

        Args:
            entrypoint: The command, for the shell.
            job_id: An older name of ``submission_id``.
            runtime_env: The environment of the command and its workers. A ``working_dir`` and
                ``py_modules`` of this machine are uploaded.
            metadata: Texts by name, kept with the job.
            submission_id: The job's id. Default: a new one.
            entrypoint_num_cpus: CPUs that the command itself holds, beside what its tasks take. Default 0.
            entrypoint_num_gpus: GPUs, likewise. Default 0.
            entrypoint_memory: Bytes, likewise. Default 0.
            entrypoint_resources: Further resources, likewise: amounts by name.
            entrypoint_label_selector: What the labels of its node must be.

        Returns:
            The submission id.

        Raises:
            RuntimeError: The server refuses it: the id is taken, say.
            ValueError: The environment cannot be made.
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
        """Ask a job to end: SIGTERM, and SIGKILL 3 seconds later.

        Args:
            job_id: The submission id.

        Returns:
            Whether it was under way.

        Raises:
            RuntimeError: There is no such job.
        """
        return bool(self._ask("POST", f"{_path(job_id)}/stop").json()["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Forget a job that has ended; its log stays on disk.

        Args:
            job_id: The submission id.

        Returns:
            Whether it was forgotten.

        Raises:
            RuntimeError: There is no such job, or it is under way.
        """
        return bool(self._ask("DELETE", _path(job_id)).json()["deleted"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """Give what there is to know of a job.

        Args:
            job_id: The submission id.

        Returns:
            The job.

        Raises:
            RuntimeError: There is no such job.
        """
        details: JobDetails = of_details().JobDetails.of(self._ask("GET", _path(job_id)).json())
        return details

    def list_jobs(self) -> list[JobDetails]:
        """All jobs, ended ones and drivers that connected by themselves too."""
        kind = of_details().JobDetails
        return [kind.of(one) for one in self._ask("GET", "/api/jobs/").json()]

    def get_job_status(self, job_id: str) -> JobStatus:
        """Give a job's status.

        Args:
            job_id: The submission id.

        Returns:
            The status.

        Raises:
            RuntimeError: There is no such job.
        """
        return self.get_job_info(job_id).status

    def get_job_logs(self, job_id: str) -> str:
        """Give what a job has printed.

        Args:
            job_id: The submission id.

        Returns:
            The text.

        Raises:
            RuntimeError: There is no such job.
        """
        return str(self._ask("GET", f"{_path(job_id)}/logs").json()["logs"])

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Follow what a job prints, from its beginning to its end.

        Args:
            job_id: The submission id.

        Yields:
            A part of the text.

        Raises:
            RuntimeError: There is no such job, or the connection ends before the job does.
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

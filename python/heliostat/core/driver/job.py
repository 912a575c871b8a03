"""The facts of its job that a driver tells the cluster."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.core.platform.logging_config import LoggingConfig

LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """Settings of a job, as an object; ``init`` takes most of them as keywords too.

    Args:
        jvm_options: Has no effect: there are no workers in Java.
        code_search_path: Has no effect.
        runtime_env: The environment of the job's workers.
        metadata: Texts by name, kept with the job.
        ray_namespace: Where the job's named actors are looked up. ``None``: a namespace of its own.
        default_actor_lifetime: ``"non_detached"``: actors end with the job; ``"detached"``: they
            outlive it.

    Raises:
        TypeError: ``code_search_path`` is not a list.
        ValueError: There is no such lifetime.

    Examples:
        >>> from ray.job_config import JobConfig
        >>> config = JobConfig(
        ...     runtime_env={"env_vars": {"LEVEL": "3"}}, ray_namespace="trading"
        ... )
        >>> config.set_metadata("owner", "me")
        >>> config.ray_namespace
        'trading'

        ``ray.init(job_config=config)`` begins a job with it.
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        _client_job: bool = False,
        metadata: Mapping[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        if isinstance(code_search_path, str):
            raise TypeError("code_search_path must be a list of strings")
        self.jvm_options = list(jvm_options or [])
        self.code_search_path = list(code_search_path or [])
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace
        self.py_logging_config: LoggingConfig | None = None
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)
        self._client_job = _client_job
        self._py_driver_sys_path = list(_py_driver_sys_path or [])

    def set_metadata(self, key: str, value: str) -> None:
        """Add a pair to the job's metadata.

        Args:
            key: Its name.
            value: Its text.
        """
        self.metadata[key] = value

    def set_runtime_env(
        self, runtime_env: Mapping[str, Any] | None, validate: bool = False
    ) -> None:
        """Set the environment of the job's workers.

        Args:
            runtime_env: Its fields; ``None``: none.
            validate: Check it now. Default: when the job starts.

        Raises:
            ValueError: ``validate``, and a field cannot be so.
        """
        if validate:
            from heliostat.core.runtime_env.document import check_runtime_env

            check_runtime_env(runtime_env)
        self.runtime_env = dict(runtime_env or {})

    def set_py_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Set how Python's root loggers of driver and workers write.

        Args:
            logging_config: The configuration; ``None``: as Python does.
        """
        self.py_logging_config = logging_config

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set the namespace of the job's named actors.

        Args:
            ray_namespace: Its name.
        """
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set what ``lifetime`` is for actors that do not say.

        Args:
            default_actor_lifetime: ``"detached"`` or ``"non_detached"``.

        Raises:
            ValueError: It is neither.
        """
        if default_actor_lifetime not in LIFETIMES:
            raise ValueError("Default actor lifetime must be one of `detached`, `non_detached`")
        self._default_actor_lifetime = default_actor_lifetime

    @property
    def default_actor_lifetime(self) -> str:
        """The ``lifetime`` of actors that do not give one."""
        return self._default_actor_lifetime

    def code(self) -> Code:
        """The places at which the job's workers find the driver's code."""
        return driver_code(self.code_search_path, bool(self.runtime_env.get("working_dir")))

    @classmethod
    def from_json(cls, job_config_json: Mapping[str, Any]) -> JobConfig:
        """From a dictionary with these keywords.

        Args:
            job_config_json: The constructor's arguments by name.

        Returns:
            The configuration.
        """
        return cls(
            jvm_options=job_config_json.get("jvm_options"),
            code_search_path=job_config_json.get("code_search_path"),
            runtime_env=job_config_json.get("runtime_env"),
            metadata=job_config_json.get("metadata"),
            ray_namespace=job_config_json.get("ray_namespace"),
            default_actor_lifetime=job_config_json.get("default_actor_lifetime", "non_detached"),
        )


@dataclass(frozen=True)
class Code:
    """The places at which workers find the driver's code."""

    sys_path: tuple[str, ...]
    cwd: str
    script: str
    entrypoint: str


def driver_code(first: list[str], has_working_dir: bool = False) -> Code:
    """The code of this process: its ``sys.path``, after the folders that go first.

    A ``working_dir`` stands for the folders that the driver is developed in: these are left out, so that
    workers see the files as they were.
    """
    cwd = os.getcwd()
    script = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    script = os.path.abspath(script) if script else ""
    places = [os.path.abspath(place) for place in [*first, *sys.path]]
    if has_working_dir:
        developed = {cwd, os.path.dirname(script)} - set(first)
        places = [place for place in places if place not in developed]
    arguments = getattr(sys, "orig_argv", None) or sys.argv
    return Code(tuple(dict.fromkeys(places)), cwd, script, shlex.join(arguments))

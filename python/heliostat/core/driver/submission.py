"""The facts that a submission passes to the driver that its entry point starts.

The head's server puts it into a variable of the entry point's environment: the runtime environment and the
metadata of the job. The driver writes down in turn which job of the cluster it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heliostat.core.platform import settings

if TYPE_CHECKING:
    from heliostat.core.driver.job import JobConfig

VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
SUBMISSION_KEY = "job_submission_id"
DRIVERS = "job_drivers"  # the namespace of `<submission id>/<job id>`, which the server reads


def take_over(job: JobConfig, runtime_env: Mapping[str, Any] | None) -> None:
    """Give a driver's job what its submission says; nothing happens where there was none.

    Raises ``ValueError`` when both say something about the same field or variable, unless
    RAY_OVERRIDE_JOB_RUNTIME_ENV is set, by which the driver's counts.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return
    told = json.loads(text)
    ours = dict(told.get("runtime_env") or {})
    theirs = dict(runtime_env or {})
    variables, more = (
        dict(ours.pop("env_vars", None) or {}),
        dict(theirs.pop("env_vars", None) or {}),
    )
    both = sorted({*(ours.keys() & theirs.keys()), *(variables.keys() & more.keys())})
    if both and not settings.flag("OVERRIDE_JOB_RUNTIME_ENV"):
        raise ValueError(
            f"Failed to merge the runtime_env of the job with that of init(): both have {', '.join(both)}. "
            "Leave it out of one, or set RAY_OVERRIDE_JOB_RUNTIME_ENV=1 to have that of init() count."
        )
    merged = {**ours, **theirs}
    if variables or more:
        merged["env_vars"] = {**variables, **more}
    job.set_runtime_env(merged, validate=True)
    for key, value in (told.get("metadata") or {}).items():
        job.set_metadata(key, value)


def tell_of_driver(job: JobConfig, job_id: str) -> None:
    """Write down that this driver belongs to a submission, if it does."""
    submission = job.metadata.get(SUBMISSION_KEY)
    if submission and os.environ.get(VARIABLE):
        from heliostat import _heliostat
        from heliostat.core.runtime_env import code_packages

        code_packages.join_view(_heliostat.session()["session_dir"], job_id)
        _heliostat.kv_put(f"{submission}/{job_id}".encode(), b"", namespace=DRIVERS)

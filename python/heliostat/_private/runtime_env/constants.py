"""``ray._private.runtime_env.constants``: where a job finds its configuration."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.core.driver.submission import VARIABLE

__all__ = ["RAY_JOB_CONFIG_JSON_ENV_VAR"]

RAY_JOB_CONFIG_JSON_ENV_VAR = VARIABLE


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.runtime_env.constants.{name}"))

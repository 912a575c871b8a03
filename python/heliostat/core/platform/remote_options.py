"""The options of ``ray.remote``, for libraries that hand them on: their names, and their checks."""

from __future__ import annotations

from heliostat.core.calls.options import ALL, check_actor_options, check_task_options

__all__ = ["ALL", "check_actor_options", "check_task_options"]

"""Every environment setting of the training library, read once per ``fit()`` on the driver.

Workers and the coordinator receive the values with their start message, so a variable needs to be
set in the driver's environment only. The ``RAY_`` names are Ray's; the others are ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number of seconds.") from None
    if value < 0:
        raise ValueError(f"{name}={text} is negative; give a number of seconds from 0 up.")
    return value


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if not text:
        return default
    return text not in ("0", "false", "no", "off")


@dataclass(frozen=True)
class TrainSettings:
    """The settings of one run. Durations are in seconds."""

    # A call of `report` or of a collective that some rank never joins fails after this long.
    collective_timeout_s: float = 1800.0
    # ... and until then the missing ranks are named, with their stacks, this often.
    collective_warn_s: float = 60.0
    # How long some ranks may wait at a report for ranks that have never reported before we look
    # whether those ranks wait, in turn, inside a collective operation (a deadlock that we resolve).
    solo_report_s: float = 3.0
    # How long to wait for the resources and the start of a worker group.
    start_timeout_s: float = 60.0
    # A worker whose process answers nothing for this long counts as dead: it hangs as a whole.
    health_timeout_s: float = 600.0
    # How often each worker shows that it lives.
    health_interval_s: float = 2.0
    # How long surviving workers get to leave the training function after another one failed.
    unwind_s: float = 2.0
    # Keep the processes of workers that left the training function cleanly.
    reuse_workers: bool = True
    # Results carry the fields that the first generation of Ray Train filled in.
    legacy_metrics: bool = False
    # Workers change into a working directory of the run.
    change_directory: bool = True
    # Flush checkpoint files to the disk before a checkpoint becomes visible.
    fsync: bool = False
    # "auto", "live", "lines" or "off".
    view: str = "auto"
    # Write the page of the run.
    html: bool = True

    @classmethod
    def from_environment(cls) -> TrainSettings:
        """Read all settings. Raises ValueError, naming the variable, when one is malformed."""
        view = os.environ.get("HELIOSTAT_TRAIN_VIEW", "auto").strip().lower() or "auto"
        if view not in ("auto", "live", "lines", "off"):
            raise ValueError(
                f"HELIOSTAT_TRAIN_VIEW={view!r}; choose one of 'auto', 'live', 'lines', 'off'."
            )
        return cls(
            collective_timeout_s=_seconds("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", 1800.0),
            collective_warn_s=_seconds("RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S", 60.0),
            solo_report_s=_seconds("HELIOSTAT_TRAIN_SOLO_REPORT_S", 3.0),
            start_timeout_s=_seconds("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", 60.0),
            health_timeout_s=_seconds("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", 600.0),
            health_interval_s=_seconds("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", 2.0),
            unwind_s=_seconds("HELIOSTAT_TRAIN_UNWIND_S", 2.0),
            reuse_workers=_flag("HELIOSTAT_TRAIN_REUSE_WORKERS", True),
            legacy_metrics=not _flag("RAY_TRAIN_V2_ENABLED", True),
            change_directory=_flag("RAY_CHDIR_TO_TRIAL_DIR", True),
            fsync=_flag("HELIOSTAT_TRAIN_FSYNC", False),
            view=view,
            html=_flag("HELIOSTAT_TRAIN_HTML", True),
        )

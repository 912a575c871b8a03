"""Every environment setting of the training library, read once per ``fit()`` on the driver.

Workers and the coordinator receive the values with their start message, so a variable needs to be
set in the driver's environment only.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.core.platform import settings


@dataclass(frozen=True)
class TrainSettings:
    """The settings of one run. Durations are in seconds."""

    # A call of `report` or of a collective that some rank never joins fails after this long.
    collective_timeout_s: float
    # ... and until then the missing ranks are named, with their stacks, this often.
    collective_warn_s: float
    # How long some ranks may wait at a report for ranks that have never reported before we look
    # whether those ranks wait, in turn, inside a collective operation (a deadlock that we resolve).
    solo_report_s: float
    # How long to wait for the resources and the start of a worker group.
    start_timeout_s: float
    # A worker whose process answers nothing for this long counts as dead: it hangs as a whole.
    health_timeout_s: float
    # How often each worker shows that it lives.
    health_interval_s: float
    # How long surviving workers get to leave the training function after another one failed.
    unwind_s: float
    # Keep the processes of workers that left the training function cleanly.
    reuse_workers: bool
    # Results carry the fields that the first generation of Ray Train filled in.
    legacy_metrics: bool
    # Workers change into a working directory of the run.
    change_directory: bool
    # Flush checkpoint files to the disk before a checkpoint becomes visible.
    fsync: bool
    # Take the times of the ranks' steps.
    step_times: bool
    # "auto", "live", "lines" or "off".
    view: str
    # Write the page of the run.
    html: bool
    # Keep rows of the run and its attempts for the whole cluster.
    state_tracking: bool

    @classmethod
    def from_environment(cls) -> TrainSettings:
        """Read all settings. Raises ValueError, naming the variable, when one is malformed."""
        return cls(
            collective_timeout_s=settings.number("TRAIN_COLLECTIVE_TIMEOUT_S"),
            collective_warn_s=settings.number("TRAIN_COLLECTIVE_WARN_INTERVAL_S"),
            solo_report_s=settings.number("TRAIN_SOLO_REPORT_S"),
            start_timeout_s=settings.number("TRAIN_WORKER_GROUP_START_TIMEOUT_S"),
            health_timeout_s=settings.number("TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S"),
            health_interval_s=settings.number("TRAIN_HEALTH_CHECK_INTERVAL_S"),
            unwind_s=settings.number("TRAIN_UNWIND_S"),
            reuse_workers=settings.flag("TRAIN_REUSE_WORKERS"),
            legacy_metrics=not settings.flag("TRAIN_V2_ENABLED"),
            change_directory=settings.flag("CHDIR_TO_TRIAL_DIR"),
            fsync=settings.flag("TRAIN_FSYNC"),
            step_times=settings.flag("TRAIN_STEP_TIMES"),
            view=settings.text("TRAIN_VIEW"),
            html=settings.flag("TRAIN_HTML"),
            state_tracking=settings.flag("TRAIN_ENABLE_STATE_TRACKING"),
        )

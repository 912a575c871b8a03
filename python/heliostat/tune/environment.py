"""The environment variables ``TUNE_*`` that say how a search runs, read where it begins.

Those that another part reads, too, are among the settings of the cluster (``docs/settings.md``).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

# Read by no release that can be installed today; a search that relies on them would write elsewhere.
GONE = ("TUNE_RESULT_DIR", "RAY_AIR_LOCAL_CACHE_DIR")


@dataclass(frozen=True)
class Variables:
    """The values of the variables.

    Attributes:
        pending_max: How many trials may wait for resources beside those that run, so that a cluster that
            grows sees what is missing; None: as the searcher and the size of the cluster suggest.
        prints_errors: Whether the error of a trial is logged at once.
        has_dated_folder: Whether the folder of a search without a name ends in the time.
        cleanup_s: After so long a trial's process is killed that does not end by itself.
        thread_s: For how long a function that was told to end is waited for.
        save_every_s: Between two copies of a searcher's state.
        refresh_s: Between two looks at what the cluster has.
        slow_s: A callback, scheduler or searcher that takes longer is named in a warning.
        stuck_s: A search in which nothing has started for so long says what it waits for.
        restore_retries: How often a trial is tried again whose checkpoint could not be loaded, beyond
            ``max_failures``.
        keeps_score_only: Whether of the report that belongs to a checkpoint only its score is kept.
    """

    pending_max: int | None
    prints_errors: bool
    has_dated_folder: bool
    cleanup_s: float
    thread_s: float
    save_every_s: float
    refresh_s: float
    slow_s: float
    stuck_s: float
    restore_retries: int
    keeps_score_only: bool


def variables() -> Variables:
    """Read the variables as they are now.

    Raises:
        ValueError: A variable has a value that it cannot have.
        DeprecationWarning: A variable is set that no longer counts.
    """
    for name in GONE:
        if os.environ.get(name):
            raise DeprecationWarning(
                f"The environment variable {name} no longer says where a search writes: unset it, and pass "
                "storage_path to RunConfig."
            )
    pending = os.environ.get("TUNE_MAX_PENDING_TRIALS_PG", "").strip()
    return Variables(
        pending_max=_whole("TUNE_MAX_PENDING_TRIALS_PG", 0) if pending != "auto" else None,
        prints_errors=_flag("TUNE_PRINT_ALL_TRIAL_ERRORS", True),
        has_dated_folder=not _flag("TUNE_DISABLE_DATED_SUBDIR", False),
        cleanup_s=_seconds("TUNE_FORCE_TRIAL_CLEANUP_S", 600.0),
        thread_s=_seconds("TUNE_FUNCTION_THREAD_TIMEOUT_S", 5.0),
        save_every_s=_seconds("TUNE_GLOBAL_CHECKPOINT_S", 10.0, word="auto"),
        refresh_s=_seconds("TUNE_STATE_REFRESH_PERIOD", 0.5),
        slow_s=_seconds("TUNE_WARN_THRESHOLD_S", 0.5),
        stuck_s=_seconds("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", 60.0),
        restore_retries=_whole("TUNE_RESTORE_RETRY_NUM", 0),
        keeps_score_only=_flag("TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE", False),
    )


def delimiter() -> str:
    """The text that joins the names of nested metrics in the tables of an ``ExperimentAnalysis``."""
    return os.environ.get("TUNE_RESULT_DELIM") or "/"


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text in ("1", "true"):
        return True
    if text in ("0", "false"):
        return False
    if text:
        raise ValueError(f"{name}={text!r} must be 1 or 0.")
    return default


def _whole(name: str, default: int) -> int:
    value = _seconds(name, default)
    if value != int(value):
        raise ValueError(f"{name}={os.environ[name]!r} must be a whole number.")
    return int(value)


def _seconds(name: str, default: float, word: str = "") -> float:
    text = os.environ.get(name, "").strip()
    if not text or text == word:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        also = f" or {word!r}" if word else ""
        raise ValueError(f"{name}={text!r} must be a number from 0 on{also}.")
    return value

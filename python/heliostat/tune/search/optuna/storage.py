"""A storage for plain Optuna programs: their studies lie with the head of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from heliostat.core.platform.extras import missing
from heliostat.core.platform.optuna_urls import SCHEME
from heliostat.core.platform.sessions import begin_unless_begun

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import JournalStorage
    from optuna.trial import FrozenTrial

NAME = "optuna"
HEARTBEAT_S = 30
FORM = f"{SCHEME}[host:port/]name[?heartbeat_interval=seconds&grace_period=seconds]"


def cluster_storage(
    name: str = NAME,
    *,
    heartbeat_interval: int | None = None,
    grace_period: int | None = None,
    failed_trial_callback: Callable[[Study, FrozenTrial], None] | None = None,
) -> JournalStorage:
    """Return a storage for Optuna that every process of the cluster reaches by its name.

    It is a ``JournalStorage`` of Optuna's, so ``optuna.create_study(storage=...)`` and ``load_study`` take
    it, and it can be sent to tasks and actors. The cluster's head keeps what is in it: studies outlive the
    programs that made them, and a head that restarts has them again. ``storage="heliostat://name"`` means
    the same, with a heartbeat every 30 seconds.

    Args:
        name: Storages of one name are the same storage.
        heartbeat_interval: Seconds between two signs of life of each running trial; None (default): there
            are none. ``study.optimize`` of any process fails the trials whose process gives none any more.
            Optuna warns where trials are asked for and told instead.
        grace_period: Seconds without a sign of life after which a trial has failed, by the clocks of the
            machines. Default: twice the interval.
        failed_trial_callback: Called with the study and such a trial, for instance
            ``optuna.storages.RetryHeartbeatStaleTrialCallback()``, which tries its parameters again.

    Raises:
        ImportError: The package optuna is not installed.
        ValueError: The name is empty, or a number of seconds is not above 0.
    """
    try:
        import optuna.storages  # noqa: F401 # what is missing is named, also when ours is there

        from heliostat.tune.search.optuna.journal import HeadStorage
    except ImportError as error:
        raise missing("optuna", "cluster_storage", why=error) from error
    if not name:
        raise ValueError(f"The name of a storage is a text that is not empty, not {name!r}.")
    for what, seconds in (
        ("heartbeat_interval", heartbeat_interval),
        ("grace_period", grace_period),
    ):
        if seconds is not None and seconds <= 0:
            raise ValueError(f"{what}={seconds!r} must be a number of seconds above 0, or None.")
    begin_unless_begun()
    return HeadStorage(name, heartbeat_interval, grace_period, failed_trial_callback)


def storage_of(url: str) -> JournalStorage:
    """The storage that a URL of Optuna's ``storage=`` names; this process joins the cluster.

    Raises:
        ValueError: The URL has another form.
    """
    parts = urlsplit(url)
    place, name = parts.netloc, parts.path.strip("/")
    if ":" not in place:  # a name alone: the cluster of this machine, or of RAY_ADDRESS
        if place and name:
            raise ValueError(f"{url!r} has no port: such URLs are {FORM}.")
        place, name = "", place or name
    asked: dict[str, Any] = {"heartbeat_interval": HEARTBEAT_S}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in ("heartbeat_interval", "grace_period") or not value.isdigit():
            raise ValueError(f"{url!r}: {key}={value} makes no sense; such URLs are {FORM}.")
        asked[key] = int(value) or None
    begin_unless_begun(address=place or None)
    return cluster_storage(name or NAME, **asked)

"""A storage for plain Optuna programs: their studies lie with the head of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.core.extras import missing

if TYPE_CHECKING:
    from optuna.storages import JournalStorage


def cluster_storage(name: str = "optuna") -> JournalStorage:
    """Return a storage for Optuna that every process of the cluster reaches by its name.

    It is Optuna's ``JournalStorage``, so ``optuna.create_study(storage=...)`` and ``load_study`` take it,
    and it can be sent to tasks and actors. The cluster's head keeps what is in it: studies outlive the
    programs that made them, and a head that restarts has them again.

    Args:
        name: Storages of one name are the same storage.

    Raises:
        ImportError: The package optuna is not installed.
        ValueError: The name is empty.
    """
    try:
        from optuna.storages import JournalStorage

        from heliostat.tune.search.optuna.journal import HeadJournal
    except ImportError as error:
        raise missing("optuna", "cluster_storage", why=error) from error
    if not name:
        raise ValueError(f"The name of a storage is a text that is not empty, not {name!r}.")
    if not ray.is_initialized():
        ray.init()
    return JournalStorage(HeadJournal(name))

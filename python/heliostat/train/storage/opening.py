"""The choice of a run's storage: files of this machine, or another filesystem."""

from __future__ import annotations

import os
from typing import Any

from heliostat.train.storage.arrow import ArrowStorage
from heliostat.train.storage.base import Storage
from heliostat.train.storage.filesystems import resolve
from heliostat.train.storage.local import LocalStorage


def open_storage(
    storage_path: str | None, name: str, filesystem: Any | None = None, *, fsync: bool = False
) -> Storage:
    """The storage of the run ``name`` under ``storage_path`` (default ``~/ray_results``)."""
    found, root = resolve(storage_path or "~/ray_results", filesystem)
    if found is None:
        return LocalStorage(os.path.join(root, name), None, fsync)
    return ArrowStorage("/".join((root.rstrip("/"), name)), found, fsync)

"""Faults of the storage in words."""

from __future__ import annotations

import errno
import os

from heliostat.train.storage.base import Storage


def explain_os_error(storage: Storage, error: OSError) -> str:
    """Say what to do about an error while opening the storage."""
    where = storage.path
    if storage.filesystem is not None:
        return (
            f"The storage {where} cannot be written: {error}. Check the address, the credentials "
            "and RunConfig(storage_path=..., storage_filesystem=...)."
        )
    if error.errno == errno.ENOSPC:
        return f"The disk of {where} is full. Free some space, or choose another storage_path."
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return (
            f"{where} cannot be a folder, since a file is in the way. Set "
            "RunConfig(storage_path=...) to another folder."
        )
    if error.errno == errno.ENAMETOOLONG:
        return f"{where} is too long for a path. Choose a shorter RunConfig(name=..., storage_path=...)."
    parent = where
    while parent != "/" and not os.path.exists(parent):
        parent = os.path.dirname(parent)
    return (
        f"The folder of the run, {where}, cannot be written ({error.strerror or error}; "
        f"{parent} is not writable for you). Set RunConfig(storage_path=...) to a folder where "
        "you may write."
    )

"""From what a user wrote to a filesystem and a path; a plain local path needs no pyarrow."""

from __future__ import annotations

import os
from typing import Any

from heliostat.core.platform.extras import required


def is_local(filesystem: Any | None) -> bool:
    """True for None, which stands for the local disk, and for pyarrow's local filesystem."""
    return filesystem is None or getattr(filesystem, "type_name", "") == "local"


def local_filesystem() -> Any:
    """Return pyarrow's local filesystem. Raises ImportError when pyarrow is missing."""
    return _pyarrow_fs("the `filesystem` of a local path").LocalFileSystem()


def resolve(path: str, filesystem: Any | None) -> tuple[Any | None, str]:
    """Split ``path`` into (filesystem, path on it). The filesystem is None for the local disk.

    Raises:
        ValueError: The URI's scheme is unknown.
        ImportError: A URI or a filesystem needs pyarrow, and it is missing.
    """
    if filesystem is not None:
        if is_local(filesystem):
            return None, os.path.abspath(os.path.expanduser(path))
        return _as_arrow(filesystem), path
    if path.startswith("file://"):
        local = path[len("file://") :]
        if not local.startswith("/"):
            raise ValueError(
                f"{path!r} names a file on another machine. Write file:///... with an absolute path."
            )
        return None, os.path.abspath(local)
    if "://" not in path:
        return None, os.path.abspath(os.path.expanduser(path))
    return _from_uri(path)


def _from_uri(uri: str) -> tuple[Any, str]:
    fs = _pyarrow_fs(uri)
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (ValueError, OSError) as arrow_error:
        try:
            import fsspec

            spec, path = fsspec.core.url_to_fs(uri)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"{uri!r} names no filesystem that pyarrow or fsspec knows ({arrow_error}; "
                f"{error}). Give a local path, a URI such as s3://bucket/dir, or pass "
                "RunConfig(storage_filesystem=...)."
            ) from error
        filesystem = fs.PyFileSystem(fs.FSSpecHandler(spec))
    return filesystem, path


def _as_arrow(filesystem: Any) -> Any:
    fs = _pyarrow_fs("storage_filesystem")
    if isinstance(filesystem, fs.FileSystem):
        return filesystem
    try:
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    except (TypeError, AttributeError) as error:
        raise ValueError(
            f"storage_filesystem must be a pyarrow.fs or fsspec filesystem, not {filesystem!r}."
        ) from error


def _pyarrow_fs(what: str) -> Any:
    return required("pyarrow.fs", f"{what} (a plain local path does without)", "train")

"""``ray.data.datasource.path_util``: how sources and sinks of programs read paths."""

from __future__ import annotations

import os
import urllib.parse
from typing import Any

__all__ = ["_has_file_extension", "_resolve_paths_and_filesystem", "_unwrap_protocol"]


def _resolve_paths_and_filesystem(
    paths: str | os.PathLike[str] | list[str], filesystem: Any = None
) -> tuple[list[str], Any]:
    """Return the paths on their filesystem, and that filesystem of pyarrow.

    Args:
        paths: One or several, of one filesystem; URIs or paths.
        filesystem: Of pyarrow or fsspec. Default: as the paths say.

    Raises:
        ValueError: There is no path, or no filesystem is known for one.
    """
    from heliostat.data.sources.files import as_filesystem, resolve

    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not listed:
        raise ValueError("Must provide at least one path.")
    found, resolved = as_filesystem(filesystem), []
    for path in listed:
        on_it, own = resolve(os.fspath(path), found)
        resolved.append(on_it)
        found = found if found is not None else own
    return resolved, found


def _unwrap_protocol(path: str | os.PathLike[str]) -> str:
    """Return a path without its protocol, and without the host of ``s3://user@bucket/key``."""
    text = os.fspath(path)
    parsed = urllib.parse.urlsplit(text, allow_fragments=False)
    query = f"?{parsed.query}" if parsed.query else ""
    place = parsed.netloc.rsplit("@", 1)[-1] if parsed.scheme == "s3" else parsed.netloc
    return f"{place}{parsed.path}{query}"


def _has_file_extension(path: str, extensions: list[str] | None) -> bool:
    """Return whether a path ends in one of the extensions, with or without their dot; None: any does.

    A query, as of ``key.csv?versionId=7``, does not count.
    """
    if extensions is None:
        return True
    ending = path.split("?", 1)[0].lower()
    return any(ending.endswith(f".{one.lower().removeprefix('.')}") for one in extensions)

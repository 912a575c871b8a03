"""Folders of this machine as archives that a cluster can have."""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from heliostat.core.runtime_env import code_packages, working_dir

# The same content has the same name, whenever it is packed.
_TIME = (1980, 1, 1, 0, 0, 0)

Has = Callable[[str], bool]
Upload = Callable[[str, bytes], None]


def uploaded(env: dict[str, Any], has: Has, upload: Upload) -> dict[str, Any]:
    """The runtime environment with its folders replaced by what was uploaded of them.

    Raises ``ValueError`` for folders that are not there or too large.
    """
    excludes = env.pop("excludes", None) or ()
    if place := env.get("working_dir"):
        env["working_dir"] = _upload(place, excludes, False, has, upload)
    if modules := env.get("py_modules"):
        env["py_modules"] = [_upload(one, excludes, True, has, upload) for one in modules]
    return env


def _upload(place: Any, excludes: Iterable[str], named: bool, has: Has, upload: Upload) -> str:
    text = code_packages.place_of(place)
    if "://" in text:
        return text
    path = Path(text).expanduser()
    if path.is_file() and path.suffix in (".zip", ".whl"):
        content = path.read_bytes()
        # A wheel's name says what it is; an archive's does not.
        name = path.name if path.suffix == ".whl" else _name(content)
    elif path.is_dir():
        content = _packed(path, excludes, path.resolve().name if named else "")
        name = _name(content)
    else:
        raise ValueError(f"runtime_env: {text!r} is neither a folder nor a .zip or .whl file")
    if not has(name):
        upload(name, content)
    return f"gcs://{name}"


def _name(content: bytes) -> str:
    return f"_ray_pkg_{hashlib.sha1(content, usedforsecurity=False).hexdigest()[:16]}.zip"


def _packed(folder: Path, excludes: Iterable[str], top: str) -> bytes:
    """The folder as an archive, under the folder ``top``, without what its ignore files name."""
    out = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as draft,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        copy = Path(draft)
        working_dir.copy(folder, copy, excludes)
        for path in sorted(copy.rglob("*")):
            name = (Path(top) / path.relative_to(copy)).as_posix()
            entry = zipfile.ZipInfo(f"{name}/" if path.is_dir() else name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = path.stat().st_mode << 16
            archive.writestr(entry, b"" if path.is_dir() else path.read_bytes())
    return out.getvalue()

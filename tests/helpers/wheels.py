"""Wheels made by hand, so that no index is asked."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def made(
    folder: Path, name: str, files: Mapping[str, str], *, version: str = "1.0", requires: str = ""
) -> Path:
    """A wheel of these files for any Python; ``requires``: another distribution that it needs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    packed = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{inner},,\n" for inner in (*packed, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in {**packed, f"{info}/RECORD": record}.items():
            wheel.writestr(inner, text)
    return path

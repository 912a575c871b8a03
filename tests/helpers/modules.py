"""Modules that are loaded from their files: programs of the repository, which no package has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def loaded(path: Path) -> Any:
    """The module of a file, loaded anew; ``sys.modules`` does not get it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

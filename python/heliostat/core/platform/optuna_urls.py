"""The hook of ``import optuna``: ``storage="heliostat://..."`` becomes a URL that Optuna takes.

Optuna has no place where others add kinds of URLs. ``optuna.storages.get_storage`` is what turns each
``storage=`` into a storage; it is told of ours when it is imported, or now if it is there already.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

SCHEME = "heliostat://"
MODULE = "optuna.storages"


class _Finder:
    """Finds one module as Python would, and goes away."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, which is told of our URLs once it has run."""
        if name != MODULE:
            return None
        if _Finder in sys.meta_path:
            sys.meta_path.remove(_Finder)
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None and hasattr(loader, "exec_module"):
            run = loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                _tell(module)

            loader.exec_module = run_and_tell
        return spec


def listen() -> None:
    """Tell Optuna of our URLs as soon as it is there."""
    known = sys.modules.get(MODULE)
    if known is not None:
        _tell(known)
    elif _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _tell(storages: Any) -> None:
    former = getattr(storages, "get_storage", None)
    if former is None or getattr(former, "knows_heliostat", False):
        return

    def get_storage(storage: Any) -> Any:
        if isinstance(storage, str) and storage.startswith(SCHEME):
            ours: Any = importlib.import_module("heliostat.tune.search.optuna.storage")
            return ours.storage_of(storage)
        return former(storage)

    get_storage.knows_heliostat = True  # type: ignore[attr-defined] # a mark
    storages.get_storage = get_storage

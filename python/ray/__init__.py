"""Heliostat under the name that programs written for Ray import.

``import ray.x`` gives the module ``heliostat.x`` itself, not a copy: a class has one identity under
both names, and what was pickled under one loads under the other. Nothing else is here.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import heliostat
from heliostat import _private

# As in `heliostat`: nothing here loads `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from heliostat import *  # noqa: F403 - the table is the same

_OURS, _THEIRS = "heliostat", __name__
__all__ = heliostat.__all__

_OWN = {
    # The release of Ray whose API this is, which is what programs look at it for.
    "__version__": ("heliostat.core.platform.version", "RAY_VERSION"),
    # Paths of old, which warn.
    **{
        name: ("heliostat._private.moved", name)
        for name in ("ray_constants", "serialization", "state", "worker")
    },
}

# Parts of Ray that are gone from Ray itself: importing them says so.
_GONE: dict[str, Exception] = {
    "workflow": RuntimeError(
        "The experimental Ray Workflows library was deprecated and has been removed."
    ),
    "util.sgd": DeprecationWarning("ray.util.sgd is gone: ray.train takes its place."),
    **{
        f"util.{name}": DeprecationWarning(f"ray.util.{name} is gone: ray.train takes its place.")
        for name in ("horovod", "lightgbm", "xgboost")
    },
}


def _ours(part: str) -> str:
    """The module of ours that ``ray.<part>`` is."""
    return f"{_OURS}.{_private.PLACES.get(part, part)}"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there, or is a module
        return False


class _Alias:
    """Finds ``ray.x`` where ``heliostat.x`` is, and loads the very same module object."""

    def __init__(self) -> None:
        self._specs: dict[str, tuple[ModuleSpec | None, Any]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(_THEIRS + "."):
            return None
        part = name[len(_THEIRS) + 1 :]
        if part in _GONE:
            raise _GONE[part]
        if not _is_there(_ours(part)):
            say = f"No module named {name!r}: this release of Heliostat has no {part!r}"
            if _private.is_private(part):
                say = _private.missing(name)
            raise ModuleNotFoundError(say, name=name)
        return ModuleSpec(name, self)  # type: ignore[arg-type] # a loader by its two methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours(spec.name[len(_THEIRS) + 1 :]))
        self._specs[spec.name] = (module.__spec__, getattr(module, "__loader__", None))
        _name_loaded()
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the alias's spec into the module: undo that.
        alias = module.__spec__
        assert alias is not None
        module.__spec__, module.__loader__ = self._specs.pop(alias.name)


def _name_loaded() -> None:
    """Give each module of ours that is loaded its second name now.

    Loading it under that name later would bind it in its package, as every first import does, over whatever
    the package means by the name by then: `serve.deployment` is a decorator and a module below.
    """
    # A copy: other threads import meanwhile.
    for name, module in sys.modules.copy().items():
        part = name.removeprefix(f"{_OURS}.")
        # One that is still being loaded would be found half made.
        if part == name or getattr(getattr(module, "__spec__", None), "_initializing", True):
            continue
        if _ours(part) == name:
            if part in _private.PACKAGES:
                module.__dict__.setdefault("__path__", [])
            sys.modules.setdefault(f"{_THEIRS}.{part}", module)


class _Rows:
    """Finds the paths of Ray's that are rows of a table here, after everything that is a file."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = name.removeprefix(f"{_OURS}.")
        if part == name or not _private.has_row(part):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type] # by its two methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from heliostat._private import paths

        return paths.made(spec.name.removeprefix(f"{_OURS}."))

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.insert(0, _Alias())
sys.meta_path.append(_Rows())


def __getattr__(name: str) -> Any:
    if name in _OWN:
        module, attribute = _OWN[name]
        value = getattr(importlib.import_module(module), attribute)
    else:
        try:
            value = getattr(heliostat, name)
        except AttributeError:
            if name in _private.PLACES:
                return importlib.import_module(f"{_THEIRS}.{name}")
            say = f"module {_THEIRS!r} has no attribute {name!r} (nor has {_OURS!r})"
            if name.startswith("_") and not name.startswith("__"):
                say = _private.missing(f"{_THEIRS}.{name}")
            raise AttributeError(say) from None
        if isinstance(value, ModuleType) and value.__name__ == f"{_OURS}.{name}":
            value = importlib.import_module(f"{_THEIRS}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(heliostat)})

"""``ray.worker``, ``ray.state`` and the like: attributes of old for private modules, which warn.

Each is a stand-in for the module of ``ray._private`` that has its name.
"""

from __future__ import annotations

import importlib
from typing import Any

from heliostat._private import missing
from heliostat.core.session import logger

__all__ = ["ray_constants", "serialization", "state", "worker"]


class _Moved:
    def __init__(self, name: str) -> None:
        self._name = name
        self._warned: set[str] = set()

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(f"heliostat._private.{self._name}")
        except ModuleNotFoundError:
            raise AttributeError(missing(f"ray.{self._name}.{attribute}")) from None
        value = getattr(module, attribute)
        if attribute not in self._warned:
            self._warned.add(attribute)
            logger.warning(
                "DeprecationWarning: ray.%s.%s is a private name of Ray, which may go at any time.",
                self._name,
                attribute,
            )
        return value


ray_constants = _Moved("ray_constants")
serialization = _Moved("serialization")
state = _Moved("state")
worker = _Moved("worker")
